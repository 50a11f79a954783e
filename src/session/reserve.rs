//! Memory for the first run of a program on the host's cores.

use std::sync::Arc;

use super::session::Session;
use crate::base::process::is_forked_child;
use crate::cost::Backend;
use crate::device::PreparedGraph;
use crate::exec::memory::LARGE;
use crate::exec::threads;
use crate::ops::Type;

/// Most bytes that are reserved.
const MOST: u64 = 256 << 20;

impl Session<'_> {
    /// Allocates and touches the memory of a run by `prepared`, for the device's pool, unless that is more than 256 MiB.
    pub(super) async fn reserve(&self, prepared: &PreparedGraph) {
        let bytes = self.bytes_of_run(prepared);
        // Many values that no machine can hold have more bytes than a number counts.
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

    /// The bytes of each buffer that a run takes from the host's pool.
    fn bytes_of_run(&self, prepared: &PreparedGraph) -> Vec<u64> {
        let plans = prepared.pieces.iter().map(|piece| &piece.plan);
        let on_cpu = plans.filter(|plan| plan.backend == Backend::Cpu);
        let mut bytes: Vec<u64> = on_cpu.flat_map(|plan| plan.slots.iter().copied()).collect();
        // The runs of a thread that waits for them lend their inputs. Others copy theirs.
        if prepared.backend() == Backend::Cpu && !threads::waits_here() {
            let of = |ty: &Type| ty.shape.elements().saturating_mul(ty.dtype.size()) as u64;
            bytes.extend(self.recorded.open_inputs().map(|(_, ty)| of(ty)));
        }
        bytes
    }
}
