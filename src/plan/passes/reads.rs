//! The reads of a node's kernel, their spaces, and the elements of tables that look-ups read: shared by the pass that
//! groups nodes and the one that writes their expressions.

use smallvec::smallvec;

use super::ir::{Ir, IrNode, Ix};
use super::path::{Path, Views};
use crate::base::shape::{Move, Range, Shape, View};
use crate::ops::{AttentionDims, MatMulDims, Op};
use crate::plan::forms::Spread;
use crate::plan::step_parts::Space;

/// A value that a group reads or computes, and the way from there to a space of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub base: Ix,
    pub path: Path,
    pub space: Space,
}

/// True if a node has a kernel form of its own, rather than an expression.
pub(crate) fn is_heavy(op: &Op) -> bool {
    matches!(op, Op::Reduce { .. } | Op::MatMul(_) | Op::Attention(_) | Op::Custom(_))
        || op.row_axis().is_some()
}

/// True if other operations may follow in the kernel of a node that has a form of its own.
pub(crate) fn takes_epilogue(op: &Op) -> bool {
    is_heavy(op) && !matches!(op, Op::Sort { .. } | Op::Custom(_))
}

/// The axes whose coordinates the node's expression reads.
pub(crate) fn coordinates(op: &Op) -> impl Iterator<Item = usize> {
    let axes: Vec<usize> = match op {
        Op::Arange { .. } => vec![0],
        Op::Concat { axis } => vec![*axis],
        Op::Pad { before, after, .. } => {
            (0..before.len()).filter(|&axis| before[axis] + after[axis] > 0).collect()
        }
        _ => Vec::new(),
    };
    axes.into_iter()
}

/// True if the node's expression is made of where in the node's shape an element lies.
pub(crate) fn reads_position(op: &Op) -> bool {
    matches!(op, Op::Random(_)) || coordinates(op).next().is_some()
}

/// True if what the node's expression needs to know of a position of `shape` can be had at the end of `path`.
pub(crate) fn knows_position(op: &Op, shape: &Shape, path: &Path) -> bool {
    match op {
        Op::Random(_) => path.view(shape).is_some(),
        op => coordinates(op).all(|axis| path.coordinate(shape, axis).is_some()),
    }
}

/// The stored values that a node's expression reads, with the way to the node's own shape; of a look-up, the
/// indices alone. A padding's and a concatenation's ways lead outside of their values where another is read.
pub(crate) fn expr_reads(ir: &Ir, views: &Views, ix: Ix) -> Vec<(Ix, Path)> {
    let node = &ir.nodes[ix];
    if lookup_axis(&node.op).is_some() {
        let (base, path) = views.of(node.inputs[1]);
        return vec![(*base, index_path(node, path))];
    }
    let shape = &node.ty.shape;
    let mut start = 0_i64;
    let mut reads = Vec::with_capacity(node.inputs.len());
    for &input in &node.inputs {
        let from = &ir.nodes[input].ty.shape;
        let (base, path) = views.of(input);
        let path = match &node.op {
            Op::Move { to, .. } => path.then(to.clone(), shape.clone()),
            Op::Pad { before, .. } => {
                path.then(window(shape, |axis| -(before[axis] as i64)), shape.clone())
            }
            Op::Concat { axis } => {
                let window = window(shape, |a| if a == *axis { -start } else { 0 });
                start += from[*axis] as i64;
                path.then(window, shape.clone())
            }
            _ => path.broadcast(shape),
        };
        // Nothing can be read from nothing: such an input of a padding or concatenation is dropped.
        let dropped = matches!(node.op, Op::Pad { .. } | Op::Concat { .. }) && from.elements() == 0;
        if !dropped {
            reads.push((*base, path));
        }
    }
    reads
}

/// A slice as large as `shape` that starts at `start` of each axis, perhaps outside.
fn window(shape: &Shape, start: impl Fn(usize) -> i64) -> Move {
    let range = |(axis, &count): (usize, &usize)| Range { start: start(axis), step: 1, count };
    Move::Slice(shape.dims().iter().enumerate().map(range).collect())
}

/// The shape of the space that a mapping kernel for `ix` iterates over. A reshape that is carried
/// out walks its argument in the argument's own shape, which is the same order.
pub(crate) fn map_space(ir: &Ir, ix: Ix) -> Shape {
    let node = &ir.nodes[ix];
    match node.op {
        Op::Move { to: Move::Reshape(_), .. } => ir.nodes[node.inputs[0]].ty.shape.clone(),
        _ => node.ty.shape.clone(),
    }
}

