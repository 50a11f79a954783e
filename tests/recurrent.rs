//! Recurrent layers over long sequences: the work of a step is the same at each, and the values are those of `f64`.

mod common;
#[path = "common/recurrent_layer.rs"]
mod recurrent_layer;

use onetrip::{CellWeights, Device, Explanation, GpuCommandBatch, LstmState, Recurrence, Tensor};
use recurrent_layer::{LayerSizes, hidden_states};

/// The sizes of a layer: its rows, inputs and states.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    inputs: usize,
    states: usize,
}

const SMALL: Sizes = Sizes { rows: 3, inputs: 5, states: 6 };

/// The inputs, both weights and both biases of a layer.
struct Data {
    gates: usize,
    steps: usize,
    sizes: Sizes,
    x: Vec<f32>,
    weights: [Vec<f32>; 2],
    bias: [Vec<f32>; 2],
}

impl Data {
    fn new(gates: usize, steps: usize, sizes: Sizes) -> Self {
        let Sizes { rows, inputs, states } = sizes;
        let mut seed = 1_u32;
        let mut numbers = |count: usize| -> Vec<f32> {
            let next = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 8) as f32 / 8_388_608.0 - 1.0
            };
            (0..count).map(next).collect()
        };
        let x = numbers(steps * rows * inputs);
        let wide = gates * states;
        // Sums are about as great for any number of states.
        let scale = (6.0 / states as f32).sqrt();
        let scaled = |numbers: Vec<f32>| numbers.into_iter().map(|x| x * scale).collect();
        let weights = [numbers(wide * inputs), scaled(numbers(wide * states))];
        Self { gates, steps, sizes, x, weights, bias: [numbers(wide), numbers(wide)] }
    }

    /// All hidden states, as the library computes them.
    fn record<'b>(&self, b: &'b GpuCommandBatch) -> Tensor<'b, f32> {
        let Sizes { inputs, states, .. } = self.sizes;
        let wide = self.gates * states;
        let input = b.upload_shaped(&self.weights[0], [wide, inputs]);
        let hidden = b.upload_shaped(&self.weights[1], [wide, states]);
        self.record_with(b, input, hidden)
    }

    /// All hidden states, with weights that lie somewhere else.
    fn record_with<'b>(
        &self,
        b: &'b GpuCommandBatch,
        input: Tensor<'b, f32>,
        hidden: Tensor<'b, f32>,
    ) -> Tensor<'b, f32> {
        let Sizes { rows, inputs, .. } = self.sizes;
        let x = b.upload_shaped(&self.x, [self.steps, rows, inputs]);
        let bias = [0, 1].map(|at: usize| b.upload(&self.bias[at]));
        let cell = CellWeights::with_bias(b, input, hidden, bias);
        let how = Recurrence::default();
        let y = if self.gates == 4 {
            b.lstm(x, &[cell], None, how).0
        } else {
            b.gru(x, &[cell], None, how).0
        };
        b.download(y);
        y
    }

    /// The same by the definitions.
    fn exactly(&self) -> Vec<f64> {
        let Self { gates, steps, sizes: Sizes { rows, inputs, states }, .. } = *self;
        let sizes = LayerSizes { gates, steps, rows, inputs, states };
        hidden_states(sizes, &self.x, &self.weights, &self.bias)
    }
}

/// The operations of the longest kernel that joins no parts.
fn longest(plan: &Explanation) -> usize {
    let kernels = plan.kernels().iter().filter(|kernel| !kernel.contains("concat"));
    kernels.map(|kernel| kernel.split('+').count()).max().unwrap_or(0)
}

#[tokio::test]
async fn a_step_computes_nothing_of_earlier_steps() {
    for device in common::devices().await {
        // An LSTM has five functions of gates and states, three products and a sum in each step. The sum of both
        // addends of the gates is in the product of the states, or in the kernel after it. However many steps there
        // are, no kernel has more.
        for (gates, operations) in [(3, [10, 11]), (4, [9, 10])] {
            for steps in [10, 20, 100] {
                let b = GpuCommandBatch::new(&device);
                Data::new(gates, steps, SMALL).record(&b);
                let plan = b.explain().expect("a sound graph");
                assert!(operations.contains(&longest(&plan)), "{}: {plan}", longest(&plan));
                let joins = plan.kernels().iter().filter(|kernel| kernel.contains("concat"));
                // One product of the inputs, and one copy of the last state.
                let most = 2 * steps + 2 + joins.count();
                assert!(plan.kernels().len() <= most, "{most}: {plan}");
            }
        }
    }
}

