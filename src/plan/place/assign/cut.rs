//! Assignments as cuts of a network: steps that stay with the source are on the GPU.

use super::search::Fixed;
use super::{Assignment, FlowOrigin, Problem};
use crate::cost::Backend;
use crate::graph::{Network, Vertex};

impl Problem {
    /// The cheapest assignment with some sides fixed; host steps may stand between GPU steps.
    pub(super) fn cut(&self, fixed: &Fixed) -> Assignment {
        let scale = self.scale();
        let mut network = Network::new();
        let (gpu, host) = (network.source(), network.sink());
        let steps: Vec<Vertex> = self.steps.iter().map(|_| network.add()).collect();
        for ((step, &place), fixed) in self.steps.iter().zip(&steps).zip(fixed) {
            // Costs that both sides have alike decide nothing.
            let alike = scale.count(step.cpu).min(scale.count(step.gpu));
            let price = |side| match *fixed {
                Some(fixed) if fixed != side => Network::NEVER,
                _ => scale.count(step.on(side)) - alike,
            };
            network.pay(gpu, place, price(Backend::Cpu));
            network.pay(place, host, price(Backend::Gpu));
        }
        for value in &self.values {
            let from = match value.from {
                FlowOrigin::Step(step) => steps[step],
                FlowOrigin::Host => host,
                FlowOrigin::Gpu => gpu,
                FlowOrigin::Both => continue,
            };
            let readers = value.readers.iter().map(|&reader| steps[reader]);
            if from != gpu {
                let brought = network.add();
                network.pay(brought, from, scale.count(value.up));
                let readers = readers.clone().chain(value.to_gpu.then_some(gpu));
                readers.for_each(|reader| network.pay(reader, brought, Network::NEVER));
            }
            if from != host {
                let fetched = network.add();
                network.pay(from, fetched, scale.count(value.down));
                let readers = readers.chain(value.to_host.then_some(host));
                readers.for_each(|reader| network.pay(fetched, reader, Network::NEVER));
            }
        }
        let with_source = network.cut();
        let side = |&step: &Vertex| {
            if with_source(step) { Backend::Gpu } else { Backend::Cpu }
        };
        steps.iter().map(side).collect()
    }

    fn scale(&self) -> Scale {
        let steps = self.steps.iter().map(|step| [step.cpu, step.gpu]);
        let transfers = self.values.iter().map(|value| [value.up, value.down]);
        let costs = steps.chain(transfers).flatten().filter(|cost| cost.is_finite());
        Scale::of(costs.sum())
    }
}

/// The whole numbers in which a network counts the costs of one graph: so fine that steps of any length are told apart,
/// and so few that all of them together are far from [`Network::NEVER`].
#[derive(Clone, Copy)]
struct Scale {
    /// The units of a second.
    counts: f64,
}

impl Scale {
    /// The sum of all finite costs of a graph, or any cost.
    const MOST: u64 = 1 << 52;

    /// The scale for costs that sum up to so many seconds.
    fn of(total: f64) -> Self {
        // Without costs any scale will do.
        Self { counts: Self::MOST as f64 / total.max(f64::MIN_POSITIVE * Self::MOST as f64) }
    }

    fn count(self, seconds: f64) -> u64 {
        ((seconds * self.counts) as u64).min(Self::MOST)
    }
}
