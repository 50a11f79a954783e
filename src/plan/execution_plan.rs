//! The plan itself: the output of all passes, and the input of code generation and of runs.

use std::ops::Range;

use super::step::Step;
use super::target::Target;
use super::value::{Value, ValueId};
use crate::base::place::Place;
use crate::cost::{Backend, Prediction};
use crate::graph::{Graph, NodeId};

/// The kernels of a graph, with their order and memory: plain data, made once, run any number of times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub backend: Backend,
    /// Everything that has storage.
    pub values: Vec<Value>,
    /// The kernels, in the order in which they run.
    pub steps: Vec<Step>,
    /// Bytes of each buffer that lives for one run, in the device's storage.
    pub slots: Vec<u64>,
    /// The operations that can fail on the data, in the order recorded.
    pub sites: Vec<NodeId>,
    /// The downloaded values, in the order of `Graph::outputs`.
    pub downloads: Vec<ValueId>,
    /// The values that stay on the device, in the order of `Graph::keeps`.
    pub keeps: Vec<ValueId>,
    /// Bytes that a run holds at once: slots, kept results and bound residents.
    pub peak_bytes: u64,
    /// Bytes that a run holds until it is done: its slots, its kept results, and on a GPU the staging memory of the
    /// host.
    pub held_bytes: u64,
    /// Bytes that go to the device and back, without parameters.
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// The parts that are submitted one after the other, at least two; none if all is submitted at once.
    pub waves: Vec<Wave>,
    /// Predicted seconds for which the device works while uploads are packed.
    pub overlap: f64,
    /// Predicted seconds of a whole run.
    pub seconds: f64,
}

/// One submission: some of a plan's dispatches, and the uploads that none before them reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wave {
    pub dispatches: Range<usize>,
    pub uploads: Vec<ValueId>,
}

impl Plan {
    /// The plan of no kernels.
    pub fn empty(backend: Backend) -> Self {
        Self {
            backend,
            values: Vec::new(),
            steps: Vec::new(),
            slots: Vec::new(),
            sites: Vec::new(),
            downloads: Vec::new(),
            keeps: Vec::new(),
            peak_bytes: 0,
            held_bytes: 0,
            bytes_up: 0,
            bytes_down: 0,
            waves: Vec::new(),
            overlap: 0.0,
            seconds: 0.0,
        }
    }

    /// The number of dispatches of a GPU. On the host's cores, each kernel with something to do counts once.
    pub fn dispatches(&self) -> u64 {
        let dispatches = |step: &Step| match self.backend {
            Backend::Cpu => u64::from(!step.is_empty()),
            Backend::Gpu => step.dispatches(),
        };
        self.steps.iter().map(dispatches).sum()
    }

    /// The same plan with the places of `graph`, which has the structure of the graph that it was made for.
    pub fn at_places_of(&self, graph: &Graph) -> Self {
        let mut plan = self.clone();
        for (step, old) in plan.steps.iter_mut().zip(&self.steps) {
            step.place = self.place_in(graph, old).unwrap_or_else(|| old.place.clone());
        }
        for value in &mut plan.values {
            if let Some(node) = graph.get(value.node) {
                value.place = node.place.clone();
            }
        }
        plan
    }

    /// The place at which `graph` records `step`, whose first output is the result of its last operation.
    pub fn place_in(&self, graph: &Graph, step: &Step) -> Option<Place> {
        let output = step.outputs.first()?;
        Some(graph.get(self.values[output.value.index()].node)?.place.clone())
    }

    /// The predicted time of a run on the target that the plan was made for.
    pub fn predicted(&self, target: &Target) -> Prediction {
        let steps = self.steps.iter().map(|step| step.cost.seconds.on(self.backend));
        let profile = &target.profile;
        let run = profile.side(self.backend).run(steps.sum(), self.bytes_up, self.bytes_down);
        Prediction { overlap: self.overlap, ..run }
    }
}
