//! Graphs near a tie, which are tried on both sides.

use std::sync::Arc;

use crate::base::test_device::found;
use crate::batch::{BufferId, GpuCommandBatch, Wgsl};
use crate::cost::{Backend, Curve, DeviceProfile, Placement, Residence, Route, RunOutcome};
use crate::device::{Device, PlanChoice, PlanRequest, Recovery};
use crate::record::Record;

/// The host computes rows at this rate.
const RATE: f64 = 1e8;

/// Sides that differ in rows alone: the GPU takes `times` as long as the host.
fn profile(times: f64) -> DeviceProfile {
    let mut profile = DeviceProfile::typical(1);
    for (side, rate) in [(&mut profile.cpu, RATE), (&mut profile.gpu, RATE / times)] {
        side.curves_mut().into_iter().for_each(|curve| *curve = Curve::default());
        (side.round_trip, side.dispatch, side.row) = (0.0, 0.0, Curve::flat(rate));
    }
    profile
}

fn with(profile: DeviceProfile) -> Option<Device> {
    found(pollster::block_on(Device::builder().without_cache().with_profile(profile).both()))
}

fn device(times: f64) -> Option<Device> {
    with(profile(times))
}

fn softmax(device: &Device, rows: usize) -> (GpuCommandBatch, BufferId<f32>) {
    let batch = GpuCommandBatch::new(device);
    let data: Vec<f32> = (0..rows * 64).map(|at| (at % 37) as f32 * 0.25).collect();
    let x = batch.upload_shaped(data, [rows, 64]);
    let y = batch.softmax(x, 1).id();
    (batch, y)
}

fn wanted(recorded: &Record) -> PlanRequest<'_> {
    let (graph, placement) = (&recorded.graph, Placement::Auto);
    PlanRequest { graph, placement, residents: &[], is_stateful: false }
}

fn choice(device: &Device, batch: &GpuCommandBatch) -> PlanChoice {
    device.prepare(&wanted(&batch.recorded())).expect("a plan").0
}

/// Records a run as if it alone had taken so many milliseconds on its route: so many that four runs of a route are enough.
fn ran(device: &Device, batch: &GpuCommandBatch, millis: impl Fn(Route) -> u64) -> Route {
    let choice = choice(device, batch);
    let previewed = device
        .preview(&wanted(&batch.recorded()), &device.targets())
        .expect("a plan")
        .0
        .routes
        .taken;
    let Some(mut run) = choice.begin_trial_run() else {
        return choice.prepared.placed.routes.taken;
    };
    let route = run.route;
    assert_eq!(route, previewed, "what is explained is what the next run does");
    if run.is_away {
        let (on_trial, _) =
            device.prepare_route(&wanted(&batch.recorded()), route).expect("a plan");
        assert_eq!(on_trial.placed.routes.taken, route);
    }
    device.tried(&mut run, RunOutcome::Took(1_000_000 * millis(route)), || true);
    route
}

fn millis(cpu: u64, gpu: u64) -> impl Fn(Route) -> u64 {
    move |route| if route == Route::Gpu { gpu } else { cpu }
}

#[test]
fn what_was_misjudged_near_a_tie_goes_to_the_right_side_either_way() {
    for (times, first, truth) in [(1.5, Route::Cpu, (61, 43)), (0.6, Route::Gpu, (43, 61))] {
        let Some(device) = device(times) else { return };
        let (batch, _) = softmax(&device, 1000);
        let went: Vec<Route> =
            (0..20).map(|_| ran(&device, &batch, millis(truth.0, truth.1))).collect();
        let other = if first == Route::Cpu { Route::Gpu } else { Route::Cpu };
        assert_eq!(went, [&[first; 4][..], &[other; 16]].concat(), "{times}");
        let page = explained(&batch);
        let said = if other == Route::Gpu {
            "gpu 43.0 ms, cpu 61.0 ms"
        } else {
            "cpu 43.0 ms, gpu 61.0 ms"
        };
        assert!(page.contains(&format!("measured: {said}")), "{page}");
        assert!(page.contains("placed by times of its runs: "), "{page}");
        assert!(device.profile().to_string().contains("learned: of graphs that were tried"));
    }
}

fn explained(batch: &GpuCommandBatch) -> String {
    batch.explain().expect("a plan").to_string()
}

