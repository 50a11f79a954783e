//! What a step computes, in `f64` and element by element.

use super::case::Case;
use crate::base::dtype::{DType, Scalar, Ty};
use crate::base::shape::View;
use crate::expr::{Binary, Node, Ref, Unary};
use crate::ops::{Combine, RowKind};
use crate::plan::{
    AttentionForm, Form, MapForm, MatMulForm, ReduceForm, RowForm, ScanForm, SortForm, Source, Step,
};

/// The contents of each output.
pub(super) fn outputs(case: &Case) -> Vec<Vec<f64>> {
    let step = &case.step;
    let mut out: Vec<Vec<f64>> = step
        .outputs
        .iter()
        .map(|o| vec![f64::NAN; case.plan.values[o.value.index()].shape.elements()])
        .collect();
    if let Form::Sort(_) = step.form {
        sort(case, &mut out);
        return out;
    }
    let (dims, accs) = accumulate(case);
    for (point, acc) in points(&dims).into_iter().zip(accs) {
        for (index, output) in step.outputs.iter().enumerate() {
            let value = eval(case, output.root, &point, acc);
            let at = at(&output.view, &point);
            out[index][usize::try_from(at).unwrap()] = Scalar::new(output.dtype, value).value();
        }
    }
    out
}

/// The out space and the accumulated value at each of its points.
fn accumulate(case: &Case) -> (Vec<usize>, Vec<f64>) {
    match &case.step.form {
        Form::Sort(_) => panic!("nothing is accumulated"),
        Form::Map(MapForm { dims, .. }) => {
            let dims = dims.to_vec();
            let count = dims.iter().product();
            (dims, vec![0.0; count])
        }
        Form::Reduce(ReduceForm { combine, outer, inner, prologue, .. }) => {
            let accs = points(outer).into_iter().map(|o| {
                let all = points(inner);
                let values = all.iter().map(|i| eval(case, *prologue, &[&o[..], i].concat(), 0.0));
                fold(*combine, case.step.expr.ty(*prologue), &values.collect::<Vec<_>>())
            });
            (outer.to_vec(), accs.collect())
        }
        Form::Row(RowForm { kind, outer, len, prologue, epsilon, .. }) => {
            let epsilon = epsilon.map_or(0.0, |e| case.step.scalars[usize::from(e)].value());
            let accs = points(outer).into_iter().flat_map(|o| {
                let row = (0..*len).map(|j| eval(case, *prologue, &[&o[..], &[j]].concat(), 0.0));
                normalise(*kind, &row.collect::<Vec<_>>(), epsilon)
            });
            let dims = outer.iter().copied().chain([*len]).collect();
            (dims, accs.collect())
        }
        Form::Scan(ScanForm { combine, outer, len, prologue, .. }) => {
            let ty = case.step.expr.ty(*prologue);
            let accs = points(outer).into_iter().flat_map(|o| {
                let row = (0..*len).map(|j| eval(case, *prologue, &[&o[..], &[j]].concat(), 0.0));
                let next = |acc: &mut Option<f64>, x| {
                    *acc = Some(acc.map_or(x, |acc| fold(*combine, ty, &[acc, x])));
                    *acc
                };
                row.scan(None, next).collect::<Vec<_>>()
            });
            let dims = outer.iter().copied().chain([*len]).collect();
            (dims, accs.collect())
        }
        Form::Own(_) => unreachable!("the user knows what it computes"),
        Form::Attention(form) => {
            let &AttentionForm {
                ref batch,
                queries,
                keys,
                width,
                out,
                q,
                k,
                v,
                mask,
                scale,
                causal,
                ..
            } = form;
            let dims: Vec<usize> = batch.iter().copied().chain([queries, out]).collect();
            let scale = case.step.scalars[usize::from(scale)].value();
            let accs = points(&dims).into_iter().map(|point| {
                let (b, at) = point.split_at(batch.len());
                let read = |root, at: [usize; 2]| eval(case, root, &[b, &at].concat(), 0.0);
                let seen = causal.map_or(keys as i64, |offset| at[0] as i64 + offset + 1);
                let score = |j: usize| {
                    let sum: f64 = (0..width).map(|e| read(q, [at[0], e]) * read(k, [j, e])).sum();
                    sum * scale + mask.map_or(0.0, |mask| read(mask, [at[0], j]))
                };
                let scores: Vec<f64> = (0..(seen.max(0) as usize).min(keys)).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weight = |x: f64| if x == f64::NEG_INFINITY { 0.0 } else { (x - most).exp() };
                let total: f64 = scores.iter().map(|&x| weight(x)).sum();
                let sum: f64 =
                    (0..scores.len()).map(|j| weight(scores[j]) * read(v, [j, at[1]])).sum();
                if total == 0.0 { 0.0 } else { sum / total }
            });
            let accs = accs.collect();
            (dims, accs)
        }
        Form::MatMul(MatMulForm { batch, m, n, k, x, w, acc, .. }) => {
            let dims: Vec<usize> = batch.iter().copied().chain([*m, *n]).collect();
            let accs = points(&dims).into_iter().map(|point| {
                let (b, at) = point.split_at(batch.len());
                let terms = (0..*k).map(|k| {
                    let x = eval(case, *x, &[b, &[at[0], k]].concat(), 0.0);
                    x * eval(case, *w, &[b, &[k, at[1]]].concat(), 0.0)
                });
                wrap(*acc, terms.sum())
            });
            let accs = accs.collect();
            (dims, accs)
        }
    }
}

