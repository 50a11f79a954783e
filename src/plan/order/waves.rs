//! The pass *waves*: large uploads go to a GPU in parts, so that it works on what has come while the host packs the
//! rest.

use std::ops::Range;

use crate::cost::Backend;
use crate::plan::execution_plan::{Plan, Wave};
use crate::plan::step::Step;
use crate::plan::target::Target;
use crate::plan::value::{Home, ValueId};

/// The least gain of a cut: the device works for this long on the data that has arrived, and the host packs for as long
/// meanwhile. One more submission takes 7 to 25 µs on an H200.
const LEAST_SECONDS: f64 = 100e-6;
/// Waves of a run at most.
const MOST: usize = 8;

/// Sets the waves of a plan, none if all is submitted at once, and the time that they save.
pub(crate) fn assign(plan: &mut Plan, stored_bytes: &[u64], target: &Target) {
    // Threads of the host that compute do not pack meanwhile.
    let is_software = target.profile.gpu.threads > 0;
    if target.backend != Backend::Gpu || is_software || plan.steps.is_empty() {
        return;
    }
    let uploads = first_used(plan);
    let rate = target.profile.gpu.upload.rate(plan.bytes_up as f64);
    let mut steps: Vec<Timing> = plan
        .steps
        .iter()
        .map(|step| Timing { packing: 0.0, working: step.cost.seconds.gpu })
        .collect();
    for &(value, step) in &uploads {
        steps[step].packing += stored_bytes[value.index()] as f64 / rate;
    }
    let ranges = cut(&steps);
    plan.overlap = overlap(&steps, &ranges);
    let dispatched = |steps: &[Step]| steps.iter().map(Step::dispatches).sum::<u64>() as usize;
    let wave = |steps: Range<usize>| {
        let its = uploads.iter().filter(|(_, first)| steps.contains(first));
        Wave {
            dispatches: dispatched(&plan.steps[..steps.start])
                ..dispatched(&plan.steps[..steps.end]),
            uploads: its.map(|&(value, _)| value).collect(),
        }
    };
    plan.waves = ranges.into_iter().map(wave).collect();
}

/// The values copied to buffers of the run, each with the first step that reads it, or the first step of all.
fn first_used(plan: &Plan) -> Vec<(ValueId, usize)> {
    let mut first = vec![0; plan.values.len()];
    for (at, step) in plan.steps.iter().enumerate().rev() {
        step.reads().iter().for_each(|value| first[value.index()] = at);
    }
    let values = (0..).map(ValueId).zip(&plan.values);
    let uploads =
        values.filter(|(_, value)| matches!(value.home, Home::Upload { slot: Some(_), .. }));
    uploads.map(|(id, _)| (id, first[id.index()])).collect()
}

/// The predicted seconds of a step.
#[derive(Clone, Copy)]
struct Timing {
    /// Seconds to pack the uploads that it is the first to read.
    packing: f64,
    /// Seconds of its kernels.
    working: f64,
}

/// The steps of each wave: one ends where the device has enough to do while the next is packed.
fn cut(steps: &[Timing]) -> Vec<Range<usize>> {
    let mut waves = Vec::new();
    let mut left: f64 = steps.iter().map(|step| step.packing).sum();
    let (mut start, mut work) = (0, 0.0);
    for (at, step) in steps.iter().enumerate() {
        if step.packing > 0.0 && left.min(work) >= LEAST_SECONDS && waves.len() + 1 < MOST {
            waves.push(start..at);
            (start, work) = (at, 0.0);
        }
        left -= step.packing;
        work += step.working;
    }
    if !waves.is_empty() {
        waves.push(start..steps.len());
    }
    waves
}

/// The seconds for which the device works while the host packs.
fn overlap(steps: &[Timing], waves: &[Range<usize>]) -> f64 {
    let sum = |steps: &[Timing], of: fn(&Timing) -> f64| steps.iter().map(of).sum::<f64>();
    let [mut packed, mut done] = [0.0_f64; 2];
    for wave in waves {
        let steps = &steps[wave.clone()];
        packed += sum(steps, |step| step.packing);
        done = done.max(packed) + sum(steps, |step| step.working);
    }
    let whole = sum(steps, |step| step.packing + step.working);
    if waves.is_empty() { 0.0 } else { whole - done }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e-3;

    fn steps(packing_and_working: &[(f64, f64)]) -> Vec<Timing> {
        let timing = |&(packing, working): &(f64, f64)| Timing {
            packing: packing * MS,
            working: working * MS,
        };
        packing_and_working.iter().map(timing).collect()
    }

    fn saved(steps: &[Timing]) -> f64 {
        overlap(steps, &cut(steps)) / MS
    }

    #[test]
    fn layers_are_cut_where_each_brings_its_weights() {
        let layers = steps(&[(4.0, 3.0), (2.0, 3.0), (2.0, 3.0)]);
        assert_eq!(cut(&layers), [0..1, 1..2, 2..3]);
        // 4 to pack, then the device is never idle.
        assert!((saved(&layers) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_device_that_waits_for_the_host_saves_its_own_time() {
        let layers = steps(&[(4.0, 1.0), (4.0, 1.0), (4.0, 1.0)]);
        assert_eq!(cut(&layers).len(), 3);
        assert!((saved(&layers) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_cut_where_that_saves_less_than_it_costs() {
        for whole in [
            &[] as &[(f64, f64)],
            &[(9.0, 9.0)],
            // The device has too little to do before.
            &[(9.0, 0.09), (9.0, 9.0)],
            // Too little is left to bring.
            &[(9.0, 9.0), (0.09, 9.0)],
            // Nothing is.
            &[(9.0, 9.0), (0.0, 9.0), (0.0, 9.0)],
        ] {
            assert!(cut(&steps(whole)).is_empty(), "{whole:?}");
            assert_eq!(saved(&steps(whole)), 0.0, "{whole:?}");
        }
    }

    #[test]
    fn small_steps_are_gathered_in_a_wave_and_waves_are_few() {
        let small = steps(&[(0.05, 0.05); 12]);
        assert_eq!(cut(&small), [0..2, 2..4, 4..6, 6..8, 8..10, 10..12]);
        let many = steps(&[(1.0, 1.0); 100]);
        assert_eq!(cut(&many).len(), MOST);
        assert_eq!(cut(&many).last(), Some(&(MOST - 1..100)));
    }
}
