//! The shape and type rule of every operation.

use super::attention::AttentionDims;
use super::elementwise::{Accepts, Elementwise};
use super::matmul::MatMulDims;
use super::op::{Op, Type};
use super::reduce::Reduction;
use crate::base::dtype::DType;
use crate::base::shape::{MAX_RANK, Move, Shape};
use crate::error::MistakeKind;

/// The graph gives an operation fewer or more operands than it takes.
const MISSING: MistakeKind = MistakeKind::Internal("an operand is missing");

/// The types of exactly `N` operands.
fn operands<'a, const N: usize>(inputs: &[&'a Type]) -> Result<[&'a Type; N], MistakeKind> {
    inputs.try_into().map_err(|_| MISSING)
}

/// The type that a node must have: the `stated` one, or that of the rule of `op` over `inputs`.
pub(crate) fn expected_type(op: &Op, inputs: &[&Type], stated: &Type) -> Result<Type, MistakeKind> {
    if op.states_its_type() { Ok(stated.clone()) } else { infer(op, inputs) }
}

/// The type of the result of `op` over `inputs`, or the mistake. Axes and ranges inside `op` are already in range; the
/// methods that record check them against the user's numbers.
pub(crate) fn infer(op: &Op, inputs: &[&Type]) -> Result<Type, MistakeKind> {
    let first = || inputs.first().copied().ok_or(MISSING);
    let out = match op {
        Op::Invalid => Type { dtype: DType::F32, shape: Shape::default() },
        Op::Upload(_)
        | Op::Resident(_)
        | Op::Full(_)
        | Op::Arange { .. }
        | Op::Random(_)
        | Op::Custom(_) => {
            return Err(MistakeKind::Internal("sources state their type"));
        }
        Op::Elementwise(op, _) => elementwise(*op, inputs)?,
        Op::Select => select(inputs)?,
        Op::Cast(dtype) => Type { dtype: *dtype, shape: first()?.shape.clone() },
        Op::Reduce { op, axes, keep } => reduced(*op, axes, *keep, first()?)?,
        Op::Row { .. } => accepted(Accepts::Float, first()?)?.clone(),
        Op::Scan { op, .. } => accepted(op.def().accepts, first()?)?.clone(),
        Op::Sort { how, part } => {
            let x = first()?;
            Type { dtype: part.result(x.dtype), shape: how.shape(&x.shape) }
        }
        Op::MatMul(_) => product(inputs)?,
        Op::Attention(_) => attention(inputs)?,
        Op::Move { to, .. } => {
            let x = first()?;
            Type { dtype: x.dtype, shape: moved_shape(&x.shape, to) }
        }
        Op::Pad { before, after, .. } => {
            let x = first()?;
            let dims = x.shape.dims().iter().zip(before.iter().zip(after));
            let shape = dims.map(|(&d, (&b, &a))| d.saturating_add(b).saturating_add(a)).collect();
            Type { dtype: x.dtype, shape }
        }
        Op::Concat { axis } => concatenated(*axis, first()?, &inputs[1..])?,
        Op::Gather { axis, .. } => {
            let (table, indices) = indexed(inputs)?;
            let (before, after) = table.shape.dims().split_at(*axis);
            let dims = [before, indices.shape.dims(), &after[1..]].concat();
            Type { dtype: table.dtype, shape: dims.into() }
        }
        Op::SearchSorted { .. } => searched(inputs)?,
        Op::TakeAlong { axis, .. } => {
            let (table, indices) = indexed(inputs)?;
            Type { dtype: table.dtype, shape: along(&table.shape, &indices.shape, *axis)? }
        }
        Op::InRange { .. } => {
            let indices = first()?;
            check_indices(indices)?;
            indices.clone()
        }
    };
    check_size(&out.shape)?;
    check_counts(op, inputs, &out)?;
    Ok(out)
}

/// `x`, unless it is of a type that is not taken.
fn accepted(accepts: Accepts, x: &Type) -> Result<&Type, MistakeKind> {
    if accepts.dtype(x.dtype) { Ok(x) } else { Err(MistakeKind::DType(x.dtype)) }
}

