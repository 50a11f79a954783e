//! Memory for the first run of a program on the host's cores.

use std::sync::Arc;

use super::session::Session;
use crate::base::process::is_forked_child;
use crate::cost::Backend;
use crate::device::PreparedGraph;
use crate::exec::memory::LARGE;
use crate::exec::threads;
use crate::ops::Type;
use crate::plan::Pieces;

/// Most bytes that are reserved.
const MOST: u64 = 256 << 20;

impl Session<'_> {
    /// Allocates and touches the memory of a run by `prepared`, for the device's pool, unless that is more than 256 MiB.
    pub(super) async fn reserve(&self, prepared: &PreparedGraph) {
        let bytes = self.bytes_of_run(prepared);
        // The sum may exceed a `u64`.
        let all = bytes.iter().fold(0, |all: u64, &bytes| all.saturating_add(bytes));
        let pool = Arc::clone(self.recorded.device.pool());
        let reserve = move || {
            let words = bytes.iter().filter_map(|bytes| usize::try_from(bytes.div_ceil(4)).ok());
            pool.reserve(words);
        };
        if all < LARGE as u64 {
            reserve();
        } else if all <= MOST && !is_forked_child() {
            threads::off_thread(reserve).await;
        }
    }

    /// The bytes of each slot, and of each input that runs copy.
    fn bytes_of_run(&self, prepared: &PreparedGraph) -> Vec<u64> {
        let plans = prepared.pieces.iter().map(|piece| &piece.plan);
        let on_cpu = plans.filter(|plan| plan.backend == Backend::Cpu);
        let mut bytes: Vec<u64> = on_cpu.flat_map(|plan| plan.slots.iter().copied()).collect();
        // A thread that waits while it compiles is expected to wait for its runs too, and these lend borrowed words.
        let lends = threads::waits_here();
        let copied = |ty: &&Type| !(lends && ty.dtype.is_word());
        if prepared.backend() == Backend::Cpu {
            let inputs = self.recorded.open_inputs().map(|(_, ty)| ty);
            bytes.extend(inputs.filter(copied).map(Type::bytes));
        }
        bytes
    }

    /// Returns true to one caller, which runs the program on zeros: `prepared` is for the host's cores, short, takes little
    /// memory, and finds its residents there.
    pub(super) fn begins_runs_on_zeros(&self, prepared: &PreparedGraph) -> bool {
        let Pieces::Whole(piece) = &prepared.pieces else { return false };
        // A program may have long inputs that it does not read.
        let inputs = self.recorded.open_inputs().map(|(_, ty)| ty.bytes());
        piece.plan.backend == Backend::Cpu
            && inputs.fold(0, u64::saturating_add) <= LARGE as u64
            && self.recorded.residents.iter().all(|resident| resident.is_on(Backend::Cpu))
            && piece.on_cpu().begins_runs_on_zeros()
    }
}
