//! Recurrent layers, whose like steps share what is compiled for them.

use onetrip::{CellWeights, Device, GpuCommandBatch, Recurrence};

use crate::float64::near;
use crate::numbers;
use crate::recurrent_layer::{LayerSizes, hidden_states};

#[tokio::test]
async fn each_run_of_a_layer_is_that_of_f64() {
    let device = Device::cpu();
    for (gates, rows, states) in [(3, 1, 14), (4, 3, 9)] {
        let sizes = LayerSizes { gates, steps: 4, rows, inputs: 5, states };
        let wide = gates * states;
        let x = numbers(sizes.steps * rows * sizes.inputs, 1);
        let weights = [numbers(wide * sizes.inputs, 2), numbers(wide * states, 3)];
        let bias = [numbers(wide, 4), numbers(wide, 5)];
        let input = device.resident(&weights[0], [wide, sizes.inputs]).unwrap();
        let hidden = device.resident(&weights[1], [wide, states]).unwrap();
        let batch = GpuCommandBatch::new(&device);
        let bound = [0, 1].map(|at: usize| batch.upload(&bias[at]));
        let cell = CellWeights::with_bias(&batch, &input, &hidden, bound);
        let uploaded = batch.upload_shaped(&x, [sizes.steps, rows, sizes.inputs]);
        let y = match gates {
            4 => batch.lstm(uploaded, &[cell], None, Recurrence::default()).0,
            _ => batch.gru(uploaded, &[cell], None, Recurrence::default()).0,
        };
        let want = hidden_states(sizes, &x, &weights, &bias);
        for run in 0..3 {
            batch.execute().await.unwrap();
            let got = batch.read(y).await.unwrap();
            near(&format!("{sizes:?}, run {run}"), &got, &want, 1e-4);
        }
    }
}

/// Threads share each step of a chain, and the steps share one tape.
#[tokio::test]
async fn like_steps_of_a_chain_are_those_of_f64() {
    let device = Device::cpu();
    let len = 1_100;
    let data = numbers(len, 6);
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload(&data);
    let mut state = x;
    let mut results = Vec::new();
    for _ in 0..4 {
        state = (state + x).tanh();
        let y = state * x;
        batch.download(y);
        results.push(y);
    }
    for _ in 0..2 {
        batch.execute().await.unwrap();
        let mut want: Vec<f64> = vec![0.0; len];
        for (step, &y) in results.iter().enumerate() {
            for (want, &x) in want.iter_mut().zip(&data) {
                let before = if step == 0 { f64::from(x) } else { *want };
                *want = (before + f64::from(x)).tanh();
            }
            let products: Vec<f64> =
                want.iter().zip(&data).map(|(want, &x)| want * f64::from(x)).collect();
            near(&format!("step {step}"), &batch.read(y).await.unwrap(), &products, 1e-5);
        }
    }
}