/// The outputs of a sort: of each row the roots at its elements in order.
fn sort(case: &Case, out: &mut [Vec<f64>]) {
    let Form::Sort(SortForm { outer, len, count, prologue, descending, .. }) = &case.step.form
    else {
        return;
    };
    for o in points(outer) {
        let at_source = |j: usize| [&o[..], &[j]].concat();
        let x: Vec<f64> = (0..*len).map(|j| eval(case, *prologue, &at_source(j), 0.0)).collect();
        // NaN last, and first where descending.
        let rank = |j: usize| (x[j].is_nan(), if x[j].is_nan() { 0.0 } else { x[j] });
        let mut order: Vec<usize> = (0..*len).collect();
        order.sort_by(|&a, &b| {
            let less = rank(a).partial_cmp(&rank(b)).unwrap();
            if *descending { less.reverse() } else { less }
        });
        for (r, &j) in order.iter().take(*count).enumerate() {
            for (output, out) in case.step.outputs.iter().zip(&mut *out) {
                let at = at(&output.view, &[&o[..], &[r]].concat());
                out[usize::try_from(at).unwrap()] = eval(case, output.root, &at_source(j), 0.0);
            }
        }
    }
}

fn fold(combine: Combine, ty: Ty, values: &[f64]) -> f64 {
    let better = |a: f64, b: f64, sign: f64| b.is_nan() || !(a.is_nan() || sign * a >= sign * b);
    let best = |sign: f64| {
        let mut best = 0;
        for (index, &value) in values.iter().enumerate() {
            if !values[best].is_nan() && better(values[best], value, sign) {
                best = index;
            }
        }
        best
    };
    match combine {
        Combine::Sum => wrap(ty, values.iter().sum()),
        Combine::Prod => values.iter().fold(1.0, |a, b| wrap(ty, a * b)),
        Combine::Max if values.is_empty() => 0.0,
        Combine::Min if values.is_empty() => f64::from(u32::MAX),
        Combine::Max => values[best(1.0)],
        Combine::Min => values[best(-1.0)],
        Combine::ArgMax => best(1.0) as f64,
        Combine::ArgMin => best(-1.0) as f64,
        Combine::LogSumExp => {
            let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if values.iter().any(|v| v.is_nan()) {
                return f64::NAN;
            }
            if greatest.is_infinite() {
                return greatest;
            }
            greatest + values.iter().map(|v| (v - greatest).exp()).sum::<f64>().ln()
        }
    }
}

fn normalise(kind: RowKind, row: &[f64], epsilon: f64) -> Vec<f64> {
    let n = row.len() as f64;
    let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = row.iter().map(|x| (x - greatest).exp()).sum();
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let square = row.iter().map(|x| x * x).sum::<f64>() / n;
    row.iter()
        .map(|x| match kind {
            RowKind::Softmax => (x - greatest).exp() / total,
            RowKind::LogSoftmax => x - greatest - total.ln(),
            RowKind::LayerNorm => (x - mean) / (variance + epsilon).sqrt(),
            RowKind::RmsNorm => x / (square + epsilon).sqrt(),
            RowKind::L2Normalize => {
                let norm = (square * n).sqrt();
                x / if norm < epsilon { epsilon } else { norm }
            }
        })
        .collect()
}

