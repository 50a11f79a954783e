//! Compiled pipelines on disk, from process to process: for each a blob of the driver's own, if the backend has such.
//!
//! Quirk: a driver compiles a kernel in 7 to 120 ms and takes its blob in 0.1 to 0.3 ms (NVIDIA 580.159.04 on an H200). Two
//! blobs of one kernel may differ, so that a file is known by its key alone. Test: `exec/gpu/tests/disk.rs`.

use std::sync::Arc;

use crate::base::disk::cache::{Store, hash};
use crate::base::disk::writer::DiskWriter;
use crate::exec::gpu::driver::{Calls, GuardedDevice, WgpuHandle};

/// The pipelines of one adapter, driver and version of this crate.
pub(crate) struct PipelineStore {
    store: Arc<Store>,
    /// The start of the key of every pipeline.
    prefix: String,
    writer: DiskWriter,
}

/// The place of one pipeline.
pub(crate) struct PipelineEntry {
    /// The driver looks here while it compiles, and adds compiled kernels.
    pub cache: WgpuHandle<wgpu::PipelineCache>,
    key: String,
    /// Bytes that were on disk.
    found: usize,
}

impl PipelineStore {
    /// `None` if the backend keeps no pipelines.
    pub fn open(device: &GuardedDevice, store: Arc<Store>) -> Option<Self> {
        if !device.has(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let info = &device.info;
        let adapter = info.cache_key.as_ref()?;
        let (version, driver) = (env!("CARGO_PKG_VERSION"), &info.driver);
        let prefix = format!("pipeline {version} {adapter} {} {driver}", info.name);
        Some(Self { store, prefix, writer: DiskWriter::default() })
    }

    /// The place of the pipeline of a kernel that `text` and `layout` describe, made with the data on disk.
    pub fn open_entry(&self, calls: &Calls<'_>, text: &str, layout: &str) -> PipelineEntry {
        let text = hash(text.as_bytes());
        let key = format!("{} {layout} {text:016x}", self.prefix);
        let found = self.store.load(&key);
        // SAFETY: the store returns the bytes that `keep` gave it under this key, and checks both. So the data comes
        // from wgpu's `get_data` on the adapter, driver and backend that the key names. No other user can write to the
        // folder of the store.
        let cache = unsafe {
            calls.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: Some("onetrip"),
                data: found.as_deref(),
                fallback: true,
            })
        };
        PipelineEntry { cache: cache.into(), key, found: found.map_or(0, |found| found.len()) }
    }

    /// Has the additions of the driver to an entry written to disk in the background.
    pub fn keep(&self, entry: PipelineEntry) {
        let PipelineEntry { cache, key, found } = entry;
        let Some(data) = cache.get_data().filter(|data| data.len() > found) else { return };
        let store = Arc::clone(&self.store);
        // If nothing can be written, the next process compiles again.
        self.writer.spawn(move || drop(store.save(&key, &data)));
    }
}
