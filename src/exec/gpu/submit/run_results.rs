//! Results of a run: in a mapped buffer, read in place or copied straight to the user's memory; or in buffers that stay on
//! the device.

use std::ops::Range;
use std::sync::Arc;

use super::run_inputs::HostData;
use crate::base::dtype::{DType, Element};
use crate::error::DeviceError;
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::memory::{DeviceBuffer, DeviceFormat, Readback};
use crate::exec::memory::{self, LARGE_RESULT, PART};
use crate::exec::threads::{for_each, off_thread};
use crate::exec::{FailedElement, HostBuffer};

/// The results of a run. Those in the readback come with its end.
pub(crate) struct GpuRunResults {
    /// `None` before the end of the run, or if nothing comes back.
    pub(crate) readback: Option<Arc<Readback>>,
    pub(crate) outputs: Vec<RunOutput>,
    /// The bytes of the readback buffer that tell failures.
    pub(crate) failures: Range<usize>,
    /// The site of the failure, if the run failed.
    pub failed: Option<FailedElement>,
    /// One for each of [`Plan::keeps`](crate::plan::Plan).
    pub kept: Vec<Arc<DeviceBuffer>>,
    pub counts: GpuCounts,
}

/// A downloaded value.
#[derive(Clone)]
pub(crate) struct RunOutput {
    pub dtype: DType,
    pub elements: usize,
    pub storage: DeviceFormat,
    pub source: OutputSource,
}

/// The place of a downloaded value.
#[derive(Clone)]
pub(crate) enum OutputSource {
    /// In the readback buffer, from this byte.
    Device(usize),
    /// On the host, where it always was: an upload that no kernel reads.
    Host(HostData),
}

impl GpuRunResults {
    /// The number of downloaded values.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    pub(crate) fn find_failure(&mut self) {
        let Some(readback) = &self.readback else { return };
        let words = readback.bytes()[self.failures.clone()].chunks_exact(4);
        let words =
            words.map(|word| word.iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte)));
        let failed = (0..).zip(words).find(|&(_, word)| word != 0);
        self.failed = failed.map(|(site, word)| FailedElement { site, at: !word });
    }

    /// A downloaded value, which outlives the run.
    ///
    /// # Panics
    /// If `index` is no position in the plan's downloads.
    pub fn download(&self, index: usize) -> Download {
        Download { output: self.outputs[index].clone(), readback: self.readback.clone() }
    }

    /// [`Download::to_vec`] of a downloaded value.
    #[cfg(test)]
    pub fn read<T: Element>(&self, index: usize) -> Vec<T> {
        self.download(index).to_vec()
    }
}

/// A downloaded value, in memory that is not used again before its last holder is gone.
pub(crate) struct Download {
    pub(crate) output: RunOutput,
    pub(crate) readback: Option<Arc<Readback>>,
}

impl Download {
    pub fn len(&self) -> usize {
        self.output.elements
    }

    /// Bytes that the elements take on the host.
    pub fn bytes(&self) -> usize {
        self.output.elements * self.output.dtype.size()
    }

    /// The elements in place; `None` if they lie there in another form than on the host.
    pub fn in_place<T: Element>(&self) -> Option<&[T]> {
        let alike = matches!(self.output.storage, DeviceFormat::Same(_)) || self.is_on_host();
        let bytes = (alike && self.output.dtype == T::DTYPE).then(|| self.stored(0, self.len()))?;
        T::in_place(bytes)
    }

    fn is_on_host(&self) -> bool {
        matches!(self.output.source, OutputSource::Host(_))
    }

    /// `count` elements from the element `start`, in the form in which they lie.
    fn stored(&self, start: usize, count: usize) -> &[u8] {
        let RunOutput { dtype, storage, source, .. } = &self.output;
        match source {
            OutputSource::Host(data) => {
                &(**data).as_ref()[start * dtype.size()..][..count * dtype.size()]
            }
            OutputSource::Device(first) => {
                let bytes = self.readback.as_ref().map_or(&[][..], |readback| readback.bytes());
                &bytes[first + start * storage.size()..][..count * storage.size()]
            }
        }
    }

    /// Copies as many elements as `out` has, from the element `start`.
    ///
    /// # Panics
    /// If there are fewer elements, or they are of another type.
    pub fn copy_out<T: Element>(&self, start: usize, out: &mut [T]) {
        assert_eq!(self.output.dtype, T::DTYPE, "the element type of the value");
        // SAFETY: an `Element` has no padding (it is `NoUninit`), so its bytes are all initialised, and
        // every byte pattern that `unpack` writes is valid: it unpacks numbers, for which any is, and
        // truth values only as 0 or 1, or as they are where they are the host's own.
        let host = unsafe {
            std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), size_of_val(out))
        };
        self.unpack(start, host);
    }

    /// Fills `host` with the elements from the element `start` on.
    fn unpack(&self, start: usize, host: &mut [u8]) {
        let RunOutput { dtype, storage, .. } = self.output;
        let storage = if self.is_on_host() { DeviceFormat::Same(dtype.size()) } else { storage };
        let stored = self.stored(start, host.len() / dtype.size());
        if host.len() < LARGE_RESULT {
            return storage.unpack(stored, host);
        }
        let elements = PART / storage.size();
        let host = host.chunks_mut(elements * storage.host_size());
        let parts = host.zip(stored.chunks(elements * storage.size()));
        for_each(parts.collect(), || (), |(), (host, stored)| storage.unpack(stored, host));
    }

    pub fn to_host(&self) -> Result<HostBuffer, DeviceError> {
        let mut host = HostBuffer::try_zeroed(self.output.dtype, self.len())?;
        self.unpack(0, host.bytes_mut());
        Ok(host)
    }

    /// `values` with all elements in it from `start`, copied on another thread if they are many.
    ///
    /// # Panics
    /// As [`copy_out`](Self::copy_out).
    pub async fn copied_into<T: Element>(self, mut values: Vec<T>, start: usize) -> Vec<T> {
        let (len, bytes) = (self.len(), self.len() * size_of::<T>());
        let copy = move || {
            self.copy_out(0, &mut values[start..start + len]);
            values
        };
        if bytes < LARGE_RESULT { copy() } else { off_thread(copy).await }
    }

    /// All elements in a vector.
    ///
    /// # Panics
    /// If they are of another type.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        let mut values = memory::zeroed(self.len());
        self.copy_out(0, &mut values);
        values
    }
}