/// All points of a space in row-major order.
fn points(dims: &[usize]) -> Vec<Vec<usize>> {
    let mut points = vec![Vec::new()];
    for &dim in dims {
        points = points
            .iter()
            .flat_map(|p: &Vec<usize>| (0..dim).map(move |c| [&p[..], &[c]].concat()))
            .collect();
    }
    points
}

fn at(view: &View, point: &[usize]) -> i64 {
    view.offset + point.iter().zip(&view.strides).map(|(&c, &s)| c as i64 * s).sum::<i64>()
}

fn load(case: &Case, operand: u16, point: &[usize]) -> f64 {
    let step: &Step = &case.step;
    let operand = &step.operands[usize::from(operand)];
    let index = at(&operand.view, point);
    let Source::Value(value) = operand.source else { return index as f64 };
    let data = &case.data[value.index()];
    if data.is_empty() {
        return 0.0;
    }
    let index = if operand.clamp { index.clamp(0, data.len() as i64 - 1) } else { index };
    data[usize::try_from(index).unwrap()]
}

/// A number brought back into the range of a lane.
fn wrap(ty: Ty, value: f64) -> f64 {
    match ty {
        Ty::F32 => value,
        Ty::I32 => f64::from(value as i64 as i32),
        Ty::U32 => f64::from(value as i64 as u32),
        Ty::Bool => f64::from(u8::from(value != 0.0)),
    }
}

fn eval(case: &Case, root: Ref, point: &[usize], acc: f64) -> f64 {
    let expr = &case.step.expr;
    let next = |r: Ref| eval(case, r, point, acc);
    let ty = expr.ty(root);
    match expr.node(root) {
        Node::Load(operand) => load(case, operand, point),
        Node::Acc => acc,
        Node::Scalar(index) => case.step.scalars[usize::from(index)].value(),
        Node::Const(c) => match c.ty {
            Ty::F32 => f64::from(f32::from_bits(c.bits)),
            Ty::I32 => f64::from(c.bits.cast_signed()),
            Ty::U32 | Ty::Bool => f64::from(c.bits),
        },
        Node::Unary(op, x) => {
            let x = next(x);
            match op {
                Unary::Neg => wrap(ty, -x),
                Unary::Abs => wrap(ty, x.abs()),
                Unary::Exp => x.exp(),
                Unary::Not => 1.0 - x,
                Unary::RoundF16 => Scalar::new(DType::F16, x).value(),
                _ => panic!("{op:?} is not used by these tests"),
            }
        }
        Node::Binary(op, a, b) => {
            let (a, b) = (next(a), next(b));
            let truth = |t: bool| f64::from(u8::from(t));
            match op {
                Binary::Add => wrap(ty, a + b),
                Binary::Sub => wrap(ty, a - b),
                Binary::Mul => wrap(ty, a * b),
                Binary::MulHigh => ((a as u64 * b as u64) >> 32) as f64,
                Binary::Xor => (a as u64 ^ b as u64) as f64,
                Binary::Shr => (a as u64 >> b as u64) as f64,
                Binary::Max => {
                    if a.is_nan() {
                        a
                    } else {
                        a.max(b)
                    }
                }
                Binary::Lt => truth(a < b),
                Binary::Le => truth(a <= b),
                Binary::Gt => truth(a > b),
                Binary::Ge => truth(a >= b),
                Binary::Ne => truth(a != b),
                Binary::Eq => truth(a == b),
                Binary::And => truth(a != 0.0 && b != 0.0),
                _ => panic!("{op:?} is not used by these tests"),
            }
        }
        Node::Fetch(operand, position) => {
            let Source::Table(value) = case.step.operands[usize::from(operand)].source else {
                return f64::NAN;
            };
            case.data[value.index()][next(position) as usize]
        }
        Node::Check(_, failure) => next(failure.holds),
        Node::Select(c, a, b) => {
            if next(c) != 0.0 {
                next(a)
            } else {
                next(b)
            }
        }
        Node::Cast(to, x) => match (expr.ty(x), to, next(x)) {
            // Rust's `as` saturates and makes NaN 0 as well.
            (Ty::F32, Ty::I32, x) => f64::from(x as i32),
            (Ty::F32, Ty::U32, x) => f64::from(x as u32),
            (_, _, x) => wrap(to, x),
        },
    }
}
