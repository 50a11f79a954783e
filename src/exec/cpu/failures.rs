//! The first failure of a run on its data.

use crate::base::sync::Mutex;
use crate::exec::FailedElement;

/// The first failure of a run so far: that of the least site, and there of the least position.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Option<FailedElement>>);

impl Failures {
    /// Records the lanes in which `holds` is not 0 as failures of the operations `sites` at elements `at`.
    pub fn report(&self, holds: &[u32], sites: &[u32], at: &[u32]) {
        let lanes = holds.iter().zip(sites).zip(at).filter(|((holds, _), _)| **holds != 0);
        let first = lanes.map(|((_, &site), &at)| FailedElement { site, at }).min();
        if let Some(first) = first {
            let mut failed = self.0.lock();
            *failed = Some(failed.map_or(first, |before| before.min(first)));
        }
    }

    pub fn first(self) -> Option<FailedElement> {
        self.0.into_inner()
    }
}
