//! Bare wgpu without any engine: the floor that the engine is measured against.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onetrip::Device;
use wgpu::{BufferUsages, MapMode};

/// A dispatch has at most this many workgroups a dimension.
const MOST_GROUPS: u64 = 65_535;
const GROUP: u64 = 256;
const VECTOR: u64 = 16;
/// Vectors that a thread moves, so that several loads are under way.
const EACH: u64 = 4;

const RELU: &str = "
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(256)
fn relu(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = (group.y * groups.x + group.x) * 1024u + lane;
    for (var k = 0u; k < 4u; k++) {
        let i = first + 256u * k;
        if i < arrayLength(&y) {
            y[i] = max(x[i], vec4<f32>());
        }
    }
}
";

/// An open adapter with one compiled kernel.
pub struct Floor {
    device: wgpu::Device,
    queue: wgpu::Queue,
    relu: wgpu::ComputePipeline,
    /// Bytes of the largest binding.
    pub binding_bytes: u64,
}

impl Floor {
    /// Opens the adapter that `like` runs on.
    pub async fn open(like: &Device) -> Result<Self, Box<dyn Error>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let name = &like.info().name;
        let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
        let adapter = adapters
            .into_iter()
            .find(|adapter| &adapter.get_info().name == name)
            .ok_or_else(|| format!("bare wgpu does not find {name}"))?;
        let limits = adapter.limits();
        let descriptor =
            wgpu::DeviceDescriptor { required_limits: limits.clone(), ..Default::default() };
        let (device, queue) = adapter.request_device(&descriptor).await?;
        // SAFETY: the kernel compares its only index with the length of `y`, and `run` gives it an
        // `x` of the same length.
        let module = unsafe {
            device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor {
                    label: Some("relu"),
                    source: wgpu::ShaderSource::Wgsl(RELU.into()),
                },
                wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        let relu = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("relu"),
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        Ok(Self {
            device,
            queue,
            relu,
            binding_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
        })
    }

    fn buffer(&self, bytes: u64, usage: BufferUsages) -> wgpu::Buffer {
        let descriptor =
            wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
        self.device.create_buffer(&descriptor)
    }

    /// relu from one resident buffer of `bytes` to another.
    pub fn copy(&self, bytes: u64) -> Copy<'_> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let (x, y) = (self.buffer(bytes, usage), self.buffer(bytes, usage));
        let bindings = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.relu.get_bind_group_layout(0),
            entries: &[entry(0, &x), entry(1, &y)],
        });
        Copy { floor: self, x, y, bindings }
    }

    /// Host to host through pooled buffers.
    pub fn round_trip(&self, elements: usize) -> Result<RoundTrip<'_>, Box<dyn Error>> {
        let bytes = 4 * elements as u64;
        let up = self.buffer(bytes, BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC);
        let down = self.buffer(bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        up.map_async(MapMode::Write, .., drop);
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(RoundTrip { copy: self.copy(bytes), up, down })
    }

    fn submit(&self, encoder: wgpu::CommandEncoder) -> Result<(), Box<dyn Error>> {
        let index = self.queue.submit([encoder.finish()]);
        let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
        self.device.poll(wait)?;
        Ok(())
    }

    /// As [`submit`](Self::submit), but asks again and again: drivers wake late who waits.
    fn submit_and_poll(&self, encoder: wgpu::CommandEncoder) -> Result<(), Box<dyn Error>> {
        let done = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&done);
        encoder.on_submitted_work_done(move || tell.store(true, Ordering::Release));
        self.queue.submit([encoder.finish()]);
        while !done.load(Ordering::Acquire) {
            self.device.poll(wgpu::PollType::Poll)?;
        }
        Ok(())
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }
}

/// One dispatch between resident buffers.
pub struct Copy<'f> {
    floor: &'f Floor,
    x: wgpu::Buffer,
    y: wgpu::Buffer,
    bindings: wgpu::BindGroup,
}

impl Copy<'_> {
    /// Submits it and waits.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        let mut encoder = self.floor.encoder();
        self.encode(&mut encoder);
        self.floor.submit(encoder)
    }

    /// The driver's own copy of the same bytes, submitted and waited for.
    pub fn run_driver(&self) -> Result<(), Box<dyn Error>> {
        let mut encoder = self.floor.encoder();
        encoder.copy_buffer_to_buffer(&self.x, 0, &self.y, 0, self.y.size());
        self.floor.submit(encoder)
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        let groups = self.y.size().div_ceil(VECTOR * GROUP * EACH);
        let rows = groups.div_ceil(MOST_GROUPS);
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.floor.relu);
        pass.set_bind_group(0, &self.bindings, &[]);
        pass.dispatch_workgroups(groups.div_ceil(rows) as u32, rows as u32, 1);
    }
}

/// One upload, one dispatch, one download.
pub struct RoundTrip<'f> {
    copy: Copy<'f>,
    up: wgpu::Buffer,
    down: wgpu::Buffer,
}

impl RoundTrip<'_> {
    /// relu of `x`.
    pub fn run(&self, x: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
        self.run_with(x, Floor::submit)
    }

    /// As [`run`](Self::run), without the time that a wait ends late.
    pub fn run_polling(&self, x: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
        self.run_with(x, Floor::submit_and_poll)
    }

    /// The one wait, at the end of `submit`, also maps the upload buffer again for the next call.
    fn run_with(
        &self,
        x: &[f32],
        submit: impl Fn(&Floor, wgpu::CommandEncoder) -> Result<(), Box<dyn Error>>,
    ) -> Result<Vec<f32>, Box<dyn Error>> {
        self.up.get_mapped_range_mut(..)?.copy_from_slice(bytemuck::cast_slice(x));
        self.up.unmap();
        let bytes = self.up.size();
        let mut encoder = self.copy.floor.encoder();
        encoder.copy_buffer_to_buffer(&self.up, 0, &self.copy.x, 0, bytes);
        self.copy.encode(&mut encoder);
        encoder.copy_buffer_to_buffer(&self.copy.y, 0, &self.down, 0, bytes);
        encoder.map_buffer_on_submit(&self.up, MapMode::Write, .., drop);
        encoder.map_buffer_on_submit(&self.down, MapMode::Read, .., drop);
        submit(self.copy.floor, encoder)?;
        let y = bytemuck::pod_collect_to_vec(&self.down.get_mapped_range(..)?);
        self.down.unmap();
        Ok(y)
    }
}

fn entry(binding: u32, buffer: &wgpu::Buffer) -> wgpu::BindGroupEntry<'_> {
    wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }
}
