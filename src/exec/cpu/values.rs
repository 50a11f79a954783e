//! The values of one run. Uploads and residents stay in the caller's memory, the rest lies in buffers of the pool.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::DeviceError;
use crate::exec::{HostBuffer, HostPool};
use crate::ops::CpuFunction;
use crate::plan::{Home, Plan, Step, ValueId};

/// The data of a run, with the types and lengths that its plan was made for.
#[derive(Clone, Copy, Default)]
pub(crate) struct RunData<'a> {
    /// Data of the batch's uploads, by position.
    pub uploads: &'a [Arc<HostBuffer>],
    /// Data of the batch's bound residents, by position.
    pub residents: &'a [Arc<HostBuffer>],
    /// The functions behind the batch's custom kernels.
    pub functions: &'a [CpuFunction],
}

/// Values that a step reads after others have run.
pub(super) type HeldValues = SmallVec<[Option<Arc<HostBuffer>>; 8]>;

pub(super) struct RunValues<'a> {
    plan: &'a Plan,
    pool: &'a HostPool,
    values: SmallVec<[Option<Arc<HostBuffer>>; 8]>,
    tenants: SmallVec<[Option<ValueId>; 8]>,
    pub pool_hits: usize,
    pub pool_misses: usize,
}

impl<'a> RunValues<'a> {
    /// Holds the uploads and residents of a run; nothing is computed yet.
    pub fn new(plan: &'a Plan, data: RunData<'a>, pool: &'a HostPool) -> Self {
        let RunData { uploads, residents, .. } = data;
        let value = |home| match home {
            Home::Upload { input, .. } => uploads.get(input as usize).cloned(),
            Home::Resident(resident) => residents.get(resident as usize).cloned(),
            Home::Slot(_) | Home::Kept(_) => None,
        };
        let values = plan.values.iter().map(|described| value(described.home)).collect();
        let tenants = SmallVec::from_elem(None, plan.slots.len());
        Self { plan, pool, values, tenants, pool_hits: 0, pool_misses: 0 }
    }

    /// The values that are known so far, by position.
    pub fn all(&self) -> &[Option<Arc<HostBuffer>>] {
        &self.values
    }

    pub fn put(&mut self, value: ValueId, buffer: HostBuffer) {
        self.values[value.index()] = Some(Arc::new(buffer));
    }

    /// Returns a buffer for `value`: that of the previous value in its slot, or one from the pool.
    pub fn buffer_for(&mut self, value: ValueId) -> Result<HostBuffer, DeviceError> {
        let described = &self.plan.values[value.index()];
        let (dtype, len) = (described.dtype, described.shape.elements());
        let (mut reused, mut room) = (None, 0);
        if let Home::Slot(slot) = described.home {
            // Room for every value of the slot: memory that grows is moved, and touched for the first time.
            room = usize::try_from(self.plan.slots[slot].div_ceil(4)).unwrap_or(0);
            let tenant = self.tenants[slot].replace(value);
            reused = tenant
                .and_then(|tenant| self.values[tenant.index()].take())
                .and_then(|buffer| self.with_room(buffer, HostBuffer::words_for(dtype, len)));
        }
        if let Some(words) = reused {
            return Ok(HostBuffer::recycled(dtype, len, words));
        }
        let (buffer, pooled) = self.pool.buffer_with_room(dtype, len, room)?;
        self.pool_hits += usize::from(pooled);
        self.pool_misses += usize::from(!pooled && len > 0);
        Ok(buffer)
    }

    /// Returns the memory of `buffer` if nobody else holds it and it has room for `words`. To let it grow would copy and zero
    /// it: the pool takes it instead.
    fn with_room(&self, buffer: Arc<HostBuffer>, words: usize) -> Option<Vec<u32>> {
        if buffer.capacity() < words {
            self.pool.give(buffer);
            return None;
        }
        Arc::try_unwrap(buffer).ok().map(HostBuffer::into_words)
    }

    /// Holds the values that `step` reads, by position. Their memory is not reused before they are
    /// [given back](Self::give_back).
    pub fn hold(&self, step: &Step) -> HeldValues {
        let mut held = HeldValues::from_elem(None, self.values.len());
        for value in step.operands.iter().filter_map(|operand| operand.source.value()) {
            held[value.index()] = self.values[value.index()].clone();
        }
        held
    }

    /// Returns the memory of held values to the pool if nobody else has it by now.
    pub fn give_back(&self, held: HeldValues) {
        let own = held.into_iter().flatten().filter(|buffer| Arc::strong_count(buffer) == 1);
        own.for_each(|buffer| self.pool.give(buffer));
    }

    /// Returns the buffers of `values`, which outlive the run.
    pub fn share<C>(&self, values: &[ValueId]) -> Result<C, DeviceError>
    where
        C: FromIterator<Arc<HostBuffer>>,
    {
        let made = values
            .iter()
            .map(|value| self.values[value.index()].as_ref().map(HostBuffer::outliving));
        let made: Option<C> = made.collect();
        made.ok_or_else(|| DeviceError::broken("a result was never computed"))
    }

    /// Returns the buffers to the pool, which reuses a buffer once nobody else holds it.
    pub fn release(self) {
        for (value, buffer) in self.plan.values.iter().zip(self.values) {
            if let (Home::Slot(_) | Home::Kept(_), Some(buffer)) = (value.home, buffer) {
                self.pool.give(buffer);
            }
        }
    }
}
