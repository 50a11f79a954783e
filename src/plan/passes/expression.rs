//! The scalar expression of one elementwise operation.

use smallvec::SmallVec;

use crate::base::dtype::{DType, Scalar, Ty};
use crate::expr::reference::{LaneValue, LeafValues, evaluate};
use crate::expr::{Builder, E, Expr, Ref};
use crate::ops::Op;

/// The expression of an elementwise operation over `args` and its parameters.
pub(crate) fn apply<'b>(op: &Op, args: &[E<'b>], params: &[E<'b>]) -> E<'b> {
    match op {
        Op::Elementwise(op, _) => op.apply(args, params),
        Op::Cast(dtype) => args[0].cast(*dtype),
        Op::Select => args[0].select(args[1], args[2], args[1]),
        _ => args[0],
    }
}

/// An elementwise operation over loads and scalars of these types.
pub(crate) fn expression(op: &Op, args: &[Ty], params: &[Ty]) -> (Expr, Ref) {
    let builder = Builder::default();
    let root = {
        let args: SmallVec<[_; 3]> =
            args.iter().enumerate().map(|(k, &ty)| builder.load(k as u16, ty)).collect();
        let params: SmallVec<[_; 2]> =
            params.iter().enumerate().map(|(k, &ty)| builder.scalar(k as u16, ty)).collect();
        apply(op, &args, &params).r()
    };
    (builder.finish(), root)
}

/// The element of type `dtype` that an elementwise operation computes of the elements `values`.
pub(crate) fn evaluate_element(op: &Op, dtype: DType, values: &[Scalar]) -> Option<Scalar> {
    let params: &[Scalar] = if let Op::Elementwise(_, params) = op { params } else { &[] };
    let lane = |scalar: &Scalar| scalar.dtype().lane();
    let args: SmallVec<[Ty; 3]> = values.iter().map(lane).collect();
    let lanes: SmallVec<[Ty; 2]> = params.iter().map(lane).collect();
    let (expr, root) = expression(op, &args, &lanes);
    let loads: SmallVec<[LaneValue; 3]> = values.iter().map(|&value| value.into()).collect();
    let leaves = LeafValues { loads: &loads, acc: None, scalars: params };
    Some(Scalar::new(dtype, evaluate(&expr, root, leaves)?.number()))
}

/// Flops of one element of an elementwise operation over arguments of `dtype`.
pub(crate) fn flops(op: &Op, dtype: DType) -> u64 {
    let (arity, params) = match op {
        Op::Elementwise(op, params) => (op.def().arity, params.len()),
        Op::Select => (3, 0),
        _ => (1, 0),
    };
    let ty = |k: usize| {
        let condition = k == 0 && matches!(op, Op::Select);
        if condition { Ty::Bool } else { dtype.lane() }
    };
    let args: SmallVec<[Ty; 3]> = (0..arity).map(ty).collect();
    let (expr, root) = expression(op, &args, &vec![dtype.lane(); params]);
    expr.flops(&[root])
}
