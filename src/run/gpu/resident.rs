//! Data that stays on the device from run to run.

use std::sync::Arc;

use super::convert::Storage;
use super::fault::Scope;
use super::flight::Flight;
use super::pool::{Kind, Lease};
use super::readback::{GpuRun, Output, Source};
use super::staging::Cargo;
use super::{Gpu, GpuCounts, Shared};
use crate::dtype::DType;
use crate::error::DeviceError;

/// A value on the device. Its memory is used again when it is dropped.
pub(crate) struct DeviceBuffer {
    pub dtype: DType,
    pub elements: usize,
    pub(super) lease: Lease,
}

impl DeviceBuffer {
    /// Room for a value, with any contents.
    pub(super) fn lease(
        shared: &Shared,
        dtype: DType,
        elements: usize,
        counts: &mut GpuCounts,
    ) -> Result<Self, DeviceError> {
        let bytes = Storage::of(dtype, &shared.limits).bytes(elements);
        Ok(Self { dtype, elements, lease: shared.lease(Kind::Storage, bytes, counts)? })
    }
}

impl Gpu {
    /// Puts host elements on the device. Returns before they have arrived: later runs wait for them.
    pub fn resident(&self, dtype: DType, host: &[u8]) -> Result<DeviceBuffer, DeviceError> {
        let shared = &self.0;
        shared.health.check()?;
        let mut counts = GpuCounts::default();
        let elements = host.len() / dtype.size();
        let resident = DeviceBuffer::lease(shared, dtype, elements, &mut counts)?;
        let mut cargo = Cargo::default();
        let place = cargo.push(Storage::of(dtype, &shared.limits), host);
        let Some(staging) = shared.stage(&cargo, &mut counts)? else {
            return Ok(resident);
        };
        let scope = Scope::open(&shared.device, &shared.health);
        let mut encoder = shared.encoder();
        let bytes = place.end - place.start;
        encoder.copy_buffer_to_buffer(&staging.buffer, 0, &resident.lease.buffer, 0, bytes);
        // Its end is for the poller to see: it only returns the staging buffer.
        drop(Flight::submit(shared, encoder, Some(staging), None));
        scope.close(|| format!("uploading a resident of {bytes} bytes"))?;
        Ok(resident)
    }

    /// Copies a value from the device: a run with one output.
    pub fn read_resident(
        &self,
        resident: &Arc<DeviceBuffer>,
    ) -> impl Future<Output = Result<GpuRun, DeviceError>> + Send + 'static + use<> {
        let (shared, resident) = (Arc::clone(&self.0), Arc::clone(resident));
        async move {
            let (flight, mut run) = shared.launch_read(&resident)?;
            if let Some(flight) = flight {
                run.readback = flight.await?.map(Arc::new);
            }
            Ok(run)
        }
    }
}

impl Shared {
    fn launch_read(
        self: &Arc<Self>,
        resident: &DeviceBuffer,
    ) -> Result<(Option<Flight>, GpuRun), DeviceError> {
        self.health.check()?;
        let &DeviceBuffer { dtype, elements, ref lease } = resident;
        let storage = Storage::of(dtype, &self.limits);
        let bytes = storage.bytes(elements);
        let mut counts = GpuCounts::default();
        let flight = if bytes > 0 {
            let readback = self.lease(Kind::Readback, bytes, &mut counts)?;
            let scope = Scope::open(&self.device, &self.health);
            let mut encoder = self.encoder();
            encoder.copy_buffer_to_buffer(&lease.buffer, 0, &readback.buffer, 0, bytes);
            let flight = Flight::submit(self, encoder, None, Some((readback, bytes)));
            scope.close(|| format!("reading a resident of {bytes} bytes"))?;
            (counts.submits, counts.downloads, counts.bytes_down) = (1, 1, bytes);
            Some(flight)
        } else {
            None
        };
        let outputs = vec![Output { dtype, elements, storage, source: Source::Device(0) }];
        Ok((flight, GpuRun { readback: None, outputs, kept: Vec::new(), counts }))
    }
}
