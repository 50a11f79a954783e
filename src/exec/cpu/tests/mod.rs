//! Every form against its meaning: all element types, strided, negative, broadcast and clamped
//! views, odd sizes, NaN and infinities.

mod borders;
mod case;
mod joins;
mod math;
mod permutes;
mod plans;
mod products;
mod reductions;
mod runs;
mod stretches;

use half::f16;

use self::case::{Case, contiguous, floats, matmul, row, view};
use crate::base::dtype::{DType, Ty};
use crate::expr::Builder;
use crate::ops::RowKind;
use crate::plan::{Form, OperandSource, Space, StepOperand};

const SPECIAL: [f32; 4] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];

#[test]
fn maps_read_any_view_and_write_any_type() {
    let dims = [7, 5, 33];
    let (mut case, b) = (Case::default(), Builder::default());
    let data = floats(7 * 5 * 33, 1);
    let x = case.load(&b, &data, Space::Main, contiguous(&dims));
    let reversed = case.load(&b, &data, Space::Main, view(&dims, &[-165, 33, -1], 6 * 165 + 32));
    let turned = case.load(&b, &floats(33 * 5 * 7, 2), Space::Main, view(&dims, &[1, 7, 35], 0));
    let row = case.load(&b, &floats(33, 3), Space::Main, view(&dims, &[0, 0, 1], 0));
    let column = case.load(&b, &floats(7, 4), Space::Main, view(&dims, &[1, 0, 0], 0));
    let halves: Vec<f16> = floats(5 * 33, 5).into_iter().map(f16::from_f32).collect();
    let half = case.load(&b, &halves, Space::Main, view(&dims, &[0, 33, 1], 0));
    let truths: Vec<bool> = floats(7 * 5 * 66, 6).iter().map(|&x| x > 0.0).collect();
    let truth = case.load(&b, &truths, Space::Main, view(&dims, &[330, 66, 2], 1));
    let scalar = case.scalar(&b, DType::F32, 0.3);
    let sum = (x + reversed * turned).tanh() + (row - column) * scalar + half.exp();
    let chosen = truth.select(sum, -sum, sum);
    let outputs = [
        (DType::F32, chosen.r()),
        (DType::F16, chosen.cast(DType::F16).r()),
        (DType::Bool, chosen.gt(0.5).r()),
        (DType::I32, (chosen * 10.0).cast(DType::I32).r()),
        (DType::F32, x.r()),
    ];
    case.check(&b, Form::map(&dims), &outputs, 3e-3);
}

#[test]
fn maps_clamp_and_count() {
    let (mut case, b) = (Case::default(), Builder::default());
    // Two elements of padding on either side of five.
    let x = case.load(&b, &[5u32, 6, 7, 8, 9], Space::Main, view(&[3, 9], &[0, 1], -2));
    case.clamp();
    let h = case.load(&b, &[f16::ONE; 4], Space::Main, view(&[3, 9], &[4, -1], 3));
    case.clamp();
    let at = StepOperand {
        source: OperandSource::Iota,
        dtype: DType::I32,
        space: Space::Main,
        view: view(&[3, 9], &[0, 1], -2),
        clamp: false,
    };
    let at = case.operand(&b, at);
    let inside = at.ge(0.0).and(at.lt(5.0));
    let padded = inside.select(x, 1.0, x);
    let outputs = [(DType::U32, padded.r()), (DType::I32, (at * 3.0).r()), (DType::F32, h.r())];
    case.check(&b, Form::map(&[3, 9]), &outputs, 0.0);
}

#[test]
fn maps_of_no_and_of_one_element() {
    for dims in [&[][..], &[1], &[0], &[3, 0, 2]] {
        let (mut case, b) = (Case::default(), Builder::default());
        let len = dims.iter().product();
        let x = case.load(&b, &floats(len, 1), Space::Main, contiguous(dims));
        let y = (x * x + 1.0).log();
        case.check(&b, Form::map(dims), &[(DType::F32, y.r())], 1e-6);
    }
}

#[test]
fn results_that_are_equal_or_read_each_other() {
    let len = 1300;
    let (mut case, b) = (Case::default(), Builder::default());
    let x = case.load(&b, &floats(len, 1), Space::Main, contiguous(&[len]));
    let once = x * 2.0 + 1.0;
    let twice = once * x;
    let outputs = [
        (DType::F32, once.r()),
        (DType::F32, twice.r()),
        (DType::F32, once.r()),
        (DType::Bool, twice.gt(0.0).r()),
        (DType::F32, (twice - once).r()),
        (DType::F32, x.literal(3.5).r()),
    ];
    case.check(&b, Form::map(&[len]), &outputs, 1e-6);
}

