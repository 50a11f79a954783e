//! The graphs that probes run. A graph repeats a small piece of work, each time on data of its own, so that nothing is
//! fused or shared. In a chain, each piece waits for the one before.

use smallvec::{SmallVec, smallvec};

use crate::base::dtype::{DType, Scalar};
use crate::base::place::Place;
use crate::base::shape::{Move, Range, Shape};
use crate::cost::Backend;
use crate::graph::{Graph, Node, NodeId};
use crate::ops::{Elementwise, Normalization, Op, Precision, Reduction, Type, infer};

const ROW: usize = 256;

/// The work of a probe on its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbePiece {
    /// One cheap operation, which moves data and computes next to nothing.
    Copy,
    /// Cheap operations, 32 flops an element.
    Arithmetic,
    /// Four transcendental functions, 60 flops an element and some cheap ones.
    Transcendental,
    Sum,
    /// Softmax of rows of 256.
    Softmax,
    /// `[m, k] · [k, n]`
    Product {
        m: usize,
        n: usize,
        k: usize,
    },
    /// An upload, of which one element is kept. A graph has one at most.
    Upload,
    /// Equal elements that are made on the device.
    Broadcast,
    /// The download of such elements.
    Download,
}

/// Records the nodes of a probe. A method returns `None` if this module breaks a rule of types.
#[derive(Default)]
struct ProbeRecorder {
    graph: Graph,
    residents: u32,
}

impl ProbeRecorder {
    fn push(&mut self, op: Op, inputs: &[NodeId], ty: Type) -> NodeId {
        let inputs: SmallVec<[NodeId; 3]> = inputs.into();
        let (name, place) = (op.name(), Place::caller());
        self.graph.push(Node { op, name, inputs, ty, place })
    }

    fn resident(&mut self, shape: impl Into<Shape>) -> NodeId {
        let at = self.residents;
        self.residents += 1;
        self.push(Op::Resident(at), &[], Type { dtype: DType::F32, shape: shape.into() })
    }

    fn apply(&mut self, op: Op, inputs: &[NodeId]) -> Option<NodeId> {
        let types: SmallVec<[&Type; 3]> = inputs.iter().map(|&id| &self.graph[id].ty).collect();
        let ty = infer(&op, &types).ok()?;
        drop(types);
        Some(self.push(op, inputs, ty))
    }

    fn unary(&mut self, op: Elementwise, x: NodeId, number: Option<f64>) -> Option<NodeId> {
        let scalars = number.map(|number| Scalar::new(DType::F32, number));
        self.apply(Op::Elementwise(op, scalars.into_iter().collect()), &[x])
    }

    /// One piece over `elements`. Its result is kept on the device, except that of a download.
    fn piece(&mut self, piece: ProbePiece, elements: usize) -> Option<()> {
        let y = match piece {
            ProbePiece::Copy => {
                let x = self.resident(elements);
                self.unary(Elementwise::Relu, x, None)?
            }
            ProbePiece::Arithmetic => {
                let mut x = self.resident(elements);
                for at in 0..16 {
                    let number = 0.5 + f64::from(at) / 64.0;
                    x = self.unary(Elementwise::Scale, x, Some(number))?;
                    x = self.unary(Elementwise::AddScalar, x, Some(number))?;
                }
                x
            }
            ProbePiece::Transcendental => {
                let mut x = self.resident(elements);
                use Elementwise::{Exp, Sin, Softplus, Tanh};
                for op in [Sin, Exp, Tanh, Softplus] {
                    x = self.unary(op, x, None)?;
                }
                x
            }
            ProbePiece::Sum => {
                let x = self.resident(elements);
                self.apply(
                    Op::Reduce { op: Reduction::Sum, axes: smallvec![0], keep: false },
                    &[x],
                )?
            }
            ProbePiece::Softmax => {
                let x = self.resident([(elements / ROW).max(1), ROW]);
                self.apply(Op::Row { op: Normalization::Softmax, axis: 1 }, &[x])?
            }
            ProbePiece::Product { m, n, k } => {
                let (x, w) = (self.resident([m, k]), self.resident([k, n]));
                self.apply(Op::MatMul(Precision::Exact), &[x, w])?
            }
            ProbePiece::Upload => {
                let ty = Type { dtype: DType::F32, shape: elements.into() };
                let x = self.push(Op::Upload(0), &[], ty);
                let first = Move::Slice(smallvec![Range { start: 0, step: 1, count: 1 }]);
                let y = self.apply(Op::Move { name: "slice", to: first }, &[x])?;
                self.unary(Elementwise::Relu, y, None)?
            }
            ProbePiece::Broadcast | ProbePiece::Download => {
                let (x, to) = (self.resident(1), Move::Broadcast(elements.into()));
                let y = self.apply(Op::Move { name: "broadcast_to", to }, &[x])?;
                self.unary(Elementwise::Relu, y, None)?
            }
        };
        match piece {
            ProbePiece::Download => self.graph.downloads.push(y),
            _ => self.graph.keeps.push(y),
        }
        Some(())
    }
}

/// `times` pieces over `elements` each, on residents in order: one a piece, or two for a product.
pub(super) fn pieces(piece: ProbePiece, elements: usize, times: usize) -> Option<Graph> {
    let mut recorder = ProbeRecorder::default();
    for _ in 0..times {
        recorder.piece(piece, elements)?;
    }
    Some(recorder.graph)
}

/// `kernels` that do next to nothing. On a GPU each waits for the one before, as those of a user mostly do.
pub(super) fn empty(side: Backend, kernels: usize) -> Option<Graph> {
    match side {
        Backend::Cpu => pieces(ProbePiece::Copy, 4, kernels),
        Backend::Gpu => chain(kernels),
    }
}

fn chain(times: usize) -> Option<Graph> {
    let mut recorder = ProbeRecorder::default();
    let mut x = recorder.resident([4, 4]);
    for _ in 0..times {
        let w = recorder.resident([4, 4]);
        x = recorder.apply(Op::MatMul(Precision::Exact), &[x, w])?;
    }
    recorder.graph.keeps.push(x);
    Some(recorder.graph)
}