/// The reads of the kernel of a stored value before anything is fused into it.
pub(crate) fn root_reads(ir: &Ir, views: &Views, ix: Ix) -> Vec<Read> {
    let node = &ir.nodes[ix];
    let input = |at: usize| views.of(node.inputs[at]).clone();
    match &node.op {
        op if matches!(op, Op::Reduce { .. }) || op.row_axis().is_some() => {
            let (base, path) = input(0);
            let path = path.permuted(&main_order(&node.op, &ir.nodes[node.inputs[0]].ty.shape));
            vec![Read { base, path, space: Space::Main }]
        }
        Op::MatMul(_) => {
            let ((x, x_path), (w, w_path)) = (input(0), input(1));
            let spread = spread(ir, views, ix);
            let Some((x_path, w_path)) = matmul_paths(&x_path, &w_path, spread.as_ref()) else {
                return Vec::new();
            };
            vec![
                Read { base: x, path: x_path, space: Space::X },
                Read { base: w, path: w_path, space: Space::W },
            ]
        }
        Op::Attention(_) => {
            let Some(spaces) = attention_spaces(ir, ix) else { return Vec::new() };
            let reads = spaces.into_iter().enumerate().map(|(at, (space, shape))| {
                let (base, path) = input(at);
                Read { base, path: path.broadcast(&shape), space }
            });
            reads.collect()
        }
        Op::Custom(_) => distinct((0..node.inputs.len()).map(input), Space::Whole),
        Op::Move { to: Move::Reshape(_), .. } => distinct([input(0)], Space::Main),
        _ => {
            let mut reads = distinct(expr_reads(ir, views, ix), Space::Main);
            reads.extend(table_read(views, node));
            reads
        }
    }
}

/// The reads of these values in `space`, each once.
fn distinct(values: impl IntoIterator<Item = (Ix, Path)>, space: Space) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    for (base, path) in values {
        let read = Read { base, path, space };
        if !reads.contains(&read) {
            reads.push(read);
        }
    }
    reads
}

/// The table that a look-up reads.
pub(crate) fn table_read(views: &Views, node: &IrNode) -> Option<Read> {
    let (base, path) = lookup_table(views, node)?.clone();
    Some(Read { base, path, space: Space::Whole })
}

/// The order of axes in the main space of a reduction, row or scan form: kept axes, then reduced ones.
pub(crate) fn main_order(op: &Op, shape: &Shape) -> Vec<usize> {
    let reduced: Vec<usize> = match op {
        Op::Reduce { axes, .. } => axes.to_vec(),
        op => op.row_axis().into_iter().collect(),
    };
    let kept = (0..shape.rank()).filter(|axis| !reduced.contains(axis));
    kept.chain(reduced.iter().copied()).collect()
}

/// The axes of a product's right operand, where that is a reshape of windows: the kernel walks over these, so that the
/// windows are never written out.
pub(crate) fn spread(ir: &Ir, views: &Views, ix: Ix) -> Option<Spread> {
    let &[_, w] = &ir.nodes[ix].inputs[..] else { return None };
    let reshape = &ir.nodes[w];
    let carried_out =
        matches!(reshape.op, Op::Move { to: Move::Reshape(_), .. }) && views.is_base(w);
    let (_, path) = views.of(*reshape.inputs.first().filter(|_| carried_out)?);
    let windows = path.has_windows().then(|| path.shape().dims())?;
    Spread::of(windows, reshape.ty.shape.dims())
}

/// The ways of a product's operands to the spaces `batch ++ [m, k]` and `batch ++ [k, n]`, or `batch` and the axes of
/// `spread`.
pub(crate) fn matmul_paths(x: &Path, w: &Path, spread: Option<&Spread>) -> Option<(Path, Path)> {
    let dims = MatMulDims::of(x.shape(), w.shape()).ok()?;
    let batch = || dims.batch.dims().iter().copied();
    let x = if dims.vector_x { x.reshaped([1, dims.k].into()) } else { x.clone() };
    let mut w = if dims.vector_w { w.reshaped([dims.k, 1].into()) } else { w.clone() };
    let spread = match spread {
        Some(spread) => {
            let own = &w.shape().dims()[..w.shape().rank() - 2];
            w = w.reshaped(own.iter().copied().chain(spread.dims()).collect());
            spread.clone()
        }
        None => Spread::none(dims.k, dims.n),
    };
    let x = x.broadcast(&batch().chain([dims.m, dims.k]).collect());
    Some((x, w.broadcast(&batch().chain(spread.dims()).collect())))
}

