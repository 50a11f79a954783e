//! What a run made goes to the residents that it fills: a new value, or a part of that which is there.

use std::sync::Arc;

use smallvec::SmallVec;

use super::residence::{Handle, Storage};
use super::state::Kept;
use crate::base::sync::MutexGuard;
use crate::device::Device;
use crate::error::{DeviceError, Result};
#[cfg(feature = "gpu")]
use crate::exec::gpu::{Gpu, Patched};
use crate::exec::{HostBuffer, Patch, memory};

/// How often parts follow a value that others move from side to side.
const TRIES: usize = 3;

/// By position of what is kept, the part of the resident that it is, where it is not all.
type Patches = SmallVec<[Option<Patch>; 4]>;

/// Fills the residents with what a run made, in their order: all of them, or none. Of `made`, parts are taken.
///
/// Returns how often the replacing was submitted to the device; what brings a part or a copy to the other side first
/// does not count. Nothing is waited for once residents change.
///
/// # Errors
/// If a side fails, if others move a resident again and again meanwhile, or if there is no room for the copy of a value
/// that somebody else holds.
pub(super) async fn store(device: &Device, kept: &[Kept], made: &mut [Storage]) -> Result<u64> {
    if kept.iter().all(|kept| kept.patch.is_none() && !kept.handle.wants_host_copy()) {
        for (Kept { handle, .. }, made) in kept.iter().zip(made) {
            handle.fill(made.clone());
        }
        return Ok(0);
    }
    Box::pin(store_together(device, kept, made)).await
}

/// As [`store`], where parts or copies must be brought together with values first.
async fn store_together(device: &Device, kept: &[Kept], made: &mut [Storage]) -> Result<u64> {
    #[cfg_attr(not(feature = "gpu"), expect(unused_mut, reason = "all is on the host"))]
    let mut patches: Patches = kept.iter().map(|kept| kept.patch).collect();
    let mut submits = 0;
    for _ in 0..TRIES {
        #[cfg(feature = "gpu")]
        for ((Kept { handle, .. }, patch), made) in kept.iter().zip(&mut patches).zip(&mut *made) {
            if patch.is_none() && !handle.wants_host_copy() {
                continue;
            }
            submits += bring_together(device, handle, patch, made).await?;
        }
        if let Some(more) = try_store_in_turn(device, kept, &patches, made).await? {
            submits += more;
            return Ok(submits);
        }
    }
    Err(never_together(made).into())
}

/// Why parts came never to where their values are.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "there is no GPU to lose"))]
fn never_together(made: &[Storage]) -> DeviceError {
    #[cfg(feature = "gpu")]
    if made.iter().filter_map(|made| made.gpu.as_ref()).any(|buffer| buffer.is_lost()) {
        return lost();
    }
    DeviceError::Refused {
        doing: "replacing a part of a resident".into(),
        reason: "the resident was moved or replaced whenever the part was brought to it".into(),
    }
}

#[cfg(feature = "gpu")]
fn lost() -> DeviceError {
    DeviceError::Lost { reason: "it was gone when a run on it had ended".into() }
}

/// Brings what was made to the sides where the resident must have it: a new part to where the value is. Returns how often
/// that was submitted.
#[cfg(feature = "gpu")]
async fn bring_together(
    device: &Device,
    handle: &Handle,
    patch: &mut Option<Patch>,
    new: &mut Storage,
) -> Result<u64> {
    let mut submits = 0;
    if patch.is_some() && handle.wants_host_copy() {
        handle.on_host().await?;
    }
    if let Some(part) = *patch {
        let there = handle.filled()?;
        let on_host = there.host.is_some() && new.host.is_some();
        let on_gpu = there.is_on_gpu() && new.is_on_gpu();
        if !on_host && !on_gpu {
            match (&there.host, &new.host, device.opened()) {
                (None, Some(host), Some(gpu)) => {
                    let (device, host, dtype) = (device.clone(), Arc::clone(host), handle.dtype());
                    let sent = Gpu::in_turn(move || device.send(&gpu, dtype, host.bytes()));
                    new.gpu = Some(sent.await?);
                }
                _ => new.bring_to_host(device).await?,
            }
        }
        if there.is_shared {
            let (device, made) = (device.clone(), new.clone());
            let whole = Gpu::in_turn(move || apart(&device, &there, part, &made)).await?;
            if let Some(whole) = whole {
                (*patch, *new, submits) = (None, whole, 1);
            }
        }
    }
    if handle.wants_host_copy() {
        new.bring_to_host(device).await?;
    }
    Ok(submits)
}

