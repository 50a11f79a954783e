//! Rows of random graphs: permuting those of the inputs permutes or keeps each traced value, and parts of them join.

use slotmap::SecondaryMap;

use super::graphs::Grower;
use super::interpret::{ExactTensor, interpret};
use super::sample::{Rng, values};
use crate::batch::{GpuCommandBatch, Tensor};
use crate::device::Device;
use crate::exec::HostBuffer;
use crate::expr::reference::LaneValue;
use crate::graph::{Graph, NodeId, RowAxis, RowReduction, RowTrace, Traces};
use crate::methods::{Attention, Axes, LossReduction};
use crate::ops::{Op, SearchSide, SortOrder};

/// Graphs of each run of the test; the variable `ONETRIP_ROW_GRAPHS` asks for more.
const GRAPHS: u64 = 500;

/// A graph with inputs that have rows, and the data of all uploads.
struct Case {
    graph: Graph,
    rows: usize,
    inputs: Vec<NodeId>,
    uploads: Vec<HostBuffer>,
}

type Values = SecondaryMap<NodeId, ExactTensor>;

/// Counts of what was seen, so that the test tests something.
#[derive(Debug, Default)]
struct Seen {
    each: usize,
    merged: usize,
    reduced: [usize; 4],
    fixed: usize,
    mixed: usize,
}

#[test]
fn permuting_rows_permutes_or_keeps_what_is_traced() {
    let count = std::env::var("ONETRIP_ROW_GRAPHS").ok().and_then(|count| count.parse().ok());
    let graphs = count.unwrap_or(GRAPHS);
    let mut seen = Seen::default();
    for seed in 0..graphs {
        let mut rng = Rng::new(seed + 1);
        let mut case = Case::random(&mut rng);
        let traces = case.keep_what_is_traced(&mut seen);
        let what = format!("seed {seed}, {} rows\n{}", case.rows, case.graph.to_dot());
        let whole = case.values_for(&traces, &(0..case.rows).collect::<Vec<_>>());
        case.check_permuted(&mut rng, &traces, &whole, &what);
        case.check_joined(&mut rng, &traces, &whole, &what);
        traces.iter().for_each(|(_, trace)| seen.count(*trace));
    }
    println!("{graphs} graphs: {seen:?}");
    let kinds = [seen.each, seen.merged, seen.fixed, seen.mixed];
    let fewest = kinds.into_iter().chain(seen.reduced).min();
    assert!(fewest > Some(graphs as usize / 50), "{seen:?}");
}

impl Seen {
    fn count(&mut self, trace: RowTrace) {
        match trace {
            RowTrace::Each(RowAxis { inner: 1, .. }) => self.each += 1,
            RowTrace::Each(_) => self.merged += 1,
            RowTrace::Reduced(by, _) => self.reduced[by as usize] += 1,
            RowTrace::Fixed => self.fixed += 1,
        }
    }
}

impl Case {
    fn random(rng: &mut Rng) -> Self {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let rows = 2 + rng.below(4);
        let mut grower =
            Grower { batch: &batch, rng: rng.clone(), half: false, values: Vec::new() };
        let with_rows = 1 + grower.rng.below(2);
        for _ in 0..with_rows {
            grower.upload_rows(rows);
        }
        grower.upload();
        let mut inputs: Vec<NodeId> =
            grower.values[..with_rows].iter().map(|x| x.id().node).collect();
        let ids: Vec<f32> = values(&mut grower.rng, rows * 2, (0.0, 4.99));
        let ids = ids.iter().map(|&id| id as i32).collect::<Vec<_>>();
        let ids = batch.upload_shaped(&ids, [rows, 2]);
        inputs.push(ids.id().node);
        for _ in 0..1 + grower.rng.below(8) {
            if grower.rng.below(2) == 0 {
                grower.step();
            } else {
                grower.row_step(rows, ids);
            }
            grower.reduce_rows();
        }
        *rng = grower.rng.clone();
        let uploads = batch.uploaded().expect("all data is given");
        let graph = Graph::clone(&batch.recorded().graph);
        let uploads = uploads.iter().map(|data| HostBuffer::clone(data)).collect();
        Self { graph, rows, inputs, uploads }
    }

