//! The end of a run: its values go to the residents that it fills, all of them or none.

use smallvec::SmallVec;

use super::change::{Change, lost, submit_changes, write_to_new_buffer};
use super::{Handle, Storage};
use crate::device::Device;
use crate::error::{DeviceError, Result};
use crate::exec::Patch;
use crate::exec::gpu::{in_last_poll, in_turn};

/// A resident that each run of a batch fills.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    pub handle: Handle,
    /// The part of the resident that the value replaces; `None` if it replaces all.
    pub patch: Option<Patch>,
}

/// The values that a run left, in the order of the graph's keeps.
pub(crate) type KeptValues = SmallVec<[Storage; 1]>;

/// Number of times that slices follow a value that other runs move from side to side.
const TRIES: usize = 3;

/// The slice that each kept value replaces; `None` where it replaces all.
type Patches = SmallVec<[Option<Patch>; 4]>;

/// Fills the residents with the values that a run `made`, in their order: all of them, or none. Slices are taken from
/// `made`.
///
/// Returns how often replacements were submitted to the device. Copies that bring a slice or a value to the other side
/// first do not count. Once residents change, nothing is waited for.
///
/// # Errors
/// If a side fails, if others move a resident again and again meanwhile, or if there is no room for the copy of a value
/// that somebody else holds.
pub(crate) async fn commit(device: &Device, keeps: &[Keep], made: &mut [Storage]) -> Result<u64> {
    if keeps.iter().all(|keep| keep.patch.is_none() && !keep.handle.keeps_host_copy()) {
        for (Keep { handle, .. }, made) in keeps.iter().zip(made) {
            handle.fill(made.clone());
        }
        return Ok(0);
    }
    Box::pin(commit_together(device, keeps, made)).await
}

/// As [`commit`], where slices or copies must be brought together with values first.
async fn commit_together(device: &Device, keeps: &[Keep], made: &mut [Storage]) -> Result<u64> {
    let mut patches: Patches = keeps.iter().map(|keep| keep.patch).collect();
    let mut submits = 0;
    for _ in 0..TRIES {
        for ((keep, patch), made) in keeps.iter().zip(&mut patches).zip(&mut *made) {
            if patch.is_some() || keep.handle.keeps_host_copy() {
                submits += bring_together(device, keep, patch, made).await?;
            }
        }
        if let Some(more) = try_in_turn(device, keeps, &patches, made).await? {
            return Ok(submits + more);
        }
    }
    Err(never_together(made).into())
}

/// The error for slices that never came to the side of their values.
fn never_together(made: &[Storage]) -> DeviceError {
    if made.iter().filter_map(Storage::gpu).any(|buffer| buffer.is_lost()) {
        return lost();
    }
    DeviceError::Refused {
        doing: "replacing a part of a resident".into(),
        reason: "the resident was moved or replaced whenever the part was brought to it".into(),
    }
}

/// Brings a new value or slice to the sides where the resident must have it. Returns how often that was submitted.
async fn bring_together(
    device: &Device,
    Keep { handle, .. }: &Keep,
    patch: &mut Option<Patch>,
    new: &mut Storage,
) -> Result<u64> {
    let mut submits = 0;
    if patch.is_some() && handle.keeps_host_copy() {
        handle.on_host().await?;
    }
    if let Some(slice) = *patch {
        let there = handle.filled_storage()?;
        bring_beside(device, &there, new).await?;
        if there.is_shared() {
            let (device, made) = (device.clone(), new.clone());
            let whole = in_turn(move || write_to_new_buffer(&device, &there, slice, &made)).await?;
            if let Some(whole) = whole {
                (*patch, *new, submits) = (None, whole, 1);
            }
        }
    }
    if handle.keeps_host_copy() {
        bring_to_host(device, new).await?;
    }
    Ok(submits)
}

/// Brings a slice to a side on which the value is.
async fn bring_beside(device: &Device, there: &Storage, new: &mut Storage) -> Result<()> {
    let on_host = there.host().is_some() && new.host().is_some();
    let on_gpu = there.gpu().is_some() && new.gpu().is_some();
    if on_host || on_gpu {
        return Ok(());
    }
    match (there.host(), new.host().cloned(), device.opened()) {
        (None, Some(host), Some(gpu)) => {
            let device = device.clone();
            let sent = in_turn(move || device.send(&gpu, host.dtype(), host.bytes()));
            new.add_gpu(sent.await?);
            Ok(())
        }
        _ => bring_to_host(device, new).await,
    }
}

/// Brings a new value to the host, unless it is there.
async fn bring_to_host(device: &Device, new: &mut Storage) -> Result<()> {
    if new.host().is_none()
        && let Some(copy) = new.to_host(device).await?
    {
        new.add_host(copy);
    }
    Ok(())
}

/// As [`try_now`], once no driver has to be waited for. If the future is dropped before its end, nothing has changed.
async fn try_in_turn(
    device: &Device,
    keeps: &[Keep],
    patches: &Patches,
    made: &mut [Storage],
) -> Result<Option<u64>> {
    if patches.iter().any(Option::is_some) && device.opened().is_some() {
        return in_last_poll(|| try_now(device, keeps, patches, made)).await;
    }
    try_now(device, keeps, patches, made)
}

/// As [`commit`]; `None` where a slice is on another side than the value.
fn try_now(
    device: &Device,
    keeps: &[Keep],
    patches: &Patches,
    made: &mut [Storage],
) -> Result<Option<u64>> {
    let mut changes = Vec::new();
    for ((Keep { handle, .. }, patch), made) in keeps.iter().zip(patches).zip(&*made) {
        let Some(patch) = *patch else { continue };
        match Change::new(device, handle, patch, made)? {
            Some(change) => changes.push(change),
            None => return Ok(None),
        }
    }
    let submits = submit_changes(device, changes.iter().filter_map(Change::on_gpu))?;
    changes.into_iter().for_each(Change::finish);
    for ((Keep { handle, .. }, patch), made) in keeps.iter().zip(patches).zip(made) {
        match patch {
            Some(_) => *made = Storage::Empty,
            None => handle.fill(made.clone()),
        }
    }
    Ok(Some(submits))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    #[cfg(feature = "gpu")]
    use std::task::{Context, Waker};
    #[cfg(feature = "gpu")]
    use std::time::Duration;

    use super::*;
    use crate::base::dtype::DType;
    use crate::base::place::Place;
    #[cfg(feature = "gpu")]
    use crate::base::test_device::found;
    use crate::error::{Error, Origin};
    use crate::exec::HostBuffer;
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
        let long = crate::exec::gpu::long();
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
        let value = Storage::Host(Arc::new(HostBuffer::from_slice(&[1_f32; 3])));
        let handle = Handle::new(&device, ty, Origin::resident(None, Place::caller()), value);
        let patch = Some(Patch::new(&[3].into(), 0, 1, 1));
        let kept = [Keep { handle: handle.clone(), patch }];
        let error = commit(&device, &kept, &mut [Storage::default()]).await.unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::Refused { .. })), "{error}");
        let part = Storage::Host(Arc::new(HostBuffer::from_slice(&[2_f32])));
        assert_eq!(commit(&device, &kept, &mut [part]).await.unwrap(), 0);
        assert_eq!(handle.on_host().await.unwrap().to_vec::<f32>(), [1.0, 2.0, 1.0]);
    }
}