fn elementwise(op: Elementwise, inputs: &[&Type]) -> Result<Type, MistakeKind> {
    let def = op.def();
    let first = inputs.first().ok_or(MISSING)?;
    let dtype = accepted(def.accepts, first)?.dtype;
    let shape = broadcast_all(inputs)?;
    Ok(Type { dtype: if def.truth { DType::Bool } else { dtype }, shape })
}

/// The type of a product of `inputs`.
fn product(inputs: &[&Type]) -> Result<Type, MistakeKind> {
    let [a, b] = operands(inputs)?;
    if a.dtype != b.dtype {
        return Err(MistakeKind::DTypes(a.dtype, b.dtype));
    }
    if !a.dtype.is_numeric() {
        return Err(MistakeKind::DType(a.dtype));
    }
    Ok(Type { dtype: a.dtype, shape: MatMulDims::of(&a.shape, &b.shape)?.shape() })
}

/// The type of an attention's result.
fn attention(inputs: &[&Type]) -> Result<Type, MistakeKind> {
    let shapes: Vec<&Shape> = inputs.iter().map(|ty| &ty.shape).collect();
    let dims = AttentionDims::of(&shapes)?;
    let dtype = inputs[0].dtype;
    if !dtype.is_float() {
        return Err(MistakeKind::DType(dtype));
    }
    let wanted = [dtype, dtype, dtype, DType::F32];
    match inputs.iter().zip(wanted).find(|(ty, wanted)| ty.dtype != *wanted) {
        Some((ty, wanted)) => Err(MistakeKind::DTypes(wanted, ty.dtype)),
        None => Ok(Type { dtype, shape: dims.shape() }),
    }
}

fn select(inputs: &[&Type]) -> Result<Type, MistakeKind> {
    let [condition, a, b] = operands(inputs)?;
    if condition.dtype != DType::Bool {
        return Err(MistakeKind::DTypes(condition.dtype, DType::Bool));
    }
    let shape = broadcast_all(&[a, b])?;
    let all = condition.shape.broadcast(&shape);
    let shape = all.ok_or_else(|| MistakeKind::Broadcast(condition.shape.clone(), shape))?;
    Ok(Type { dtype: a.dtype, shape })
}

fn reduced(op: Reduction, axes: &[usize], keep: bool, x: &Type) -> Result<Type, MistakeKind> {
    accepted(op.def().accepts, x)?;
    if op.def().of_nothing.is_none()
        && let Some(&axis) = axes.iter().find(|&&axis| x.shape[axis] == 0)
    {
        let shape = x.shape.clone();
        return Err(MistakeKind::EmptyReduction { op: op.def().name, axis, shape });
    }
    let kept = x.shape.dims().iter().enumerate().filter_map(|(axis, &dim)| {
        if !axes.contains(&axis) { Some(dim) } else { keep.then_some(1) }
    });
    Ok(Type { dtype: op.result(x.dtype), shape: kept.collect() })
}

/// The type of `x` and `others` joined along `axis`.
fn concatenated(axis: usize, x: &Type, others: &[&Type]) -> Result<Type, MistakeKind> {
    let mut dims = x.shape.dims().to_vec();
    for other in others {
        let fits = other.shape.rank() == dims.len()
            && (0..dims.len()).all(|a| a == axis || other.shape[a] == dims[a]);
        if !fits {
            let (first, other) = (x.shape.clone(), other.shape.clone());
            return Err(MistakeKind::Concat { first, other, axis });
        }
        if other.dtype != x.dtype {
            return Err(MistakeKind::DTypes(x.dtype, other.dtype));
        }
        dims[axis] = dims[axis].saturating_add(other.shape[axis]);
    }
    Ok(Type { dtype: x.dtype, shape: dims.into() })
}

/// The type of a search for numbers among ascending ones.
fn searched(inputs: &[&Type]) -> Result<Type, MistakeKind> {
    let [sorted, values] = operands(inputs)?;
    if sorted.dtype != values.dtype {
        return Err(MistakeKind::DTypes(sorted.dtype, values.dtype));
    }
    if sorted.shape.rank() != 1 {
        return Err(MistakeKind::NotAVector(sorted.shape.clone()));
    }
    Ok(Type { dtype: DType::U32, shape: values.shape.clone() })
}

