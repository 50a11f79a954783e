//! What runs teach: predicted times are corrected by those that runs took.

use std::time::Duration;

use super::{Busy, CompiledPieces, Device, Prepared};
use crate::cost::steps_off;

/// What a run takes longer whose memory is not there yet: seconds, and bytes of it a second.
const COLD_START: f64 = 3e-4;
const COLD_BYTES: f64 = 1e9;

/// When something goes to disk.
#[derive(Clone, Copy)]
pub(super) enum When {
    Now,
    /// Nobody waits for it.
    Soon,
}

impl Device {
    /// After a run of a plan that was chosen by prediction: corrects the profile if this and the runs before were far
    /// off. `busy` is the run; `cold` says that memory was allocated on the way.
    pub(crate) fn learn(&self, prepared: &Prepared, took: Duration, cold: bool, busy: &Busy<'_>) {
        let CompiledPieces::Whole(piece) = &prepared.pieces else { return };
        let mut seconds = took.as_secs_f64();
        if cold && seconds > prepared.seconds {
            let start = COLD_START + prepared.bytes as f64 / COLD_BYTES;
            seconds = (seconds - start).max(prepared.seconds);
        }
        let off = steps_off(prepared.seconds, seconds);
        if self.0.learns_nothing || !self.0.reckoning.is_news(off) || !busy.is_alone() {
            return;
        }
        let targets = self.targets();
        let is_known = self.0.by_hand || targets.profile().measured;
        if !is_known || !prepared.is_for(&targets) {
            return;
        }
        let parts = piece.plan.aspects(targets.of(piece.plan.backend));
        if self.0.reckoning.learn(&targets, &parts, off) {
            self.0.plans.forget();
            self.keep_profile(When::Soon);
        }
    }

    /// Throws away what runs taught, here and on disk.
    pub fn forget_learned(&self) {
        self.0.reckoning.forget_learned();
        self.0.plans.forget();
        self.keep_profile(When::Now);
    }

    /// Keeps the profile on disk, if it was measured here.
    pub(super) fn keep_profile(&self, when: When) {
        #[cfg(feature = "serde")]
        if let (Some(keep), false) = (&self.0.keep, self.0.by_hand)
            && self.targets().profile().measured
        {
            match when {
                When::Now => keep.disk().save(|| self.profile()),
                When::Soon => keep.save_soon(|| self.profile()),
            }
        }
        #[cfg(not(feature = "serde"))]
        let _ = when;
    }
}