#[tokio::test]
async fn long_sequences_are_those_of_f64() {
    for device in common::devices().await {
        for gates in [3, 4] {
            let data = Data::new(gates, 40, SMALL);
            let b = GpuCommandBatch::new(&device);
            let y = data.record(&b);
            b.execute().await.expect("a run");
            let got = b.read(y).await.expect("what was downloaded");
            for (at, (&got, want)) in got.iter().zip(data.exactly()).enumerate() {
                let error = (f64::from(got) - want).abs();
                assert!(error <= 2e-5, "{gates} gates, {at}: {got}, not {want}");
            }
        }
    }
}

/// Threads share the steps of a layer whose weights stay, by rows or by columns, if they come in time.
#[tokio::test]
async fn each_run_of_a_layer_has_the_same_bits_with_and_without_helpers() {
    let device = Device::cpu();
    for (gates, rows, states) in
        [(3, 1, 97), (4, 1, 128), (3, 3, 99), (4, 7, 67), (3, 8, 128), (4, 9, 65), (4, 17, 67)]
    {
        let sizes = Sizes { rows, inputs: 64, states };
        let data = Data::new(gates, 30, sizes);
        let wide = gates * states;
        let input = device.resident(&data.weights[0], [wide, 64]).expect("memory");
        let hidden = device.resident(&data.weights[1], [wide, states]).expect("memory");
        let b = GpuCommandBatch::new(&device);
        let y = data.record_with(&b, b.bind(&input), b.bind(&hidden));
        let want = data.exactly();
        let mut first: Option<Vec<f32>> = None;
        for run in 0..30 {
            b.execute().await.expect("a run");
            let got = b.read(y).await.expect("what was downloaded");
            for (at, (&got, want)) in got.iter().zip(&want).enumerate() {
                let error = (f64::from(got) - want).abs();
                assert!(error <= 1e-4, "{gates} gates, {rows} rows, {at}: {got}, not {want}");
            }
            let first = first.get_or_insert_with(|| got.clone());
            let same = first.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{gates} gates, {rows} rows: run {run}");
        }
    }
}

/// Each value of a chain of functions is read by the next one and by a result.
#[tokio::test]
async fn a_chain_with_many_readers_is_not_repeated_in_each() {
    for device in common::devices().await {
        let data: Vec<f32> = (0..1_000).map(|i| i as f32 / 500.0 - 1.0).collect();
        let mut sizes = Vec::new();
        for steps in [60, 120] {
            let b = GpuCommandBatch::new(&device);
            let x = b.upload(&data);
            let mut state = x;
            let mut results = Vec::new();
            for _ in 0..steps {
                state = state.tanh();
                let y = state * x;
                b.download(y);
                results.push(y);
            }
            let plan = b.explain().expect("a sound graph");
            sizes.push(longest(&plan));
            assert_eq!(plan.kernels().len(), steps, "{plan}");
            b.execute().await.expect("a run");
            let mut want: Vec<f64> = data.iter().map(|&x| f64::from(x)).collect();
            for y in results {
                want.iter_mut().for_each(|x| *x = x.tanh());
                let got = b.read(y).await.expect("what was downloaded");
                for ((&got, want), &x) in got.iter().zip(&want).zip(&data) {
                    assert!((f64::from(got) - want * f64::from(x)).abs() <= 1e-5, "{got}, {want}");
                }
            }
        }
        assert_eq!(sizes[0], sizes[1]);
    }
}

