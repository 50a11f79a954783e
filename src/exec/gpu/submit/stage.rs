//! Uploads of one submission, packed in one mapped buffer.
//!
//! Quirk: staging memory may lie on the card. With NVIDIA 580.159.04 on an H200 it is read at 8 MB/s, so it is written in
//! order and never read. Tests: `tests/transfers.rs`, `tests/waves.rs`.

use std::ops::Range;

use smallvec::SmallVec;

use super::commands::RunBuffers;
use super::engine::Engine;
use super::run_inputs::GpuRunInputs;
use crate::base::trace::stage;
use crate::cost::Limits;
use crate::error::{DeviceError, Error};
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver;
use crate::exec::gpu::memory::{Block, DeviceFormat, Kind, Lease};
use crate::exec::memory::{LARGE, PART};
use crate::exec::threads::for_each;
use crate::plan::{Home, Value, ValueId, Wave};

/// Data starts at multiples of this, which suits copies and mapped ranges.
const ALIGNMENT: u64 = 16;

/// The uploads of a run that are packed in one buffer.
#[derive(Clone, Copy)]
pub(crate) enum UploadPart<'a> {
    /// All uploads, and the parameters of kernels.
    Whole,
    /// The uploads of a wave; the first wave brings the parameters too.
    Wave(&'a Wave),
}

impl UploadPart<'_> {
    fn has_params(self) -> bool {
        match self {
            Self::Whole => true,
            Self::Wave(wave) => wave.dispatches.start == 0,
        }
    }

    fn has(self, value: ValueId) -> bool {
        match self {
            Self::Whole => true,
            Self::Wave(wave) => wave.uploads.contains(&value),
        }
    }

    /// The uploads of `inputs` of this part: each value with its input and its slot.
    fn uploads(self, inputs: &GpuRunInputs) -> impl Iterator<Item = (&Value, u32, usize)> {
        inputs.plan.values.iter().zip(0..).filter_map(move |(value, at)| match value.home {
            Home::Upload { input, slot: Some(slot) } if self.has(ValueId(at)) => {
                Some((value, input, slot))
            }
            _ => None,
        })
    }
}

/// A copy from the staging buffer to the start of a block.
pub(crate) struct StagedCopy {
    pub from: Range<u64>,
    pub to: Block,
}

/// Items to be uploaded, with the range of each in the staging buffer, one after the other.
#[derive(Default)]
pub(crate) struct StagedUploads {
    items: SmallVec<[StagedItem; 4]>,
    bytes: u64,
    /// Bytes that this run could have used, but does not: an earlier run did, and both use the same staging buffer.
    unused: u64,
}

struct StagedItem {
    format: DeviceFormat,
    range: Range<u64>,
}

/// The data of an item of a run, and the buffer to which it is copied.
pub(crate) enum UploadSource<'a> {
    Params(&'a [u32], &'a Block),
    Value { value: &'a Value, input: u32, slot: usize },
}

