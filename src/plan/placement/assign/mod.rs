//! The assignment of steps to a GPU and to the host, where one round trip joins them: by minimum cuts ([`cut`]), among
//! which a [`search`] finds one that needs no second trip.

mod cut;
mod network;
mod search;
#[cfg(test)]
mod tests;

use crate::cost::Backend;
use crate::plan::step::SideSeconds;

/// The steps to assign. Costs are in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    /// All of them, in an order of dependency.
    pub steps: Vec<SideSeconds>,
    pub values: Vec<Flow>,
    /// The cost of a run as soon as any step is on the GPU.
    pub trip: f64,
}

/// A value, from its maker to its readers.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub from: FlowOrigin,
    pub readers: Vec<usize>,
    /// True if it must end on the host.
    pub to_host: bool,
    /// True if it is to stay on the GPU.
    pub to_gpu: bool,
    /// Bringing it to the GPU, and fetching it from there; infinite for a value that cannot be handed over.
    pub up: f64,
    pub down: f64,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowOrigin {
    Step(usize),
    Host,
    Gpu,
    /// It lies on both sides.
    Both,
}

impl FlowOrigin {
    /// True if it is on `side` already, where the steps run on `sides`.
    fn is_on(self, side: Backend, sides: &[Backend]) -> bool {
        match self {
            Self::Step(step) => sides[step] == side,
            Self::Host => side == Backend::Cpu,
            Self::Gpu => side == Backend::Gpu,
            Self::Both => true,
        }
    }
}

/// The side of each step.
pub(crate) type Assignment = Vec<Backend>;

impl Problem {
    /// The cost of an assignment: steps, transfers, and the trip if there is one. `None` if it takes more than one.
    pub fn cost(&self, sides: &[Backend]) -> Option<f64> {
        self.between(sides).next().is_none().then(|| self.cost_of_trips(sides))
    }

    /// The cost with as many trips as it takes, of which one is charged.
    fn cost_of_trips(&self, sides: &[Backend]) -> f64 {
        let steps = self.steps.iter().zip(sides);
        let mut cost: f64 = steps.map(|(step, &side)| step.on(side)).sum();
        let mut trip = sides.contains(&Backend::Gpu);
        for value in &self.values {
            let is_on = |side| value.from.is_on(side, sides);
            let is_read_on = |side| value.readers.iter().any(|&reader| sides[reader] == side);
            if !is_on(Backend::Gpu) && (value.to_gpu || is_read_on(Backend::Gpu)) {
                cost += value.up;
            }
            if !is_on(Backend::Cpu) && (value.to_host || is_read_on(Backend::Cpu)) {
                cost += value.down;
                trip = true;
            }
        }
        cost + if trip { self.trip } else { 0.0 }
    }

    /// The steps on the host that stand between two on the GPU, or between the GPU's data and a step there.
    fn between<'a>(&self, sides: &'a [Backend]) -> impl Iterator<Item = usize> + use<'a> {
        let steps = self.steps.len();
        let (mut after, mut before) = (vec![false; steps], vec![false; steps]);
        let is_on_gpu = |step: usize| sides[step] == Backend::Gpu;
        for value in &self.values {
            let from_gpu = match value.from {
                FlowOrigin::Step(maker) => is_on_gpu(maker) || after[maker],
                FlowOrigin::Gpu => true,
                FlowOrigin::Host | FlowOrigin::Both => false,
            };
            if from_gpu {
                value.readers.iter().for_each(|&reader| after[reader] = true);
            }
        }
        for value in self.values.iter().rev() {
            if let FlowOrigin::Step(maker) = value.from {
                let to_gpu =
                    value.readers.iter().any(|&reader| is_on_gpu(reader) || before[reader]);
                before[maker] |= to_gpu;
            }
        }
        (0..steps).filter(move |&step| !is_on_gpu(step) && after[step] && before[step])
    }
}