#[test]
fn large_maps_are_shared_out() {
    let len = 100_003;
    let (mut case, b) = (Case::default(), Builder::default());
    let x = case.load(&b, &floats(len, 1), Space::Main, contiguous(&[len]));
    let y = x.exp().sin().tanh().erf();
    let outputs = [(DType::F32, y.r()), (DType::F16, y.cast(DType::F16).r())];
    case.check(&b, Form::map(&[len]), &outputs, 2e-3);
}

#[test]
fn rows_of_every_kind_and_length() {
    for kind in RowKind::ALL {
        for (outer, len) in [(1, 1), (5, 7), (3, 512), (3, 513), (2, 1500), (70, 64), (1, 0)] {
            let (mut case, b) = (Case::default(), Builder::default());
            let dims = [outer, len];
            let x = case.load(&b, &floats(outer * len, 3), Space::Main, contiguous(&dims));
            let gain = case.load(&b, &floats(len, 4), Space::Main, view(&dims, &[0, 1], 0));
            let _ = case.scalar(&b, DType::F32, 1e-5);
            let epsilon = kind.def().has_epsilon.then_some(0);
            let acc = b.acc(Ty::F32);
            let prologue = (x * 3.0 + 1.0).r();
            case.check(
                &b,
                row(kind, outer, len, prologue, epsilon),
                &[(DType::F32, (acc * gain).r())],
                1e-5,
            );
        }
    }
}

#[test]
fn rows_along_an_outer_axis_and_of_special_values() {
    for dtype in [DType::F32, DType::F16, DType::Bool] {
        let (mut case, b) = (Case::default(), Builder::default());
        let mut data = floats(7 * 45, 8);
        data[3 * 45 + 2] = f32::NAN;
        data[45 + 9] = f32::INFINITY;
        for row in 0..7 {
            data[row * 45 + 11] = f32::NEG_INFINITY;
        }
        // Memory [7, 45]; the rows run along the first axis.
        let turned = view(&[45, 7], &[1, 45], 0);
        let x = case.load(&b, &data, Space::Main, turned.clone());
        case.output_view = Some(turned);
        let acc = b.acc(Ty::F32);
        let root = if dtype == DType::Bool { acc.gt(0.25).r() } else { acc.r() };
        case.check(&b, row(RowKind::Softmax, 45, 7, x.r(), None), &[(dtype, root)], 1e-3);
    }
}

#[test]
fn a_constant_row_normalises_to_zero() {
    let (mut case, b) = (Case::default(), Builder::default());
    let x = case.load(&b, &[0.1f32; 300], Space::Main, contiguous(&[3, 100]));
    let _ = case.scalar(&b, DType::F32, 1e-12);
    let root = b.acc(Ty::F32).r();
    case.check(&b, row(RowKind::LayerNorm, 3, 100, x.r(), Some(0)), &[(DType::F32, root)], 1e-2);
}

#[test]
fn products_of_any_view() {
    let [m, n, k] = [17, 9, 23];
    let xs = [
        contiguous(&[m, k]),
        view(&[m, k], &[1, m as i64], 0),
        view(&[m, k], &[-(k as i64), -1], (m * k - 1) as i64),
        view(&[m, k], &[0, 1], 3),
        view(&[m, k], &[2, 0], 1),
    ];
    let ws = [contiguous(&[k, n]), view(&[k, n], &[1, k as i64], 0), view(&[k, n], &[0, 0], 5)];
    let data = floats(400, 1);
    let integers: Vec<i32> = data.iter().map(|&x| (x * 1e9) as i32).collect();
    for xv in &xs {
        for wv in &ws {
            let (mut case, b) = (Case::default(), Builder::default());
            let x = case.load(&b, &data[..m * k], Space::X, xv.clone());
            let w = case.load(&b, &data[..k * n], Space::W, wv.clone());
            let bias = case.load(&b, &data[..n], Space::Out, view(&[m, n], &[0, 1], 0));
            let acc = b.acc(Ty::F32);
            let relu = (acc + bias).max(0.0);
            let outputs = [(DType::F32, relu.r()), (DType::F32, acc.r())];
            case.check(&b, matmul(&[], [m, n, k], x, w), &outputs, 1e-5);

            let (mut case, b) = (Case::default(), Builder::default());
            let x = case.load(&b, &integers[..m * k], Space::X, xv.clone());
            let w = case.load(&b, &integers[..k * n], Space::W, wv.clone());
            let root = b.acc(Ty::I32).r();
            case.check(&b, matmul(&[], [m, n, k], x, w), &[(DType::I32, root)], 0.0);
        }
    }
}

