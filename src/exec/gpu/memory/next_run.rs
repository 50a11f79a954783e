//! The next run of some kernels, recorded while the device works on the last one. To record takes a fifth of a small run.
//!
//! A run mostly gets the blocks of the run before the last: its user holds the results of the last one until it ends. So
//! the commands are recorded for those blocks. A run that gets others records its own commands.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::command_list::CommandList;
use crate::base::sync::Mutex;
use crate::exec::gpu::driver::{DriverOwned, WgpuHandle};

/// Kernels of one device whose next runs may be recorded: a driver keeps memory for each.
const MOST: usize = 16;
/// Recordings thrown away in a row, after which no more are made for the same kernels.
const MOST_WASTED: u32 = 4;

/// The next run of some kernels.
pub(crate) struct NextRun(DriverOwned<Mutex<NextRunState>>);

#[derive(Default)]
struct NextRunState {
    last: Option<Arc<CommandList>>,
    recorded: Option<(Arc<CommandList>, WgpuHandle<wgpu::CommandBuffer>)>,
    wasted: u32,
}

impl Default for NextRun {
    fn default() -> Self {
        Self(DriverOwned::new(Mutex::default()))
    }
}

impl NextRun {
    /// The commands that were recorded for the blocks of `list`, if any were.
    pub fn take(&self, list: &CommandList) -> Option<wgpu::CommandBuffer> {
        let mut state = self.0.lock();
        let (expected, commands) = state.recorded.take()?;
        if expected.blocks == list.blocks {
            state.wasted = 0;
            return Some(commands.into_inner());
        }
        state.wasted += 1;
        // A driver may take long to drop them.
        drop(state);
        None
    }

    /// Notes that a run of `list` was submitted. Returns the commands that the next run will probably have, if it pays to
    /// record them now.
    fn follow(&self, list: Arc<CommandList>) -> Option<Arc<CommandList>> {
        let mut state = self.0.lock();
        let pays = state.wasted < MOST_WASTED && state.recorded.is_none();
        let length = list.blocks.len();
        let before = state.last.replace(list);
        // The first run has more blocks, since it brings the parameters.
        before.filter(|before| pays && before.blocks.len() == length)
    }

    /// Keeps commands for the next run.
    pub fn keep(&self, list: Arc<CommandList>, commands: wgpu::CommandBuffer) {
        self.0.lock().recorded = Some((list, commands.into()));
    }

    /// Forgets the commands of the runs for which `names` is true.
    fn forget(&self, names: impl Fn(&CommandList) -> bool) {
        let mut state = self.0.lock();
        let last = state.last.take_if(|list| names(list));
        let recorded = state.recorded.take_if(|(list, _)| names(list));
        drop(state);
        drop((last, recorded));
    }

    /// Returns whether a run is recorded, and the recordings that were thrown away in a row.
    #[cfg(test)]
    pub fn recorded_and_wasted(&self) -> (bool, u32) {
        let state = self.0.lock();
        (state.recorded.is_some(), state.wasted)
    }
}

/// The kernels of one device whose next runs may be recorded.
#[derive(Default)]
pub(crate) struct NextRuns(Mutex<VecDeque<Weak<NextRun>>>);

impl NextRuns {
    /// Notes that a run of `list` was submitted. Returns the commands that the next run of the same kernels will probably
    /// have, if it pays to record them now.
    pub fn follow(&self, next: &Arc<NextRun>, list: Arc<CommandList>) -> Option<Arc<CommandList>> {
        let mut all = self.0.lock();
        let mut evicted = None;
        if !all.iter().any(|one| std::ptr::eq(one.as_ptr(), Arc::as_ptr(next))) {
            all.retain(|one| one.strong_count() > 0);
            if all.len() == MOST {
                evicted = all.pop_front();
            }
            all.push_back(Arc::downgrade(next));
        }
        let expected = next.follow(list);
        drop(all);
        if let Some(evicted) = evicted.and_then(|evicted| evicted.upgrade()) {
            evicted.forget(|_| true);
        }
        expected
    }

    /// Forgets all commands that name one of `blocks`, whose memory they keep alive.
    pub fn forget(&self, blocks: &[u64]) {
        let all: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|next| next.forget(|list| list.names_one_of(blocks)));
    }
}
