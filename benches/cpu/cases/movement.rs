//! Values whose axes are put in another order.

use super::{Case, Given};

pub fn cases() -> Vec<Case> {
    let cases: [(&str, &[usize], &[usize]); 3] = [
        ("transpose_2048", &[2048, 2048], &[1, 0]),
        ("channels_last", &[8, 64, 56, 56], &[0, 2, 3, 1]),
        ("channels_first", &[8, 56, 56, 64], &[0, 3, 1, 2]),
    ];
    cases.into_iter().map(|(name, shape, axes)| permuted(name, shape, axes)).collect()
}

/// `x` of `shape`, with its axes in another order.
fn permuted(name: &'static str, shape: &'static [usize], axes: &'static [usize]) -> Case {
    let order: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    let x = vec![Given::new("x", shape)];
    Case::new(name, x, vec![], move |x, _| x[0].permute(&order)).exactly(move |data, mut at| {
        let mut position = 0;
        for &axis in axes.iter().rev() {
            let pitch: usize = shape[axis + 1..].iter().product();
            position += at % shape[axis] * pitch;
            at /= shape[axis];
        }
        f64::from(data[0][position])
    })
}