/// The spaces of an attention's operands, in their order, with their shapes.
pub(crate) fn attention_spaces(ir: &Ir, ix: Ix) -> Option<Vec<(Space, Shape)>> {
    let dims = attention_dims(ir, ix)?;
    let spaces = [
        (Space::Query, dims.space([dims.queries, dims.width])),
        (Space::Key, dims.space([dims.keys, dims.width])),
        (Space::Value, dims.space([dims.keys, dims.out])),
        (Space::Scores, dims.scores()),
    ];
    Some(spaces.into_iter().take(ir.nodes[ix].inputs.len()).collect())
}

/// The sizes of an attention.
pub(crate) fn attention_dims(ir: &Ir, ix: Ix) -> Option<AttentionDims> {
    let inputs = &ir.nodes[ix].inputs;
    let shapes: Vec<&Shape> = inputs.iter().map(|&input| &ir.nodes[input].ty.shape).collect();
    AttentionDims::of(&shapes).ok()
}

/// The out space of a heavy node's form.
pub(crate) fn out_space(ir: &Ir, ix: Ix) -> Shape {
    let node = &ir.nodes[ix];
    let input = |at: usize| &ir.nodes[node.inputs[at]].ty.shape;
    match &node.op {
        Op::Reduce { axes, .. } => {
            let shape = input(0);
            (0..shape.rank()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect()
        }
        Op::MatMul(_) => match MatMulDims::of(input(0), input(1)) {
            Ok(dims) => dims.batch.dims().iter().copied().chain([dims.m, dims.n]).collect(),
            Err(_) => node.ty.shape.clone(),
        },
        _ => node.ty.shape.clone(),
    }
}

/// The way of an epilogue's operand into the space of the kernel of `anchor`.
pub(crate) fn into_epilogue(ir: &Ir, anchor: Ix, path: &Path) -> Path {
    let node = &ir.nodes[anchor];
    if node.op.row_axis().is_some() {
        path.reshaped(node.ty.shape.clone()).permuted(&main_order(&node.op, &node.ty.shape))
    } else {
        path.reshaped(out_space(ir, anchor))
    }
}

pub(crate) fn epilogue_space(op: &Op) -> Space {
    if op.row_axis().is_some() { Space::Main } else { Space::Out }
}

/// The axis of its table that a node looks up.
pub(crate) fn lookup_axis(op: &Op) -> Option<usize> {
    match op {
        Op::SearchSorted { .. } => Some(0),
        Op::Gather { axis, .. } | Op::TakeAlong { axis, .. } => Some(*axis),
        _ => None,
    }
}

/// The stored value behind the table of a node that has one, and the way from there.
pub(crate) fn lookup_table<'a>(views: &'a Views, node: &IrNode) -> Option<&'a (Ix, Path)> {
    lookup_axis(&node.op).map(|_| views.of(node.inputs[0]))
}

/// The path from indices at the end of `path` to the result of `node`.
pub(crate) fn index_path(node: &IrNode, path: &Path) -> Path {
    let shape = &node.ty.shape;
    match node.op {
        Op::Gather { axis, .. } => {
            let own = path.shape().dims();
            let after = shape.rank() - axis - own.len();
            let dims = own.iter().copied().chain(std::iter::repeat_n(1, after));
            path.reshaped(dims.collect()).broadcast(shape)
        }
        _ => path.broadcast(shape),
    }
}

/// The places of the elements of a look-up.
pub(crate) struct TableElements {
    /// The map from the result to the element with index 0.
    pub first: View,
    /// The distance of an index from the one before.
    pub stride: i64,
    /// The number of elements along the axis.
    pub size: usize,
}

/// The places of the elements of the look-up `ix` in its table's memory.
pub(crate) fn table_elements(ir: &Ir, views: &Views, ix: Ix) -> Option<TableElements> {
    let node = &ir.nodes[ix];
    let (axis, (base, path)) = (lookup_axis(&node.op)?, lookup_table(views, node)?);
    let table = path.view(&ir.nodes[*base].ty.shape)?;
    let shape = &node.ty.shape;
    let (stride, size) = (table.strides[axis], table.dims[axis]);
    let mut strides = table.strides.clone();
    match node.op {
        Op::Gather { .. } => {
            let more = shape.rank() + 1 - table.dims.len();
            strides.remove(axis);
            strides.insert_many(axis, std::iter::repeat_n(0, more));
        }
        Op::SearchSorted { .. } => strides = smallvec![0; shape.rank()],
        _ => {
            for (at, stride) in strides.iter_mut().enumerate() {
                if at == axis || table.dims[at] != shape[at] {
                    *stride = 0;
                }
            }
        }
    }
    Some(TableElements {
        first: View { dims: shape.dims().into(), strides, offset: table.offset },
        stride,
        size,
    })
}
