//! What a run hands out: results in a mapped buffer, copied straight to where the user wants
//! them, and buffers that stay on the device.

use std::sync::Arc;

use super::GpuCounts;
use super::convert::Storage;
use super::flight::Readback;
use super::native::parallel;
use super::resident::DeviceBuffer;
use super::trip::HostData;
use crate::dtype::{DType, Element};

/// Host bytes from which the copying is shared among threads.
const PARALLEL: usize = 8 << 20;
/// Elements that a thread takes at a time.
const PART: usize = 1 << 20;

/// A finished run.
pub(crate) struct GpuRun {
    pub(super) readback: Option<Readback>,
    pub(super) outputs: Vec<Output>,
    /// One for each of [`Plan::keeps`](crate::plan::Plan).
    pub kept: Vec<Arc<DeviceBuffer>>,
    pub counts: GpuCounts,
}

/// A downloaded value.
pub(super) struct Output {
    pub dtype: DType,
    pub elements: usize,
    pub storage: Storage,
    pub source: Source,
}

/// Where a downloaded value lies.
pub(super) enum Source {
    /// In the readback buffer, from this byte.
    Device(usize),
    /// On the host, where it was all the time: an upload that no kernel reads.
    Host(HostData),
}

impl GpuRun {
    /// The number of downloaded values.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Element type and number of elements of a downloaded value.
    pub fn output(&self, index: usize) -> (DType, usize) {
        let output = &self.outputs[index];
        (output.dtype, output.elements)
    }

    /// Copies a downloaded value to `host`, in the host's representation.
    ///
    /// # Panics
    /// If `index` is no position in the plan's downloads or `host` has not the value's size.
    pub fn copy_out(&self, index: usize, host: &mut [u8]) {
        let output = &self.outputs[index];
        let storage = output.storage;
        assert_eq!(host.len(), output.elements * output.dtype.size(), "the size of the value");
        let start = match &output.source {
            Source::Device(start) => *start,
            Source::Host(data) => return host.copy_from_slice((**data).as_ref()),
        };
        let stored = self.readback.as_ref().map_or(&[][..], Readback::bytes);
        let stored = &stored[start..start + output.elements * storage.size()];
        if host.len() < PARALLEL {
            return storage.unpack(stored, host);
        }
        let host_parts = host.chunks_mut(PART * storage.host_size());
        let parts = host_parts.zip(stored.chunks(PART * storage.size())).collect();
        parallel(parts, |(host, stored)| storage.unpack(stored, host));
    }

    /// A downloaded value as a vector.
    ///
    /// # Panics
    /// If `index` is no position in the plan's downloads or the value has another element type.
    pub fn read<T: Element>(&self, index: usize) -> Vec<T> {
        let (dtype, elements) = self.output(index);
        assert_eq!(dtype, T::DTYPE, "the element type of the value");
        let mut values = vec![T::default(); elements];
        // SAFETY: an `Element` has no padding (it is `NoUninit`), so its bytes are all initialised, and
        // every byte pattern that `copy_out` writes is valid: it unpacks numbers, for which any is, and
        // truth values only as 0 or 1.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(
                values.as_mut_ptr().cast::<u8>(),
                elements * size_of::<T>(),
            )
        };
        self.copy_out(index, bytes);
        values
    }
}
