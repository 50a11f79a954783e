//! Looking inside of runs: profiles, and what `tracing` hears.

mod common;

use std::time::Duration;

use onetrip::{CellWeights, Device, GpuCommandBatch, Profile, Program, Recurrence};

/// Three kernels, one of which takes two dispatches on a GPU, and a result of no elements.
async fn program(device: &Device) -> Program {
    let batch = GpuCommandBatch::new(device);
    let x = batch.input::<f32>("x", [64, 48]);
    let w = batch.upload_shaped(&vec![0.5_f32; 48 * 32], [48, 32]);
    let y = batch.matmul(x, w).relu().softmax(-1);
    let sum = batch.arange(0.0_f32, 300_000.0, 1.0).sum(..);
    let none = batch.slice(x, [(0..0, 1), (0..48, 1)]).exp();
    batch.name(y, "y");
    for id in [y, sum, none] {
        batch.download(id);
    }
    batch.compile().await.expect("a sound batch")
}

async fn profile(device: &Device) -> Profile {
    let program = program(device).await;
    let data: Vec<f32> = (0..64 * 48).map(|at| at as f32 / 1000.0).collect();
    program.run([("x", &data)]).await.expect("a first run");
    program.profile([("x", &data)]).await.expect("a profile")
}

#[tokio::test]
async fn every_kernel_has_its_time_and_its_prediction() {
    for device in common::devices().await {
        let profile = profile(&device).await;
        println!("{profile}");
        let whole = profile.stages.iter().find(|stage| stage.stage == "execute");
        let whole = whole.expect("the whole").time;
        assert!(!whole.is_zero());
        assert!(profile.kernels.iter().any(|kernel| kernel.kernel.contains("matmul")));
        let mut end = Duration::ZERO;
        for kernel in profile.kernels.iter().filter(|kernel| kernel.dispatches > 0) {
            let (Some(start), Some(time)) = (kernel.start, kernel.time) else {
                panic!("{kernel:?} has no time");
            };
            assert!(!kernel.predicted.is_zero() && time <= whole, "{kernel:?} of {whole:?}");
            // Ticks are rounded.
            assert!(start + Duration::from_micros(1) >= end, "{kernel:?} began before {end:?}");
            end = start + time;
        }
        let together = profile.kernel_time().expect("timestamps");
        assert!(!together.is_zero() && together <= whole, "{together:?} of {whole:?}");
        let dispatches: usize = profile.kernels.iter().map(|kernel| kernel.dispatches).sum();
        assert_eq!(dispatches as u64, profile.stats.dispatches);
        let stages: Vec<_> = profile.stages.iter().map(|stage| stage.stage).collect();
        for stage in ["admit", "collect", "run", "compute"] {
            assert!(stages.contains(&stage), "{stages:?}");
        }
    }
}

/// The number of lines below the head that say why other runs may be faster.
fn notes(profile: &Profile) -> usize {
    let is_first = profile.stats.pipelines_compiled + profile.stats.pool_misses > 0;
    let says = profile.to_string().contains("\n  this run ");
    assert_eq!(says, is_first, "{profile}");
    usize::from(cfg!(debug_assertions)) + usize::from(is_first)
}

#[tokio::test]
async fn the_table_has_a_line_for_each_kernel_and_stage() {
    let profile = profile(&Device::cpu()).await;
    let text = profile.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let notes = notes(&profile);
    let (kernels, stages) = (profile.kernels.len(), profile.stages.len());
    assert_eq!(lines.len(), 2 + notes + kernels + stages, "{text}");
    assert!(lines[0].starts_with("profile on cpu (cpu): "), "{text}");
    let built = lines[1].trim_start().starts_with("built with debug assertions: ");
    assert_eq!(built, cfg!(debug_assertions));
    for (line, kernel) in lines[2 + notes..].iter().zip(&profile.kernels) {
        assert!(line.trim_start().starts_with(&kernel.kernel), "{text}");
    }
    assert!(text.contains("\n  execute ") && text.contains("\n      compute "), "{text}");
    assert!(lines.iter().filter(|line| line.ends_with(" %")).count() >= 3, "{text}");
}

/// The text of a layer of many steps has its kinds of kernels first, and the kernels of its steps once.
#[tokio::test]
async fn kernels_that_repeat_are_printed_once() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", [30, 2, 4]);
    let cell = CellWeights::new(&batch, batch.full([12, 4], 0.5), batch.full([12, 4], 0.25));
    batch.outputs(x.gru(&[cell], None, Recurrence::default()).0);
    let program = batch.compile().await.expect("a program");
    let profile = program.profile([("x", &[0.5_f32; 240])]).await.expect("a run");
    let (text, whole) = (profile.to_string(), format!("{profile:#}"));
    let lines = |text: &str| text.lines().count() - profile.stages.len() - profile.kinds().len();
    let notes = notes(&profile);
    assert_eq!(lines(&whole), 3 + notes + profile.kernels.len(), "{whole}");
    assert!(lines(&text) < 3 + profile.kernels.len() / 2, "{text}");
    let kinds = text.lines().nth(1 + notes).expect("a table");
    assert!(kinds.trim_start().starts_with("kernels alike "), "{text}");
    let folded = |line: &&str| line.starts_with("  … the same ") && line.ends_with('s');
    assert!(text.lines().any(|line| folded(&line)) && !whole.contains('…'), "{text}");
}