    /// Asks for every value whose rows can be traced together with those before it.
    fn keep_what_is_traced(&mut self, seen: &mut Seen) -> Traces {
        let all: Vec<NodeId> = self.graph.iter().map(|(id, _)| id).collect();
        let mut traced = None;
        for id in all {
            self.graph.downloads.push(id);
            match self.graph.rows(&self.inputs, self.rows) {
                Ok(traces) => traced = Some(traces),
                Err(_) => {
                    self.graph.downloads.pop();
                    seen.mixed += 1;
                }
            }
        }
        traced.expect("inputs are traced")
    }

    /// The values of the graph for the rows `from` of its inputs, one after another.
    fn values_for(&self, traces: &Traces, from: &[usize]) -> Values {
        let graph = self.graph.of_rows(traces, self.rows, from.len());
        let graph = graph.unwrap_or_else(|(id, why)| {
            panic!(
                "{} for {} rows: {why}\n{}",
                self.graph[id].op.name(),
                from.len(),
                self.graph.to_dot()
            )
        });
        let mut uploads = self.uploads.clone();
        for &id in &self.inputs {
            let Op::Upload(at) = self.graph[id].op else { unreachable!("an input") };
            let all = &self.uploads[at as usize];
            let row = all.bytes().len() / self.rows;
            let len = all.len() / self.rows * from.len();
            let mut picked = HostBuffer::try_zeroed(all.dtype(), len).expect("memory");
            for (to, &from) in picked.bytes_mut().chunks_mut(row).zip(from) {
                to.copy_from_slice(&all.bytes()[from * row..(from + 1) * row]);
            }
            uploads[at as usize] = picked;
        }
        interpret(&graph, &uploads.iter().collect::<Vec<_>>())
    }

    fn check_permuted(&self, rng: &mut Rng, traces: &Traces, whole: &Values, what: &str) {
        let mut order: Vec<usize> = (0..self.rows).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last + 1));
        }
        let permuted = self.values_for(traces, &order);
        for (id, trace) in traces {
            let (whole, permuted) = (&whole[id], &permuted[id]);
            let want = match *trace {
                RowTrace::Each(at) => picked(whole, at, self.rows, &order),
                _ => whole.values.clone(),
            };
            self.check(id, &permuted.values, &want, *trace, what);
        }
    }

    /// Cuts the rows in two, and joins the values of both parts.
    fn check_joined(&self, rng: &mut Rng, traces: &Traces, whole: &Values, what: &str) {
        let first = 1 + rng.below(self.rows - 1);
        let parts = [(0..first).collect::<Vec<_>>(), (first..self.rows).collect()];
        let [a, b] = [0, 1].map(|part| self.values_for(traces, &parts[part]));
        let shares = parts.each_ref().map(|part| part.len() as f64 / self.rows as f64);
        for (id, trace) in traces {
            let (whole, [a, b]) = (&whole[id], [&a[id], &b[id]]);
            match *trace {
                RowTrace::Each(at) => {
                    for (part, rows) in [a, b].into_iter().zip(&parts) {
                        let want = picked(whole, at, self.rows, rows);
                        self.check(id, &part.values, &want, *trace, what);
                    }
                }
                RowTrace::Fixed => {
                    self.check(id, &a.values, &whole.values, *trace, what);
                    self.check(id, &b.values, &whole.values, *trace, what);
                }
                RowTrace::Reduced(by, _) => {
                    let pairs = a.values.iter().zip(&b.values);
                    let joined: Vec<_> = pairs.map(|(&a, &b)| joined(by, a, b, shares)).collect();
                    self.check(id, &joined, &whole.values, *trace, what);
                }
            }
        }
    }

    fn check(
        &self,
        id: NodeId,
        got: &[LaneValue],
        want: &[LaneValue],
        trace: RowTrace,
        what: &str,
    ) {
        let same = |got: f64, want: f64| match trace {
            _ if got.is_nan() || want.is_nan() => got.is_nan() && want.is_nan(),
            _ if got == want => true,
            // Sums in another order round differently.
            RowTrace::Reduced(..) => (got - want).abs() <= 1e-6 * want.abs().max(1.0),
            _ => got.to_bits() == want.to_bits(),
        };
        let fits = got.len() == want.len()
            && got.iter().zip(want).all(|(got, want)| same(got.number(), want.number()));
        let name = self.graph[id].op.name();
        assert!(fits, "{name} {id:?}, {trace:?}: got {got:?}, want {want:?}\n{what}");
    }
}

