//! A device of known speed with a disturbed clock, on which the probes must find the speed.

use std::sync::Arc;

use super::probe::{Bench, ProbeData};
use super::probe_groups::{BUDGET, ProbeGroups};
use super::sides;
use super::subject::AtOnce;
use crate::base::sync::Mutex;
use crate::cost::{Backend, Curve, DeviceProfile, Limits, Prediction, SideProfile};
use crate::plan::Target;

/// A device whose runs take the predicted time of its profile, but for disturbances. Only its own clock moves.
pub(super) struct ModelDevice {
    disturbances: Disturbances,
    clock: Mutex<Clock>,
}

#[derive(Clone, Copy)]
struct Disturbances {
    /// The factor of an empty run's time, by the seconds since the first run.
    latency: fn(f64) -> f64,
    /// Seconds that a run takes longer on average; some take several times that.
    jitter: f64,
    /// The seconds between two runs that take `STALL` longer.
    stalls: f64,
}

const STALL: f64 = 0.005;
const QUIET: Disturbances = Disturbances { latency: |_| 1.0, jitter: 0.0, stalls: f64::INFINITY };

struct Clock {
    now: f64,
    next_stall: f64,
    random: u64,
}

impl ModelDevice {
    fn new(disturbances: Disturbances, seed: u64) -> Self {
        let clock = Clock { now: 0.0, next_stall: disturbances.stalls, random: seed };
        Self { disturbances, clock: Mutex::new(clock) }
    }

    /// Seconds of a run.
    pub fn run(&self, prediction: &Prediction) -> f64 {
        let Disturbances { latency, jitter, stalls } = self.disturbances;
        let mut clock = self.clock.lock();
        let work = prediction.total() - prediction.round_trip;
        let mut seconds = prediction.round_trip * latency(clock.now) + work;
        seconds -= jitter * clock.uniform().ln();
        if clock.now > clock.next_stall {
            clock.next_stall += stalls;
            seconds += STALL;
        }
        clock.now += seconds;
        seconds
    }
}

