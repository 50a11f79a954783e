//! Recurrent layers, made of products and elementwise operations: cells, and whole sequences as one graph.

mod cell;
mod sizes;

pub use self::cell::CellWeights;
use self::cell::{CellKind, CellState, CellTensors};
use self::sizes::{InputSource, LayerInput, batch_and_width, check_states};
use crate::base::dtype::{Element, Float};
use crate::batch::{BufferId, GpuCommandBatch, Operand, OperationResult, OptionalOperand, Tensor};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::check_parameter;
use crate::record::Refusal;

/// The longest sequence: each of its steps is recorded.
const LONGEST: usize = 1 << 20;

/// The options of a walk over a sequence. The default is PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recurrence {
    /// True if sequences are `[B, T, …]`, not `[T, B, …]`.
    pub batch_first: bool,
    /// True if each layer walks backwards too, with a cell of its own: for each layer, the cell that walks forwards comes
    /// first, and then the one that walks backwards.
    pub bidirectional: bool,
}

/// The state of an LSTM from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmState<T: Float> {
    /// The hidden state.
    pub h: BufferId<T>,
    /// The state of the cell.
    pub c: BufferId<T>,
}

impl<'b, T: Float> OperationResult<'b> for LstmState<T> {
    fn silent(batch: &'b GpuCommandBatch, op: &'static str) -> Self {
        let (h, c) = <(Tensor<'b, T>, Tensor<'b, T>)>::silent(batch, op);
        Self { h: h.id(), c: c.id() }
    }
}

impl<T: Float> LstmState<T> {
    /// A state of tensors, ids or borrowed residents.
    #[track_caller]
    pub fn new(batch: &GpuCommandBatch, h: impl Operand<T>, c: impl Operand<T>) -> Self {
        let name = "LstmState::new";
        Self { h: batch.option(name, h), c: batch.option(name, c) }
    }

    fn of([h, c]: CellState<'_, T>) -> Self {
        Self { h: h.id(), c: c.id() }
    }

    fn tensors(self, b: &GpuCommandBatch) -> CellState<'_, T> {
        [b.operand(self.h), b.operand(self.c)]
    }
}