fn joined(by: RowReduction, a: LaneValue, b: LaneValue, shares: [f64; 2]) -> LaneValue {
    match (by, a, b) {
        (RowReduction::Sum, LaneValue::I(a), LaneValue::I(b)) => LaneValue::I(a.wrapping_add(b)),
        (RowReduction::Sum, LaneValue::U(a), LaneValue::U(b)) => LaneValue::U(a.wrapping_add(b)),
        _ => {
            let (a, b) = (a.number(), b.number());
            LaneValue::F(match by {
                RowReduction::Sum => a + b,
                RowReduction::Mean => a * shares[0] + b * shares[1],
                RowReduction::Max => a.max(b),
                RowReduction::Min => a.min(b),
            })
        }
    }
}

/// The elements of the rows `from` of a value of `rows` rows, element by element.
fn picked(whole: &ExactTensor, at: RowAxis, rows: usize, from: &[usize]) -> Vec<LaneValue> {
    let dims = whole.shape.dims();
    let after: usize = dims[at.axis + 1..].iter().product();
    let before: usize = dims[..at.axis].iter().product();
    let groups = dims[at.axis] / rows / at.inner;
    let mut picked = Vec::new();
    for outer in 0..before * groups {
        for &row in from {
            for inner in 0..at.inner * after {
                picked.push(whole.values[(outer * rows + row) * at.inner * after + inner]);
            }
        }
    }
    picked
}

impl<'a> Grower<'a> {
    /// Data with so many rows, sometimes behind an axis of size 1.
    fn upload_rows(&mut self, rows: usize) {
        let rank = self.rng.below(3);
        let rest = (0..rank).map(|_| *self.rng.pick(&[1, 2, 3, 4])).collect::<Vec<_>>();
        let leading = if self.rng.below(4) == 0 { &[1, rows][..] } else { &[rows] };
        let dims = [leading, &rest].concat();
        let data: Vec<f32> = values(&mut self.rng, dims.iter().product(), (-2.0, 2.0));
        let x = self.batch.upload_shaped(&data, dims);
        self.values.push(x);
    }

