//! The meaning of a step, for the tests of kernels: each output by definition, element by element. Floats are computed in
//! `f64`, integers exactly.

use super::{
    AttentionForm, Form, MapForm, OperandSource, ProductForm, ReduceForm, RowForm, ScanForm,
    SortForm, Space, Step, StepOperand, Value, ValueId,
};
use crate::base::dtype::{Scalar, Ty};
use crate::base::shape::View;
use crate::expr::reference::{LaneValue as Lane, LeafValues, binary, evaluate_with};
use crate::expr::{Binary, ExprNode, Ref};
use crate::ops::{Combine, RowKind};

/// A step with the data that it reads.
pub(crate) struct Reference<'a> {
    pub step: &'a Step,
    /// The plan's values.
    pub values: &'a [Value],
    /// Reads an element of a value.
    pub read: &'a dyn Fn(ValueId, usize) -> Lane,
}

/// A point of a space.
type SpacePoint = Vec<usize>;

/// A result of the form, before the expressions of the outputs.
struct FormResult {
    /// The point of the outputs' views.
    point: SpacePoint,
    /// The point at which their expressions are evaluated: another one in a sort.
    source: SpacePoint,
    acc: Option<Lane>,
}

impl FormResult {
    fn at(point: SpacePoint, acc: Option<Lane>) -> Self {
        Self { source: point.clone(), point, acc }
    }
}