/// The state that a sequence starts from is an input of shape `[1, rows, width]`.
#[tokio::test]
async fn a_sequence_that_starts_from_an_input_takes_any_number_of_rows() {
    let (inputs, states, steps) = (5, 6, 4);
    for gates in [3, 4] {
        let data = Data::new(gates, steps, Sizes { rows: 5, inputs, states });
        let start: Vec<f32> = (0..5 * states).map(|at| (at * 7 % 11) as f32 / 11.0 - 0.5).collect();
        let wide = gates * states;
        let record = |b: &GpuCommandBatch, rows: usize| {
            let x = b.input::<f32>("x", [rows, steps, inputs]);
            let h = b.input::<f32>("h", [1, rows, states]);
            let input = b.upload_shaped(&data.weights[0], [wide, inputs]);
            let hidden = b.upload_shaped(&data.weights[1], [wide, states]);
            let cell = CellWeights::new(b, input, hidden);
            let how = Recurrence { batch_first: true, ..Recurrence::default() };
            if gates == 4 {
                let (y, last) = b.lstm(x, &[cell], Some(LstmState::new(b, h, h)), how);
                b.name(last.c, "last");
                y.named("y");
            } else {
                let (y, last) = b.gru(x, &[cell], h, how);
                last.named("last");
                y.named("y");
            }
        };
        let b = GpuCommandBatch::new(&Device::cpu());
        record(&b, 3);
        let program = b.compile().await.expect("a program");
        for rows in [1, 3, 5] {
            let own = GpuCommandBatch::new(&Device::cpu());
            record(&own, rows);
            let own = own.compile().await.expect("a program");
            let given =
                || [("x", &data.x[..rows * steps * inputs]), ("h", &start[..rows * states])];
            let got = program.run_rows(given()).await.expect("a run");
            let want = own.run(given()).await.expect("a run");
            for (name, len) in [("y", rows * steps * states), ("last", rows * states)] {
                let got = got.read::<f32>(name).await.expect("results");
                let want = want.read::<f32>(name).await.expect("results");
                assert_eq!(got.len(), len, "{name}");
                for (got, want) in got.iter().zip(&want) {
                    assert!((got - want).abs() <= 1e-6, "{gates} gates, {name}: {got}, not {want}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_sequence_that_starts_from_zeros_takes_any_number_of_rows() {
    let device = Device::cpu();
    for (gates, has_bias) in [(3, true), (3, false), (4, true), (4, false)] {
        let (inputs, states, steps) = (5, 6, 4);
        let data = Data::new(gates, steps, Sizes { rows: 3, inputs, states });
        let wide = gates * states;
        let weights = [
            device.resident(&data.weights[0], [wide, inputs]).expect("memory"),
            device.resident(&data.weights[1], [wide, states]).expect("memory"),
        ];
        let bias = [0, 1].map(|at: usize| device.resident(&data.bias[at], wide).expect("memory"));
        let b = GpuCommandBatch::new(&device);
        let x = b.input::<f32>("x", [3, steps, inputs]);
        let [input, hidden] = &weights;
        let cell = match has_bias {
            true => CellWeights::with_bias(&b, input, hidden, [&bias[0], &bias[1]]),
            false => CellWeights::new(&b, input, hidden),
        };
        let how = Recurrence { batch_first: true, ..Recurrence::default() };
        let (y, last) = if gates == 4 {
            let (y, last) = b.lstm(x, &[cell], None, how);
            (y, last.h)
        } else {
            let (y, last) = b.gru(x, &[cell], None, how);
            (y, last.id())
        };
        let program = b.compile().await.expect("a program");
        b.write(x, &data.x).expect("as many numbers");
        b.execute().await.expect("a run");
        let want = b.read(y).await.expect("results");
        assert_eq!(b.read(last).await.expect("the last state").len(), 3 * states);
        // The results and the one or two states alone are downloaded.
        let explained = b.explain().expect("a plan").to_string();
        let downloads = explained.lines().find_map(|line| line.trim().strip_prefix("download "));
        let downloads = downloads.map(|values| values.split(", ").count());
        assert_eq!(downloads, Some(gates - 1), "{explained}");
        for rows in [1, 3] {
            let rows_of_x = &data.x[..rows * steps * inputs];
            let got = program.run_rows([(x, rows_of_x)]).await.expect("rows").read(y).await;
            let got = got.expect("results");
            assert_eq!(got.len(), rows * steps * states);
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-6, "{gates} gates: {got}, not {want}");
            }
        }
    }
}

/// The recipes of `docs/serving.md` for padded sequences.
#[tokio::test]
async fn last_states_means_and_greatest_elements_leave_out_the_padding() {
    let (rows, inputs, states, steps) = (5, 5, 6, 4);
    for gates in [3, 4] {
        let data = Data::new(gates, steps, Sizes { rows, inputs, states });
        let wide = gates * states;
        let b = GpuCommandBatch::new(&Device::cpu());
        let x = b.input::<f32>("x", [2, steps, inputs]);
        let lengths = b.input::<i32>("lengths", 2);
        let input = b.upload_shaped(&data.weights[0], [wide, inputs]);
        let hidden = b.upload_shaped(&data.weights[1], [wide, states]);
        let cell = CellWeights::with_bias(
            &b,
            input,
            hidden,
            [0, 1].map(|at: usize| b.upload(&data.bias[at])),
        );
        let how = Recurrence { batch_first: true, ..Recurrence::default() };
        let hidden =
            if gates == 4 { x.lstm(&[cell], None, how).0 } else { x.gru(&[cell], None, how).0 };
        hidden
            .take_along_axis((lengths - 1).unsqueeze(-1).unsqueeze(-1), 1)
            .squeeze(1)
            .named("last");
        let places = b.arange(0, steps as i32, 1);
        let mask = places.lt(lengths.unsqueeze(-1)).unsqueeze(-1);
        let sums = mask.select(hidden, 0.0).sum(1);
        (sums / lengths.cast::<f32>().unsqueeze(-1)).named("mean");
        mask.select(hidden, f32::NEG_INFINITY).amax(1).named("greatest");
        let program = b.compile().await.expect("a program");
        let given = [4, 1, 3, 2, 4];
        let outputs = program.run_rows((("x", &data.x), ("lengths", given))).await.expect("a run");
        let mut read = Vec::new();
        for name in ["last", "mean", "greatest"] {
            read.push(outputs.read::<f32>(name).await.expect("results"));
            assert_eq!(read.last().map(Vec::len), Some(rows * states));
        }
        for (row, length) in given.into_iter().enumerate() {
            let steps_of = usize::try_from(length).expect("a length");
            let sizes = LayerSizes { gates, steps: steps_of, rows: 1, inputs, states };
            let own = &data.x[row * steps * inputs..][..steps_of * inputs];
            let all = hidden_states(sizes, own, &data.weights, &data.bias);
            for state in 0..states {
                let real = || all[state..].iter().step_by(states);
                let mean = real().sum::<f64>() / f64::from(length);
                let greatest = real().copied().fold(f64::NEG_INFINITY, f64::max);
                let want = [all[(steps_of - 1) * states + state], mean, greatest];
                for (got, want) in read.iter().zip(want) {
                    let got = got[row * states + state];
                    assert!(
                        (f64::from(got) - want).abs() <= 2e-5,
                        "{gates} gates, {row}: {got}, not {want}"
                    );
                }
            }
        }
    }
}

/// Messages have the method, and which of its results a value is.
#[tokio::test]
async fn results_of_a_layer_are_told_apart() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let weights = |gates: usize| {
        let (input, hidden) = (batch.full([gates, 3], 0.5_f32), batch.full([gates, 2], 0.5_f32));
        CellWeights::new(&batch, input, hidden)
    };
    let (x, step, h) =
        (batch.full([4, 5, 3], 1.0_f32), batch.full([5, 3], 1.0), batch.full([5, 2], 1.0));
    let (y, state) = x.lstm(&[weights(8)], None, Recurrence::default());
    let (z, last) = x.gru(&[weights(6)], None, Recurrence::default());
    let next = step.lstm_cell(LstmState::new(&batch, h, h), weights(8));
    batch.outputs(step.neg());
    batch.execute().await.expect("a run");
    for (id, name) in [
        (y.id(), "lstm"),
        (state.h, "lstm.h"),
        (state.c, "lstm.c"),
        (z.id(), "gru"),
        (last.id(), "gru.h"),
        (next.h, "lstm_cell.h"),
        (next.c, "lstm_cell.c"),
    ] {
        let error = batch.read(id).await.expect_err("not downloaded").to_string();
        assert!(error.starts_with(&format!("{name} (at ")), "{name}: {error}");
    }
}