/// The new value of a resident to which others may write, in a buffer of its own.
#[cfg(feature = "gpu")]
fn apart(device: &Device, there: &Storage, patch: Patch, new: &Storage) -> Result<Option<Storage>> {
    let patched = on_gpu(device.opened(), there, patch, new)?;
    patched
        .map(|patched| {
            submit(device, &[&patched])?;
            Ok(Storage::on_gpu(patched.to))
        })
        .transpose()
}

/// As [`try_store`], once no driver has to be waited for. Where the future is dropped before its end, nothing has changed.
async fn try_store_in_turn(
    device: &Device,
    kept: &[Kept],
    patches: &Patches,
    made: &mut [Storage],
) -> Result<Option<u64>> {
    #[cfg(feature = "gpu")]
    if patches.iter().any(Option::is_some) && device.opened().is_some() {
        return Gpu::at_the_end(|| try_store(device, kept, patches, made)).await;
    }
    try_store(device, kept, patches, made)
}

/// As [`store`]; `None` where a part is on another side than the value.
fn try_store(
    device: &Device,
    kept: &[Kept],
    patches: &Patches,
    made: &mut [Storage],
) -> Result<Option<u64>> {
    let mut changes = Vec::new();
    for ((Kept { handle, .. }, patch), made) in kept.iter().zip(patches).zip(&*made) {
        let Some(patch) = *patch else { continue };
        match Change::new(device, handle, patch, made)? {
            Some(change) => changes.push(change),
            None => return Ok(None),
        }
    }
    #[cfg(feature = "gpu")]
    let submits = {
        let patched: Vec<_> = changes.iter().filter_map(|change| change.on_gpu.as_ref()).collect();
        submit(device, &patched)?
    };
    #[cfg(not(feature = "gpu"))]
    let submits = 0;
    changes.into_iter().for_each(Change::finish);
    for ((Kept { handle, .. }, patch), made) in kept.iter().zip(patches).zip(made) {
        match patch {
            Some(_) => *made = Storage::default(),
            None => handle.fill(made.clone()),
        }
    }
    Ok(Some(submits))
}

/// A part that is about to be replaced in a resident, of which nobody else gets hold meanwhile.
struct Change<'a> {
    storage: MutexGuard<'a, Storage>,
    patch: Patch,
    /// The part's elements on the host, where the value is too.
    new: Option<Arc<HostBuffer>>,
    /// A copy of the value on the host, where somebody else has that.
    copy: Option<HostBuffer>,
    #[cfg(feature = "gpu")]
    on_gpu: Option<Patched>,
}

impl<'a> Change<'a> {
    #[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "on the host alone"))]
    fn new(
        device: &Device,
        handle: &'a Handle,
        patch: Patch,
        new: &Storage,
    ) -> Result<Option<Self>> {
        let mut storage = handle.lock();
        #[cfg(feature = "gpu")]
        if storage.is_shared {
            return Ok(None);
        }
        #[cfg(feature = "gpu")]
        let on_gpu = on_gpu(device.opened(), &storage, patch, new)?;
        let new = new.host.as_ref().filter(|_| storage.host.is_some()).map(Arc::clone);
        #[cfg(feature = "gpu")]
        let is_on_gpu = on_gpu.is_some();
        #[cfg(not(feature = "gpu"))]
        let is_on_gpu = false;
        if new.is_none() && !is_on_gpu {
            return Ok(None);
        }
        let mut copy = None;
        if let (Some(host), Some(_)) = (&mut storage.host, &new)
            && Arc::get_mut(host).is_none()
        {
            let mut own = HostBuffer::try_zeroed(host.dtype(), host.len())?;
            memory::copy(host.bytes(), own.bytes_mut());
            copy = Some(own);
        }
        Ok(Some(Self {
            storage,
            patch,
            new,
            copy,
            #[cfg(feature = "gpu")]
            on_gpu,
        }))
    }

