//! A recurrent layer in `f64`.

/// The sizes of a layer: its gates, steps, rows, inputs and states.
#[derive(Clone, Copy, Debug)]
pub struct LayerSizes {
    pub gates: usize,
    pub steps: usize,
    pub rows: usize,
    pub inputs: usize,
    pub states: usize,
}

/// The hidden states of all steps of a GRU (three gates) or an LSTM (four) by the definitions, row by row.
pub fn hidden_states(
    sizes: LayerSizes,
    x: &[f32],
    weights: &[Vec<f32>; 2],
    bias: &[Vec<f32>; 2],
) -> Vec<f64> {
    let LayerSizes { gates, steps, rows, inputs, states } = sizes;
    let project = |which: usize, values: &[f64]| -> Vec<f64> {
        let rows = weights[which].chunks(values.len()).zip(&bias[which]);
        let sum = |row: &[f32]| -> f64 {
            row.iter().zip(values).map(|(&w, value)| f64::from(w) * value).sum()
        };
        rows.map(|(row, &bias)| sum(row) + f64::from(bias)).collect()
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut all = vec![0.0; steps * rows * states];
    for row in 0..rows {
        let (mut h, mut c) = (vec![0.0_f64; states], vec![0.0_f64; states]);
        for step in 0..steps {
            let at = step * rows + row;
            let x: Vec<f64> = x[at * inputs..][..inputs].iter().map(|&x| f64::from(x)).collect();
            let (from_x, from_h) = (project(0, &x), project(1, &h));
            for (j, (h, c)) in h.iter_mut().zip(&mut c).enumerate() {
                let both = |gate: usize| from_x[gate * states + j] + from_h[gate * states + j];
                if gates == 4 {
                    let (i, f) = (sigmoid(both(0)), sigmoid(both(1)));
                    *c = f * *c + i * both(2).tanh();
                    *h = sigmoid(both(3)) * c.tanh();
                } else {
                    let (r, z) = (sigmoid(both(0)), sigmoid(both(1)));
                    let new = (from_x[2 * states + j] + r * from_h[2 * states + j]).tanh();
                    *h = (1.0 - z) * new + z * *h;
                }
            }
            all[at * states..][..states].copy_from_slice(&h);
        }
    }
    all
}
