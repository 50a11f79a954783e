//! The steps of a plan as a problem of assignment: what each takes on either side, and what moving a value takes.

use super::parts::{PartValue, Phase, SideTargets, Split, SplitPart, Supply};
use crate::cost::{Backend, Residence};
use crate::plan::execution_plan::Plan;
use crate::plan::placement::assign::{Flow, FlowOrigin, Problem};
use crate::plan::value::{Home, ValueId};

/// Transfers of no more bytes take as long as they would with one byte.
const SMALL_TRANSFER: f64 = 65_536.0;
/// Bytes of a kept result from which on it is to be on the GPU, as residents of that size are.
const LARGE_KEPT: f64 = 4e6;

/// The steps of a plan, to be split.
pub(crate) struct Steps<'a> {
    pub whole: &'a Plan,
    pub sides: SideTargets<'a>,
    /// The location of the data of each of the graph's residents.
    pub residents: &'a [Residence],
    /// The part that the plan is for, where it is not that of the whole graph.
    pub part: Option<PartOf<'a>>,
}

impl Steps<'_> {
    /// The location of the data of the plan's resident at this position.
    fn residence(&self, at: u32) -> Option<&Residence> {
        let at = match self.part {
            Some(part) => *part.part().residents.get(at as usize)?,
            None => at,
        };
        self.residents.get(at as usize)
    }

    fn origin(&self, home: Home) -> Option<FlowOrigin> {
        match home {
            Home::Upload { input, .. } => {
                let maker = self.part.and_then(|part| part.maker(input));
                Some(if maker == Some(Phase::Gpu) { FlowOrigin::Gpu } else { FlowOrigin::Host })
            }
            Home::Resident(at) => Some(match self.residence(at) {
                None | Some(Residence::Both) => FlowOrigin::Both,
                Some(Residence::Host) => FlowOrigin::Host,
                Some(Residence::Gpu | Residence::Shared) => FlowOrigin::Gpu,
            }),
            Home::Slot(_) | Home::Kept(_) => None,
        }
    }

    /// The values in an order of dependency: the given ones, then the results of each step.
    pub(super) fn values(&self) -> impl Iterator<Item = (ValueId, FlowOrigin)> {
        let given =
            self.whole.values.iter().zip(0..).filter_map(|(value, at)| {
                self.origin(value.home).map(|origin| (ValueId(at), origin))
            });
        let made = self.whole.steps.iter().enumerate().flat_map(|(at, step)| {
            step.outputs.iter().map(move |output| (output.value, FlowOrigin::Step(at)))
        });
        given.chain(made)
    }

    pub fn problem(&self) -> Problem {
        let Self { whole, sides, .. } = *self;
        let gpu = sides.gpu.profile.side(Backend::Gpu);
        let cpu = sides.gpu.profile.side(Backend::Cpu);
        let seconds = whole.steps.iter().map(|step| step.cost.seconds);
        let bytes = |id: ValueId| whole.values[id.index()].bytes(&sides.gpu.limits) as f64;
        // Transfers are packed together: their fixed costs are those of the trip.
        let largest = |bytes: u64| (bytes as f64).max(SMALL_TRANSFER);
        let up = gpu.upload.rate(largest(whole.bytes_up));
        let down = gpu.download.rate(largest(whole.bytes_down));
        let copied = cpu.memory.last();
        // Parts share one trip, whatever becomes of a step of one.
        let trip = match self.part {
            Some(_) => 0.0,
            None => gpu.round_trip + gpu.upload.seconds(1.0) + gpu.download.seconds(1.0),
        };
        let mut readers = vec![Vec::new(); whole.values.len()];
        for (at, step) in whole.steps.iter().enumerate() {
            step.reads().iter().for_each(|value| readers[value.index()].push(at));
        }
        let values = self.values().map(|(id, from)| Flow {
            from,
            readers: std::mem::take(&mut readers[id.index()]),
            to_host: match self.part {
                Some(part) => part.is_result(id) || part.is_handed(id, false),
                None => whole.downloads.contains(&id),
            },
            to_gpu: whole.keeps.contains(&id) && bytes(id) > LARGE_KEPT
                || self.part.is_some_and(|part| part.is_handed(id, true)),
            up: bytes(id) / up,
            down: bytes(id) / down + 2.0 * bytes(id) / copied,
        });
        Problem { steps: seconds.collect(), values: values.collect(), trip }
    }
}

/// A part of a graph that is split already.
#[derive(Clone, Copy)]
pub(crate) struct PartOf<'a> {
    pub split: &'a Split,
    pub at: usize,
}

impl PartOf<'_> {
    fn part(&self) -> &SplitPart {
        &self.split.parts[self.at]
    }

    /// The phase that makes the value of the plan's upload `input`, unless the whole graph's upload brings it.
    pub fn maker(&self, input: u32) -> Option<Phase> {
        match self.part().uploads.get(input as usize)? {
            Supply::Part(made) => Some(self.split.parts[made.part].phase),
            Supply::Upload(_) => None,
        }
    }

    /// True if the plan makes a result of the whole graph as `value`.
    pub fn is_result(&self, value: ValueId) -> bool {
        self.made(value).any(|made| self.split.downloads.contains(&made))
    }

    /// True if a part on the GPU, or one on the host, is handed `value`.
    fn is_handed(&self, value: ValueId, to_gpu: bool) -> bool {
        let takes = |made: PartValue| {
            let takers =
                self.split.parts.iter().filter(|part| (part.phase == Phase::Gpu) == to_gpu);
            takers.flat_map(|part| &part.uploads).any(|supply| *supply == Supply::Part(made))
        };
        self.made(value).any(takes)
    }

    fn made(&self, value: ValueId) -> impl Iterator<Item = PartValue> {
        let downloads = self.part().plan.downloads.iter().enumerate();
        downloads
            .filter(move |(_, download)| **download == value)
            .map(|(at, _)| PartValue { part: self.at, at })
    }
}
