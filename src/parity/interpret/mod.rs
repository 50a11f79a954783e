//! A second meaning of a graph, independent of planner and kernels: node by node, element by
//! element, floats in `f64`.

mod products;
mod rows;

use slotmap::SecondaryMap;

use self::products::{attention, matmul};
use self::rows::{row_of, rows, scanned, sorted};
use crate::base::dtype::{DType, Scalar, Ty};
use crate::base::shape::{Move, Shape};
use crate::exec::HostBuffer;
use crate::expr::Builder;
use crate::expr::reference::{LaneValue, LeafValues, evaluate};
use crate::graph::{Graph, Node, NodeId};
use crate::ops::{Combine, Distribution, Op, Random, Reduction, SearchSide};
use crate::plan::reference::combine_all;

/// A tensor of exact values.
#[derive(Clone, Debug)]
pub(super) struct ExactTensor {
    pub shape: Shape,
    pub dtype: DType,
    pub values: Vec<LaneValue>,
}

/// The value of every node.
pub(super) fn interpret(
    graph: &Graph,
    uploads: &[&HostBuffer],
) -> SecondaryMap<NodeId, ExactTensor> {
    let mut known: SecondaryMap<NodeId, ExactTensor> = SecondaryMap::new();
    for (id, node) in graph.iter() {
        let inputs: Vec<&ExactTensor> = node.inputs.iter().map(|&input| &known[input]).collect();
        let values = values(node, &inputs, uploads);
        assert_eq!(values.len(), node.ty.shape.elements(), "{}", node.op.name());
        known
            .insert(id, ExactTensor { shape: node.ty.shape.clone(), dtype: node.ty.dtype, values });
    }
    known
}

fn values(node: &Node, inputs: &[&ExactTensor], uploads: &[&HostBuffer]) -> Vec<LaneValue> {
    let shape = &node.ty.shape;
    let each = |value: &mut dyn FnMut(&[usize]) -> LaneValue| -> Vec<LaneValue> {
        coordinates(shape).map(|at| value(&at)).collect()
    };
    match &node.op {
        Op::Invalid | Op::Resident(_) | Op::Custom(_) => unreachable!("tests record no such node"),
        Op::Upload(at) => from_host(uploads[*at as usize]),
        Op::Full(value) => each(&mut |_| from_scalar(*value)),
        Op::Arange { start, step } => each(&mut |at| {
            let value = start.value() + at[0] as f64 * step.value();
            from_scalar(Scalar::new(node.ty.dtype, value))
        }),
        Op::Random(random) => {
            let values = (0..shape.elements()).map(|at| drawn(*random, at as u32, node.ty.dtype));
            values.collect()
        }
        Op::Elementwise(..) | Op::Select | Op::Cast(_) => {
            each(&mut |at| elementwise(&node.op, inputs, shape, at))
        }
        Op::Reduce { op, axes, keep } => each(&mut |at| reduce(*op, inputs[0], axes, *keep, at)),
        Op::Row { op, axis } => rows(inputs[0], *axis, |row| row_of(*op, row)),
        Op::Scan { op, axis } => rows(inputs[0], *axis, |row| scanned(*op, row)),
        Op::Sort { how, part } => sorted(*how, *part, inputs[0]),
        Op::MatMul(_) => each(&mut |at| matmul(inputs[0], inputs[1], at)),
        Op::Attention(scores) => each(&mut |at| attention(*scores, inputs, at)),
        Op::Move { to, .. } => {
            let order: Vec<Vec<usize>> = coordinates(shape).collect();
            order.iter().map(|at| moved(inputs[0], to, shape, at)).collect()
        }
        Op::Pad { before, value, .. } => each(&mut |at| {
            let from: Option<Vec<usize>> =
                at.iter().zip(before).map(|(&c, &b)| c.checked_sub(b)).collect();
            let inside =
                from.filter(|from| from.iter().zip(inputs[0].shape.dims()).all(|(c, d)| c < d));
            inside.map_or(from_scalar(*value), |from| inputs[0].at(&from))
        }),
        Op::Concat { axis } => each(&mut |at| {
            let mut at = at.to_vec();
            for input in inputs {
                if at[*axis] < input.shape[*axis] {
                    return input.at(&at);
                }
                at[*axis] -= input.shape[*axis];
            }
            unreachable!("the sizes add up")
        }),
        Op::Gather { axis, .. } => each(&mut |at| {
            let own = inputs[1].shape.rank();
            let index = inputs[1].at(&at[*axis..*axis + own]).number() as usize;
            inputs[0].at(&[&at[..*axis], &[index], &at[*axis + own..]].concat())
        }),
        Op::SearchSorted { side } => each(&mut |at| {
            let value = inputs[1].at(at).number();
            let before = |x: f64| match side {
                _ if value.is_nan() => *side == SearchSide::Right || !x.is_nan(),
                SearchSide::Right => x <= value,
                SearchSide::Left => x < value,
            };
            let sorted = inputs[0].values.iter().map(|x| x.number());
            LaneValue::U(sorted.filter(|&x| before(x)).count() as u32)
        }),
        Op::InRange { ignored, .. } => each(&mut |at| {
            let index = inputs[0].at(at);
            let none = ignored.is_some_and(|ignored| ignored.value() == index.number());
            if none { from_scalar(Scalar::new(node.ty.dtype, 0.0)) } else { index }
        }),
        Op::TakeAlong { axis, .. } => each(&mut |at| {
            let index = inputs[1].broadcast_at(at).number() as usize;
            let mut from = at.to_vec();
            from[*axis] = index;
            let off_axis = inputs[0].shape.dims().iter().zip(from).enumerate();
            let from: Vec<usize> =
                off_axis.map(|(a, (&d, c))| if d == 1 && a != *axis { 0 } else { c }).collect();
            inputs[0].at(&from)
        }),
    }
}

