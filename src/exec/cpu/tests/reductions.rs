//! Reductions of all kinds and orientations.

use half::f16;

use super::SPECIAL;
use super::case::{Case, contiguous, floats, reduce, view};
use crate::base::dtype::{DType, Element, Ty};
use crate::expr::Builder;
use crate::ops::Combine;
use crate::plan::Space;

/// Reduces `data` by every combination, as rows, as columns, and with the last outer axis innermost in memory.
fn reduces<T: Element>(data: &[T], outer: &[usize], inner: &[usize]) {
    let (rows, columns): (usize, usize) = (outer.iter().product(), inner.iter().product());
    let dims: Vec<usize> = outer.iter().chain(inner).copied().collect();
    let across = contiguous(&dims);
    let mut down = contiguous(&inner.iter().chain(outer).copied().collect::<Vec<_>>());
    down.dims.rotate_left(inner.len());
    down.strides.rotate_left(inner.len());
    let mut between = across.clone();
    if let Some(last) = outer.len().checked_sub(1) {
        between.strides[last] = 1;
        between.strides[outer.len()..].iter_mut().for_each(|stride| *stride *= outer[last] as i64);
    }
    for combine in Combine::ALL {
        if combine == Combine::LogSumExp && !T::DTYPE.is_float() {
            continue;
        }
        for layout in [&across, &down, &between] {
            let (mut case, b) = (Case::default(), Builder::default());
            let x = case.load(&b, &data[..rows * columns], Space::Main, layout.clone());
            let acc = b.acc(combine.result(x.ty()));
            let dtype = combine.result_dtype(T::DTYPE);
            let form = reduce(combine, outer, inner, x.r());
            case.check(&b, form, &[(dtype, acc.r())], 2e-6 * (1.0 + columns as f64).sqrt());
        }
    }
}

impl Combine {
    fn result_dtype(self, dtype: DType) -> DType {
        match self.result(dtype.lane()) {
            Ty::F32 => DType::F32,
            Ty::U32 => DType::U32,
            Ty::I32 => DType::I32,
            Ty::Bool => DType::Bool,
        }
    }
}

#[test]
fn reductions_of_all_types_and_orientations() {
    let sizes: [(&[usize], &[usize]); 12] = [
        (&[], &[1]),
        (&[], &[5003]),
        (&[37], &[3]),
        (&[3], &[1700]),
        (&[700], &[19]),
        (&[2, 3], &[4, 5]),
        (&[3, 523], &[11]),
        (&[2, 3, 37], &[2, 9]),
        (&[4500], &[3]),
        (&[2, 260], &[67]),
        (&[1], &[513]),
        (&[513], &[1]),
    ];
    let data = floats(40_000, 9);
    let integers: Vec<i32> = data.iter().map(|&x| (x * 9e8) as i32).collect();
    let unsigned: Vec<u32> = integers.iter().map(|&x| x.cast_unsigned()).collect();
    let halves: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
    for (outer, inner) in sizes {
        reduces(&data, outer, inner);
        reduces(&integers, outer, inner);
        reduces(&unsigned, outer, inner);
        reduces(&halves, outer, inner);
    }
}

#[test]
fn reductions_of_special_values() {
    for at in [0, 1, 600, 1022] {
        for special in SPECIAL {
            let mut data = floats(3 * 1023, 4);
            for row in data.chunks_mut(1023) {
                row[at] = special;
                row[1021] = special;
            }
            reduces(&data, &[3], &[1023]);
        }
    }
    for fill in SPECIAL {
        reduces(&[fill; 60], &[4], &[15]);
    }
    let data: Vec<f32> = floats(600 * 17, 5)
        .into_iter()
        .enumerate()
        .map(|(at, x)| if at % 7 == 0 { SPECIAL[at / 7 % SPECIAL.len()] } else { x })
        .collect();
    reduces(&data, &[600], &[17]);
    reduces(&[-0.0, 0.0, 0.0, -0.0f32], &[2], &[2]);
    reduces(&[7u32; 600], &[1], &[600]);
    reduces(&[i32::MIN, i32::MAX, i32::MIN, 0], &[1], &[4]);
}

#[test]
fn reductions_over_nothing() {
    for (combine, want) in
        [(Combine::Sum, 0.0f32), (Combine::Prod, 1.0), (Combine::LogSumExp, f32::NEG_INFINITY)]
    {
        let (mut case, b) = (Case::default(), Builder::default());
        let x = case.load::<f32>(&b, &[], Space::Main, contiguous(&[3, 0]));
        let root = b.acc(Ty::F32).r();
        assert!(want <= 1.0);
        case.check(&b, reduce(combine, &[3], &[0], x.r()), &[(DType::F32, root)], 0.0);
    }
}

#[test]
fn reductions_with_prologue_epilogue_and_truth_values() {
    let (mut case, b) = (Case::default(), Builder::default());
    let dims = [6, 11, 5];
    let x = case.load(&b, &floats(330, 1), Space::Main, contiguous(&dims));
    let y = case.load(&b, &floats(66, 2), Space::Main, view(&dims, &[11, 1, 0], 0));
    let bias = case.load(&b, &floats(6, 3), Space::Out, contiguous(&[6]));
    let acc = b.acc(Ty::F32);
    let outputs = [
        (DType::F32, ((acc + bias) * 0.25).r()),
        (DType::Bool, (acc + bias).gt(0.0).r()),
        (DType::F16, acc.cast(DType::F16).r()),
    ];
    case.check(&b, reduce(Combine::Sum, &[6], &[11, 5], (x * y).r()), &outputs, 2e-3);
    for combine in [Combine::Max, Combine::Min] {
        let (mut case, b) = (Case::default(), Builder::default());
        let truths: Vec<bool> = (0..40).map(|i| i % 8 == 3 || i > 31).collect();
        let x = case.load(&b, &truths, Space::Main, contiguous(&[5, 8])).cast(DType::U32);
        let root = b.acc(Ty::U32).cast(DType::Bool).r();
        case.check(&b, reduce(combine, &[5], &[8], x.r()), &[(DType::Bool, root)], 0.0);
    }
}

#[test]
fn large_reductions_are_shared_out() {
    let data: Vec<i32> =
        (0..300_000).map(|i: i32| i.wrapping_mul(0x9e37_79b1u32.cast_signed())).collect();
    reduces(&data, &[], &[300_000]);
    reduces(&floats(300_000, 3), &[3], &[100_000]);
}
