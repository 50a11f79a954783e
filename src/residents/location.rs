//! Residents on the side where a run reads them: copies are made where they are missing, and stay.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Handle;
use crate::cost::Residence;
use crate::error::{Error, PlanError, Result};
use crate::exec::HostBuffer;
use crate::exec::gpu::{DeviceBuffer, Gpu};
use crate::exec::threads::off_thread;
use crate::graph::Graph;
use crate::ops::Op;

/// The side or sides of the data of each resident that `graph` binds.
///
/// # Errors
/// [`PlanError::EmptyResident`]; [`DeviceError::ResidentLost`](crate::error::DeviceError::ResidentLost).
pub(crate) fn locations(graph: &Graph, residents: &[Handle]) -> Result<SmallVec<[Residence; 8]>> {
    let empty = |at: usize| {
        let bound = graph.iter().find(|(_, node)| node.op == Op::Resident(at as u32));
        let place = bound.map(|(_, node)| node.place.to_string()).unwrap_or_default();
        Error::from(PlanError::EmptyResident { place })
    };
    let each = residents.iter().enumerate();
    each.map(|(at, handle)| handle.residence()?.ok_or_else(|| empty(at))).collect()
}

/// The residents for a run on the CPU. Data on the GPU alone is fetched, and stays on both sides unless it is shared.
pub(crate) async fn all_on_host(handles: &[Handle]) -> Result<Vec<Arc<HostBuffer>>> {
    let mut residents = Vec::with_capacity(handles.len());
    for handle in handles {
        residents.push(handle.on_host().await?);
    }
    Ok(residents)
}

/// The residents for a run on the GPU. Data on the host alone is sent by another thread, and stays on both sides.
pub(crate) async fn all_on_device(handles: &[Handle], gpu: &Gpu) -> Result<Vec<Arc<DeviceBuffer>>> {
    let there: Result<Option<Vec<_>>> =
        handles.iter().map(|handle| Ok(handle.filled_storage()?.gpu().cloned())).collect();
    if let Some(there) = there? {
        return Ok(there);
    }
    let (handles, gpu) = (handles.to_vec(), gpu.clone());
    off_thread(move || handles.iter().map(|handle| on_device(handle, &gpu)).collect()).await
}

/// The data of one resident for a run on the GPU, on a thread that may wait.
pub(crate) fn on_device(handle: &Handle, gpu: &Gpu) -> Result<Arc<DeviceBuffer>> {
    if let Some(buffer) = handle.filled_storage()?.gpu() {
        return Ok(Arc::clone(buffer));
    }
    // Only one run sends the data; others find it there.
    let _sending = handle.sending();
    let storage = handle.filled_storage()?;
    if let Some(buffer) = storage.gpu() {
        return Ok(Arc::clone(buffer));
    }
    let host = storage.host().ok_or_else(|| handle.empty())?;
    let copy = handle.device().send(gpu, handle.ty().dtype, host.bytes())?;
    handle.add_device_copy(host, &copy);
    Ok(copy)
}
