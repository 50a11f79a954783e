//! The network in bare wgpu: three hand-written kernels, everything made beforehand, one upload, one submit, one
//! download a run.

use std::error::Error;
use std::sync::Arc;

use onetrip::Device;
use wgpu::{BufferUsages, MapMode};

use crate::network::{LAYERS, ROWS, weights};

/// relu(x·w + b), or without relu in the last layer, in tiles of 16 by 16. Bindings: x, w, b, y.
const LAYER: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
const K = INNER;
const N = OUTER;
var<workgroup> xs: array<array<f32, 16>, 16>;
var<workgroup> ws: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) at: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    var sum = 0.0;
    for (var k = 0u; k < K; k += 16u) {
        xs[local.y][local.x] = x[at.y * K + k + local.x];
        if at.x < N {
            ws[local.y][local.x] = w[(k + local.y) * N + at.x];
        }
        workgroupBarrier();
        for (var i = 0u; i < 16u; i++) {
            sum = fma(xs[local.y][i], ws[i][local.x], sum);
        }
        workgroupBarrier();
    }
    if at.x < N {
        y[at.y * N + at.x] = ACTIVATION(sum + b[at.x]);
    }
}
";

/// An open adapter with the network's kernels and weights.
pub struct Bare {
    device: wgpu::Device,
    queue: wgpu::Queue,
    layers: Vec<Layer>,
}

struct Layer {
    kernel: wgpu::ComputePipeline,
    weights: [wgpu::Buffer; 2],
    groups: [u32; 2],
}

impl Bare {
    /// Opens the adapter that `like` runs on.
    pub async fn open(like: &Device) -> Result<Arc<Self>, Box<dyn Error>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
        let mut adapters = adapters.into_iter();
        let adapter = adapters.find(|adapter| adapter.get_info().name == like.info().name);
        let adapter = adapter.ok_or("bare wgpu does not find the adapter")?;
        let (device, queue) = adapter.request_device(&wgpu::DeviceDescriptor::default()).await?;
        let layers = (0..LAYERS.len()).map(|at| Layer::new(&device, &queue, at)).collect();
        Ok(Arc::new(Self { device, queue, layers }))
    }
}

impl Layer {
    fn new(device: &wgpu::Device, queue: &wgpu::Queue, at: usize) -> Self {
        let [inner, outer] = LAYERS[at];
        let activation = if at + 1 < LAYERS.len() { "max(0.0, " } else { "(" };
        let text = LAYER
            .replace("INNER", &format!("{inner}u"))
            .replace("OUTER", &format!("{outer}u"))
            .replace("ACTIVATION(", activation);
        let source = wgpu::ShaderSource::Wgsl(text.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        // SAFETY: rows are a multiple of 16 and so is `K`; columns are compared with `N`.
        let module = unsafe {
            device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        };
        let kernel = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let weights = weights(at).map(|data| {
            let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST;
            let buffer = buffer(device, data.len(), usage);
            queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&data));
            buffer
        });
        Self { kernel, weights, groups: [outer.div_ceil(16) as u32, (ROWS / 16) as u32] }
    }
}

/// The buffers of one caller.
pub struct Lane {
    bare: Arc<Bare>,
    up: wgpu::Buffer,
    input: wgpu::Buffer,
    output: wgpu::Buffer,
    down: wgpu::Buffer,
    bindings: Vec<wgpu::BindGroup>,
}

impl Lane {
    pub fn new(bare: &Arc<Bare>) -> Result<Self, Box<dyn Error>> {
        let device = &bare.device;
        let up =
            buffer(device, ROWS * LAYERS[0][0], BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC);
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let input = buffer(device, ROWS * LAYERS[0][0], usage);
        let mut output = input.clone();
        let mut bindings = Vec::new();
        for (layer, [_, outer]) in bare.layers.iter().zip(LAYERS) {
            let y = buffer(device, ROWS * outer, usage);
            let all = [&output, &layer.weights[0], &layer.weights[1], &y];
            let entries: Vec<_> = (0..)
                .zip(all)
                .map(|(binding, buffer)| wgpu::BindGroupEntry {
                    binding,
                    resource: buffer.as_entire_binding(),
                })
                .collect();
            bindings.push(device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &layer.kernel.get_bind_group_layout(0),
                entries: &entries,
            }));
            output = y;
        }
        let down = ROWS * LAYERS[LAYERS.len() - 1][1];
        let down = buffer(device, down, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        up.map_async(MapMode::Write, .., drop);
        device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(Self { bare: Arc::clone(bare), up, input, output, down, bindings })
    }

    /// The network of `x`. The one wait also maps the upload buffer again.
    pub fn run(&self, x: &[f32]) -> Result<Vec<f32>, Box<dyn Error>> {
        self.up.get_mapped_range_mut(..)?.copy_from_slice(bytemuck::cast_slice(x));
        self.up.unmap();
        let Bare { device, queue, layers } = &*self.bare;
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&self.up, 0, &self.input, 0, self.up.size());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (layer, bindings) in layers.iter().zip(&self.bindings) {
            pass.set_pipeline(&layer.kernel);
            pass.set_bind_group(0, bindings, &[]);
            pass.dispatch_workgroups(layer.groups[0], layer.groups[1], 1);
        }
        drop(pass);
        encoder.copy_buffer_to_buffer(&self.output, 0, &self.down, 0, self.down.size());
        encoder.map_buffer_on_submit(&self.up, MapMode::Write, .., drop);
        encoder.map_buffer_on_submit(&self.down, MapMode::Read, .., drop);
        let index = queue.submit([encoder.finish()]);
        device.poll(wgpu::PollType::Wait { submission_index: Some(index), timeout: None })?;
        let y = bytemuck::pod_collect_to_vec(&self.down.get_mapped_range(..)?);
        self.down.unmap();
        Ok(y)
    }
}

fn buffer(device: &wgpu::Device, elements: usize, usage: BufferUsages) -> wgpu::Buffer {
    let size = 4 * elements as u64;
    device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage,
        mapped_at_creation: false,
    })
}