impl Reference<'_> {
    /// The elements of each output in the order of memory, rounded to its type; NaN where none is written.
    pub fn outputs(&self) -> Vec<Vec<f64>> {
        let outputs = &self.step.outputs;
        let mut elements: Vec<Vec<f64>> = outputs
            .iter()
            .map(|output| vec![f64::NAN; self.values[output.value.index()].shape.elements()])
            .collect();
        let space = match self.step.form {
            Form::Map { .. } | Form::Row(_) | Form::Scan(_) | Form::Sort(_) => Space::Main,
            Form::Reduce(_) | Form::Product(_) | Form::Attention(_) | Form::Custom(_) => Space::Out,
        };
        for FormResult { point, source, acc } in self.form_results() {
            for (output, elements) in outputs.iter().zip(&mut elements) {
                let value = self.evaluate(output.root, space, &source, acc).number();
                let at = usize::try_from(index(&output.view, &point)).expect("an element");
                elements[at] = Scalar::new(output.dtype, value).value();
            }
        }
        elements
    }

    fn form_results(&self) -> Vec<FormResult> {
        match &self.step.form {
            Form::Map(MapForm { dims, .. }) => {
                points(dims).into_iter().map(|point| FormResult::at(point, None)).collect()
            }
            Form::Reduce(form) => self.reduce(form),
            Form::Row(form) => self.row(form),
            Form::Scan(form) => self.scan(form),
            Form::Sort(form) => self.sort(form),
            Form::Product(form) => self.product(form),
            Form::Attention(form) => self.attention(form),
            Form::Custom(_) => unreachable!("only its author knows the meaning of a kernel"),
        }
    }

    fn reduce(&self, form: &ReduceForm) -> Vec<FormResult> {
        let ReduceForm { combine, outer, inner, prologue, .. } = form;
        let (inner, ty) = (points(inner), self.step.expr.ty(*prologue));
        let result = |outer: SpacePoint| {
            let combined: Vec<Lane> =
                inner.iter().map(|inner| self.main(*prologue, &[&outer[..], inner])).collect();
            FormResult::at(outer, Some(combine_all(*combine, ty, &combined)))
        };
        points(outer).into_iter().map(result).collect()
    }

    /// The values of `prologue` along the row at `outer`.
    fn row_of(&self, prologue: Ref, outer: &[usize], len: usize) -> Vec<Lane> {
        (0..len).map(|along| self.main(prologue, &[outer, &[along]])).collect()
    }

    /// The results that `of` makes of each row.
    fn rows(
        &self,
        (outer, len, prologue): (&[usize], usize, Ref),
        of: impl Fn(Vec<Lane>) -> Vec<Lane>,
    ) -> Vec<FormResult> {
        let rows = points(outer).into_iter().flat_map(|outer| {
            let row = of(self.row_of(prologue, &outer, len)).into_iter().enumerate();
            let result = |(along, acc)| FormResult::at([&outer[..], &[along]].concat(), Some(acc));
            row.map(result).collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn row(&self, form: &RowForm) -> Vec<FormResult> {
        let &RowForm { kind, ref outer, len, prologue, epsilon, .. } = form;
        let epsilon = epsilon.map_or(0.0, |e| self.step.scalars[usize::from(e)].value());
        self.rows((outer, len, prologue), |row| {
            let row: Vec<f64> = row.into_iter().map(Lane::number).collect();
            normalized(kind, &row, epsilon).into_iter().map(Lane::F).collect()
        })
    }

    fn scan(&self, form: &ScanForm) -> Vec<FormResult> {
        let &ScanForm { combine, ref outer, len, prologue, .. } = form;
        self.rows((outer, len, prologue), |row| running(combine, &row))
    }

    fn sort(&self, form: &SortForm) -> Vec<FormResult> {
        let SortForm { outer, len, count, prologue, descending, .. } = form;
        let rows = points(outer).into_iter().flat_map(|outer| {
            let row: Vec<f64> =
                self.row_of(*prologue, &outer, *len).into_iter().map(Lane::number).collect();
            let order = sorted_positions(&row, *descending);
            let at = |along| [&outer[..], &[along]].concat();
            let sorted = order.into_iter().take(*count).enumerate();
            let result = |(to, from)| FormResult { point: at(to), source: at(from), acc: None };
            sorted.map(result).collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn product(&self, form: &ProductForm) -> Vec<FormResult> {
        let &ProductForm { ref batch, m, n, k, ref spread, x, w, acc, .. } = form;
        let (ks, ns) = match spread {
            Some(spread) => (points(&spread.k), points(&spread.n)),
            None => (points(&[k]), points(&[n])),
        };
        let result = |point: SpacePoint| {
            let (batch, mn) = point.split_at(batch.len());
            let term = |k: usize| {
                let x = self.evaluate(x, Space::X, &[batch, &[mn[0], k]].concat(), None);
                let w = self.evaluate(w, Space::W, &[batch, &ks[k], &ns[mn[1]]].concat(), None);
                binary(Binary::Mul, x, w)
            };
            let terms: Vec<Lane> = (0..k).map(term).collect();
            FormResult::at(point, Some(combine_all(Combine::Sum, acc, &terms)))
        };
        points(&[&batch[..], &[m, n]].concat()).into_iter().map(result).collect()
    }

    fn attention(&self, form: &AttentionForm) -> Vec<FormResult> {
        let &AttentionForm { ref batch, queries, keys, width, out, .. } = form;
        let &AttentionForm { q, k, v, mask, scale, causal, .. } = form;
        let scale = self.step.scalars[usize::from(scale)].value();
        let result = |point: SpacePoint| {
            let (batch, here) = point.split_at(batch.len());
            let read = |root, space, at: [usize; 2]| {
                self.evaluate(root, space, &[batch, &at].concat(), None).number()
            };
            let seen = causal.map_or(keys as i64, |offset| here[0] as i64 + offset + 1);
            let score = |j: usize| {
                let terms = (0..width)
                    .map(|e| read(q, Space::Query, [here[0], e]) * read(k, Space::Key, [j, e]));
                let mask = mask.map_or(0.0, |mask| read(mask, Space::Scores, [here[0], j]));
                terms.sum::<f64>() * scale + mask
            };
            let scores: Vec<f64> = (0..(seen.max(0) as usize).min(keys)).map(score).collect();
            let value = |j| read(v, Space::Value, [j, here[1]]);
            let acc = Lane::F(attended(&scores, value));
            FormResult::at(point, Some(acc))
        };
        points(&[&batch[..], &[queries, out]].concat()).into_iter().map(result).collect()
    }

    /// The value of `root` at a point of the main space, in parts.
    fn main(&self, root: Ref, point: &[&[usize]]) -> Lane {
        self.evaluate(root, Space::Main, &point.concat(), None)
    }

    fn evaluate(&self, root: Ref, space: Space, point: &[usize], acc: Option<Lane>) -> Lane {
        let Step { expr, operands, scalars, .. } = self.step;
        let mut loads = vec![Lane::F(f64::NAN); operands.len()];
        for node in expr.reachable(&[root]) {
            if let ExprNode::Load(at) = expr.node(node) {
                let operand = &operands[usize::from(at)];
                assert_eq!(operand.space, space, "{root:?} is evaluated in another space");
                loads[usize::from(at)] = self.load(operand, point);
            }
        }
        let fetch = |operand: u16, position: Lane| {
            let operand = &operands[usize::from(operand)];
            let value = operand.source.value()?;
            let len = self.values[value.index()].shape.elements();
            // The branch that is not selected may look up anything.
            let at = position.number() as usize;
            let there = at < len;
            let nothing = || Lane::from_bits(operand.dtype.lane(), u32::MAX);
            Some(if there { (self.read)(value, at) } else { nothing() })
        };
        let leaves = LeafValues { loads: &loads, acc, scalars };
        evaluate_with(expr, root, leaves, &fetch).expect("all leaves are given")
    }

    fn load(&self, operand: &StepOperand, point: &[usize]) -> Lane {
        let at = index(&operand.view, point);
        let ty = operand.dtype.lane();
        let OperandSource::Value(value) = operand.source else {
            return Lane::from_bits(ty, at as u32);
        };
        let len = self.values[value.index()].shape.elements() as i64;
        if len == 0 {
            return Lane::from_bits(ty, 0);
        }
        let at = if operand.clamp { at.clamp(0, len - 1) } else { at };
        (self.read)(value, usize::try_from(at).expect("an element"))
    }
}

/// All points of a space in row-major order.
fn points(dims: &[usize]) -> Vec<SpacePoint> {
    let mut points = vec![Vec::new()];
    for &dim in dims {
        let extend = |point: &SpacePoint| {
            let point = point.clone();
            (0..dim).map(move |c| [&point[..], &[c]].concat())
        };
        points = points.iter().flat_map(extend).collect();
    }
    points
}

fn index(view: &View, point: &[usize]) -> i64 {
    view.offset + point.iter().zip(&view.strides).map(|(&c, &s)| c as i64 * s).sum::<i64>()
}

/// A reduction by its definition.
pub(crate) fn combine_all(combine: Combine, ty: Ty, all: &[Lane]) -> Lane {
    let numbers = || all.iter().map(|x| x.number());
    let integers = || numbers().map(|x| x as i64);
    let wrapped = |x: i64| Lane::from_bits(ty, x as u32);
    let best = |better: fn(f64, f64) -> bool| {
        let better = |a: usize, b: usize| {
            if better(all[b].number(), all[a].number()) { b } else { a }
        };
        let nan = numbers().position(f64::is_nan);
        nan.or_else(|| (0..all.len()).reduce(better)).expect("something to choose from")
    };
    match combine {
        Combine::Sum if ty == Ty::F32 => Lane::F(numbers().sum()),
        Combine::Prod if ty == Ty::F32 => Lane::F(numbers().product()),
        Combine::Sum => wrapped(integers().fold(0, i64::wrapping_add)),
        Combine::Prod => wrapped(integers().fold(1, i64::wrapping_mul)),
        Combine::Max if all.is_empty() => Lane::from_bits(ty, 0),
        Combine::Min if all.is_empty() => Lane::from_bits(ty, u32::MAX),
        Combine::Max => all[best(|b, a| b > a)],
        Combine::Min => all[best(|b, a| b < a)],
        Combine::ArgMax => Lane::U(best(|b, a| b > a) as u32),
        Combine::ArgMin => Lane::U(best(|b, a| b < a) as u32),
        Combine::LogSumExp => {
            let most = numbers().fold(f64::NEG_INFINITY, f64::max);
            let shift = if most.is_finite() { most } else { 0.0 };
            Lane::F(shift + numbers().map(|x| (x - shift).exp()).sum::<f64>().ln())
        }
    }
}

/// Each element combined with all before it, from the first on.
pub(crate) fn running(combine: Combine, row: &[Lane]) -> Vec<Lane> {
    let mut acc = None;
    let next = |&x: &Lane| {
        let now = acc.map_or(x, |acc| combine_all(combine, x.ty(), &[acc, x]));
        acc = Some(now);
        now
    };
    row.iter().map(next).collect()
}

/// The positions of a row's elements in their order: NaN last, and first where descending.
pub(crate) fn sorted_positions(row: &[f64], descending: bool) -> Vec<usize> {
    let rank = |at: usize| (row[at].is_nan(), if row[at].is_nan() { 0.0 } else { row[at] });
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| {
        let less = rank(a).partial_cmp(&rank(b)).expect("no NaN is left");
        if descending { less.reverse() } else { less }
    });
    order
}

/// An element of an attention by its definition: over the keys, e^(score − greatest) times the value, divided by their
/// sum; 0 where no score is above −∞.
pub(crate) fn attended(scores: &[f64], value: impl Fn(usize) -> f64) -> f64 {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if scores.iter().all(|&x| x == f64::NEG_INFINITY) {
        return 0.0;
    }
    let total: f64 = scores.iter().map(|x| (x - most).exp()).sum();
    let seen = scores.iter().enumerate().filter(|&(_, &x)| x != f64::NEG_INFINITY);
    seen.map(|(key, x)| (x - most).exp() * value(key)).sum::<f64>() / total
}

/// A normalisation by its definition.
pub(crate) fn normalized(kind: RowKind, row: &[f64], epsilon: f64) -> Vec<f64> {
    let n = row.len() as f64;
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = row.iter().map(|x| (x - most).exp()).sum();
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let square = row.iter().map(|x| x * x).sum::<f64>() / n;
    let one = |x: &f64| match kind {
        RowKind::Softmax => (x - most).exp() / total,
        RowKind::LogSoftmax => x - most - total.ln(),
        RowKind::LayerNorm => (x - mean) / (variance + epsilon).sqrt(),
        RowKind::RmsNorm => x / (square + epsilon).sqrt(),
        RowKind::L2Normalize => {
            let norm = (square * n).sqrt();
            x / if norm < epsilon { epsilon } else { norm }
        }
    };
    row.iter().map(one).collect()
}
