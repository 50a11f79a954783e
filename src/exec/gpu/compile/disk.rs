//! Compiled pipelines on disk, from process to process: a blob of the driver's own for each, where the backend
//! has such.

use std::sync::Arc;

use crate::base::disk_cache::{Store, hash};
use crate::base::disk_writer::DiskWriter;
use crate::exec::gpu::driver::adapter::GpuInfo;

/// The pipelines of one adapter, driver and version of this crate.
pub(crate) struct DiskCache {
    device: wgpu::Device,
    store: Arc<Store>,
    /// What the key of every pipeline starts with.
    prefix: String,
    background: DiskWriter,
}

/// The place of one pipeline.
pub(crate) struct Entry {
    /// For the driver to look in and write to while it compiles.
    pub cache: wgpu::PipelineCache,
    key: String,
    /// Bytes that were there already.
    found: usize,
}

impl DiskCache {
    /// `None` where the backend keeps no pipelines.
    pub fn open(device: &wgpu::Device, info: &GpuInfo, store: Arc<Store>) -> Option<Self> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let adapter = info.cache_key.as_ref()?;
        let (version, driver) = (env!("CARGO_PKG_VERSION"), &info.driver);
        let prefix = format!("pipeline {version} {adapter} {} {driver}", info.name);
        Some(Self { device: device.clone(), store, prefix, background: DiskWriter::default() })
    }

    /// What is known of the pipeline of a kernel that `text` and `layout` describe.
    pub fn find(&self, text: &str, layout: &str) -> Entry {
        let text = hash(text.as_bytes());
        let key = format!("{} {layout} {text:016x}", self.prefix);
        let found = self.store.load(&key);
        // SAFETY: what the store returns is byte for byte what `keep` gave it under this key (it checks
        // both), so it comes from wgpu's `get_data` on the same adapter, driver and backend, which the key
        // names. Its folder is the user's own, which no other user can write to.
        let cache = unsafe {
            self.device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: Some("onetrip"),
                data: found.as_deref(),
                fallback: true,
            })
        };
        Entry { cache, key, found: found.map_or(0, |found| found.len()) }
    }

    /// Has what the driver added to an entry written to disk, some time.
    pub fn keep(&self, entry: Entry) {
        let Entry { cache, key, found } = entry;
        let Some(data) = cache.get_data().filter(|data| data.len() > found) else { return };
        let store = Arc::clone(&self.store);
        // Where nothing can be written, pipelines are compiled again next time.
        self.background.spawn(move || drop(store.save(&key, &data)));
    }
}
