//! Loading what a driver compiles with. Drivers do so with the first kernel of a process, and unload it at the end before
//! whoever registered earlier is asked: then nobody could wait for what is being compiled.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use crate::base::sync::Mutex;
use crate::codegen::Dispatch;
use crate::error::DeviceError;
use crate::exec::gpu::compile::compiler::Compiler;
use crate::exec::gpu::compile::pipelines::Pipeline;
use crate::exec::gpu::driver::exit_guard;
use crate::exec::gpu::driver::health::Scope;
use crate::exec::gpu::{Gpu, Shared};
use crate::exec::threads::off_thread;

impl Gpu {
    /// Has the driver load its compilers, where the end of the process must wait for them and nobody did this before. What
    /// fails here fails again in a run, which tells of it.
    pub(crate) async fn load_compilers(&self) {
        static LOADED: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let loaded = || LOADED.lock();
        let shared = Arc::clone(&self.0);
        let driver = shared.info.driver.clone();
        if !cfg!(target_os = "linux") || loaded().contains(&driver) {
            return;
        }
        if off_thread(move || shared.run_first()).await.is_ok() {
            loaded().push(driver);
        }
    }
}

impl Shared {
    /// Compiles a kernel and runs it: software adapters compile once more where they compute.
    fn run_first(&self) -> Result<(), DeviceError> {
        // Without an archive: a driver that finds a kernel on disk need not load its compiler. Mesa's software one keeps
        // what it compiles where we do not see it.
        let compiler = Compiler::new(self.device.clone(), Arc::clone(&self.health), None);
        let first = kernel(if self.info.software { process_nonce() } else { 0 });
        let pipelines = compiler.compile(&[first])?.pipelines;
        let _at_work = exit_guard::enter()?;
        let scope = Scope::open(&self.device, &self.health);
        let mut encoder = self.encoder();
        pipelines.iter().for_each(|pipeline| self.dispatch(&mut encoder, pipeline));
        let submission_index = Some(self.health.submit(&self.queue, encoder.finish())?);
        let wait = wgpu::PollType::Wait { submission_index, timeout: None };
        let _ = self.health.poll(&self.device, wait);
        scope.close(|| "running a first kernel".into())
    }

    fn dispatch(&self, encoder: &mut wgpu::CommandEncoder, pipeline: &Pipeline) {
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("onetrip first"),
            layout: &pipeline.layout.group,
            entries: &[],
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline.raw);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
}

/// A number that other processes hardly ever have.
fn process_nonce() -> u32 {
    RandomState::new().hash_one(()) as u32
}

/// One that binds nothing, for each number another.
fn kernel(number: u32) -> Dispatch {
    let wgsl = format!(
        "
        var<workgroup> sum: atomic<u32>;

        @compute @workgroup_size(64)
        fn main(@builtin(local_invocation_index) at: u32) {{
            atomicAdd(&sum, at ^ {number}u);
        }}
    "
    );
    Dispatch {
        label: "first".into(),
        wgsl,
        own: None,
        buffers: Vec::new(),
        params: Vec::new(),
        groups: [1; 3],
    }
}
