//! Loading a driver's compiler. Drivers do so with the first kernel of a process, and unload it at the end before whoever
//! registered earlier is asked: then nobody could wait for what is being compiled.

use std::sync::{Mutex, PoisonError};

use super::Gpu;
use super::kernels::Compiler;
use crate::codegen::{Binding, BufferRef, Dispatch};
use crate::plan::ValueId;
use crate::run::threads::off_thread;

impl Gpu {
    /// Has the driver load its compiler, where the end of the process must wait for it and nobody did this before. What
    /// fails here fails again in a run, which tells of it.
    pub(super) async fn load_compiler(&self) {
        static LOADED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let loaded = || LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = &self.0.info.driver;
        if !cfg!(target_os = "linux") || loaded().contains(driver) {
            return;
        }
        // Without an archive: a driver that finds a kernel on disk need not load its compiler.
        let compiler = Compiler::new(self.0.device.clone(), self.0.health.clone(), None);
        if off_thread(move || compiler.compile(&[kernel()])).await.is_ok() {
            loaded().push(driver.clone());
        }
    }
}

/// The least that takes a compiler.
fn kernel() -> Dispatch {
    let wgsl = "
        @group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;

        @compute @workgroup_size(1)
        fn main() {
            out[0] = params[0].x;
        }
    ";
    Dispatch {
        label: "first".into(),
        wgsl: wgsl.into(),
        own: None,
        buffers: vec![Binding { buffer: BufferRef::Value(ValueId(0)), writes: true }],
        params: vec![0; 4],
        groups: [1; 3],
    }
}