operations! {
    /// Recurrent layers. A sequence is unrolled: all inputs go through one product, then each step is a product and an
    /// elementwise kernel. None may have more than 1 048 576 steps.
    "recurrent";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{CellWeights, Device, GpuCommandBatch, LstmState, Recurrence};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let zeros = |gates: usize| batch.full([gates, 1], 0.0_f32);
        /// let lstm = CellWeights::new(&batch, zeros(4), zeros(4));
        /// let gru = CellWeights::new(&batch, zeros(3), zeros(3));
        /// let (x, state) = (batch.full([2, 1, 1], 1.0_f32), batch.full([1, 1, 1], 2.0_f32));
        /// let (step, h) = (batch.full([1, 1], 1.0_f32), batch.full([1, 1], 2.0_f32));
        /// let next = step.lstm_cell(LstmState::new(&batch, h, h), lstm);
        /// let start = LstmState::new(&batch, state, state);
        /// let (all, last) = x.lstm(&[lstm], Some(start), Recurrence::default());
        /// let (hidden, end) = x.gru(&[gru], state, Recurrence::default());
        /// let one = step.gru_cell(h, gru);
        /// batch.outputs([next.c, last.c, all.id(), hidden.id(), end.id(), one.id()]);
        /// batch.execute().await?;
        /// assert_eq!(batch.read(next.c).await?, [1.0]); // Half of the state before.
        /// assert_eq!(batch.read(last.c).await?, [0.5]);
        /// assert_eq!(batch.read(all).await?.len(), 2);
        /// assert_eq!(batch.read(hidden).await?, [1.0, 0.5]);
        /// assert_eq!(batch.read(end).await?, [0.5]);
        /// assert_eq!(batch.read(one).await?, [1.0]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// One step of an LSTM (Hochreiter and Schmidhuber, 1997), for inputs `[B, I]` and a state of `[B, H]` each:
    /// c′ = σ(f)·c + σ(i)·tanh(g) and h′ = σ(o)·tanh(c′), where i, f, g and o are parts of
    /// x·W_inputᵀ + h·W_hiddenᵀ + biases.
    fn lstm_cell<T: Float>(x: T; state: LstmState<T>, weights: CellWeights<T>) -> LstmState<T> = {
        let state = state.tensors(x.batch());
        let state = one_step(CellKind::Lstm, x, state, &weights)?;
        Ok(LstmState::of(named(state, ["lstm_cell.h", "lstm_cell.c"])))
    },
        FLOAT, CELL, GATED, "One step of an LSTM (Hochreiter and Schmidhuber, 1997).";
    /// One step of a GRU (Cho et al., 2014), for inputs `[B, I]` and a state of `[B, H]`: h′ = (1 − z)·n + z·h with
    /// r and z the logistic functions of x·W_inputᵀ + h·W_hiddenᵀ + biases, and
    /// n = tanh(x·W_inputᵀ + b_input + r·(h·W_hiddenᵀ + b_hidden)), each by its rows of the weights.
    fn gru_cell<T: Float>(x: T, h: T; weights: CellWeights<T>) -> Tensor<'b, T> = one_step(CellKind::Gru, x, [h, h], &weights).map(|[h, _]| h),
        FLOAT, CELL, GATED, "One step of a GRU (Cho et al., 2014).";
    /// LSTM cells over sequences `[T, B, I]`: one cell a layer, or two where it is
    /// [bidirectional](Recurrence::bidirectional). States start from `[cells, B, H]`, or from zeros. The results are
    /// the last layer's hidden states at each step, `[T, B, H]`, and each cell's state after its last step, `[cells, B, H]`.
    /// Both ways, hidden states are `[T, B, 2·H]`, forwards before backwards. A result that nothing reads is
    /// downloaded too, unless [`outputs`](GpuCommandBatch::outputs) names the wanted ones.
    ///
    /// Sequences of unequal length are padded to one. The last states have seen the padding, and so has a walk backwards.
    /// Lengths `[B]` pick the hidden state after the last real step forwards, with
    /// [`batch_first`](Recurrence::batch_first). They are 1 to the number of steps; a run with another length ends with a
    /// [`Fault`](crate::Fault), so check them before:
    ///
    /// ```
    /// # use onetrip::{CellWeights, Device, GpuCommandBatch, Recurrence};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// # let (input, hidden) = (batch.full([8, 3], 0.1_f32), batch.full([8, 2], 0.1_f32));
    /// # let (x, cell) = (batch.full([5, 7, 3], 1.0_f32), CellWeights::new(&batch, input, hidden));
    /// let given = [7, 4, 1, 5, 7];
    /// assert!(given.iter().all(|length| (1..=7).contains(length))); // of 7 steps
    /// let lengths = batch.upload(&given);
    /// let (hidden, _) = x.lstm(&[cell], None, Recurrence { batch_first: true, ..Recurrence::default() });
    /// let ends = (lengths - 1).unsqueeze(-1).unsqueeze(-1);
    /// let last = hidden.take_along_axis(ends, 1).squeeze(1);
    /// # assert_eq!(last.shape().unwrap().dims(), [5, 2]);
    /// ```
    fn lstm<T: Float>(x: T; cells: &[CellWeights<T>], start: Option<LstmState<T>>, how: Recurrence) -> (Tensor<'b, T>, LstmState<T>) = {
        let start = start.map(|state| state.tensors(x.batch()));
        recur(CellKind::Lstm, x, cells, start, how).map(|(y, state)| (y, LstmState::of(state)))
    },
        FLOAT, CELL, GATED, "LSTM layers over whole sequences, both ways if wanted.";
    /// GRU cells over sequences `[T, B, I]`: cells, states and results are those of [`lstm`](Self::lstm). Without a `start`
    /// (`None`), states are zeros. The results are the hidden states `[T, B, H]` of the last layer, or `[T, B, 2·H]` both
    /// ways, and each cell's last state, `[cells, B, H]`.
    ///
    /// Sequences of unequal length are padded to one, and the last states have seen the padding. As for
    /// [`lstm`](Self::lstm), the state after the last real step is
    /// `hidden.take_along_axis((lengths - 1).unsqueeze(-1).unsqueeze(-1), 1).squeeze(1)` of `[B, T, H]`, for lengths of 1
    /// to T.
    fn gru<T: Float>(x: T; cells: &[CellWeights<T>], start: impl OptionalOperand<T>, how: Recurrence) -> (Tensor<'b, T>, Tensor<'b, T>) = {
        let start = x.optional(start).map(|h| [h; 2]);
        recur(CellKind::Gru, x, cells, start, how).map(|(y, [h, _])| (y, h))
    },
        FLOAT, CELL, GATED, "GRU layers over whole sequences, both ways if wanted.";
}

fn one_step<'b, T: Float>(
    cell: CellKind,
    x: Tensor<'b, T>,
    state: CellState<'b, T>,
    weights: &CellWeights<T>,
) -> Result<CellState<'b, T>, Refusal> {
    let weights = CellTensors::new(x.batch(), weights);
    let input = LayerInput { x, source: InputSource::Given(x) };
    let [batch, size] = batch_and_width(input, weights, cell, Some(state))?;
    check_states(state, [batch, size])?;
    cell.step(cell.project(x, weights), Some(state), weights, size)
}

