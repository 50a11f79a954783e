//! Devices that are not there.

use std::ffi::OsStr;
use std::process::Command;

use onetrip::{AdapterKey, Device, Placement};

use crate::common;

/// Opens `Device::auto` in a process of its own with `variables` set; what it printed.
fn opened_with<S: AsRef<OsStr> + Copy>(variables: &[(&str, S)]) -> String {
    let mut child = Command::new(std::env::current_exe().expect("the path of this test"));
    child.args(["--exact", "device::child_that_opens_a_device", "--ignored", "--nocapture"]);
    child.env_remove("ONETRIP_BACKEND").env_remove("ONETRIP_ADAPTER");
    let output = child.envs(variables.iter().copied()).output().expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("opened: "));
    line.unwrap_or_else(|| panic!("no answer in {text}")).1.to_owned()
}

#[tokio::test]
#[ignore = "the tests of the environment run it in a process of its own"]
async fn child_that_opens_a_device() {
    match Device::auto().await {
        Ok(device) => println!("opened: {} gpu={}", device.info().name, device.is_gpu()),
        Err(error) => println!("opened: error: {error}"),
    }
}

#[test]
fn a_backend_that_is_not_understood() {
    let want = "error: ONETRIP_BACKEND=tpu is not understood; use auto, cpu or gpu";
    assert_eq!(opened_with(&[("ONETRIP_BACKEND", "tpu")]), want);
    assert_eq!(opened_with(&[("ONETRIP_BACKEND", "CPU")]), "cpu gpu=false");
}

#[tokio::test]
async fn an_adapter_that_is_not_there() {
    let answer = opened_with(&[("ONETRIP_BACKEND", "gpu"), ("ONETRIP_ADAPTER", "no such card")]);
    if !cfg!(feature = "gpu") {
        assert!(answer.starts_with("error: this build has no GPU support"), "{answer}");
        return;
    }
    let start = "error: no GPU adapter whose name contains \"no such card\"; found: ";
    assert!(answer.starts_with(start), "{answer}");
    // Naming an adapter asks for a GPU, whatever the backend says.
    let answer = opened_with(&[("ONETRIP_ADAPTER", "no such card")]);
    assert!(answer.starts_with(start), "{answer}");

    #[cfg(unix)]
    {
        let no_text: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"card \xff");
        let answer = opened_with(&[("ONETRIP_ADAPTER", no_text)]);
        assert!(answer.contains("whose name contains \"card \u{fffd}\""), "{answer}");
    }

    let Some(device) = common::gpu().await else { return };
    let name = &device.info().name;
    assert!(answer[start.len()..].contains(name), "{answer} lists {name}");
    assert!(
        answer.ends_with(
            "Name one of these by `adapter` or `ONETRIP_ADAPTER`, or use `Device::cpu()`"
        ),
        "{answer}"
    );
    let named = opened_with(&[("ONETRIP_ADAPTER", name.to_uppercase().as_str())]);
    assert_eq!(named, format!("{name} gpu=true"));
}

#[tokio::test]
async fn each_listed_adapter_is_opened_by_entry_by_name_and_by_bus() {
    let on = |key: AdapterKey| Device::builder().without_cache().adapter(key);
    let listed = match Device::gpus().await {
        Ok(listed) => listed,
        Err(error) => {
            assert!(
                !cfg!(feature = "gpu") && error.to_string().contains("no GPU support"),
                "{error}"
            );
            return;
        }
    };
    for adapter in &listed {
        let mut keys = vec![AdapterKey::from(adapter), adapter.name().to_uppercase().into()];
        keys.extend(adapter.pci_bus_id().map(AdapterKey::from));
        for key in keys {
            let device = on(key).auto().await.expect("it is there");
            assert_eq!(device.info().name, adapter.name());
            assert_eq!(device.info().software, adapter.is_software());
            assert_eq!(device.eval(|b| b.full(2, 1.0_f32)).await.expect("it runs"), [1.0; 2]);
        }
    }
    let error = on("no such card".into()).auto().await.unwrap_err().to_string();
    assert!(error.contains("whose name contains \"no such card\"; found: "), "{error}");
    assert!(listed.iter().all(|adapter| error.contains(adapter.name())), "{error}");
    let Some(device) = common::gpu().await else { return };
    let names: Vec<_> = listed.iter().map(onetrip::GpuAdapter::name).collect();
    assert!(names.contains(&&*device.info().name), "{names:?}");
}

#[test]
fn a_budget_of_no_bytes() {
    let error = Device::builder().without_cache().memory_budget(0).cpu().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a memory budget of 0 bytes lets nothing run; give `memory_budget` more, or leave it out for no limit"
    );
}

#[tokio::test]
async fn a_placement_on_the_side_that_is_not_opened() {
    let on = |placement| Device::builder().without_cache().placement(placement);
    let error = on(Placement::Gpu).cpu().unwrap_err().to_string();
    assert_eq!(
        error,
        "the device is to be opened on the cpu alone, and its builder places batches on the gpu; open it with `gpu()`, \
         or choose another placement"
    );
    let error = on(Placement::Cpu).gpu().await.unwrap_err().to_string();
    let ends = if cfg!(feature = "gpu") {
        "open it with `cpu()`, or choose another placement"
    } else {
        "or use `Device::cpu()`"
    };
    assert!(error.ends_with(ends), "{error}");

    for placement in [Placement::Auto, Placement::Cpu, Placement::Threshold(1)] {
        let device = on(placement).cpu().expect("the CPU does for it");
        assert_eq!(device.eval(|b| b.full(2, 1.0_f32)).await.expect("it runs"), [1.0; 2]);
    }
    // Without a GPU that would do, this says so, and does not fall back.
    match on(Placement::Gpu).auto().await {
        Ok(device) => assert!(device.is_gpu()),
        Err(error) => assert!(error.to_string().contains("GPU"), "{error}"),
    }
}
