//! Places of equal graphs that share a plan, each recorded at its own line.

use onetrip::{Device, GpuCommandBatch, Wgsl};

const COPY: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(1)
fn main() { y[0] = x[0]; }";

/// Records a kernel at line 7 of `file`, whose function for the CPU succeeds or panics. Its input is computed on the same
/// line of the first file, and on another line of others.
fn recorded(device: &Device, file: &str, source: &str, succeeds: bool) -> GpuCommandBatch {
    let batch = GpuCommandBatch::new(device);
    {
        let _at = batch.at(file, if file == "first.py" { 7 } else { 6 });
        let x = batch.upload(&[1.0_f32]).exp();
        let _at = batch.at(file, 7);
        let kernel = Wgsl::new(source).input(x).groups([1, 1, 1]);
        let kernel = kernel.on_cpu(move |_: &[f32], _: &mut [f32]| assert!(succeeds, "mine"));
        batch.wgsl::<f32>(kernel, 1);
    }
    batch
}

#[tokio::test]
async fn a_panic_names_the_line_of_its_own_batch() {
    let device = Device::cpu();
    recorded(&device, "first.py", COPY, true).execute().await.unwrap();
    let error = recorded(&device, "second.py", COPY, false).execute().await.unwrap_err();
    let text = "second.py:7: wgsl: the function for the CPU panicked: mine";
    assert_eq!(error.to_string(), text);
}

#[cfg(feature = "gpu")]
#[tokio::test]
async fn a_refused_kernel_names_the_line_of_its_own_batch() {
    let Some(device) = crate::common::gpu().await else { return };
    let most = device.wgpu_device().unwrap().limits().max_compute_invocations_per_workgroup;
    let source = COPY.replace("size(1)", &format!("size(1, {})", most + 1));
    for file in ["first.py", "second.py"] {
        let batch = recorded(&device, file, &source, true);
        for error in [batch.execute().await.unwrap_err(), batch.compile().await.unwrap_err()] {
            let is_refused =
                matches!(error, onetrip::Error::Device(onetrip::DeviceError::Kernel { .. }));
            assert!(is_refused && error.to_string().starts_with(&format!("{file}:7: ")), "{error}");
        }
    }
}

#[tokio::test]
async fn a_profile_names_the_lines_of_its_own_program() {
    let device = Device::cpu();
    for file in ["first.py", "second.py"] {
        let batch = GpuCommandBatch::new(&device);
        {
            let _at = batch.at(file, 7);
            let _ = batch.input::<f32>("x", 2).cumsum(0).softmax(0);
        }
        let profile = batch.compile().await.unwrap().profile(("x", &[1.0_f32, 2.0])).await.unwrap();
        let places: Vec<&str> = profile.kernels.iter().map(|kernel| &kernel.place[..]).collect();
        let place = format!("{file}:7");
        assert_eq!(places, [&place[..]; 2]);
        let page = profile.to_html();
        assert!(
            page.contains(&place) && page.matches(".py:7").count() == page.matches(&place).count()
        );
    }
}
