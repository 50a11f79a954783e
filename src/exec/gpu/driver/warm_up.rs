//! A device's driver loads its compilers while the device is opened.
//!
//! Quirks:
//! - A driver loads its compiler with the first kernel of a process, and registers an exit handler that unloads it. An
//!   exit handler of ours that was registered before runs too late. Seen with NVIDIA 580.159.04 on an H200 and Mesa's
//!   lavapipe: 10 of 144 processes crashed.
//! - A kernel found in Mesa's cache on disk does not load the compiler: 6 of 18 processes crashed. So on software
//!   adapters the kernel holds a number that other processes hardly ever have.
//! - lavapipe compiles once more where a kernel first computes. So the kernel is run.
//!
//! Test: `tests/exits.rs` (`Exit`, `ExitFound`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::calls::Calls;
use super::exit_guard;
use super::guarded_device::GuardedDevice;
use crate::base::sync::Mutex;
use crate::error::DeviceError;
use crate::exec::threads::off_thread;

impl GuardedDevice {
    /// Has the driver load its compilers, unless that was done before or the end of the process needs not wait for them. A
    /// failure here is not reported: a run fails for the same reason, and reports it.
    pub(super) async fn warm_up(self: &Arc<Self>) {
        static WARM: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let version = self.info.driver.clone();
        if !cfg!(target_os = "linux") || WARM.lock().contains(&version) {
            return;
        }
        let device = Arc::clone(self);
        if off_thread(move || device.run_first_kernel()).await.is_ok() {
            WARM.lock().push(version);
        }
    }

    fn run_first_kernel(&self) -> Result<(), DeviceError> {
        // A number that other processes hardly ever have.
        let nonce = || RandomState::new().hash_one(()) as u32;
        let nonce = if self.info.software { nonce() } else { 0 };
        // Held until the kernel has run, even if nobody awaits the device any more.
        let _work = exit_guard::work()?;
        let doing = || "running a first kernel".into();
        let submission = self.scoped(doing, |calls| calls.submit(record(calls, &kernel(nonce))))?;
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: None };
        let _ = self.poll(wait);
        Ok(())
    }
}

/// Compiles a kernel that binds nothing, and records its dispatch.
fn record(calls: &Calls<'_>, wgsl: &str) -> wgpu::CommandBuffer {
    let label = Some("onetrip first");
    let source = wgpu::ShaderSource::Wgsl(wgsl.into());
    let module = calls.create_shader_module(wgpu::ShaderModuleDescriptor { label, source });
    let pipeline = calls.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    calls.commands(|encoder| {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.dispatch_workgroups(1, 1, 1);
    })
}

/// A kernel that binds nothing, another one for each number.
fn kernel(number: u32) -> String {
    format!(
        "
        var<workgroup> sum: atomic<u32>;

        @compute @workgroup_size(64)
        fn main(@builtin(local_invocation_index) at: u32) {{
            atomicAdd(&sum, at ^ {number}u);
        }}
    "
    )
}