    /// One more operation on a recent value, of those that a trace of rows has a rule for.
    fn row_step(&mut self, rows: usize, ids: Tensor<'a, i32>) {
        let x = self.recent();
        let (b, dims) = (self.batch, self.dims(x));
        if dims.is_empty() || dims.len() > 5 || dims.iter().product::<usize>() > 2000 {
            return;
        }
        let axis = self.rng.below(dims.len());
        let along = axis as isize;
        let y = match self.rng.below(20) {
            0 => b.gather(self.table(), ids, self.rng.below(2) as isize),
            1 => b.take_along_axis(x, b.argsort(x.neg(), along, SortOrder::Ascending), along),
            2 => b.sort(x, along, SortOrder::Descending),
            3 => b.cumsum(x, along).clip(-3.0, 3.0),
            4 if dims.len() >= 2 => self.attention(x, &dims),
            5 => b.select(b.gt(x, 0.25), x, b.full(dims, -0.5_f32)),
            6 => b.max(x, b.full([1, 2], 0.1_f32).sum(1).broadcast_to(dims)),
            7 => b.cast(b.argmax(x, along)),
            8 => b.prod(x, along).clip(-3.0, 3.0),
            9 => {
                b.searchsorted(b.arange(-2.0_f32, 2.0, 0.5), x, SearchSide::Left).cast::<f32>()
                    * 0.25
            }
            10 if dims[axis] > 1 => b.unfold(x, along, 2, 1 + self.rng.below(2)),
            11 => {
                let shift = 1 + self.rng.below(dims.len());
                let axes = (0..dims.len()).map(|a| ((a + shift) % dims.len()) as isize);
                b.permute(x, axes.collect::<Vec<_>>())
            }
            12 => {
                let count: usize = dims.iter().product();
                let split = [vec![rows, count / rows], vec![count / rows, rows], vec![count]];
                let fits = count.is_multiple_of(rows);
                if fits { b.reshape(x, self.rng.pick(&split).clone()) } else { x }
            }
            13 if dims.len() >= 2 => {
                let merged = [&dims[..axis], &[dims[axis..].iter().product()]].concat();
                b.reshape(x, merged)
            }
            14 => b.broadcast_to(x, [&[2][..], &dims].concat()),
            15 => b.mse_loss(x, b.tanh(x), LossReduction::Mean),
            16 => b.mul(x, b.random_uniform::<f32>([dims[dims.len() - 1]], 7, 1)),
            17 if dims.len() == 2 => b.matmul(x.transpose(), b.tanh(x)).clip(-3.0, 3.0),
            18 if dims.len() == 2 => {
                let mut w = b.full([dims[1], 3], 0.5_f32);
                if self.rng.below(2) == 0 {
                    w = b.full([dims[0], dims[1]], 0.5_f32).transpose();
                }
                b.matmul(x, w).clip(-3.0, 3.0)
            }
            _ => {
                let ends = dims.iter().enumerate();
                b.slice(x, ends.map(|(a, &dim)| 0..if a == axis { dim.div_ceil(2) } else { dim }))
            }
        };
        self.values.push(y);
    }

    /// Perhaps a reduction of a recent value, and an operation after it.
    fn reduce_rows(&mut self) {
        let (b, x) = (self.batch, self.recent());
        let rank = self.dims(x).len();
        if rank == 0 || rank > 5 || self.rng.below(2) == 0 {
            return;
        }
        let axes = if self.rng.below(3) == 0 {
            Axes::ALL
        } else {
            Axes::from(self.rng.below(rank) as isize)
        };
        let reduced = match self.rng.below(4) {
            0 => b.sum(x, axes).scale(0.125),
            1 => b.mean(x, axes),
            2 => b.amax(x, axes),
            _ => b.amin(x, axes),
        };
        let after = match self.rng.below(7) {
            0 => b.scale(reduced, -0.25),
            1 => b.div(reduced, b.full([], 4.0_f32)),
            2 => b.mul(0.5, reduced),
            3 => b.amax(reduced, ..),
            4 => b.broadcast_to(reduced, [&[2][..], &self.dims(reduced)].concat()),
            5 => b.relu(reduced),
            _ => reduced,
        };
        self.values.push(after);
    }

    fn table(&mut self) -> Tensor<'a, f32> {
        let data: Vec<f32> = values(&mut self.rng, 25, (-2.0, 2.0));
        self.batch.upload_shaped(&data, [5, 5])
    }

    fn attention(&mut self, x: Tensor<'a, f32>, dims: &[usize]) -> Tensor<'a, f32> {
        let other = match self.rng.below(2) {
            0 => x.tanh(),
            _ => {
                let width = dims[dims.len() - 1];
                let data: Vec<f32> = values(&mut self.rng, 3 * width, (-2.0, 2.0));
                self.batch.upload_shaped(&data, [3, width])
            }
        };
        self.batch.scaled_dot_product_attention(x, other, other, Attention::default())
    }
}