impl Clock {
    /// A number of 0 to 1, both excluded (Marsaglia, Xorshift RNGs, 2003).
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

/// A GPU as fast as an H100.
fn gpu() -> SideProfile {
    let mut gpu = DeviceProfile::typical(2).gpu;
    (gpu.round_trip, gpu.dispatch) = (36e-6, 2.5e-6);
    gpu.memory = Curve::flat(3.35e12);
    gpu.arithmetic = Curve::flat(8e12);
    gpu.transcendental = Curve::flat(5e12);
    gpu.reduce = Curve::flat(0.4e12);
    gpu.row = Curve::flat(2e12);
    gpu.upload = Curve::new([(256.0, 0.05e9), (65e3, 6e9), (8e6, 25e9)]);
    gpu.download = Curve::new([(256.0, 0.1e9), (65e3, 8e9), (8e6, 20e9)]);
    gpu
}

/// Two cores.
fn cpu() -> SideProfile {
    let mut cpu = DeviceProfile::typical(2).cpu;
    (cpu.round_trip, cpu.dispatch) = (1.5e-6, 0.3e-6);
    cpu.memory = Curve::new([(32.0, 10e9), (8e3, 30e9), (1e6, 100e9)]);
    cpu.arithmetic = Curve::flat(40e9);
    cpu.row = Curve::flat(3e9);
    cpu.product = Curve::new([(8e3, 5e9), (4e6, 80e9), (2e9, 150e9)]);
    // Products of middling height take a time between those of both curves.
    cpu.thin_product = Curve::new([(8e3, 5e9), (4e6, 80e9), (3e7, 100e9)]);
    cpu
}

/// The profile that the probes find on a device of profile `truth`, and the seconds that they take.
async fn found(
    side: Backend,
    truth: &SideProfile,
    disturbances: Disturbances,
    seed: u64,
) -> (SideProfile, f64) {
    let mut profile = DeviceProfile::typical(2);
    let typical = profile.side(side).clone();
    match side {
        Backend::Cpu => profile.cpu = truth.clone(),
        Backend::Gpu => profile.gpu = truth.clone(),
    }
    let target = Target { backend: side, limits: Limits::webgpu(), profile: Arc::new(profile) };
    let model = ModelDevice::new(disturbances, seed);
    let data = ProbeData::default();
    let bench = Bench::on_model(&model, &target, &AtOnce, &data);
    let mut ignore = |_| {};
    let mut groups = ProbeGroups::without_time(&mut ignore);
    let found = sides::measure(&bench, &typical, &mut groups).await;
    let seconds = model.clock.lock().now;
    (found.expect("a model never fails"), seconds)
}

/// Fails unless runs of one kernel of all sizes, and large amounts of work, take at most 1.3 times more or less than on
/// the device.
fn assert_close(found: &SideProfile, truth: &SideProfile, what: &str) {
    let close = |found: f64, truth: f64, figure: &str| {
        let ratio = (found / truth).max(truth / found);
        assert!(ratio <= 1.3, "{what}: {figure}: {found:e} in place of {truth:e}");
    };
    close(found.round_trip, truth.round_trip, "a run");
    close(found.dispatch, truth.dispatch, "a kernel");
    type CurveOf = fn(&SideProfile) -> &Curve;
    let figures: [(&str, CurveOf); 9] = [
        ("memory", |side| &side.memory),
        ("arithmetic", |side| &side.arithmetic),
        ("transcendental", |side| &side.transcendental),
        ("reduce", |side| &side.reduce),
        ("row", |side| &side.row),
        ("product", |side| &side.product),
        ("thin product", |side| &side.thin_product),
        ("upload", |side| &side.upload),
        ("download", |side| &side.download),
    ];
    for (figure, curve) in figures {
        // Products of a GPU take the time of their tiles.
        if figure.ends_with("product") && truth.threads == 0 {
            continue;
        }
        let run = |side: &SideProfile, size: f64| {
            side.round_trip + side.dispatch + curve(side).seconds(size)
        };
        for &(size, _) in curve(found).points() {
            close(run(found, size), run(truth, size), &format!("{figure} of {size}"));
        }
        let large = |side: &SideProfile| curve(side).seconds(1e12);
        if large(truth) > 0.0 {
            close(large(found), large(truth), figure);
        }
    }
}

#[tokio::test]
async fn a_quiet_device_is_found_as_it_is() {
    for (side, truth) in [(Backend::Gpu, gpu()), (Backend::Cpu, cpu())] {
        let (found, seconds) = found(side, &truth, QUIET, 1).await;
        assert_close(&found, &truth, "at rest");
        assert!(seconds < BUDGET / 2.0, "{side} took {seconds} s");
    }
}

#[tokio::test]
async fn a_card_that_starts_slow_is_found_as_it_is_later() {
    let latency: fn(f64) -> f64 = |now| if now < 0.03 { 100.0 / 36.0 } else { 1.0 };
    let disturbances = Disturbances { latency, jitter: 4e-6, stalls: 0.01 };
    for seed in 1..20 {
        let (found, seconds) = found(Backend::Gpu, &gpu(), disturbances, seed).await;
        assert_close(&found, &gpu(), &format!("seed {seed}"));
        assert!(seconds < BUDGET / 2.0, "{seconds} s");
    }
}

#[tokio::test]
async fn a_device_whose_speed_drifts_is_found_as_it_is_in_use() {
    let faster: fn(f64) -> f64 = |now| 1.0 + 2.0 * (1.0 - now / 0.03).max(0.0);
    let slower: fn(f64) -> f64 = |now| 1.0 + now;
    for latency in [faster, slower] {
        let disturbances = Disturbances { latency, jitter: 3e-6, stalls: 0.02 };
        for seed in 1..10 {
            let (found, _) = found(Backend::Gpu, &gpu(), disturbances, seed).await;
            assert_close(&found, &gpu(), &format!("seed {seed}"));
        }
        let disturbances = Disturbances { jitter: 1e-7, stalls: 0.1, ..disturbances };
        for seed in 1..10 {
            let (found, _) = found(Backend::Cpu, &cpu(), disturbances, seed).await;
            assert_close(&found, &cpu(), &format!("seed {seed}"));
        }
    }
}

#[tokio::test]
async fn a_rate_that_no_hardware_has_is_refused() {
    let typical = DeviceProfile::typical(2).gpu;
    let mut truth = gpu();
    truth.memory = Curve::flat(81e12);
    truth.upload = Curve::flat(1e15);
    let (found, _) = found(Backend::Gpu, &truth, QUIET, 1).await;
    // The smallest piece is lost in the time of a run, and its rate is possible.
    assert!(
        found.memory.points().iter().all(|&(_, rate)| rate < 34.4e12),
        "{}",
        found.memory.last()
    );
    assert!(
        found.upload.points().iter().all(|&(_, rate)| rate < 1.8e12),
        "{}",
        found.upload.last()
    );
    assert_close(
        &SideProfile { memory: typical.memory.clone(), ..found },
        &SideProfile { memory: typical.memory, upload: Curve::default(), ..gpu() },
        "the others",
    );
}
