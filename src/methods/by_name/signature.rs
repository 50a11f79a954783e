//! The operations that can be called by name, with their operands and parameters.

use crate::methods::registry::{OpInfo, registry};
use crate::ops::{ELEMENTWISE, Elementwise, Reduction, RowKind, Scan};

/// The form of a call by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The operation's row of the registry.
    pub info: OpInfo,
    /// The number of operands.
    pub operands: usize,
    /// The parameters in their order, with their names.
    pub parameters: Vec<(&'static str, ParameterKind)>,
}

/// The kind of a [`Parameter`](crate::Parameter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A number.
    Number,
    /// An axis; negative numbers count from the last.
    Axis,
    /// One axis, a list of them, or all if none is given.
    Axes,
    /// A flag, which is 0 if it is not given.
    Flag,
    /// A list of sizes or axes.
    List,
}

/// Every operation that [`GpuCommandBatch::call`](crate::GpuCommandBatch::call) records: elementwise ones, products,
/// reductions, scans, operations on rows, and a few movements.
///
/// ```
/// let clip = onetrip::signatures().find(|op| op.info.name == "clip").unwrap();
/// assert_eq!((clip.operands, clip.parameters.len()), (1, 2));
/// ```
pub fn signatures() -> impl Iterator<Item = Signature> {
    registry().filter_map(|info| Some(Callable::find(info.name)?.signature(info)))
}

/// An operation that can be called by name.
#[derive(Clone, Copy)]
pub(super) enum Callable {
    Elementwise(Elementwise),
    Reduce(Reduction),
    Row(RowKind),
    Scan(Scan),
    Composed(Composed),
}

/// Operations without a table that tells their form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Composed {
    Select,
    Matmul,
    Linear,
    Reshape,
    Permute,
    Transpose,
}

/// The form of a [`Composed`] operation.
struct ComposedRow {
    op: Composed,
    name: &'static str,
    operands: usize,
    parameters: &'static [(&'static str, ParameterKind)],
}

/// One row an operation, in the order of [`Composed`].
const COMPOSED: &[ComposedRow] = {
    use Composed::*;
    const fn row(
        op: Composed,
        name: &'static str,
        operands: usize,
        parameters: &'static [(&'static str, ParameterKind)],
    ) -> ComposedRow {
        ComposedRow { op, name, operands, parameters }
    }
    &[
        row(Select, "select", 3, &[]),
        row(Matmul, "matmul", 2, &[]),
        row(Linear, "linear", 3, &[]),
        row(Reshape, "reshape", 1, &[("shape", ParameterKind::List)]),
        row(Permute, "permute", 1, &[("axes", ParameterKind::List)]),
        row(Transpose, "transpose", 1, &[]),
    ]
};

impl Composed {
    fn row(self) -> &'static ComposedRow {
        &COMPOSED[self as usize]
    }
}

impl Callable {
    pub fn find(name: &str) -> Option<Self> {
        let elementwise = ELEMENTWISE.iter().find(|def| def.name == name);
        let elementwise = elementwise.map(|def| Self::Elementwise(def.op));
        let reduce = || Reduction::ALL.into_iter().find(|op| op.def().name == name);
        let row = || RowKind::ALL.into_iter().find(|op| op.def().name == name);
        let scan = || Scan::ALL.into_iter().find(|op| op.def().name == name);
        let composed = || COMPOSED.iter().find(|row| row.name == name).map(|row| row.op);
        elementwise
            .or_else(|| reduce().map(Self::Reduce))
            .or_else(|| row().map(Self::Row))
            .or_else(|| scan().map(Self::Scan))
            .or_else(|| composed().map(Self::Composed))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Elementwise(op) => op.def().name,
            Self::Reduce(op) => op.def().name,
            Self::Row(op) => op.def().name,
            Self::Scan(op) => op.def().name,
            Self::Composed(composed) => composed.row().name,
        }
    }

    /// The number of operands.
    pub fn arity(self) -> usize {
        match self {
            Self::Elementwise(op) => op.def().arity,
            Self::Reduce(_) | Self::Row(_) | Self::Scan(_) => 1,
            Self::Composed(composed) => composed.row().operands,
        }
    }

    /// The parameters in their order, with their names.
    pub fn parameters(self) -> Vec<(&'static str, ParameterKind)> {
        let axis = ("axis", ParameterKind::Axis);
        match self {
            Self::Elementwise(op) => {
                let names = op.def().parameter_names.iter();
                names.map(|&name| (name, ParameterKind::Number)).collect()
            }
            Self::Reduce(_) => {
                vec![("axes", ParameterKind::Axes), ("keepDims", ParameterKind::Flag)]
            }
            Self::Row(op) if op.def().has_epsilon => {
                vec![axis, ("epsilon", ParameterKind::Number)]
            }
            Self::Row(_) | Self::Scan(_) => vec![axis],
            Self::Composed(composed) => composed.row().parameters.to_vec(),
        }
    }

    /// The least and the greatest number of parameters.
    pub fn parameter_counts(self) -> (usize, usize) {
        match self {
            Self::Elementwise(op) => (op.def().parameters.len(), op.def().parameters.len()),
            Self::Reduce(_) => (0, 2),
            Self::Row(op) if op.def().has_epsilon => (2, 2),
            Self::Row(_) | Self::Scan(_) => (1, 1),
            Self::Composed(composed) => {
                (composed.row().parameters.len(), composed.row().parameters.len())
            }
        }
    }

    fn signature(self, info: OpInfo) -> Signature {
        Signature { info, operands: self.arity(), parameters: self.parameters() }
    }
}
