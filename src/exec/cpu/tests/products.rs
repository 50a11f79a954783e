//! Products of any size and layout, by whole tiles and by parts of them.

use smallvec::smallvec;

use super::case::{Case, contiguous, floats, matmul, view};
use crate::base::dtype::{DType, Ty};
use crate::base::shape::View;
use crate::expr::Builder;
use crate::plan::{Form, ProductForm, Space, Spread};

/// Pseudo-random numbers below a bound.
struct Random(u32);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % end
    }

    /// Any of `all`.
    fn of(&mut self, all: &[usize]) -> usize {
        all[self.below(all.len())]
    }
}

/// A view of `[rows, columns]` in memory: by rows, by columns or with gaps.
fn layout(random: &mut Random, [rows, columns]: [usize; 2]) -> (View, usize) {
    let gap = 1 + random.below(2);
    let (row, column) = match random.below(3) {
        0 => (columns + gap, 1),
        1 => (1, rows + gap),
        _ => (columns * (gap + 1), gap + 1),
    };
    let len = (rows.max(1) - 1) * row + (columns.max(1) - 1) * column + 1;
    (view(&[rows, columns], &[row as i64, column as i64], 2), len + 2)
}

#[test]
fn products_of_random_sizes_and_layouts() {
    let mut random = Random(1);
    let count = if cfg!(miri) { 6 } else { 100 };
    for _ in 0..count {
        // Sizes around those of tiles, and parts of k.
        let m = random.of(&[1, 1, 2, 3, 5, 6, 7, 12, 13, 25, 40, 130]);
        let n = random.of(&[1, 2, 7, 8, 15, 16, 17, 31, 33, 49, 64, 65, 98, 130, 148]);
        let k = random.of(&[1, 2, 3, 30, 64, 70, 255, 256, 257, 385]);
        let ((xv, x_len), (wv, w_len)) = (layout(&mut random, [m, k]), layout(&mut random, [k, n]));
        let (mut xs, mut ws) = (floats(x_len, 1), floats(w_len, 2));
        if random.below(4) == 0 {
            let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
            xs[random.below(x_len)] = special[random.below(4)];
            ws[random.below(w_len)] = special[random.below(4)];
        }
        let (mut case, b) = (Case::default(), Builder::default());
        let x = case.load(&b, &xs, Space::X, xv);
        let w = case.load(&b, &ws, Space::W, wv);
        let bias = case.load(&b, &floats(n, 3), Space::Out, view(&[m, n], &[0, 1], 0));
        let acc = b.acc(Ty::F32);
        let outputs = [(DType::F32, (acc + bias).r()), (DType::F16, (acc * 0.01).r())];
        let outputs = &outputs[..1 + random.below(2)];
        case.check(&b, matmul(&[], [m, n, k], x, w), outputs, 1e-3);
    }
}

/// Filters times windows: any stride, dilation and number of images and groups, with and without a prologue.
#[test]
fn products_of_windows_where_they_lie() {
    let mut random = Random(2);
    let count = if cfg!(miri) { 4 } else { 50 };
    for _ in 0..count {
        let [images, groups] = [1 + random.below(3), 1 + random.below(2)];
        let [channels, filters] = [1 + random.below(9), random.of(&[1, 4, 6, 7, 13])];
        let [high, wide] = [1 + random.below(3), 1 + random.below(5)];
        let [rows, columns] = [1 + random.below(6), random.of(&[1, 3, 7, 8, 16, 17, 40])];
        let [step, dilation] = [1 + random.below(3), 1 + random.below(2)];
        let height = (rows - 1) * step + (high - 1) * dilation + 1;
        let width = (columns - 1) * step + (wide - 1) * dilation + 1;
        let [m, n, k] = [filters, rows * columns, channels * high * wide];
        let plane = height * width;
        let windows = View {
            dims: [images, groups, channels, high, wide, rows, columns][..].into(),
            strides: [
                groups * channels * plane,
                channels * plane,
                plane,
                dilation * width,
                dilation,
                step * width,
                step,
            ]
            .map(|stride| stride as i64)[..]
                .into(),
            offset: 0,
        };
        let (mut case, b) = (Case::default(), Builder::default());
        let taps = (m * k) as i64;
        let filters = view(&[images, groups, m, k], &[0, taps, k as i64, 1], 0);
        let x = case.load(&b, &floats(groups * m * k, 4), Space::X, filters);
        let pixels = floats(images * groups * channels * plane, 5);
        let w = case.load(&b, &pixels, Space::W, windows);
        let w = if random.below(3) == 0 { w.max(0.0) } else { w };
        let spread = Spread { k: smallvec![channels, high, wide], n: smallvec![rows, columns] };
        let Form::Product(form) = matmul(&[images, groups], [m, n, k], x, w) else {
            unreachable!()
        };
        let form = Form::Product(ProductForm { spread: Some(spread), ..form });
        let out = contiguous(&[images, groups, m, n]);
        let rest = case.load(&b, &floats(images * groups * m * n, 6), Space::Out, out);
        let root = (b.acc(Ty::F32) + rest).max(0.0).r();
        case.check(&b, form, &[(DType::F32, root)], 1e-5);
    }
}
