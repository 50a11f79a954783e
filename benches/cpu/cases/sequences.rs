//! Attention and recurrence.

use onetrip::{Attention, CellWeights, Recurrence};

use super::{Case, Given};

const WIDTH: usize = 64;

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = [128, 256, 512, 1024].into_iter().map(attention).collect();
    cases.push(lstm());
    cases
}

fn attention(len: usize) -> Case {
    let parts = ["q", "k", "v"].map(|name| Given::new(name, &[1, 12, len, WIDTH]));
    Case::new(format!("attention_12x{len}x64"), parts.to_vec(), vec![], |x, _| {
        x[0].scaled_dot_product_attention(x[1], x[2], Attention::default())
    })
    .exactly(move |data, at| {
        let head = at / (len * WIDTH) * (len * WIDTH);
        let q = &data[0][at / WIDTH * WIDTH..][..WIDTH];
        let (mut sum, mut whole) = (0.0, 0.0);
        for key in 0..len {
            let k = &data[1][head + key * WIDTH..][..WIDTH];
            let score: f64 = q.iter().zip(k).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
            let weight = (score / 8.0).exp();
            whole += weight;
            sum += weight * f64::from(data[2][head + key * WIDTH + at % WIDTH]);
        }
        sum / whole
    })
}

/// 50 steps of 8 rows.
fn lstm() -> Case {
    const STATES: usize = 128;
    let weights = vec![
        Given::weights("w", &[4 * STATES, 64], 64),
        Given::weights("r", &[4 * STATES, STATES], STATES),
        Given::new("bias_w", &[4 * STATES]).scaled(0.25),
        Given::new("bias_r", &[4 * STATES]).scaled(0.25),
    ];
    Case::new("lstm_50x8x64_128", vec![Given::new("x", &[50, 8, 64])], weights, |x, w| {
        let b = x[0].batch();
        let cell = CellWeights::with_bias(b, w[0], w[1], [w[2], w[3]]);
        x[0].lstm(&[cell], None, Recurrence::default()).0
    })
}
