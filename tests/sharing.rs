//! One wgpu device for this crate and for wgpu code of the user's own.
#![cfg(feature = "gpu")]

mod common;
#[path = "common/own_device.rs"]
mod own_device;

use onetrip::wgpu::{self, BufferUsages};
use onetrip::{Backend, Device, DeviceError, Error, GpuCommandBatch, Recovery, RunError, bytemuck};
use own_device::open;

#[tokio::test]
async fn a_device_of_the_users_own_runs_batches() {
    let Some((adapter, device, queue)) = open(wgpu::Limits::default()).await else { return };
    let shared = Device::from_wgpu(&adapter, device.clone(), queue).expect("a usual device");
    assert!(shared.is_gpu());
    assert_eq!(shared.wgpu_device().as_ref(), Some(&device));
    let batch = GpuCommandBatch::new(&shared);
    let x: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let a = batch.upload_shaped(&x, [20, 50]);
    let b = batch.transpose(a);
    let total = batch.matmul(a, b).sum(..);
    batch.execute().await.expect("a run");
    let column = |k: usize| (0..20).map(|row| (row * 50 + k) as f64).sum::<f64>();
    let want: f64 = (0..50).map(|k| column(k) * column(k)).sum();
    let got = f64::from(batch.read(total).await.expect("a result")[0]);
    assert!((got - want).abs() <= 1e-5 * want, "{got} for {want}");
    drop(batch);
    drop(shared);
    // The caller's device is still open.
    let descriptor = wgpu::BufferDescriptor {
        label: None,
        size: 16,
        usage: BufferUsages::COPY_DST,
        mapped_at_creation: true,
    };
    assert!(device.create_buffer(&descriptor).get_mapped_range_mut(..).is_ok());
}

#[tokio::test]
async fn what_a_device_lacks_is_said() {
    let usual = wgpu::Limits::default;
    for (wanted, limits) in [
        (
            "max_storage_buffers_per_shader_stage 3, and at least 8",
            wgpu::Limits { max_storage_buffers_per_shader_stage: 3, ..usual() },
        ),
        ("max_bind_groups 0", wgpu::Limits { max_bind_groups: 0, ..usual() }),
        (
            "max_bindings_per_bind_group 8",
            wgpu::Limits { max_bindings_per_bind_group: 8, ..usual() },
        ),
        (
            "max_uniform_buffers_per_shader_stage 0",
            wgpu::Limits { max_uniform_buffers_per_shader_stage: 0, ..usual() },
        ),
        (
            "max_uniform_buffer_binding_size 16",
            wgpu::Limits { max_uniform_buffer_binding_size: 16, ..usual() },
        ),
        (
            "max_compute_workgroup_size_y 0",
            wgpu::Limits { max_compute_workgroup_size_y: 0, ..usual() },
        ),
        (
            "max_compute_workgroup_size_z 0",
            wgpu::Limits { max_compute_workgroup_size_z: 0, ..usual() },
        ),
    ] {
        let Some((adapter, device, queue)) = open(limits).await else { return };
        let error = Device::from_wgpu(&adapter, device, queue).expect_err("too low a limit");
        assert!(matches!(error, Error::Device(DeviceError::Lacks { .. })), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

/// The least that is enough beside the defaults: what a kernel with all operands binds still runs.
#[tokio::test]
async fn one_group_of_nine_bindings_is_enough() {
    let limits = wgpu::Limits {
        max_bind_groups: 1,
        max_bindings_per_bind_group: 9,
        max_uniform_buffers_per_shader_stage: 1,
        max_compute_workgroup_size_y: 1,
        max_compute_workgroup_size_z: 1,
        ..Default::default()
    };
    let Some((adapter, device, queue)) = open(limits).await else { return };
    let shared = Device::from_wgpu(&adapter, device, queue).expect("enough");
    let batch = GpuCommandBatch::new(&shared);
    let uploads: Vec<_> = (0..40_u16).map(|at| batch.upload(&[f32::from(at); 5])).collect();
    let sum = uploads.into_iter().reduce(|sum, x| batch.add(sum, x)).expect("forty");
    batch.execute().await.expect("a run");
    assert_eq!(batch.read(sum).await.expect("a result"), [780.0; 5]);
}

#[tokio::test]
async fn a_shared_device_is_opened_as_the_builder_was_told() {
    let Some((adapter, device, queue)) = open(wgpu::Limits::default()).await else { return };
    let builder = Device::builder().without_cache().memory_budget(1 << 20).recovery(Recovery::Cpu);
    let shared = builder.wgpu(&adapter, device, queue).expect("a usual device");
    let too_large = shared.eval(|b| b.arange(0.0_f32, 1e6, 1.0)).await.expect_err("a megabyte");
    assert!(matches!(too_large, Error::Run(RunError::OverBudget { .. })), "{too_large}");
    shared.simulate_loss();
    let batch = GpuCommandBatch::new(&shared);
    let y = batch.upload(&[1.0_f32, -2.0]).relu();
    batch.execute().await.expect("the cores go on");
    assert_eq!(batch.stats().backend, Some(Backend::Cpu));
    assert_eq!(batch.read(y).await.expect("a result"), [1.0, 0.0]);
}

/// A buffer that wgpu refuses: no memory is mapped for both.
const REFUSED: wgpu::BufferDescriptor<'_> = wgpu::BufferDescriptor {
    label: Some("both ways"),
    size: 16,
    usage: BufferUsages::MAP_READ.union(BufferUsages::MAP_WRITE),
    mapped_at_creation: false,
};

#[tokio::test]
async fn errors_of_the_users_own_fail_no_run() {
    let Some((adapter, device, queue)) = open(wgpu::Limits::default()).await else { return };
    let shared = Device::from_wgpu(&adapter, device.clone(), queue).expect("a usual device");
    let sum = async || {
        let x = shared.resident(&[1.0_f32, 2.0], 2)?;
        let batch = GpuCommandBatch::new(&shared);
        let (x, y) = (batch.bind(&x), batch.upload(&[10.0_f32, 20.0]));
        let sum = batch.add(x, y);
        let kept = batch.keep(sum);
        batch.download(sum);
        batch.execute().await?;
        assert_eq!(kept.read().await?, [11.0, 22.0]);
        batch.read(sum).await
    };
    // From this thread and from another, before and between runs.
    for _ in 0..2 {
        drop(device.create_buffer(&REFUSED));
        let elsewhere = device.clone();
        let thread = std::thread::spawn(move || drop(elsewhere.create_buffer(&REFUSED)));
        thread.join().expect("no panic");
        assert_eq!(sum().await.expect("a run"), [11.0, 22.0]);
    }
    // They are the user's to hear, by scopes and by a handler.
    let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
    drop(device.create_buffer(&REFUSED));
    assert!(scope.pop().await.is_some());
    let (tell, told) = std::sync::mpsc::channel();
    device.on_uncaptured_error(std::sync::Arc::new(move |error| {
        let _ = tell.send(error.to_string());
    }));
    drop(device.create_buffer(&REFUSED));
    assert!(told.recv().expect("an error").contains("both ways"));
    assert_eq!(sum().await.expect("a run"), [11.0, 22.0]);
    assert!(told.try_recv().is_err(), "runs cause none");
}

const DOUBLE: &str = "
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x < arrayLength(&data) { data[at.x] = 2.0 * data[at.x]; }
}";

/// Doubles what a buffer holds, by a kernel that this crate knows nothing of.
fn double(device: &wgpu::Device, queue: &wgpu::Queue, buffer: &wgpu::Buffer) {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(DOUBLE.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }],
    });
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(buffer.size().div_ceil(256) as u32, 1, 1);
    drop(pass);
    queue.submit([encoder.finish()]);
}