#[test]
fn what_was_judged_right_stays_and_the_other_plan_is_forgotten() {
    let Some(device) = device(1.5) else { return };
    let (batch, _) = softmax(&device, 1000);
    let usual = choice(&device, &batch);
    (0..7).for_each(|_| _ = ran(&device, &batch, millis(43, 61)));
    assert_eq!(device.pool_stats().plans, 2);
    assert!(usual.fits(&device, &[]));
    ran(&device, &batch, millis(43, 61));
    assert!(!usual.fits(&device, &[]), "it was a prediction");
    assert_eq!(device.pool_stats().plans, 0);
    let kept = choice(&device, &batch);
    assert_eq!((kept.prepared.asked, kept.prepared.backend()), (Some(Route::Cpu), Backend::Cpu));
    assert_eq!(device.pool_stats().plans, 1);
}

#[test]
fn what_is_no_near_tie_or_named_or_stateful_or_would_move_data_is_not_tried() {
    for (times, near) in [(3.0, false), (1.9, true), (0.5, true), (0.2, false)] {
        let Some(device) = device(times) else { return };
        let (batch, _) = softmax(&device, 1000);
        assert_eq!(choice(&device, &batch).begin_trial_run().is_some(), near, "{times}");
    }
    let Some(device) = device(1.5) else { return };
    let (batch, _) = softmax(&device, 1000);
    let recorded = batch.recorded();
    let wanted = wanted(&recorded);
    let tried = |wanted: &PlanRequest<'_>| {
        device.prepare(wanted).expect("a plan").0.begin_trial_run().is_some()
    };
    assert!(tried(&wanted));
    assert!(tried(&PlanRequest { residents: &[Residence::Both], ..wanted }));
    for residence in [Residence::Host, Residence::Gpu] {
        assert!(!tried(&PlanRequest { residents: &[Residence::Both, residence], ..wanted }));
    }
    assert!(!tried(&PlanRequest { is_stateful: true, ..wanted }));
    for placement in
        [Placement::Cpu, Placement::Gpu, Placement::Threshold(1), Placement::Complexity]
    {
        assert!(!tried(&PlanRequest { placement, ..wanted }), "{placement}");
    }
    let slow = profile(1.5);
    let (cpu, gpu) = (Curve::flat(1e4), Curve::flat(1e4));
    let slow = DeviceProfile {
        cpu: crate::SideProfile { row: cpu, ..slow.cpu },
        gpu: crate::SideProfile { row: gpu, ..slow.gpu },
        ..slow
    };
    let device = with(slow).expect("a GPU, as above");
    assert!(
        choice(&device, &softmax(&device, 1000).0).begin_trial_run().is_none(),
        "tens of seconds"
    );
}

#[tokio::test]
async fn once_the_gpu_is_given_up_nothing_is_tried() {
    let builder = Device::builder().without_cache().with_profile(profile(1.5));
    let Some(device) = found(builder.recovery(Recovery::Cpu).both().await) else { return };
    let (batch, _) = softmax(&device, 1000);
    let before = choice(&device, &batch);
    assert!(before.fits(&device, &[]) && before.begin_trial_run().is_some());
    device.simulate_loss();
    let (lost, _) = softmax(&device, 1);
    lost.set_placement(Placement::Gpu);
    lost.execute().await.unwrap();
    assert_eq!(lost.stats().backend, Some(Backend::Cpu));
    assert!(!before.fits(&device, &[]), "else the host would be tried for the GPU");
    assert!(choice(&device, &batch).begin_trial_run().is_none());
}

#[test]
fn without_learning_nothing_is_tried_and_what_is_known_still_holds() {
    let Some(learned) = device(1.5) else { return };
    let (batch, _) = softmax(&learned, 1000);
    (0..8).for_each(|_| _ = ran(&learned, &batch, millis(61, 43)));
    for (profile, route) in [(profile(1.5), Route::Cpu), (learned.profile(), Route::Gpu)] {
        let builder = Device::builder().without_cache().without_learning();
        let device = pollster::block_on(builder.with_profile(profile.clone()).both()).unwrap();
        let (batch, _) = softmax(&device, 1000);
        assert!((0..99).all(|_| ran(&device, &batch, millis(999, 999)) == route));
        assert_eq!(device.profile(), profile);
    }
}

#[test]
fn a_profile_says_all_that_was_seen() {
    let Some(device) = device(1.5) else { return };
    let (batch, _) = softmax(&device, 1000);
    let mut before = device.profile();
    for run in 0..8 {
        assert!(run == 0 || !before.learned.is_empty());
        ran(&device, &batch, millis(61, 43));
        let after = device.profile();
        assert_ne!(after, before, "run {run}");
        before = after;
    }
    let same = with(device.profile()).expect("as above");
    assert_eq!(same.profile(), device.profile());
    let (recorded_anew, _) = softmax(&same, 1000);
    assert_eq!(ran(&same, &recorded_anew, millis(61, 43)), Route::Gpu);
    device.forget_learned();
    assert!(device.profile().learned.is_empty());
    assert_eq!(ran(&device, &batch, millis(61, 43)), Route::Cpu);
}

