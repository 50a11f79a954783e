//! Profiles that are measured, kept and given; placements that are asked for, and the published rules for them.

mod common;

use onetrip::selector::{BackendSelector, Choice, OpComplexity};
use onetrip::{Backend, Curve, Device, GpuCommandBatch, Placement};

#[tokio::test]
async fn a_profile_given_by_hand_is_taken_or_refused() {
    let mut profile = Device::cpu().profile();
    profile.cpu.memory = Curve::flat(1e3);
    let given = Device::builder().without_cache().with_profile(profile.clone());
    let device = given.auto().await.unwrap();
    assert_eq!(device.profile(), profile);
    profile.cpu.memory = Curve::flat(f64::NAN);
    let refused = Device::builder().with_profile(profile).auto().await.unwrap_err();
    assert!(refused.to_string().contains("cpu.memory"), "{refused}");
}

#[tokio::test]
async fn a_batch_runs_where_it_is_placed_or_says_that_it_cannot() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let y = batch.upload(&[1.0_f32, -2.0]).relu();
    for placement in [Placement::Auto, Placement::Cpu, Placement::Complexity] {
        batch.set_placement(placement);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [1.0, 0.0]);
        assert_eq!(batch.stats().backend, Some(Backend::Cpu));
        assert!(!batch.stats().predicted_time.is_zero());
        let page = batch.explain().unwrap().to_string();
        let says = page.contains(&format!("placed as asked ({placement}): cpu"));
        assert_eq!(says, placement != Placement::Auto, "{page}");
    }
    batch.set_placement(Placement::Gpu);
    let error = batch.execute().await.unwrap_err().to_string();
    assert!(error.contains("placed on the gpu"), "{error}");
}

#[tokio::test]
async fn a_resident_is_read_where_it_lies() {
    for device in common::devices().await {
        one_side(&device).await;
    }
}

/// Runs of a device for one side alone with a resident, under each placement.
async fn one_side(device: &Device) {
    let weights = device.resident(&[1.0_f32, 2.0, 3.0], 3).expect("room");
    let batch = GpuCommandBatch::new(device);
    let y = batch.bind(&weights).scale(2.0);
    batch.execute().await.expect("a run");
    assert_eq!(batch.read(y).await.expect("a result"), [2.0, 4.0, 6.0]);
    let page = batch.explain().expect("a plan").to_string();
    assert!(!page.contains("placed "), "there is nothing to choose:\n{page}");
    let other = if device.is_gpu() { Placement::Cpu } else { Placement::Gpu };
    batch.set_placement(other);
    assert!(batch.execute().await.is_err(), "{other} is not for this device");
}

/// Profiles on disk.
#[cfg(feature = "serde")]
mod on_disk {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use onetrip::Device;

    use super::common;