#[tokio::test]
async fn residents_are_buffers_of_the_users_own_kernels() {
    let Some(gpu) = common::devices().await.into_iter().find(Device::is_gpu) else { return };
    let (device, queue) = (gpu.wgpu_device().expect("a GPU"), gpu.wgpu_queue().expect("a GPU"));
    let data = [1.5_f32, -2.0, 3.0];
    let resident = gpu.resident(&data, 3).expect("room");
    let buffer = resident.wgpu_buffer().expect("a buffer");
    assert!(buffer.usage().contains(BufferUsages::STORAGE | BufferUsages::COPY_DST));
    double(&device, &queue, &buffer);
    let batch = GpuCommandBatch::new(&gpu);
    let y = batch.bind(&resident).add_scalar(0.5);
    let kept = batch.keep(y);
    batch.download(y);
    batch.execute().await.expect("a run");
    assert_eq!(batch.read(y).await.expect("a result"), [3.5, -3.5, 6.5]);
    assert_eq!(resident.read().await.expect("the data"), [3.0, -4.0, 6.0]);
    // The result of a batch can be shared too.
    double(&device, &queue, &kept.wgpu_buffer().expect("a buffer"));
    assert_eq!(kept.read().await.expect("the data"), [7.0, -7.0, 13.0]);
    queue.write_buffer(&buffer, 4, bytemuck::bytes_of(&9.0_f32));
    queue.submit([]);
    assert_eq!(resident.read().await.expect("the data"), [3.0, 9.0, 6.0]);
}

#[tokio::test]
async fn no_host_copy_hides_what_others_write() {
    let Some(gpu) = common::devices().await.into_iter().find(Device::is_gpu) else { return };
    let queue = gpu.wgpu_queue().expect("a GPU");
    let resident = gpu.resident(&[1.0_f32, 2.0], 2).expect("room");
    resident.keep_host_copy().await.expect("a copy");
    let buffer = resident.wgpu_buffer().expect("a buffer");
    resident.keep_host_copy().await.expect("nothing to do");
    queue.write_buffer(&buffer, 0, bytemuck::bytes_of(&9.0_f32));
    queue.submit([]);
    assert_eq!(resident.read().await.expect("the data"), [9.0, 2.0]);
    // A run fills a buffer that nobody shares, with a copy again.
    let batch = GpuCommandBatch::new(&gpu);
    let y = batch.bind(&resident).add_scalar(1.0);
    batch.update(&resident, y);
    batch.execute().await.expect("a run");
    queue.write_buffer(&buffer, 0, bytemuck::bytes_of(&0.0_f32));
    gpu.simulate_loss();
    assert_eq!(resident.read().await.expect("the copy"), [10.0, 3.0]);
}

