//! Operations on rows.

use super::{Case, Given};

const ROWS: usize = 4096;
const WIDTH: usize = 1024;

pub fn cases() -> Vec<Case> {
    let rows = || vec![Given::new("x", &[ROWS, WIDTH])];
    let weights = ["weight", "bias"].map(|name| Given::new(name, &[WIDTH])).to_vec();
    vec![
        Case::new("layer_norm", rows(), weights, |x, w| x[0].layer_norm_with(w[0], w[1], -1, 1e-5))
            .exactly(|data, at| {
                let row = row(&data[0], at / WIDTH);
                let mean = row.iter().sum::<f64>() / WIDTH as f64;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / WIDTH as f64;
                let of = |k: usize| f64::from(data[k][at % WIDTH]);
                (row[at % WIDTH] - mean) / (variance + 1e-5).sqrt() * of(1) + of(2)
            }),
        Case::new("softmax", rows(), vec![], |x, _| x[0].softmax(-1)).exactly(|data, at| {
            let row = row(&data[0], at / WIDTH);
            row[at % WIDTH].exp() / row.iter().map(|x| x.exp()).sum::<f64>()
        }),
        Case::new("log_softmax", rows(), vec![], |x, _| x[0].log_softmax(-1)).exactly(
            |data, at| {
                let row = row(&data[0], at / WIDTH);
                row[at % WIDTH] - row.iter().map(|x| x.exp()).sum::<f64>().ln()
            },
        ),
        Case::new("logsumexp", rows(), vec![], |x, _| x[0].logsumexp(-1))
            .exactly(|data, at| row(&data[0], at).iter().map(|x| x.exp()).sum::<f64>().ln()),
    ]
}

fn row(x: &[f32], at: usize) -> Vec<f64> {
    x[at * WIDTH..][..WIDTH].iter().map(|&x| f64::from(x)).collect()
}
