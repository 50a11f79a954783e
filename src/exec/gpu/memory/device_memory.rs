//! The memory of a device: blocks from the pool, new ones if need be, and the bind groups made of them.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::bind_groups::{self, BindGroups};
use super::buffer::DeviceBuffer;
use super::convert::DeviceFormat;
use super::next_run::NextRuns;
use super::pool::{BufferPool, Class, Kind, Lease};
use crate::base::dtype::DType;
use crate::error::DeviceError;
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver::{self, GuardedDevice, WgpuHandle};

/// The pool, the bind groups and the recorded commands of one device.
pub(crate) struct DeviceMemory {
    device: Arc<GuardedDevice>,
    pub pool: Arc<BufferPool>,
    pub groups: BindGroups,
    pub next_runs: NextRuns,
}

/// A block for each of some classes, where one was idle.
pub(crate) type IdleLeases = SmallVec<[Option<Lease>; 8]>;

impl DeviceMemory {
    pub fn new(device: Arc<GuardedDevice>) -> Self {
        let pool = BufferPool::new(Arc::clone(&device.health));
        Self { device, pool, groups: BindGroups::default(), next_runs: NextRuns::default() }
    }

    /// The class of buffers for `bytes`.
    ///
    /// # Errors
    /// If no buffer is so large.
    pub fn class(&self, kind: Kind, bytes: u64) -> Result<Class, DeviceError> {
        let info = &self.device.info;
        let limit = match kind {
            Kind::Storage => info.binding_bytes,
            Kind::Params | Kind::Staging | Kind::Readback => info.buffer_bytes,
        };
        let size = size_class(bytes, limit).ok_or_else(|| DeviceError::OutOfMemory {
            doing: format!("allocating {bytes} bytes in one buffer, which holds at most {limit}"),
        })?;
        Ok(Class { kind, size })
    }

    /// The class of the buffer of a value.
    pub fn value_class(&self, dtype: DType, elements: usize) -> Result<Class, DeviceError> {
        self.class(Kind::Storage, DeviceFormat::of(dtype, &self.device.limits).bytes(elements))
    }

    /// A buffer of at least `bytes`, from the pool if it has one.
    pub fn lease(
        &self,
        kind: Kind,
        bytes: u64,
        counts: &mut GpuCounts,
    ) -> Result<Lease, DeviceError> {
        let class = self.class(kind, bytes)?;
        let found = self.pool.reuse(std::iter::once(class)).pop().flatten();
        self.found_or_new(found, class, counts)
    }

    /// Room for a value, with any contents.
    pub fn lease_value(
        &self,
        dtype: DType,
        elements: usize,
        counts: &mut GpuCounts,
    ) -> Result<DeviceBuffer, DeviceError> {
        let bytes = DeviceFormat::of(dtype, &self.device.limits).bytes(elements);
        Ok(DeviceBuffer { dtype, elements, lease: self.lease(Kind::Storage, bytes, counts)? })
    }

    /// A block of `class`: the one that was `found`, else a new one.
    pub fn found_or_new(
        &self,
        found: Option<Lease>,
        class: Class,
        counts: &mut GpuCounts,
    ) -> Result<Lease, DeviceError> {
        if let Some(lease) = found {
            counts.pool_hits += 1;
            return Ok(lease);
        }
        counts.pool_misses += 1;
        match self.pool.create(&self.device, class) {
            Err(DeviceError::OutOfMemory { .. }) => {
                self.free_idle();
                self.pool.create(&self.device, class)
            }
            created => created,
        }
    }

    /// Gives idle memory back to the driver.
    pub fn free_idle(&self) {
        self.pool.trim();
        drop(self.groups_of_freed());
        // Bind groups that other threads have forgotten hold memory too.
        driver::catch_up(Duration::from_millis(100));
        let _ = self.device.poll(wgpu::PollType::Poll);
    }

    /// Frees the blocks that were not lent since the last call.
    pub fn sweep(&self) {
        self.pool.sweep();
        drop(self.groups_of_freed());
        let _ = self.device.poll(wgpu::PollType::Poll);
    }

    /// Has the bind groups of freed blocks dropped elsewhere.
    pub fn release_freed(&self) {
        bind_groups::release(self.groups_of_freed());
    }

    /// The bind groups of freed blocks, which keep the memory of these alive.
    fn groups_of_freed(&self) -> Vec<WgpuHandle<wgpu::BindGroup>> {
        let freed = self.pool.freed();
        if freed.is_empty() {
            return Vec::new();
        }
        self.next_runs.forget(&freed);
        self.groups.forget(&freed)
    }
}

/// The least size of a buffer.
const LEAST: u64 = 256;

/// The size of a buffer for `bytes`: a multiple of an eighth of the next power of two, so that nearly equal requests
/// share buffers and less than a quarter is wasted, but for the smallest. `None` if `bytes` exceeds `limit`.
fn size_class(bytes: u64, limit: u64) -> Option<u64> {
    let limit = limit & !3;
    if bytes > limit {
        return None;
    }
    let bytes = bytes.max(LEAST);
    let step = (bytes.checked_next_power_of_two()? / 8).max(LEAST);
    Some(bytes.checked_next_multiple_of(step)?.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_holds_what_was_asked_for_and_wastes_less_than_a_quarter() {
        for bytes in (0..5_000).chain([65_537, (1 << 20) + 1, 256_000_000]) {
            let class = size_class(bytes, u64::MAX).unwrap();
            assert!(class >= bytes && class.is_multiple_of(LEAST), "{bytes} → {class}");
            assert!(class == LEAST || class - bytes < (bytes / 4).max(LEAST), "{bytes} → {class}");
            assert_eq!(size_class(class, u64::MAX), Some(class), "{bytes}");
        }
    }

    #[test]
    fn a_size_class_keeps_to_the_limit() {
        assert_eq!(size_class(1_000_001, 1_000_004), Some(1_000_004));
        assert_eq!(size_class(1_000_005, 1_000_004), None);
        assert_eq!(size_class(3, 3), None, "buffers are whole words");
    }
}