#[test]
fn products_of_integers_in_strips_and_steps_along_k() {
    let data: Vec<i32> =
        (0..40_000).map(|i: i32| i.wrapping_mul(0x9e37_79b1u32.cast_signed())).collect();
    for [m, n, k] in [[1, 200, 150], [70, 133, 257], [3, 64, 5], [8, 65, 513]] {
        for turned in [false, true] {
            let (mut case, b) = (Case::default(), Builder::default());
            let of_w = if turned { view(&[k, n], &[1, k as i64], 0) } else { contiguous(&[k, n]) };
            let x = case.load(&b, &data[..m * k], Space::X, contiguous(&[m, k]));
            let w = case.load(&b, &data[..k * n], Space::W, of_w);
            let root = b.acc(Ty::I32).r();
            case.check(&b, matmul(&[], [m, n, k], x, w), &[(DType::I32, root)], 0.0);
        }
    }
}

#[test]
fn products_in_batches() {
    let [m, n, k] = [5, 6, 7];
    let data = floats(3 * 2 * 5 * 7, 2);
    let batches = [
        // The right operand is shared, and the left matrices lie one below the other or not.
        (view(&[3, 2, m, k], &[70, 35, 7, 1], 0), view(&[3, 2, k, n], &[0, 0, 6, 1], 0)),
        (view(&[3, 2, m, k], &[35, 105, 7, 1], 0), view(&[3, 2, k, n], &[0, 0, 1, 7], 0)),
        // Each operand is broadcast along one axis.
        (view(&[3, 2, m, k], &[35, 0, 7, 1], 0), view(&[3, 2, k, n], &[0, 42, 6, 1], 0)),
        (view(&[3, 2, m, k], &[70, 35, 1, 5], 0), view(&[3, 2, k, n], &[0, 0, 0, 0], 4)),
    ];
    for (xv, wv) in &batches {
        for before in [false, true] {
            let (mut case, b) = (Case::default(), Builder::default());
            let x = case.load(&b, &data, Space::X, xv.clone());
            let halves: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
            let w = case.load(&b, &halves, Space::W, wv.clone());
            let x = if before { x.exp() } else { x };
            let root = b.acc(Ty::F32).cast(DType::F16).r();
            case.check(&b, matmul(&[3, 2], [m, n, k], x, w), &[(DType::F16, root)], 2e-3);
        }
    }
}

#[test]
fn products_over_nothing_are_zero() {
    let (mut case, b) = (Case::default(), Builder::default());
    let x = case.load::<f32>(&b, &[], Space::X, contiguous(&[3, 0]));
    let w = case.load::<f32>(&b, &[], Space::W, contiguous(&[0, 4]));
    let root = (b.acc(Ty::F32) + 2.0).r();
    case.check(&b, matmul(&[], [3, 4, 0], x, w), &[(DType::F32, root)], 0.0);
}

#[test]
fn large_products_are_shared_out() {
    // These products are cut into blocks, into blocks of one row, and into steps along k.
    for size in [[200, 150, 140], [1, 3001, 800], [60, 140, 530]] {
        for turned in [[false, false], [true, false], [false, true]] {
            large_product(size, turned, DType::F32);
        }
    }
    large_product([1, 3001, 800], [false; 2], DType::F16);
    large_product([60, 140, 530], [true, false], DType::F16);
}

/// A product of operands of `dtype`, each of which may lie turned, with a bias, into two outputs.
fn large_product([m, n, k]: [usize; 3], turned: [bool; 2], dtype: DType) {
    let (mut case, b) = (Case::default(), Builder::default());
    let matrix = |[rows, columns]: [usize; 2], turned| match turned {
        true => view(&[rows, columns], &[1, rows as i64], 0),
        false => contiguous(&[rows, columns]),
    };
    let mut load = |len, seed, space, view| {
        let data = floats(len, seed);
        if dtype == DType::F16 {
            let halves: Vec<f16> = data.into_iter().map(f16::from_f32).collect();
            return case.load(&b, &halves, space, view);
        }
        case.load(&b, &data, space, view)
    };
    let x = load(m * k, 1, Space::X, matrix([m, k], turned[0]));
    let w = load(k * n, 2, Space::W, matrix([k, n], turned[1]));
    let bias = load(n, 3, Space::Out, view(&[m, n], &[0, 1], 0));
    let sum = b.acc(Ty::F32);
    let outputs = [(dtype, (sum + bias).r()), (DType::Bool, sum.lt(0.0).r())];
    let outputs = if dtype == DType::F16 { &outputs[..1] } else { &outputs[..] };
    // The terms are at most 9, and the tolerance is twice the step of `f16`.
    let tolerance = if dtype == DType::F16 { 2e-3 } else { 5e-7 * k as f64 };
    case.check(&b, matmul(&[], [m, n, k], x, w), outputs, tolerance);
}