    /// A folder of its own, gone afterwards.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("onetrip-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            Self(folder)
        }

        /// Damages every file.
        fn damage(&self) {
            for entry in std::fs::read_dir(&self.0).expect("the folder is there") {
                let path = entry.expect("an entry").path();
                let mut bytes = std::fs::read(&path).expect("a file");
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                std::fs::write(&path, bytes).expect("a file");
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test]
    async fn what_was_measured_is_read_from_disk_by_the_next_device() {
        if common::gpu().await.is_none() {
            return;
        }
        let folder = Folder::new("placement");
        let open = || Device::builder().cache_folder(&folder.0).gpu();
        let device = open().await.unwrap();
        assert!(!device.profile().measured);
        let mut steps = Vec::new();
        let profile = device.calibrate_with(|step| steps.push((step.done, step.of))).await.unwrap();
        assert!(profile.measured && profile.gpu.round_trip > 0.0 && profile.cpu.round_trip > 0.0);
        let of = steps[0].1;
        assert_eq!(steps, (0..of).map(|done| (done, of)).collect::<Vec<_>>());
        assert_eq!(device.profile(), profile);
        assert_eq!(open().await.unwrap().profile(), profile);
        folder.damage();
        let anew = open().await.unwrap();
        assert!(!anew.profile().measured, "what is damaged is as good as none");
        anew.calibrate().await.unwrap();
        assert!(open().await.unwrap().profile().measured);
    }

    #[test]
    #[ignore = "the test of the usual cache runs it in a process of its own"]
    fn child_that_opens_the_cores() {
        let [plain, built] = [Device::cpu(), Device::builder().cpu().unwrap()];
        println!("measured: {} {}", plain.profile().measured, built.profile().measured);
    }

    #[tokio::test]
    async fn the_cores_find_what_was_measured_of_them_however_they_are_opened() {
        let folder = Folder::new("cores");
        let opened = |cache: &Path| {
            let mut child = Command::new(std::env::current_exe().expect("the path of this test"));
            child.args(["--exact", "on_disk::child_that_opens_the_cores"]);
            child.args(["--ignored", "--nocapture"]).env("ONETRIP_CACHE", cache);
            let output = child.output().expect("the child runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().find_map(|line| line.split_once("measured: "));
            line.unwrap_or_else(|| panic!("no answer in {text}")).1.to_owned()
        };
        assert_eq!(opened(&folder.0), "false false");
        let device = Device::builder().cache_folder(&folder.0).cpu().unwrap();
        assert!(device.calibrate().await.unwrap().measured);
        assert_eq!(opened(&folder.0), "true true");
        assert_eq!(opened(Path::new("off")), "false false");
    }
}

#[test]
fn arithmetic_is_weighed_against_the_transfer() {
    let selector = BackendSelector::new();
    // 32 kB take a microsecond; five of them are 1e8 flops.
    assert_eq!(selector.select_backend(32_000, 99_999_999), Choice::Simd);
    assert_eq!(selector.select_backend(32_000, 100_000_001), Choice::Gpu);
    assert_eq!(selector.select_backend(0, 0), Choice::Simd);
    assert_eq!(selector.select_backend(usize::MAX, u64::MAX), Choice::Simd);
    assert_eq!(selector.select_for_matmul(usize::MAX, 2, 2), Choice::Simd);
    // 12 bytes / 32e9 · 5 = 37 500 flops / 20e12.
    assert_eq!(selector.select_for_vector_op(1000, 37_499), Choice::Simd);
    assert_eq!(selector.select_for_vector_op(1000, 37_501), Choice::Gpu);
}

#[test]
fn sizes_alone_decide_by_complexity() {
    use Choice::{Gpu, Scalar, Simd};
    use OpComplexity::{High, Low, Medium};
    let cases = [
        (Low, 1_000_000, Scalar),
        (Low, 1_000_001, Simd),
        (Low, usize::MAX, Simd),
        (Medium, 10_000, Scalar),
        (Medium, 10_001, Simd),
        (Medium, 100_000, Simd),
        (Medium, 100_001, Gpu),
        (High, 1_000, Scalar),
        (High, 1_001, Simd),
        (High, 10_000, Simd),
        (High, 10_001, Gpu),
        (High, 0, Scalar),
    ];
    let selector = BackendSelector::new();
    for (complexity, n, backend) in cases {
        assert_eq!(selector.select_with_moe(complexity, n), backend, "{complexity:?} {n}");
    }
    assert_eq!(selector.select_for_elementwise(1_000_000), Scalar);
    assert_eq!(selector.select_for_elementwise(1_000_001), Simd);
}

#[test]
fn what_is_no_rate_is_an_error() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let selector = BackendSelector::new();
        assert!(selector.with_pcie_bandwidth(bad).is_err());
        assert!(selector.with_gpu_gflops(bad).is_err());
        let error = selector.with_min_dispatch_ratio(bad).unwrap_err().to_string();
        assert!(error.contains("ratio"), "{error}");
    }
    let faster = BackendSelector::new().with_gpu_gflops(1e9).unwrap();
    assert_eq!(faster.select_for_matmul(64, 64, 64), Choice::Gpu);
}