/// The stage `run` compiles too, so that the head must not call another time by its name.
#[tokio::test]
async fn the_head_of_a_profile_has_no_name_of_a_stage() {
    let profile = profile(&Device::cpu()).await;
    let text = profile.to_string();
    let head = text.lines().next().expect("a head");
    assert!(head.contains(" in kernels; first copy to last result "), "{text}");
    for stage in &profile.stages {
        let mut words = head.split(|c: char| !c.is_alphanumeric());
        assert!(words.all(|word| word != stage.stage), "{}: {text}", stage.stage);
    }
}

#[tokio::test]
async fn a_trace_is_json_with_an_event_for_each_kernel_and_stage() {
    for device in common::devices().await {
        let profile = profile(&device).await;
        let file = std::env::temp_dir().join(format!("onetrip-trace-{}", std::process::id()));
        profile.write_trace(&file).expect("a file in the temporary folder");
        let text = std::fs::read_to_string(&file).expect("what was written");
        std::fs::remove_file(&file).expect("a file to remove");
        let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let timed: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let kernels = profile.kernels.iter().filter(|kernel| kernel.time.is_some()).count();
        assert_eq!(timed.len(), profile.stages.len() + kernels);
        assert!(timed.iter().all(|event| event["ts"].is_number() && event["dur"].is_number()));
        let lane = if device.is_gpu() { 2 } else { 1 };
        let softmax = timed.iter().find(|event| event["name"] == "softmax");
        assert_eq!(softmax.expect("the softmax")["tid"], lane);
    }
}

#[tokio::test]
async fn a_profile_leaves_later_runs_as_they_were() {
    for device in common::devices().await {
        let program = program(&device).await;
        let data = vec![1.0_f32; 64 * 48];
        let before = program.run([("x", &data)]).await.expect("a run");
        program.profile([("x", &data)]).await.expect("a profile");
        let after = program.run([("x", &data)]).await.expect("a run");
        assert_eq!(before.stats().dispatches, after.stats().dispatches);
        assert_eq!((after.stats().submits, after.stats().downloads), (1, 1));
        let read =
            async |outputs: &onetrip::Outputs| outputs.read::<f32>("y").await.expect("a result");
        assert_eq!(read(&before).await, read(&after).await);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_of_a_profile_too() {
    let program = program(&Device::cpu()).await;
    assert!(program.profile([("x", &[1.0_f32])]).await.is_err());
    assert!(program.profile([("y", &[1.0_f32])]).await.is_err());
}

#[cfg(feature = "tracing")]
mod tracing_hears {
    use std::collections::BTreeSet;
    use std::fmt;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::instrument::WithSubscriber;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

    /// The names of all spans and the messages of all events of this crate.
    #[derive(Clone, Default)]
    struct Ear(Arc<Mutex<BTreeSet<String>>>);

    impl Visit for &Ear {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                self.0.lock().expect("an ear").insert(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Ear {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "onetrip"
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.0.lock().expect("an ear").insert(span.metadata().name().to_owned());
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            event.record(&mut &*self);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn every_stage() {
        // With one subscriber alive, a call site that another thread reaches first is cached as heard by nobody.
        tracing::subscriber::set_global_default(Ear::default()).expect("the first one");
        for device in common::devices().await {
            let ear = Ear::default();
            let heard = Arc::clone(&ear.0);
            async {
                let batch = GpuCommandBatch::new(&device);
                let y = batch.upload(&[1.0_f32, 2.0]).add_scalar(0.25);
                batch.execute().await.unwrap();
                assert_eq!(batch.read(y).await.unwrap(), [1.25, 2.25]);
            }
            .with_subscriber(ear)
            .await;
            let heard = heard.lock().unwrap();
            let both = [
                "record", "execute", "choose", "admit", "collect", "run", "compute", "ran",
                "download",
            ];
            let gpu = ["compile", "upload", "encode", "submit"];
            let gpu = gpu.into_iter().filter(|_| device.is_gpu());
            let missing: Vec<_> =
                both.into_iter().chain(gpu).filter(|n| !heard.contains(*n)).collect();
            assert!(missing.is_empty(), "{missing:?} are missing in {heard:?}");
        }
    }
}
