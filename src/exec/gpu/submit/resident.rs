//! Moving values that stay on the device from run to run.

use std::ops::Range;
use std::sync::Arc;

use super::engine::Engine;
use super::run_results::{Download, OutputSource, RunOutput};
use super::stage::StagedUploads;
use super::submission::MappedAfter;
use super::submission_future::SubmissionFuture;
use crate::base::dtype::DType;
use crate::error::DeviceError;
use crate::exec::SliceWrite;
use crate::exec::budget::Permit;
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver;
use crate::exec::gpu::memory::{BufferCopy, DeviceBuffer, DeviceFormat, Kind};

/// Records `write`, of elements stored as `storage`.
fn record_write(
    write: &SliceWrite<DeviceBuffer>,
    storage: DeviceFormat,
    encoder: &mut wgpu::CommandEncoder,
) {
    let SliceWrite { new, patch, to, copied } = write;
    let mut copy = |from: &DeviceBuffer, from_start, to_start, bytes| {
        let (from, to) =
            ((from.raw().clone().into(), from_start), (to.raw().clone().into(), to_start));
        BufferCopy { from, to, bytes }.record(encoder);
    };
    if let Some(from) = copied {
        copy(from, 0, 0, storage.bytes(from.elements));
    }
    for (from, start, bytes) in patch.copies(storage.size()) {
        copy(new, from as u64, start as u64, bytes as u64);
    }
}

impl Engine {
    /// Puts host elements on the device. Returns before they have arrived: later runs wait for them.
    pub fn resident(&self, dtype: DType, host: &[u8]) -> Result<Arc<DeviceBuffer>, DeviceError> {
        self.device.guarded(|| {
            let mut counts = GpuCounts::default();
            let elements = host.len() / dtype.size();
            let resident = Arc::new(self.memory.lease_value(dtype, elements, &mut counts)?);
            let format = DeviceFormat::of(dtype, &self.device.limits);
            let mut uploads = StagedUploads::default();
            uploads.push(format, elements);
            let bytes = uploads.bytes();
            let Some(staging) = self.stage(&uploads, &[host], None, &mut counts)? else {
                return Ok(resident);
            };
            let copy = BufferCopy {
                from: (staging.buffer.clone(), 0),
                to: (resident.raw().clone().into(), 0),
                bytes,
            };
            let mapped_after = MappedAfter { staging: Some(staging), readback: None };
            let doing = || format!("uploading a resident of {bytes} bytes");
            self.submit_unawaited(doing, mapped_after, |encoder| copy.record(encoder))?;
            Ok(resident)
        })
    }

    /// Room for a value like another, with any contents.
    pub fn room_like(&self, value: &DeviceBuffer) -> Result<DeviceBuffer, DeviceError> {
        self.memory.lease_value(value.dtype, value.elements, &mut GpuCounts::default())
    }

    /// Replaces parts of values, and returns the number of submissions. Later runs wait for it.
    ///
    /// # Errors
    /// If nothing was replaced, or the device is lost.
    pub fn write_slices(&self, writes: &[&SliceWrite<DeviceBuffer>]) -> Result<u32, DeviceError> {
        if writes.is_empty() {
            return Ok(0);
        }
        let storage = |to: &DeviceBuffer| DeviceFormat::of(to.dtype, &self.device.limits);
        self.device.guarded(|| {
            let doing = || "replacing parts of residents".into();
            // One refused command is enough for nothing to be submitted.
            self.submit_unawaited(doing, MappedAfter::default(), |encoder| {
                writes.iter().for_each(|write| record_write(write, storage(&write.to), encoder));
            })?;
            Ok(1)
        })
    }

