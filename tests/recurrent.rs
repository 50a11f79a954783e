//! Recurrent layers over long sequences: the work of a step is the same at each, and the values are those of `f64`.

mod common;

use onetrip::{CellWeights, Explanation, GpuCommandBatch, Recurrence, Tensor};

const ROWS: usize = 3;
const INPUTS: usize = 5;
const STATES: usize = 6;

/// The inputs, both weights and both biases of a layer.
struct Data {
    gates: usize,
    steps: usize,
    x: Vec<f32>,
    weights: [Vec<f32>; 2],
    bias: [Vec<f32>; 2],
}

impl Data {
    fn new(gates: usize, steps: usize) -> Self {
        let mut seed = 1_u32;
        let mut numbers = |count: usize| -> Vec<f32> {
            let next = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 8) as f32 / 8_388_608.0 - 1.0
            };
            (0..count).map(next).collect()
        };
        let x = numbers(steps * ROWS * INPUTS);
        let wide = gates * STATES;
        let weights = [numbers(wide * INPUTS), numbers(wide * STATES)];
        Self { gates, steps, x, weights, bias: [numbers(wide), numbers(wide)] }
    }

    /// All hidden states, as the library computes them.
    fn record<'b>(&self, b: &'b GpuCommandBatch) -> Tensor<'b, f32> {
        let wide = self.gates * STATES;
        let x = b.upload_shaped(&self.x, [self.steps, ROWS, INPUTS]);
        let input = b.upload_shaped(&self.weights[0], [wide, INPUTS]);
        let hidden = b.upload_shaped(&self.weights[1], [wide, STATES]);
        let bias = [0, 1].map(|at: usize| b.upload(&self.bias[at]));
        let cell = CellWeights::new(b, input, hidden).with_bias(b, bias);
        let how = Recurrence::default();
        let y = if self.gates == 4 {
            b.lstm(x, &[cell], None, how).0
        } else {
            b.gru(x, &[cell], None, how).0
        };
        b.download(y);
        y
    }

    /// The same by the definitions, row by row.
    fn exactly(&self) -> Vec<f64> {
        let mut all = vec![0.0; self.steps * ROWS * STATES];
        for row in 0..ROWS {
            let (mut h, mut c) = (vec![0.0_f64; STATES], vec![0.0_f64; STATES]);
            for step in 0..self.steps {
                let at = step * ROWS + row;
                let x: Vec<f64> =
                    self.x[at * INPUTS..][..INPUTS].iter().map(|&x| f64::from(x)).collect();
                let (from_x, from_h) = (self.project(0, &x), self.project(1, &h));
                for (j, (h, c)) in h.iter_mut().zip(&mut c).enumerate() {
                    let both = |gate: usize| from_x[gate * STATES + j] + from_h[gate * STATES + j];
                    if self.gates == 4 {
                        let (i, f) = (sigmoid(both(0)), sigmoid(both(1)));
                        *c = f * *c + i * both(2).tanh();
                        *h = sigmoid(both(3)) * c.tanh();
                    } else {
                        let (r, z) = (sigmoid(both(0)), sigmoid(both(1)));
                        let new = (from_x[2 * STATES + j] + r * from_h[2 * STATES + j]).tanh();
                        *h = (1.0 - z) * new + z * *h;
                    }
                }
                all[at * STATES..][..STATES].copy_from_slice(&h);
            }
        }
        all
    }

    /// The addends of all gates from the inputs (0) or from the hidden state (1).
    fn project(&self, which: usize, values: &[f64]) -> Vec<f64> {
        let rows = self.weights[which].chunks(values.len()).zip(&self.bias[which]);
        let sum = |row: &[f32]| -> f64 {
            row.iter().zip(values).map(|(&w, &value)| f64::from(w) * value).sum()
        };
        rows.map(|(row, &bias)| sum(row) + f64::from(bias)).collect()
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
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
        // addends of the gates is in the product of the states, or in the kernel after it.
        for (gates, operations) in [(3, [10, 11]), (4, [9, 10])] {
            let mut lengths = Vec::new();
            for steps in [10, 20, 100] {
                let b = GpuCommandBatch::new(&device);
                Data::new(gates, steps).record(&b);
                let plan = b.explain().expect("a sound graph");
                assert!(operations.contains(&longest(&plan)), "{}: {plan}", longest(&plan));
                lengths.push(longest(&plan));
                let joins = plan.kernels().iter().filter(|kernel| kernel.contains("concat"));
                // One product of the inputs, and one copy of the last state.
                let most = 2 * steps + 2 + joins.count();
                assert!(plan.kernels().len() <= most, "{most}: {plan}");
            }
            assert!(lengths.iter().all(|&length| length == lengths[0]), "{lengths:?}");
        }
    }
}

#[tokio::test]
async fn long_sequences_are_those_of_f64() {
    for device in common::devices().await {
        for gates in [3, 4] {
            let data = Data::new(gates, 40);
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
