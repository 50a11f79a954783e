//! Preparations for the first run of a program: memory, and for a short program a run on zeros.

use std::sync::Arc;

use super::offload::{begin_inline, run_inline};
use super::program::CpuProgram;
use super::values::RunData;
use crate::base::dtype::DType;
use crate::base::process::is_forked_child;
use crate::base::trace::Timeline;
use crate::exec::memory::LARGE;
use crate::exec::{HostBuffer, HostPool, threads};
use crate::plan::Home;

/// Most bytes of memory that are reserved for the first run.
const MOST_RESERVED: u64 = 256 << 20;

/// Prepares `program` for its first run.
pub(crate) async fn prepare(program: &Arc<CpuProgram>, pool: &Arc<HostPool>) {
    reserve(program, pool).await;
    warm_up(program, pool);
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

/// Runs a short program of little memory on zeros, once. Its first run then finds the machine code in memory, the caches of
/// the steps filled, and a helper that spins. Without them, a product of 64 by 64 takes five times as long.
fn warm_up(program: &CpuProgram, pool: &HostPool) {
    let plan = program.plan();
    // A short run may look up a few rows of a table that fills the memory.
    if !program.is_short() || plan.peak_bytes.saturating_add(plan.bytes_up) > LARGE as u64 {
        return;
    }
    let Some(active) = begin_inline(program).filter(|_| program.begins_warm_up()) else { return };
    // An upload that no step reads has a position, but no value.
    let none = Arc::new(HostBuffer::recycled(DType::U32, 0, Vec::new()));
    let mut zeros = [Vec::new(), Vec::new()];
    for value in &plan.values {
        let (kind, at) = match value.home {
            Home::Upload { input, .. } => (0, input as usize),
            Home::Resident(at) => (1, at as usize),
            Home::Slot(_) | Home::Kept(_) => continue,
        };
        let Ok((mut data, _)) = pool.buffer(value.dtype, value.shape.elements()) else { return };
        data.bytes_mut().fill(0);
        let of_kind = &mut zeros[kind];
        if of_kind.len() <= at {
            of_kind.resize(at + 1, Arc::clone(&none));
        }
        of_kind[at] = Arc::new(data);
    }
    let [uploads, residents] = &zeros;
    let data = RunData { uploads, residents, functions: &[] };
    // The run gives the memory of its results to the pool. An error comes again in a run, which returns it.
    drop(run_inline(active, program, data, pool, &Timeline::default()));
    zeros.into_iter().flatten().for_each(|buffer| pool.give(buffer));
}