/// The state is so large that a GPU would write the part in place.
#[tokio::test]
async fn a_replaced_part_is_not_written_to_what_others_share() {
    const LONG: usize = 1 << 19;
    let Some(gpu) = common::devices().await.into_iter().find(Device::is_gpu) else { return };
    let queue = gpu.wgpu_queue().expect("a GPU");
    let state = gpu.resident(&vec![1.0_f32; 2 * LONG], [2, LONG]).expect("room");
    state.keep_host_copy().await.expect("a copy");
    let buffer = state.wgpu_buffer().expect("a buffer");
    queue.write_buffer(&buffer, 0, bytemuck::bytes_of(&9.0_f32));
    let batch = GpuCommandBatch::new(&gpu);
    let (old, new) = (batch.bind(&state), batch.full([1, LONG], 2.0_f32));
    let all = batch.replace_slice(old, new, 0, 1);
    batch.update(&state, all);
    batch.execute().await.expect("a run");
    // The state does not read this buffer any more.
    queue.write_buffer(&buffer, 0, bytemuck::bytes_of(&0.0_f32));
    queue.submit([]);
    for _ in 0..2 {
        let data = state.read().await.expect("the data");
        assert_eq!((data[0], data[1], data[LONG], data[2 * LONG - 1]), (9.0, 1.0, 2.0, 2.0));
        // The second time, from the copy on the host.
        gpu.simulate_loss();
    }
}

#[test]
fn without_a_gpu_there_is_no_buffer() {
    let device = Device::cpu();
    assert!(device.wgpu_device().is_none() && device.wgpu_queue().is_none());
    let resident = device.resident(&[1.0_f32], 1).expect("room");
    let error = resident.wgpu_buffer().expect_err("no GPU");
    assert!(matches!(error, Error::Device(DeviceError::NoGpu)), "{error}");
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 1);
    assert!(batch.keep(x).wgpu_buffer().is_err());
}

#[tokio::test]
async fn what_was_shared_once_is_nobody_elses_memory() {
    let Some(gpu) = common::devices().await.into_iter().find(Device::is_gpu) else { return };
    let queue = gpu.wgpu_queue().expect("a GPU");
    let share = || {
        let resident = gpu.resident(&[1.0_f32; 1000], 1000).expect("room");
        wgpu::Buffer::clone(&resident.wgpu_buffer().expect("a buffer"))
    };
    // A handle of wgpu's own is left of the first; the second is destroyed.
    let (left, destroyed) = (share(), share());
    destroyed.destroy();
    for _ in 0..4 {
        let resident = gpu.resident(&[2.0_f32; 1000], 1000).expect("room");
        queue.write_buffer(&left, 0, bytemuck::bytes_of(&9.0_f32));
        queue.submit([]);
        assert_eq!(resident.read().await.expect("the data"), [2.0; 1000]);
        let sum = gpu.eval(|b| b.bind(&resident).scale(2.0).add_scalar(1.0));
        assert_eq!(sum.await.expect("a run"), [5.0; 1000]);
    }
}

#[tokio::test]
async fn a_lost_buffer_is_not_handed_out_for_the_copy() {
    for recovery in [Recovery::Fail, Recovery::Reopen] {
        let Some((adapter, device, queue)) = open(wgpu::Limits::default()).await else { return };
        let builder = Device::builder().without_cache().recovery(recovery);
        let shared = builder.wgpu(&adapter, device, queue).expect("a usual device");
        let resident = shared.resident(&[1.0_f32, 2.0], 2).expect("room");
        resident.keep_host_copy().await.expect("a copy");
        shared.simulate_loss();
        let error = resident.wgpu_buffer().expect_err("it is lost");
        assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
        assert_eq!(resident.read().await.expect("the copy"), [1.0, 2.0]);
    }
}

#[tokio::test]
async fn a_device_with_limits_of_its_users_own_is_not_opened_again() {
    let Some((adapter, device, queue)) = open(wgpu::Limits::default()).await else { return };
    let builder = Device::builder().without_cache().recovery(Recovery::Reopen);
    let shared = builder.wgpu(&adapter, device, queue).expect("a usual device");
    shared.simulate_loss();
    let error = shared.eval(|b| b.full(1, 1.0_f32)).await.expect_err("it is lost");
    let Error::Device(DeviceError::NotReopened { why, .. }) = &error else { panic!("{error}") };
    assert!(why.contains("other limits or features"), "{error}");
}
