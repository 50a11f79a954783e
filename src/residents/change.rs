//! The change of one slice of a resident, made on each side where value and slice lie.

use std::sync::Arc;

use super::{Handle, Storage};
use crate::base::sync::MutexGuard;
use crate::device::Device;
use crate::error::{DeviceError, Result};
use crate::exec::gpu::DeviceBuffer;
use crate::exec::{HostBuffer, Patch, SliceWrite, memory};

/// A slice that is about to be replaced in a resident, which is locked meanwhile.
pub(super) struct Change<'a> {
    storage: MutexGuard<'a, Storage>,
    patch: Patch,
    /// The elements of the slice on the host, where the value is too.
    new: Option<Arc<HostBuffer>>,
    /// A copy of the value on the host, where somebody else holds that.
    copy: Option<HostBuffer>,
    on_gpu: Option<SliceWrite<DeviceBuffer>>,
}

impl<'a> Change<'a> {
    /// The change of `handle` by the slice that is `new`; `None` where slice and value are on no side together, and
    /// where others may write to the value.
    ///
    /// # Errors
    /// If there is no room for the copy of a value that somebody else holds.
    pub fn new(
        device: &Device,
        handle: &'a Handle,
        patch: Patch,
        new: &Storage,
    ) -> Result<Option<Self>> {
        let mut storage = handle.lock();
        if storage.is_shared() {
            return Ok(None);
        }
        let on_gpu = on_gpu(device, &storage, patch, new)?;
        let new = new.host().filter(|_| storage.host().is_some()).cloned();
        if new.is_none() && on_gpu.is_none() {
            return Ok(None);
        }
        let mut copy = None;
        if let (Some(host), Some(_)) = (storage.host_mut(), &new)
            && Arc::get_mut(host).is_none()
        {
            let mut own = HostBuffer::try_zeroed(host.dtype(), host.len())?;
            memory::copy(host.bytes(), own.bytes_mut());
            copy = Some(own);
        }
        Ok(Some(Self { storage, patch, new, copy, on_gpu }))
    }

    pub fn on_gpu(&self) -> Option<&SliceWrite<DeviceBuffer>> {
        self.on_gpu.as_ref()
    }

    /// Replaces the slice on the host. A side that has only the old value loses it.
    pub fn finish(mut self) {
        let (there, _) = std::mem::take(&mut *self.storage).into_parts();
        let there = there.filter(|_| self.new.is_some());
        let mut host = self.copy.map(Arc::new).or(there);
        if let (Some(host), Some(new)) = (host.as_mut().and_then(Arc::get_mut), &self.new) {
            self.patch.apply(new.dtype().size(), new.bytes(), host.bytes_mut());
        }
        *self.storage = Storage::of(host, self.on_gpu.map(|write| write.to));
    }
}

/// The change that a GPU makes, where value and slice are there. Nobody else may hold the buffer that is written.
fn on_gpu(
    device: &Device,
    storage: &Storage,
    patch: Patch,
    new: &Storage,
) -> Result<Option<SliceWrite<DeviceBuffer>>> {
    let (Some(gpu), Some(there), Some(new)) = (device.opened(), storage.gpu(), new.gpu()) else {
        return Ok(None);
    };
    if !gpu.owns(there) || !gpu.owns(new) {
        return Ok(None);
    }
    let is_held = storage.is_shared() || Arc::strong_count(there) > 1;
    let to = if is_held { Arc::new(gpu.room_like(there)?) } else { Arc::clone(there) };
    let copied = is_held.then(|| Arc::clone(there));
    Ok(Some(SliceWrite { new: Arc::clone(new), patch, to, copied }))
}

/// The new value of a resident to which others may write, in a buffer of its own.
pub(super) fn write_to_new_buffer(
    device: &Device,
    there: &Storage,
    patch: Patch,
    new: &Storage,
) -> Result<Option<Storage>> {
    let Some(write) = on_gpu(device, there, patch, new)? else { return Ok(None) };
    submit_changes(device, [&write])?;
    Ok(Some(Storage::Gpu(write.to)))
}

/// Has the GPU make its changes after all that was submitted before. Returns how often that was submitted.
pub(super) fn submit_changes<'a>(
    device: &Device,
    patches: impl IntoIterator<Item = &'a SliceWrite<DeviceBuffer>>,
) -> Result<u64> {
    let patches: Vec<_> = patches.into_iter().collect();
    match device.opened() {
        Some(gpu) => Ok(gpu.write_slices(&patches)?.into()),
        None if patches.is_empty() => Ok(0),
        None => Err(lost().into()),
    }
}

/// The error for a GPU that was lost before residents had the values.
pub(super) fn lost() -> DeviceError {
    DeviceError::Lost { reason: "it was gone when a run on it had ended".into() }
}