impl ExactTensor {
    fn at(&self, at: &[usize]) -> LaneValue {
        let index = at.iter().zip(self.shape.dims()).fold(0, |index, (&c, &d)| index * d + c);
        self.values[index]
    }

    /// The element that NumPy broadcasts to `at` of a larger shape.
    fn broadcast_at(&self, at: &[usize]) -> LaneValue {
        let skip = at.len() - self.shape.rank();
        let own: Vec<usize> = at[skip..]
            .iter()
            .zip(self.shape.dims())
            .map(|(&c, &d)| if d == 1 { 0 } else { c })
            .collect();
        self.at(&own)
    }
}

/// Every coordinate of a shape in row-major order.
fn coordinates(shape: &Shape) -> impl Iterator<Item = Vec<usize>> {
    let dims = shape.dims().to_vec();
    (0..shape.elements()).map(move |mut index| {
        let mut at = vec![0; dims.len()];
        for (c, &d) in at.iter_mut().zip(&dims).rev() {
            *c = index % d;
            index /= d;
        }
        at
    })
}

fn from_scalar(scalar: Scalar) -> LaneValue {
    match scalar.dtype().lane() {
        Ty::F32 => LaneValue::F(scalar.value()),
        _ => LaneValue::from_bits(scalar.dtype().lane(), scalar.lane_bits()),
    }
}

fn from_host(buffer: &HostBuffer) -> Vec<LaneValue> {
    fn all<T: crate::Element>(buffer: &HostBuffer) -> Vec<LaneValue> {
        buffer.to_vec::<T>().into_iter().map(|v| from_scalar(v.scalar())).collect()
    }
    match buffer.dtype() {
        DType::F32 => all::<f32>(buffer),
        DType::F16 => all::<half::f16>(buffer),
        DType::I32 => all::<i32>(buffer),
        DType::U32 => all::<u32>(buffer),
        DType::Bool => all::<bool>(buffer),
    }
}

fn elementwise(op: &Op, inputs: &[&ExactTensor], shape: &Shape, at: &[usize]) -> LaneValue {
    debug_assert_eq!(at.len(), shape.rank());
    let loads: Vec<LaneValue> = inputs.iter().map(|input| input.broadcast_at(at)).collect();
    let params: &[Scalar] = if let Op::Elementwise(_, params) = op { params } else { &[] };
    let builder = Builder::default();
    let root = {
        let args: Vec<_> =
            loads.iter().enumerate().map(|(k, v)| builder.load(k as u16, v.ty())).collect();
        let params: Vec<_> = params
            .iter()
            .enumerate()
            .map(|(k, p)| builder.scalar(k as u16, p.dtype().lane()))
            .collect();
        match op {
            Op::Elementwise(op, _) => op.apply(&args, &params).r(),
            Op::Select => args[0].select(args[1], args[2], args[1]).r(),
            Op::Cast(dtype) => args[0].cast(*dtype).r(),
            _ => unreachable!("not elementwise"),
        }
    };
    let leaves = LeafValues { loads: &loads, acc: None, scalars: params };
    evaluate(&builder.finish(), root, leaves).expect("a total expression")
}