    /// Replaces the part on the host. Where only the old value is, it is forgotten.
    fn finish(mut self) {
        let there = self.storage.host.take().filter(|_| self.new.is_some());
        let mut host = self.copy.map(Arc::new).or(there);
        if let (Some(host), Some(new)) = (host.as_mut().and_then(Arc::get_mut), &self.new) {
            self.patch.apply(new.dtype().size(), new.bytes(), host.bytes_mut());
        }
        self.storage.host = host;
        #[cfg(feature = "gpu")]
        {
            self.storage.gpu = self.on_gpu.map(|patched| patched.to);
        }
    }
}

/// What the GPU is to do, where value and part are there. Nobody else may have what is written.
#[cfg(feature = "gpu")]
fn on_gpu(
    gpu: Option<Gpu>,
    storage: &Storage,
    patch: Patch,
    new: &Storage,
) -> Result<Option<Patched>> {
    let (Some(gpu), Some(there), Some(new)) = (gpu, &storage.gpu, &new.gpu) else {
        return Ok(None);
    };
    if !gpu.owns(there) || !gpu.owns(new) {
        return Ok(None);
    }
    let is_held = storage.is_shared || Arc::strong_count(there) > 1;
    let to = if is_held { Arc::new(gpu.room_like(there)?) } else { Arc::clone(there) };
    let copied = is_held.then(|| Arc::clone(there));
    Ok(Some(Patched { new: Arc::clone(new), patch, to, copied }))
}

/// Has the GPU replace what lies there, after all that was submitted before. Returns how often that was submitted.
#[cfg(feature = "gpu")]
fn submit(device: &Device, patches: &[&Patched]) -> Result<u64> {
    match device.opened() {
        Some(gpu) => Ok(gpu.patch(patches)?.into()),
        None if patches.is_empty() => Ok(0),
        None => Err(lost().into()),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;
    #[cfg(feature = "gpu")]
    use std::task::{Context, Waker};
    #[cfg(feature = "gpu")]
    use std::time::Duration;

    use super::*;
    use crate::base::dtype::DType;
    #[cfg(feature = "gpu")]
    use crate::base::test_device::found;
    use crate::error::Error;
    use crate::ops::Type;

    #[cfg(feature = "gpu")]
    #[tokio::test]
    async fn a_run_that_is_dropped_while_a_driver_takes_long_replaces_nothing() {
        let Some(device) = found(Device::gpu().await) else { return };
        let state = device.resident(&vec![0_u32; 1 << 20], [4, 1 << 18]).unwrap();
        let batch = crate::GpuCommandBatch::new(&device);
        let row = batch.input::<u32>("row", [1, 1 << 18]);
        let old = batch.bind(&state);
        let new = batch.replace_slice(old, row, 0, 1);
        batch.update(&state, new);
        let program = batch.compile().await.unwrap();
        let is = async |x: u32| {
            let state = state.read().await.unwrap();
            state.iter().enumerate().all(|(at, &y)| y == if at >> 18 == 1 { x } else { 0 })
        };
        program.run([("row", &[1_u32; 1 << 18])]).await.unwrap();
        assert!(is(1).await);
        let long = Gpu::take_long();
        for polls in 1..10 {
            let mut run = Box::pin(program.run([("row", &[2_u32; 1 << 18])]));
            for _ in 0..polls {
                let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "nobody waits as long as a driver takes");
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(run);
            assert!(is(1).await, "dropped after {polls} polls");
        }
        drop(long);
        program.run([("row", &[2_u32; 1 << 18])]).await.unwrap();
        assert!(is(2).await);
    }

    #[tokio::test]
    async fn a_part_that_is_nowhere_is_no_lost_device() {
        let device = Device::cpu();
        let ty = Type { dtype: DType::F32, shape: [3].into() };
        let value = Storage::on_host(Arc::new(HostBuffer::from_slice(&[1_f32; 3])));
        let handle = Handle::new(&device, ty, Location::caller(), value);
        let patch = Some(Patch::new(&[3].into(), 0, 1, 1));
        let kept = [Kept { handle: handle.clone(), patch }];
        let error = store(&device, &kept, &mut [Storage::default()]).await.unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::Refused { .. })), "{error}");
        let part = Storage::on_host(Arc::new(HostBuffer::from_slice(&[2_f32])));
        assert_eq!(store(&device, &kept, &mut [part]).await.unwrap(), 0);
        assert_eq!(handle.on_host().await.unwrap().to_vec::<f32>(), [1.0, 2.0, 1.0]);
    }
}