/// Refuses what kernels that count in 31 bits cannot number: coordinates, or the elements of tables and indices.
fn check_counts(op: &Op, inputs: &[&Type], out: &Type) -> Result<(), MistakeKind> {
    let countable = i32::MAX as usize;
    let large = match op {
        Op::Pad { .. } | Op::Concat { .. } => {
            out.shape.dims().iter().any(|&dim| dim > countable).then_some(&out.shape)
        }
        Op::Gather { .. } | Op::TakeAlong { .. } | Op::SearchSorted { .. } | Op::InRange { .. } => {
            inputs.iter().map(|input| &input.shape).find(|shape| shape.elements() > countable)
        }
        _ => None,
    };
    large.map_or(Ok(()), |shape| Err(MistakeKind::TooLarge(shape.clone())))
}

/// A table and the indices into it.
fn indexed<'a>(inputs: &[&'a Type]) -> Result<(&'a Type, &'a Type), MistakeKind> {
    let [table, indices] = operands(inputs)?;
    check_indices(indices)?;
    Ok((table, indices))
}

fn check_indices(indices: &Type) -> Result<(), MistakeKind> {
    match indices.dtype {
        DType::I32 | DType::U32 => Ok(()),
        other => Err(MistakeKind::DType(other)),
    }
}

/// The shape of as many elements as there are `indices`, which broadcast with `table` off the axis.
fn along(table: &Shape, indices: &Shape, axis: usize) -> Result<Shape, MistakeKind> {
    let unfit = || MistakeKind::TakeAlong(table.clone(), indices.clone(), axis);
    if indices.rank() != table.rank() {
        return Err(unfit());
    }
    let pairs = table.dims().iter().zip(indices.dims()).enumerate();
    let dims = pairs.map(|(at, pair)| match pair {
        (_, &own) if at == axis => Some(own),
        (&a, &b) if a == b || b == 1 => Some(a),
        (1, &b) => Some(b),
        _ => None,
    });
    dims.collect::<Option<_>>().ok_or_else(unfit)
}

/// Refuses shapes of too many dimensions or elements.
pub(crate) fn check_size(shape: &Shape) -> Result<(), MistakeKind> {
    if shape.rank() > MAX_RANK {
        return Err(MistakeKind::Rank(shape.rank()));
    }
    // Sixteen bytes an element must be countable in an `isize` for strides and byte counts.
    const MOST: u64 = 1 << (isize::BITS - 5);
    let countable = shape
        .dims()
        .iter()
        .filter(|&&d| d != 0)
        .try_fold(1_u64, |n, &d| n.checked_mul(d as u64).filter(|&n| n <= MOST));
    match countable {
        Some(_) => Ok(()),
        None => Err(MistakeKind::TooLarge(shape.clone())),
    }
}

fn broadcast_all(inputs: &[&Type]) -> Result<Shape, MistakeKind> {
    let mut shape = inputs[0].shape.clone();
    for input in &inputs[1..] {
        if input.dtype != inputs[0].dtype {
            return Err(MistakeKind::DTypes(inputs[0].dtype, input.dtype));
        }
        shape = shape
            .broadcast(&input.shape)
            .ok_or_else(|| MistakeKind::Broadcast(shape.clone(), input.shape.clone()))?;
    }
    Ok(shape)
}

fn moved_shape(shape: &Shape, to: &Move) -> Shape {
    match to {
        Move::Reshape(to) | Move::Broadcast(to) => to.clone(),
        Move::Permute(axes) => axes.iter().map(|&axis| shape[axis]).collect(),
        Move::Slice(ranges) => ranges.iter().map(|range| range.count).collect(),
        Move::Window { axis, window } => {
            let mut dims = shape.dims().to_vec();
            dims[*axis] = window.count(dims[*axis]);
            dims.insert(axis + 1, window.size);
            dims.into()
        }
    }
}