impl StagedUploads {
    /// The uploads of a part of a run, each with its source. The data is not looked at.
    pub fn of<'a>(
        inputs: &'a GpuRunInputs,
        part: UploadPart<'a>,
        limits: &Limits,
    ) -> (Self, SmallVec<[UploadSource<'a>; 4]>) {
        let (mut uploads, mut sources) = (Self::default(), SmallVec::new());
        if let (Some(params), true) = (&inputs.kernels.params, part.has_params()) {
            if params.are_on_device() {
                uploads.unused = (4 * params.words.len() as u64).next_multiple_of(ALIGNMENT);
            } else {
                uploads.push(DeviceFormat::Same(4), params.words.len());
                sources.push(UploadSource::Params(&params.words, &params.block));
            }
        }
        for (value, input, slot) in part.uploads(inputs) {
            uploads.push(DeviceFormat::of(value.dtype, limits), value.shape.elements());
            sources.push(UploadSource::Value { value, input, slot });
        }
        (uploads, sources)
    }

    /// Adds an item of some elements.
    pub fn push(&mut self, format: DeviceFormat, elements: usize) {
        let start = self.bytes.next_multiple_of(ALIGNMENT);
        self.bytes = start + format.bytes(elements);
        self.items.push(StagedItem { format, range: start..self.bytes });
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the staging buffer; 0 if there is nothing to upload.
    pub fn capacity(&self) -> u64 {
        if self.bytes == 0 { 0 } else { self.bytes + self.unused }
    }

    /// Writes the `data` of all items to `staging`, which is mapped.
    fn fill(&self, data: &[&[u8]], staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        if self.bytes() >= LARGE as u64 {
            return self.fill_parallel(data, staging);
        }
        let mut view = staging.buffer.get_mapped_range_mut(..self.bytes())?;
        for (StagedItem { format, range }, host) in self.items.iter().zip(data) {
            format.pack(host, view.slice(range.start as usize..range.end as usize));
        }
        Ok(())
    }

    fn fill_parallel(&self, data: &[&[u8]], staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        let mut parts = Vec::new();
        for (&StagedItem { format, ref range }, host) in self.items.iter().zip(data) {
            let elements = PART / format.size();
            for (index, part) in host.chunks(elements * format.host_size()).enumerate() {
                let start = range.start + (index * elements * format.size()) as u64;
                let end = start + format.bytes(part.len() / format.host_size());
                let view = staging.buffer.get_mapped_range_mut(start..end)?;
                parts.push((view, format, part));
            }
        }
        for_each(parts, || (), |(), (mut view, format, part)| format.pack(part, view.slice(..)));
        Ok(())
    }
}

impl Engine {
    /// Packs a part of a run in `staging`, or in a buffer leased for it, and returns the copies to be made from there.
    pub fn pack(
        &self,
        inputs: &GpuRunInputs,
        buffers: &RunBuffers,
        part: UploadPart<'_>,
        staging: Option<Lease>,
        counts: &mut GpuCounts,
    ) -> Result<(Option<Lease>, Vec<StagedCopy>), Error> {
        let (uploads, sources) = StagedUploads::of(inputs, part, &self.device.limits);
        let mut data: SmallVec<[&[u8]; 4]> = SmallVec::new();
        let mut copies = Vec::with_capacity(sources.len());
        for (source, item) in sources.into_iter().zip(&uploads.items) {
            let (host, to) = match source {
                UploadSource::Params(words, block) => (bytemuck::cast_slice(words), block),
                UploadSource::Value { value, input, slot } => {
                    ((**inputs.host_data(value, input)?).as_ref(), buffers.slot(slot)?)
                }
            };
            data.push(host);
            copies.push(StagedCopy { from: item.range.clone(), to: to.clone() });
        }
        let upload = stage!(inputs.timeline, "upload", bytes = uploads.bytes());
        Ok((upload.of(|| self.stage(&uploads, &data, staging, counts))?, copies))
    }

    /// `staging` with the `data` of `uploads` in it, or a buffer leased for them, ready to be copied from; `None` if there
    /// are none.
    pub fn stage(
        &self,
        uploads: &StagedUploads,
        data: &[&[u8]],
        staging: Option<Lease>,
        counts: &mut GpuCounts,
    ) -> Result<Option<Lease>, DeviceError> {
        if uploads.bytes() == 0 {
            return Ok(None);
        }
        let staging = match staging {
            Some(staging) => staging,
            None => self.memory.lease(Kind::Staging, uploads.capacity(), counts)?,
        };
        staging.set_reusable(false);
        let lost = || self.device.confirm_loss("its staging memory cannot be mapped");
        let _mapped = staging.map().ok_or_else(lost)?;
        uploads.fill(data, &staging).map_err(|_| lost())?;
        driver::unscoped(|| staging.buffer.unmap());
        counts.uploads += 1;
        counts.bytes_up += uploads.bytes();
        Ok(Some(staging))
    }
}
