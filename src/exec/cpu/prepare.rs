//! Preparations for the first run of a program: memory, and for a short program a run on zeros.

use std::sync::Arc;

use super::offload::{begin_inline, run_inline};
use super::program::CpuProgram;
use super::values::RunData;
use crate::base::process::is_forked_child;
use crate::base::trace::Timeline;
use crate::exec::memory::LARGE;
use crate::exec::{HostPool, threads};
use crate::plan::Home;

/// Most bytes of memory that are reserved for the first run.
const MOST_RESERVED: u64 = 256 << 20;

/// Prepares `program` for its first run.
pub(crate) async fn prepare(program: &Arc<CpuProgram>, pool: &Arc<HostPool>) {
    reserve(program, pool).await;
    if program.is_short() && program.begins_rehearsal() {
        rehearse(program, pool);
    }
}

/// Allocates and touches the memory of a run, and stores it in `pool`.
async fn reserve(program: &Arc<CpuProgram>, pool: &Arc<HostPool>) {
    // Many values that no machine can hold have more bytes than a number counts.
    let add = |all: u64, &bytes: &u64| all.saturating_add(bytes);
    let all = program.plan().slots.iter().fold(0, add);
    let (program, pool) = (Arc::clone(program), Arc::clone(pool));
    let reserve = move || {
        let slots = program.plan().slots.iter();
        pool.reserve(slots.filter_map(|bytes| usize::try_from(bytes.div_ceil(4)).ok()));
    };
    if all < LARGE as u64 {
        reserve();
    } else if all <= MOST_RESERVED && !is_forked_child() {
        threads::off_thread(reserve).await;
    }
}

/// Runs a short program on zeros. Its first run then finds the machine code in memory, the facts of the steps in their
/// caches and a helper that spins. Without them, a product of 64 by 64 takes five times as long.
fn rehearse(program: &CpuProgram, pool: &HostPool) {
    let mut zeros = [Vec::new(), Vec::new()];
    for value in &program.plan().values {
        let (kind, at) = match value.home {
            Home::Upload { input, .. } => (0, input as usize),
            Home::Resident(at) => (1, at as usize),
            Home::Slot(_) | Home::Kept(_) => continue,
        };
        let Ok((mut data, _)) = pool.buffer(value.dtype, value.shape.elements()) else { return };
        data.bytes_mut().fill(0);
        let (data, of_kind) = (Arc::new(data), &mut zeros[kind]);
        if of_kind.len() <= at {
            of_kind.resize(at + 1, Arc::clone(&data));
        }
        of_kind[at] = data;
    }
    let [uploads, residents] = &zeros;
    let data = RunData { uploads, residents, functions: &[] };
    let Some(active) = begin_inline(program) else { return };
    // The run gave the memory of its results to the pool. An error comes again in a run, which returns it.
    drop(run_inline(active, program, data, pool, &Timeline::default()));
    zeros.into_iter().flatten().for_each(|buffer| pool.give(buffer));
}
