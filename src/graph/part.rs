//! Parts of a graph, which hand values to each other.

use super::{Graph, Node, NodeId};
use crate::ops::Op;

/// A part of a graph: a graph of its own, whose nodes have the ids that they have in the whole.
#[derive(Clone, Debug)]
pub(crate) struct GraphPart {
    pub graph: Graph,
    /// The sources of the part's uploads, by position.
    pub uploads: Vec<PartUpload>,
    /// The whole graph's residents that the part's are, by position.
    pub residents: Vec<u32>,
}

/// The source of an upload of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartUpload {
    /// The whole graph's upload of this position.
    Upload(u32),
    /// A value that another part makes.
    Made(NodeId),
}

impl Graph {
    /// The nodes that `downloads` and `keeps` need, where the nodes for which `is_given` holds come from other parts.
    pub fn part(
        &self,
        downloads: Vec<NodeId>,
        keeps: Vec<NodeId>,
        is_given: impl Fn(NodeId) -> bool,
    ) -> GraphPart {
        let needed = self.needed_by(downloads.iter().chain(&keeps), &is_given);
        let mut graph = self.clone();
        graph.order.retain(|&id| needed.contains_key(id));
        (graph.downloads, graph.keeps, graph.updates) = (downloads, keeps, Vec::new());
        let (mut uploads, mut residents) = (Vec::new(), Vec::new());
        for &id in &graph.order {
            let Node { op, inputs, .. } = &mut graph.nodes[id];
            let brought = match op {
                _ if is_given(id) => {
                    inputs.clear();
                    PartUpload::Made(id)
                }
                Op::Upload(at) => PartUpload::Upload(*at),
                Op::Resident(at) => {
                    residents.push(*at);
                    *at = residents.len() as u32 - 1;
                    continue;
                }
                _ => continue,
            };
            *op = Op::Upload(uploads.len() as u32);
            uploads.push(brought);
        }
        GraphPart { graph, uploads, residents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, GpuCommandBatch};

    #[test]
    fn a_part_has_what_its_outputs_need_up_to_what_is_given() {
        let device = Device::cpu();
        let batch = GpuCommandBatch::new(&device);
        let unused = batch.upload(&[0.0_f32; 3]);
        let x = batch.upload(&[1.0_f32; 3]);
        let y = batch.relu(x);
        let w = batch.bind(&device.resident(&[1.0_f32; 3], 3).unwrap());
        let z = batch.add(y, w);
        let kept = batch.scale(z, 2.0);
        batch.neg(unused);
        let before = batch.recorded().graph.part(vec![y.id().node], vec![], |_| false);
        assert_eq!(before.graph.verify(), Ok(()));
        assert_eq!((before.graph.len(), before.uploads), (2, vec![PartUpload::Upload(1)]));
        assert!(before.residents.is_empty());
        let after =
            batch.recorded().graph.part(vec![], vec![kept.id().node], |id| id == y.id().node);
        assert_eq!(after.graph.verify(), Ok(()));
        assert_eq!(after.uploads, [PartUpload::Made(y.id().node)]);
        assert_eq!((after.graph.len(), after.residents), (4, vec![0]));
        assert_eq!(after.graph.outputs(), [], "what nobody reads elsewhere is no output here");
    }
}