    /// Submits the commands of `record`, and leaves the waiting to the poller.
    fn submit_unawaited(
        &self,
        doing: impl Fn() -> String,
        mapped_after: MappedAfter,
        record: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> Result<(), DeviceError> {
        let none = Permit::default();
        let ticket = self.record_and_submit(doing, &none, mapped_after, record)?;
        self.submissions.poller.watch([ticket.submission]);
        Ok(())
    }

    /// A value from the device, in one piece.
    pub async fn read_resident(
        self: &Arc<Self>,
        resident: &Arc<DeviceBuffer>,
    ) -> Result<Download, DeviceError> {
        Fetch::begin(self, resident, 0..resident.elements).await?.finish().await
    }

    /// A value from the device, in chunks of `stride` elements.
    pub fn read_chunks(
        self: &Arc<Self>,
        resident: &Arc<DeviceBuffer>,
        stride: usize,
    ) -> DownloadChunks {
        let (engine, resident) = (Arc::clone(self), Arc::clone(resident));
        DownloadChunks { engine, resident, stride, start: 0, next: None }
    }

    /// As [`Fetch::begin`], on this thread.
    fn fetch(
        self: &Arc<Self>,
        resident: &DeviceBuffer,
        elements: Range<usize>,
    ) -> Result<Fetch, DeviceError> {
        self.device.guarded(|| {
            let &DeviceBuffer { dtype, ref lease, .. } = resident;
            let storage = DeviceFormat::of(dtype, &self.device.limits);
            let (start, bytes) = (storage.bytes(elements.start), storage.bytes(elements.len()));
            let output = RunOutput {
                dtype,
                elements: elements.len(),
                storage,
                source: OutputSource::Device(0),
            };
            if bytes == 0 {
                return Ok(Fetch { future: None, output });
            }
            let readback = self.memory.lease(Kind::Readback, bytes, &mut GpuCounts::default())?;
            let to = readback.buffer.clone();
            let copy = |encoder: &mut wgpu::CommandEncoder| {
                encoder.copy_buffer_to_buffer(&lease.buffer, start, &to, 0, bytes);
            };
            let doing = || format!("reading {bytes} bytes of a resident");
            let after = MappedAfter { staging: None, readback: Some((readback, bytes)) };
            let ticket = self.record_and_submit(doing, &Permit::default(), after, copy)?;
            Ok(Fetch { future: Some(SubmissionFuture::new(self, ticket)), output })
        })
    }
}

/// A value that comes from the device in chunks: while the caller copies one out, the next is on its way.
pub(crate) struct DownloadChunks {
    engine: Arc<Engine>,
    resident: Arc<DeviceBuffer>,
    /// A multiple of 4, so that chunks start at whole words.
    stride: usize,
    /// The first element of the next chunk.
    start: usize,
    next: Option<Fetch>,
}

impl DownloadChunks {
    /// The next chunk and its first element; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<(usize, Download)>, DeviceError> {
        let fetch = match self.next.take() {
            None => self.fetch().await?,
            next => next,
        };
        let Some(fetch) = fetch else { return Ok(None) };
        let chunk = fetch.finish().await?;
        let start = self.start;
        self.start += chunk.len();
        self.next = self.fetch().await?;
        Ok(Some((start, chunk)))
    }

    /// The chunk at `start`, on its way.
    async fn fetch(&self) -> Result<Option<Fetch>, DeviceError> {
        let end = self.resident.elements.min(self.start + self.stride);
        if self.start == end {
            return Ok(None);
        }
        Fetch::begin(&self.engine, &self.resident, self.start..end).await.map(Some)
    }
}

/// Elements on their way to the host.
struct Fetch {
    /// `None` if there are no elements.
    future: Option<SubmissionFuture>,
    output: RunOutput,
}

impl Fetch {
    /// Submits the copy of some elements.
    async fn begin(
        engine: &Arc<Engine>,
        resident: &Arc<DeviceBuffer>,
        elements: Range<usize>,
    ) -> Result<Self, DeviceError> {
        let (engine, resident) = (Arc::clone(engine), Arc::clone(resident));
        driver::in_turn(move || engine.fetch(&resident, elements)).await
    }

    async fn finish(self) -> Result<Download, DeviceError> {
        let readback = match self.future {
            Some(future) => future.finish().await?.map(Arc::new),
            None => None,
        };
        Ok(Download { output: self.output, readback })
    }
}