#[test]
fn what_got_slow_is_tried_again_ever_more_rarely() {
    let Some(device) = device(1.5) else { return };
    let (batch, _) = softmax(&device, 1000);
    let mut on_cpu = Vec::new();
    // The card is faster at first, then its clocks fall, and rise again.
    for run in 0..3000 {
        let gpu = if run / 300 % 2 == 0 { 43 } else { 200 };
        if ran(&device, &batch, millis(61, gpu)) == Route::Cpu && run >= 4 {
            on_cpu.push(run);
        }
    }
    // Sixteen slow runs, four more of it, and four of the host, which stays: it is no slower than it was.
    assert_eq!(on_cpu[0], 8 + 292 + 16 + 4);
    assert_eq!(on_cpu.len(), 3000 - on_cpu[0]);
    // A host that gets slow is left again, later.
    let went: Vec<Route> = (0..200).map(|_| ran(&device, &batch, millis(500, 43))).collect();
    let first = went.iter().position(|&route| route == Route::Gpu);
    assert_eq!(first, Some(32 + 4));
    assert!(went[36..].iter().all(|&route| route == Route::Gpu));
}

#[test]
fn of_runs_at_once_one_is_tried_and_none_counts() {
    let Some(device) = device(1.5) else { return };
    let (batch, _) = softmax(&device, 1000);
    (0..4).for_each(|_| _ = ran(&device, &batch, millis(61, 43)));
    let choices: Vec<PlanChoice> = (0..16).map(|_| choice(&device, &batch)).collect();
    let mut turns: Vec<_> =
        choices.iter().map(|choice| choice.begin_trial_run().expect("near a tie")).collect();
    assert_eq!(turns.iter().filter(|run| run.route == Route::Gpu).count(), 1);
    for run in &mut turns {
        device.tried(run, RunOutcome::Took(1), || false);
    }
    drop(turns);
    // A run that was dropped does not hold up the others either.
    (0..4).for_each(|_| assert_eq!(ran(&device, &batch, millis(61, 43)), Route::Cpu));
    drop(choices[0].begin_trial_run());
    (0..4).for_each(|_| assert_eq!(ran(&device, &batch, millis(61, 43)), Route::Cpu));
    (0..4).for_each(|_| assert_eq!(ran(&device, &batch, millis(61, 43)), Route::Gpu));
    assert_eq!(ran(&device, &batch, millis(61, 43)), Route::Gpu);
}

#[test]
fn many_graphs_are_tried_and_the_last_are_known() {
    let Some(device) = device(1.5) else { return };
    let first = softmax(&device, 1).0;
    let of_first = choice(&device, &first);
    for rows in 1..700 {
        let (batch, _) = softmax(&device, rows);
        (0..8).for_each(|_| _ = ran(&device, &batch, millis(61, 43)));
        assert!(device.profile().learned.trials.len() <= 512);
    }
    assert!(!of_first.fits(&device, &[]), "the profile knows nothing of it");
    assert_eq!(ran(&device, &first, millis(61, 43)), Route::Cpu);
    assert_eq!(ran(&device, &softmax(&device, 699).0, millis(61, 43)), Route::Gpu);
}

#[cfg(feature = "serde")]
#[test]
fn what_was_tried_is_kept_on_disk_and_forgotten_there() {
    let folder = std::env::temp_dir().join(format!("onetrip-trials-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let open = || found(pollster::block_on(Device::builder().cache_folder(&folder).both()));
    let Some(device) = open() else { return };
    device.set_profile(DeviceProfile { measured: true, ..profile(1.5) });
    let (batch, _) = softmax(&device, 1000);
    (0..8).for_each(|_| _ = ran(&device, &batch, millis(61, 43)));
    // A thread of its own writes it.
    let written =
        || Some(open().expect("as above")).filter(|next| !next.profile().learned.is_empty());
    let reopened = (0..1000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        written()
    });
    let reopened = reopened.expect("it was kept");
    assert_eq!(reopened.profile(), device.profile());
    assert_eq!(ran(&reopened, &softmax(&reopened, 1000).0, millis(61, 43)), Route::Gpu);
    device.forget_learned();
    assert!(open().expect("as above").profile().learned.is_empty());
    assert!(open().expect("as above").profile().measured);
    let _ = std::fs::remove_dir_all(&folder);
}

fn is_softmax(y: &[f32]) -> bool {
    y.chunks(64).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5)
}