/// All layers over the whole sequence; the hidden states of the last, and the last states of every cell.
fn recur<'b, T: Float>(
    cell: CellKind,
    x: Tensor<'b, T>,
    cells: &[CellWeights<T>],
    start: Option<CellState<'b, T>>,
    how: Recurrence,
) -> Result<(Tensor<'b, T>, CellState<'b, T>), Refusal> {
    let (b, directions) = (x.batch(), if how.bidirectional { 2 } else { 1 });
    let fits = !cells.is_empty() && cells.len().is_multiple_of(directions);
    let must = if how.bidirectional { "two for each layer" } else { "one for each layer" };
    check_parameter("the number of cells", fits, must, &cells.len())?;
    let shape = x.known_shape()?;
    if shape.rank() != 3 {
        let wanted = match how.batch_first {
            true => "[batch, steps, width] (one sequence: `unsqueeze(0)`)",
            false => "[steps, batch, width] (one sequence: `unsqueeze(1)`)",
        };
        let what = "x";
        return Err(MistakeKind::Layout { what, wanted, shape }.into());
    }
    let steps = shape[usize::from(how.batch_first)];
    let must = "at most 1048576; hand the states on from part to part";
    check_parameter("the number of steps", steps <= LONGEST, must, &steps)?;
    let mut y = if how.batch_first { x.permute([1, 0, 2]) } else { x };
    let mut last: [Vec<BufferId<T>>; 2] = [Vec::new(), Vec::new()];
    for layer in cells.chunks(directions) {
        let source = match last[0].is_empty() {
            true => InputSource::Given(x),
            false => InputSource::LayerBefore { batch_first: how.batch_first },
        };
        let input = LayerInput { x: y, source };
        let mut sides = Vec::with_capacity(directions);
        for (direction, weights) in layer.iter().enumerate() {
            let at = last[0].len();
            let start = start.map(|states| Start { states, at, cells: cells.len() });
            let weights = CellTensors::new(b, weights);
            let (side, state) = walk(cell, input, weights, start, direction == 1)?;
            sides.push(side);
            let [h, c] = map_state(state, |state| state.unsqueeze(0));
            last[0].push(h.id());
            last[1].push(c.id());
        }
        y = b.concat(sides, -1);
    }
    let y = if how.batch_first { y.permute([1, 0, 2]) } else { y };
    let [h, c] = last;
    let all = b.concat(&h, 0);
    let state = [all, if h == c { all } else { b.concat(&c, 0) }];
    Ok((y, named(state, cell.last_states())))
}

/// The tensors of a state, which messages tell apart by these names.
fn named<'b, T: Float>([h, c]: CellState<'b, T>, names: [&'static str; 2]) -> CellState<'b, T> {
    // A GRU has one, with the first name.
    c.rename_in_messages(names[1]);
    h.rename_in_messages(names[0]);
    [h, c]
}

/// The results of `make` for each tensor of a state, computed once if both are the same.
fn map_state<'b, T: Float>(
    [h, c]: CellState<'b, T>,
    make: impl Fn(Tensor<'b, T>) -> Tensor<'b, T>,
) -> CellState<'b, T> {
    let first = make(h);
    [first, if h.id() == c.id() { first } else { make(c) }]
}

/// The states `[cells, B, H]` from which all cells start, and the place of one cell among them.
#[derive(Clone, Copy)]
struct Start<'b, T> {
    states: CellState<'b, T>,
    at: usize,
    cells: usize,
}

impl<'b, T: Float> Start<'b, T> {
    /// The state of this cell. Its shape was checked.
    fn state(self, batch: usize, size: usize) -> CellState<'b, T> {
        let ranges = [self.at..self.at + 1, 0..batch, 0..size];
        map_state(self.states, |states| states.slice(ranges.clone()).squeeze(0))
    }
}

/// One cell over a whole sequence `[T, B, I]`: its hidden states `[T, B, H]`, and its last state.
fn walk<'b, T: Float>(
    cell: CellKind,
    input: LayerInput<'b, T>,
    weights: CellTensors<'b, T>,
    start: Option<Start<'b, T>>,
    backwards: bool,
) -> Result<(Tensor<'b, T>, CellState<'b, T>), Refusal> {
    let (x, b) = (input.x, input.x.batch());
    let [batch, size] = batch_and_width(input, weights, cell, start.map(|start| start.states))?;
    if let Some(Start { states, cells, .. }) = start {
        check_states(states, [cells, batch, size])?;
    }
    let steps = x.known_shape()?[0];
    // The inputs of all steps in one product.
    let all = cell.project(x, weights);
    let mut state = start.map(|start| start.state(batch, size));
    let mut hidden = Vec::with_capacity(steps);
    for step in 0..steps {
        let at = if backwards { steps - 1 - step } else { step };
        let ranges = [at..at + 1, 0..batch, 0..cell.gates() * size];
        let now = all.slice(ranges).squeeze(0);
        let next = cell.step(now, state, weights, size)?;
        hidden.push(next[0].unsqueeze(0));
        state = Some(next);
    }
    if backwards {
        hidden.reverse();
    }
    let zero = T::zeroed();
    let state = state.unwrap_or_else(|| [b.full([batch, size], zero); 2]);
    let y = if hidden.is_empty() { b.full([0, batch, size], zero) } else { b.concat(&hidden, 0) };
    Ok((y, state))
}