fn reduce(op: Reduction, x: &ExactTensor, axes: &[usize], keep: bool, at: &[usize]) -> LaneValue {
    let mut outer = at.iter().copied();
    let mut start = Vec::new();
    for axis in 0..x.shape.rank() {
        let reduced = axes.contains(&axis);
        let c = if reduced && !keep {
            0
        } else {
            outer.next().expect("a coordinate for each kept axis")
        };
        start.push(c);
    }
    let inner: Shape = axes.iter().map(|&axis| x.shape[axis]).collect();
    let all: Vec<LaneValue> = coordinates(&inner)
        .map(|inner| {
            let mut from = start.clone();
            for (&axis, c) in axes.iter().zip(inner) {
                from[axis] = c;
            }
            x.at(&from)
        })
        .collect();
    combine(op, &all, x.dtype)
}

fn combine(op: Reduction, all: &[LaneValue], dtype: DType) -> LaneValue {
    let floats = || all.iter().map(|v| v.number());
    let combined = |combine| combine_all(combine, dtype.lane(), all);
    match op {
        Reduction::Sum => combined(Combine::Sum),
        Reduction::Prod => combined(Combine::Prod),
        Reduction::Mean => LaneValue::F(floats().sum::<f64>() / all.len() as f64),
        Reduction::Norm => LaneValue::F(floats().map(|x| x * x).sum::<f64>().sqrt()),
        Reduction::Max => combined(Combine::Max),
        Reduction::Min => combined(Combine::Min),
        Reduction::Argmax => combined(Combine::ArgMax),
        Reduction::Argmin => combined(Combine::ArgMin),
        Reduction::Any => LaneValue::B(all.contains(&LaneValue::B(true))),
        Reduction::All => LaneValue::B(!all.contains(&LaneValue::B(false))),
        Reduction::LogSumExp => combined(Combine::LogSumExp),
    }
}

/// A random number by its definition.
fn drawn(Random { kind, seed, stream }: Random, position: u32, dtype: DType) -> LaneValue {
    let halves = |x: u64| [x as u32, (x >> 32) as u32];
    let [low, high] = halves(stream);
    let [first, second, ..] = philox([position, 0, low, high], halves(seed));
    let unit = |word: u32, bits: u32| f64::from(word >> (32 - bits)) / f64::from(1_u32 << bits);
    match kind {
        Distribution::Bits => LaneValue::U(first),
        Distribution::Uniform => {
            LaneValue::F(unit(first, if dtype == DType::F16 { 11 } else { 24 }))
        }
        Distribution::Normal => {
            let apart = f64::from(first) / 2_f64.powi(32) + 2_f64.powi(-33);
            let angle = std::f64::consts::TAU * unit(second, 24);
            let value = (-2.0 * apart.ln()).sqrt() * angle.cos();
            LaneValue::F(Scalar::new(dtype, value).value())
        }
        Distribution::Bernoulli(below) => LaneValue::B(first >> 8 < below),
    }
}

/// Philox 4×32-10 with 64-bit products.
fn philox([mut a, mut b, mut c, mut d]: [u32; 4], [mut k, mut l]: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let (p, q) = (u64::from(a) * 0xd251_1f53, u64::from(c) * 0xcd9e_8d57);
        (a, b, c, d) = ((q >> 32) as u32 ^ b ^ k, q as u32, (p >> 32) as u32 ^ d ^ l, p as u32);
        (k, l) = (k.wrapping_add(0x9e37_79b9), l.wrapping_add(0xbb67_ae85));
    }
    [a, b, c, d]
}

fn moved(x: &ExactTensor, to: &Move, shape: &Shape, at: &[usize]) -> LaneValue {
    match to {
        Move::Reshape(_) => {
            let index = at.iter().zip(shape.dims()).fold(0, |index, (&c, &d)| index * d + c);
            x.values[index]
        }
        Move::Permute(axes) => {
            let mut from = vec![0; at.len()];
            for (&axis, &c) in axes.iter().zip(at) {
                from[axis] = c;
            }
            x.at(&from)
        }
        Move::Broadcast(_) => x.broadcast_at(at),
        Move::Slice(ranges) => {
            let from: Vec<usize> = ranges
                .iter()
                .zip(at)
                .map(|(range, &c)| (range.start + c as i64 * range.step) as usize)
                .collect();
            x.at(&from)
        }
        Move::Window { axis, window } => {
            let mut from = at.to_vec();
            let element = from.remove(axis + 1);
            from[*axis] = from[*axis] * window.step + element * window.dilation;
            x.at(&from)
        }
    }
}