/// Runs a batch recorded anew, and returns the side that it ran on.
async fn executed(device: &Device) -> Option<Backend> {
    let (batch, y) = softmax(device, 64);
    batch.execute().await.unwrap();
    assert!(is_softmax(&batch.read(y).await.unwrap()));
    batch.stats().backend
}

#[tokio::test]
async fn batches_recorded_anew_share_a_trial() {
    let Some(device) = device(1.01) else { return };
    let mut sides = Vec::new();
    let is_decided = || device.profile().learned.trials.iter().any(|tried| !tried.trial.is_open());
    while !is_decided() {
        assert!(sides.len() < 200, "{sides:?}");
        sides.extend(executed(&device).await);
    }
    assert!(sides.contains(&Backend::Cpu) && sides.contains(&Backend::Gpu), "{sides:?}");
    assert_eq!(device.profile().learned.trials.len(), 1);
}

#[tokio::test]
async fn batches_recorded_anew_and_programs_follow() {
    for (truth, kept) in [((61, 43), Backend::Gpu), ((43, 61), Backend::Cpu)] {
        let Some(device) = device(1.01) else { return };
        let (batch, y) = softmax(&device, 64);
        (0..8).for_each(|_| _ = ran(&device, &batch, millis(truth.0, truth.1)));
        let program = batch.compile().await.unwrap();
        // Fewer than would have to be slow on end for another trial, however busy the machine is.
        for _ in 0..6 {
            assert_eq!(executed(&device).await, Some(kept));
            let outputs = program.run(()).await.unwrap();
            assert_eq!(outputs.stats().backend, Some(kept));
            assert!(is_softmax(&outputs.read(y).await.unwrap()));
        }
    }
}

#[tokio::test]
async fn a_program_has_all_ways_compiled_before_it_runs() {
    let Some(device) = device(1.01) else { return };
    let (batch, y) = softmax(&device, 65);
    let program = Arc::new(batch.compile().await.unwrap());
    let mut sides = Vec::new();
    for _ in 0..30 {
        let outputs = program.run([(); 0].map(|()| (y, &[0_f32][..]))).await.unwrap();
        assert_eq!(outputs.stats().pipelines_compiled, 0);
        assert!(is_softmax(&outputs.read(y).await.unwrap()));
        sides.extend(outputs.stats().backend);
    }
    assert!(sides.contains(&Backend::Cpu) && sides.contains(&Backend::Gpu), "{sides:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_at_once_are_right_wherever_they_run() {
    let Some(device) = device(1.01) else { return };
    let (batch, y) = softmax(&device, 66);
    let program = batch.compile().await.unwrap();
    let task = |program: crate::Program| async move {
        for _ in 0..100 {
            let outputs = program.run([(); 0].map(|()| (y, &[0_f32][..]))).await.unwrap();
            assert!(is_softmax(&outputs.read(y).await.unwrap()));
        }
    };
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(task(program.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let metrics = device.metrics();
    assert_eq!((metrics.cpu_runs + metrics.gpu_runs, metrics.failed), (800, 0));
}

#[tokio::test]
async fn a_route_that_fails_is_left_and_nobody_notices() {
    let mut profile = profile(1.5);
    for side in [&mut profile.cpu, &mut profile.gpu] {
        side.dispatch = 1e-4;
    }
    let Some(device) = with(profile) else { return };
    let source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn main() { y[0] = 1.0; }";
    let recorded = || {
        let batch = GpuCommandBatch::new(&device);
        // More workgroups than any device has.
        let kernel = Wgsl::new(source).groups([1 << 31, 1, 1]).on_cpu(|y: &mut [f32]| y[0] = 1.0);
        let y = batch.wgsl::<f32>(kernel, 1).id();
        (batch, y)
    };
    let (batch, y) = recorded();
    assert!(choice(&device, &batch).begin_trial_run().is_some(), "near a tie");
    for run in 0..20 {
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [1.0], "run {run}");
        assert_eq!(batch.stats().backend, Some(Backend::Cpu));
    }
    let trial = device.profile().learned.trials[0].trial;
    assert_eq!((trial.decided_route(), trial.seen().is_empty()), (Some(Route::Cpu), true));
    device.forget_learned();
    let program = recorded().0.compile().await.unwrap();
    assert!(program.run(()).await.is_ok());
}
