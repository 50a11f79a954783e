//! Assignments as cuts of a network: steps that stay with the source are on the GPU.

use super::network::{Network, Vertex};
use super::search::Fixed;
use super::{Assignment, FlowOrigin, Problem};
use crate::cost::Backend;

impl Problem {
    /// The cheapest assignment with some sides fixed; host steps may stand between GPU steps.
    pub(super) fn cut(&self, fixed: &Fixed) -> Assignment {
        let count = self.scale();
        let mut network = Network::new();
        let (gpu, host) = (network.source(), network.sink());
        let steps: Vec<Vertex> = self.steps.iter().map(|_| network.add()).collect();
        for ((step, &vertex), fixed) in self.steps.iter().zip(&steps).zip(fixed) {
            // Costs that both sides have alike decide nothing.
            let alike = count(step.cpu).min(count(step.gpu));
            let price = |side| match *fixed {
                Some(fixed) if fixed != side => Network::NEVER,
                _ => count(step.on(side)) - alike,
            };
            network.pay(gpu, vertex, price(Backend::Cpu));
            network.pay(vertex, host, price(Backend::Gpu));
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
                network.pay(brought, from, count(value.up));
                let readers = readers.clone().chain(value.to_gpu.then_some(gpu));
                readers.for_each(|reader| network.pay(reader, brought, Network::NEVER));
            }
            if from != host {
                let fetched = network.add();
                network.pay(from, fetched, count(value.down));
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

    /// The whole numbers in which a network counts costs: so fine that steps of any length are told apart, and so few
    /// that all of them together are far from [`Network::NEVER`].
    fn scale(&self) -> impl Fn(f64) -> u64 + use<> {
        /// The sum of all finite costs of a graph, or any cost.
        const MOST: u64 = 1 << 52;
        let steps = self.steps.iter().map(|step| [step.cpu, step.gpu]);
        let transfers = self.values.iter().map(|value| [value.up, value.down]);
        let costs = steps.chain(transfers).flatten().filter(|cost| cost.is_finite());
        // Without costs any scale will do.
        let counts = MOST as f64 / costs.sum::<f64>().max(f64::MIN_POSITIVE * MOST as f64);
        move |seconds| ((seconds * counts) as u64).min(MOST)
    }
}
