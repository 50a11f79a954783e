//! Kernels of a file's own: their sources travel, and a load gives them functions for the CPU.

use onetrip::{
    Backend, CpuKernels, Device, GpuCommandBatch, LoadOptions, Program, Recovery, Result, Weights,
    Wgsl,
};

use super::common;

const TWICE: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] = x[id.x] * 2.0; }
}";

#[tokio::test]
async fn own_kernels_travel_as_text_if_asked_for() -> Result<()> {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 3);
    let kernel = Wgsl::new(TWICE).input(x).groups([1, 1, 1]);
    batch.wgsl::<f32>(kernel.clone(), 3).named("y");
    let bytes = batch.to_bytes().await?;
    let error = Program::load_bytes(&device, bytes.clone()).await.unwrap_err().to_string();
    assert!(error.contains("kernel of its own") && error.contains("own_kernels.rs:"), "{error}");
    let file = Weights::from_bytes(bytes)?;
    assert_eq!(Program::describe(&file)?.own_kernels, 1);
    let allowed = LoadOptions { wgsl: true, ..LoadOptions::default() };
    let error = Program::load_with(&device, &file, allowed.clone()).await.unwrap_err().to_string();
    assert!(error.contains("has no function for it"), "{error}");
    if let Ok(gpu) = Device::gpu().await {
        let program = Program::load_with(&gpu, &file, allowed).await?;
        let outputs = program.run([("x", &[1.0_f32, 2.0, 3.0])]).await?;
        assert_eq!(outputs.read::<f32>("y").await?, [2.0, 4.0, 6.0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_load_gives_kernels_their_functions_for_the_cpu() -> Result<()> {
    fn twice(x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * 2.0);
    }
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 3);
    let kernel = |x| Wgsl::new(TWICE).input(x).groups([1, 1, 1]);
    // One with a function, one without, and one that nothing reads.
    let doubled = batch.wgsl::<f32>(kernel(x).on_cpu(twice), 3);
    batch.wgsl::<f32>(kernel(doubled), 3).named("y");
    batch.wgsl::<f32>(kernel(x), 3);
    let file = Weights::from_bytes(batch.to_bytes().await?)?;
    let load = async |on_cpu: CpuKernels, file: &Weights| {
        let options = LoadOptions { wgsl: true, on_cpu, ..LoadOptions::default() };
        Program::load_with(&device, file, options).await
    };
    let program = load(CpuKernels::new().with("main", twice), &file).await?;
    let outputs = program.run([("x", &[1.0_f32, 2.0, -3.0])]).await?;
    assert_eq!(outputs.read::<f32>("y").await?, [4.0, 8.0, -12.0]);
    // A loaded program is saved and loaded like any other.
    let again = Weights::from_bytes(program.to_bytes().await?)?;
    let program = load(CpuKernels::new().with("main", twice), &again).await?;
    let outputs = program.run([("x", &[0.5_f32, 0.0, 1.0])]).await?;
    assert_eq!(outputs.read::<f32>("y").await?, [2.0, 0.0, 4.0]);
    // On both sides, and on the cores after a loss.
    let both = Device::builder().without_cache().recovery(Recovery::Cpu).gpu().await;
    if let Ok(both) = both {
        let on_cpu = CpuKernels::new().with("main", twice);
        let options = LoadOptions { wgsl: true, on_cpu, ..LoadOptions::default() };
        let program = Program::load_with(&both, &file, options).await?;
        for loses in [false, true] {
            if loses {
                both.simulate_loss();
            }
            let outputs = program.run([("x", &[1.0_f32, 2.0, -3.0])]).await?;
            assert_eq!(outputs.read::<f32>("y").await?, [4.0, 8.0, -12.0]);
            assert_eq!(outputs.stats().backend == Some(Backend::Cpu), loses);
        }
    }
    let untrusted =
        LoadOptions { on_cpu: CpuKernels::new().with("main", twice), ..LoadOptions::default() };
    let error = Program::load_with(&device, &file, untrusted).await.unwrap_err().to_string();
    assert!(error.contains("`LoadOptions::wgsl`"), "{error}");

    let wrong = [
        (CpuKernels::new(), "`LoadOptions::on_cpu`"),
        (CpuKernels::new().with("twice", twice), "its kernels have \"main\""),
        (
            CpuKernels::new().with("main", |_: &[f32], _: &[f32], _: &mut [f32]| ()),
            "is of (f32, f32) to f32, where the kernel has (f32) to f32",
        ),
        (CpuKernels::new().with("main", |_: &[i32], _: &mut [f32]| ()), "(i32) to f32"),
    ];
    for (functions, text) in wrong {
        let error = load(functions, &file).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }

    batch.wgsl::<f32>(Wgsl::new(&TWICE.replace("2.0", "3.0")).input(x).groups([1, 1, 1]), 3);
    let line = line!() - 1;
    let mixed = Weights::from_bytes(batch.to_bytes().await?)?;
    let error = load(CpuKernels::new().with("main", twice), &mixed).await.unwrap_err().to_string();
    assert!(
        error.contains("different sources") && error.contains(&format!("own_kernels.rs:{line}")),
        "{error}"
    );

    let batch = GpuCommandBatch::new(&device);
    batch.input::<f32>("x", 1).exp().named("y");
    let plain = Weights::from_bytes(batch.to_bytes().await?)?;
    let error = load(CpuKernels::new().with("main", twice), &plain).await.unwrap_err().to_string();
    assert!(error.contains("no kernels of its own"), "{error}");
    Ok(())
}

#[tokio::test]
async fn functions_are_given_by_entry_point() -> Result<()> {
    const SOURCE: &str = "
        @group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;

        @compute @workgroup_size(64)
        fn negated(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = -x[id.x]; }
        }

        @compute @workgroup_size(64)
        fn halved(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
        }";
    fn negated(x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
    }
    fn halved(x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 0.5 * x);
    }
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", 3);
    let kernel = |entry, x| Wgsl::new(SOURCE).entry_point(entry).input(x).groups([1, 1, 1]);
    let y = batch.wgsl::<f32>(kernel("negated", x), 3);
    batch.wgsl::<f32>(kernel("halved", y), 3).named("both");
    // The same kernel twice takes one function.
    batch.wgsl::<f32>(kernel("halved", x), 3).named("halved");
    let file = Weights::from_bytes(batch.to_bytes().await?)?;
    let both = CpuKernels::new().with("negated", negated).with("halved", halved);
    for device in common::devices().await {
        let options = LoadOptions { wgsl: true, on_cpu: both.clone(), ..LoadOptions::default() };
        let program = Program::load_with(&device, &file, options).await?;
        let outputs = program.run([("x", &[1.0_f32, -3.0, 0.25])]).await?;
        assert_eq!(outputs.read::<f32>("both").await?, [-0.5, 1.5, -0.125]);
        assert_eq!(outputs.read::<f32>("halved").await?, [0.5, -1.5, 0.125]);
    }
    // One is missing on the cores.
    let on_cpu = CpuKernels::new().with("negated", negated);
    let options = LoadOptions { wgsl: true, on_cpu, ..LoadOptions::default() };
    let error = Program::load_with(&Device::cpu(), &file, options).await.unwrap_err().to_string();
    assert!(error.contains("`LoadOptions::on_cpu`"), "{error}");
    Ok(())
}
