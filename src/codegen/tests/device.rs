//! Runs dispatches on whatever adapter there is.

use std::sync::OnceLock;

use half::f16;

use super::case::Case;
use crate::base::dtype::DType;
use crate::base::test_device::found;
use crate::codegen::{BufferRef, Dispatch};
use crate::cost::Limits;

const POISON: u8 = 0xcd;
const GUARD_BYTES: usize = 64;

struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    f16: bool,
    subgroups: bool,
}

fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    GPU.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        found(runtime.block_on(open()))
    })
    .as_ref()
}

async fn open() -> Result<Gpu, String> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await;
    let adapter = adapter.map_err(|error| error.to_string())?;
    let wanted =
        wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP | wgpu::Features::SHADER_INT64;
    let features = adapter.features() & wanted;
    let descriptor = wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: adapter.limits(),
        ..Default::default()
    };
    let opened = adapter.request_device(&descriptor).await;
    let (device, queue) = opened.map_err(|error| error.to_string())?;
    let f16 = features.contains(wgpu::Features::SHADER_F16);
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    Ok(Gpu { device, queue, f16, subgroups })
}

/// Runs `case` on the adapter, if there is one that holds what `limits` says, and compares.
pub(super) fn check(case: &Case, limits: &Limits) {
    let Some(gpu) = gpu() else { return };
    let features = gpu.device.features();
    let int64 = features.contains(wgpu::Features::SHADER_INT64);
    if limits.f16 && !gpu.f16
        || limits.subgroups.is_some() && !gpu.subgroups
        || limits.int64 && !int64
    {
        return;
    }
    let dispatches = case.lower(limits);
    let got = gpu.run(case, limits, &dispatches);
    for (index, want) in case.expected().iter().enumerate() {
        let dtype = case.step.outputs[index].dtype;
        let tolerance = match dtype {
            DType::F16 => case.tolerance.max(1.5e-3),
            DType::F32 => case.tolerance,
            _ => 0.0,
        };
        for (at, (&got, &want)) in got[index].iter().zip(want).enumerate() {
            let near = got == want
                || (got.is_nan() && want.is_nan())
                || (got - want).abs() <= tolerance * (1.0 + want.abs());
            let text = &dispatches[0].wgsl;
            let form = &case.step.form;
            assert!(near, "{form:?}: output {index}[{at}]: {got} for {want}\n{text}");
        }
    }
}

impl Gpu {
    fn run(&self, case: &Case, limits: &Limits, dispatches: &[Dispatch]) -> Vec<Vec<f64>> {
        let values: Vec<wgpu::Buffer> = (0..case.plan.values.len())
            .map(|v| self.buffer(&encode(case, v, limits), wgpu::BufferUsages::STORAGE))
            .collect();
        let words = case.step.scratch.map_or(1, |s| s.words as usize);
        let scratch = self.buffer(&vec![POISON; words * 4], wgpu::BufferUsages::STORAGE);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        for dispatch in dispatches {
            self.encode(&mut encoder, dispatch, &values, &scratch);
        }
        let outputs = case.step.outputs.iter();
        let readbacks: Vec<wgpu::Buffer> = outputs
            .map(|output| {
                let source = &values[output.value.index()];
                let readback = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: source.size(),
                    usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
                    mapped_at_creation: false,
                });
                encoder.copy_buffer_to_buffer(source, 0, &readback, 0, source.size());
                readback
            })
            .collect();
        self.queue.submit([encoder.finish()]);
        for readback in &readbacks {
            readback.slice(..).map_async(wgpu::MapMode::Read, |result| result.unwrap());
        }
        self.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let outputs = case.step.outputs.iter().zip(&readbacks);
        outputs
            .map(|(output, readback)| {
                let bytes = readback.slice(..).get_mapped_range().unwrap();
                let elements = case.plan.values[output.value.index()].shape.elements();
                decode(&bytes, output.dtype, elements, limits)
            })
            .collect()
    }

    fn buffer(&self, content: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: content.len() as u64,
            usage: usage | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: true,
        });
        buffer.get_mapped_range_mut(..).unwrap().copy_from_slice(content);
        buffer.unmap();
        buffer
    }

    fn encode(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        dispatch: &Dispatch,
        values: &[wgpu::Buffer],
        scratch: &wgpu::Buffer,
    ) {
        let source = wgpu::ShaderSource::Wgsl(dispatch.wgsl.as_str().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        let checks = wgpu::ShaderRuntimeChecks::unchecked();
        // SAFETY: the kernels under test keep their indices in range and their loops bounded; a
        // failure of that is what the guard bytes and the comparison are for.
        let module = unsafe { self.device.create_shader_module_trusted(descriptor, checks) };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        let params = bytemuck::cast_slice(&dispatch.params);
        let params = self.buffer(params, wgpu::BufferUsages::UNIFORM);
        let buffers = dispatch.buffers.iter().map(|b| match b.buffer {
            BufferRef::Value(value) => &values[value.index()],
            BufferRef::Slot(_) => scratch,
            BufferRef::Failures => unreachable!("no step made by hand can fail"),
        });
        let entries: Vec<wgpu::BindGroupEntry<'_>> = std::iter::once(&params)
            .chain(buffers)
            .zip(0..)
            .map(|(b, binding)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        let [x, y, z] = dispatch.groups;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// The bytes of a value, poisoned where it has no data, and a poisoned guard after it.
fn encode(case: &Case, value: usize, limits: &Limits) -> Vec<u8> {
    let dtype = case.plan.values[value].dtype;
    let stored = limits.stored(dtype).bytes() as usize;
    let mut bytes = Vec::new();
    for &number in &case.data[value] {
        match dtype {
            DType::F16 if limits.f16 => bytes.extend(f16::from_f64(number).to_le_bytes()),
            DType::F32 | DType::F16 => bytes.extend((number as f32).to_le_bytes()),
            DType::I32 => bytes.extend((number as i32).to_le_bytes()),
            DType::U32 | DType::Bool => bytes.extend((number as u32).to_le_bytes()),
        }
    }
    let elements = case.plan.values[value].shape.elements();
    bytes.resize((elements * stored).next_multiple_of(4) + GUARD_BYTES, POISON);
    bytes
}

fn decode(bytes: &[u8], dtype: DType, elements: usize, limits: &Limits) -> Vec<f64> {
    let stored = limits.stored(dtype).bytes() as usize;
    let (content, guard) = bytes.split_at(elements * stored);
    assert!(guard.iter().all(|&b| b == POISON), "written past the end");
    content
        .chunks(stored)
        .map(|b| match (dtype, b) {
            (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
            (DType::F32 | DType::F16, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]).into(),
            (DType::I32, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]).into(),
            (_, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
            _ => panic!("an element of {} bytes", b.len()),
        })
        .collect()
}
