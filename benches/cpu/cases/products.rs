//! Products of matrices.

use super::{Case, Given};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [16, 32, 64, 128, 256, 512, 1024, 2048] {
        let both = vec![Given::new("x", &[n, n]), Given::weights("w", &[n, n], n)];
        let mut case = Case::new(format!("matmul_{n}"), both, vec![], |x, _| x[0].matmul(x[1]))
            .exactly(move |data, at| dot(&data[0], &data[1], [n, n], at));
        case.long = n > 1024;
        cases.push(case);
    }
    let both = vec![Given::new("x", &[64; 3]), Given::weights("w", &[64; 3], 64)];
    cases.push(Case::new("matmul_64x64x64x64", both, vec![], |x, _| x[0].matmul(x[1])).exactly(
        |data, at| {
            let from = at / (64 * 64) * (64 * 64);
            dot(&data[0][from..], &data[1][from..], [64, 64], at - from)
        },
    ));
    for rows in [1, 8, 64] {
        let x = || vec![Given::new("x", &[rows, WIDTH])];
        let w = || vec![Given::weights("w", &[WIDTH; 2], WIDTH)];
        let name = format!("matmul_{rows}x{WIDTH}x{WIDTH}");
        let case = Case::new(name.clone(), x(), w(), |x, w| x[0].matmul(w[0]));
        cases.push(case.exactly(|data, at| dot(&data[0], &data[1], [WIDTH; 2], at)));
        let name = format!("{name}_transposed");
        let case = Case::new(name, x(), w(), |x, w| x[0].matmul(w[0].transpose()));
        cases.push(case.exactly(|data, at| {
            let (x, w) = (&data[0][at / WIDTH * WIDTH..], &data[1][at % WIDTH * WIDTH..]);
            x.iter().zip(w).take(WIDTH).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
        }));
    }
    cases
}

const WIDTH: usize = 1024;

/// Element `at` of `[…, k] · [k, n]`.
fn dot(x: &[f32], w: &[f32], [k, n]: [usize; 2], at: usize) -> f64 {
    let column = w[at % n..].iter().step_by(n);
    let row = &x[at / n * k..][..k];
    row.iter().zip(column).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum()
}

/// Inputs and outputs of the layers of a small network.
const LAYERS: [[usize; 2]; 3] = [[784, 512], [512, 256], [256, 10]];

/// Three dense layers, over few rows and many.
pub fn mlps() -> impl Iterator<Item = Case> {
    [1, 64, 1024].into_iter().map(|rows| {
        let names = [["w0", "bias0"], ["w1", "bias1"], ["w2", "bias2"]];
        let layers = names.into_iter().zip(LAYERS);
        let weights = layers.flat_map(|([w, bias], [k, n])| {
            [Given::weights(w, &[k, n], k), Given::new(bias, &[n]).scaled(0.25)]
        });
        let x = vec![Given::new("x", &[rows, LAYERS[0][0]])];
        Case::new(format!("mlp_784_512_256_10_rows{rows}"), x, weights.collect(), |x, w| {
            x[0].linear(w[0], w[1]).relu().linear(w[2], w[3]).relu().linear(w[4], w[5])
        })
        .exactly(|data, at| {
            let mut x: Vec<f64> = widened(&data[0][at / 10 * 784..][..784]);
            for (layer, [k, n]) in LAYERS.into_iter().enumerate() {
                let (w, mut y) = (&data[2 * layer + 1], widened(&data[2 * layer + 2]));
                for (x, w) in x.iter().zip(w.chunks(n)).take(k) {
                    y.iter_mut().zip(w).for_each(|(y, &w)| *y += x * f64::from(w));
                }
                let last = layer + 1 == LAYERS.len();
                x = y.into_iter().map(|y| if last { y } else { y.max(0.0) }).collect();
            }
            x[at % 10]
        })
    })
}

fn widened(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}
