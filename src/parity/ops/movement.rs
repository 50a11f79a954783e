//! Movement and ranges, by element type.

use half::f16;

use crate::base::dtype::DType;
use crate::ops::Tolerance;
use crate::parity::compare::{EXACT, check};
use crate::parity::sample::{FromNumber, Rng, for_dtype, values};

#[test]
fn movement_of_every_type() {
    let mut rng = Rng::new(6);
    for dtype in DType::ALL {
        for_dtype!(dtype, T => {
            let x: Vec<T> = values(&mut rng, 60, (-9.0, 9.0));
            let y: Vec<T> = values(&mut rng, 24, (-9.0, 9.0));
            let border = T::from_number(7.0);
            check(&format!("movement {dtype}"), EXACT, |batch| {
                let x = batch.upload_shaped(&x, [3, 4, 5]);
                let y = batch.upload_shaped(&y, [3, 4, 2]);
                let permuted = batch.permute(x, [2, 0, 1]);
                batch.reshape(permuted, [5, 12]);
                batch.reshape(permuted, [60]);
                batch.slice(x, [(0..3, -1), (1..4, 2), (0..5, 3)]).flip([0, 2]);
                batch.concat([x, y, x], -1).slice([(0..3, 1), (0..4, 1), (3..9, 2)]);
                batch.pad(x, [(1, 2), (0, 1), (3, 0)], border).transpose().reshape([6 * 8, 5]);
                let row = batch.slice(x, [(1..2, 1), (0..4, 1), (4..5, 1)]).squeeze(0).unsqueeze(1);
                batch.broadcast_to(row, [2, 4, 6, 1]);
                batch.full([2, 3], border);
                batch.concat([y; 20], 1);
            });
        });
    }
    check("ranges", Tolerance { ulp: 2.0, abs: 0.0 }, |batch| {
        batch.arange(0_i32, 10, 3);
        batch.arange(5_u32, 1000, 1);
        batch.arange(1.0_f32, -1.0, -0.125);
        batch.arange(f16::from_f32(0.0), f16::from_f32(100.0), f16::from_f32(0.5));
        batch.arange(3_i32, 3, 1);
    });
}
