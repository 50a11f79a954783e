//! Values that are the same within runs of elements, or in each row.

use super::case::{Case, contiguous, floats, view};
use crate::base::dtype::DType;
use crate::expr::Builder;
use crate::plan::{Form, OperandSource, Space, StepOperand};

fn counter(dims: &[usize], strides: &[i64], offset: i64) -> StepOperand {
    let view = view(dims, strides, offset);
    StepOperand {
        source: OperandSource::Iota,
        dtype: DType::I32,
        space: Space::Main,
        view,
        clamp: false,
    }
}

#[test]
fn channels_rows_and_columns_meet_in_any_shape() {
    for dims in [[2, 3, 5, 7], [3, 4, 1, 8], [2, 5, 14, 14], [2, 2, 40, 29], [1, 3, 1, 700]] {
        let [n, channels, height, width] = dims;
        let (mut case, b) = (Case::default(), Builder::default());
        let data = floats(n * channels * height * width, 1);
        let x = case.load(&b, &data, Space::Main, contiguous(&dims));
        let mut by_channel = |seed| {
            case.load(&b, &floats(channels, seed), Space::Main, view(&dims, &[0, 1, 0, 0], 0))
        };
        let [mean, variance, weight] = [2, 3, 4].map(&mut by_channel);
        let image = case.load(&b, &floats(n, 5), Space::Main, view(&dims, &[1, 0, 0, 0], 0));
        let line = case.load(
            &b,
            &floats(height, 6),
            Space::Main,
            view(&dims, &[0, 0, -1, 0], height as i64 - 1),
        );
        let column =
            case.load(&b, &floats(2 * width, 7), Space::Main, view(&dims, &[0, 0, 0, 2], 1));
        let other =
            case.load(&b, &floats(2 * width, 9), Space::Main, view(&dims, &[0, 0, 0, 2], 0));
        let one = case.load(&b, &floats(1, 8), Space::Main, view(&dims, &[0; 4], 0));
        let at = case.operand(&b, counter(&dims, &[0, 1, 0, 0], -1));
        let half = case.scalar(&b, DType::F32, 0.5);
        let scale = weight / (variance * variance + half).sqrt();
        let normal = (x - mean) * scale + image.exp() * one;
        let outputs = [
            (DType::F32, (normal + column.tanh() * line).r()),
            (DType::F32, scale.r()),
            (DType::F32, column.r()),
            (DType::F16, (column * 2.0 + one).r()),
            (DType::Bool, at.ge(0.0).r()),
            (DType::I32, (at * 3.0).r()),
            (DType::F32, (half * 3.0).exp().r()),
            // A value of columns alone, by one that is the same everywhere.
            (DType::F32, (other * (half - 2.0).abs() + x).r()),
        ];
        case.check(&b, Form::map(&dims), &outputs, 2e-3);
    }
}

#[test]
fn tiles_of_few_registers_are_long_and_end_with_runs() {
    for dims in [[3, 3136], [1, 1024], [5, 1024], [7, 700], [2, 2048], [3, 2049], [4, 4099], [3, 1]]
    {
        for of_rows in [true, false] {
            for count in 1..=3 {
                let (mut case, b) = (Case::default(), Builder::default());
                let data = floats(dims[0] * dims[1], 1);
                let x = case.load(&b, &data, Space::Main, contiguous(&dims));
                let (len, strides) = if of_rows { (dims[0], [1, 0]) } else { (dims[1], [0, 1]) };
                let [w, v] = [2, 3].map(|seed| {
                    case.load(&b, &floats(len, seed), Space::Main, view(&dims, &strides, 0))
                });
                let outputs = [
                    (DType::F32, ((x - w) * v).r()),
                    (DType::F16, (x * v).r()),
                    (DType::Bool, x.lt(w).r()),
                ];
                case.check(&b, Form::map(&dims), &outputs[..count], 2e-3);
            }
        }
    }
}

#[test]
fn rows_of_a_table_are_fetched_whole() {
    for (width, stride, first) in [(9, 1, 0_i64), (9, -1, 8), (700, 1, 0), (16, 3, 2), (5, 1, 0)] {
        let (rows, count) = (11, 6);
        let dims = [2, count, width];
        let pitch = 3 * width as i64;
        let (mut case, b) = (Case::default(), Builder::default());
        let indices: Vec<u32> =
            floats(2 * count, 3).iter().map(|x| ((x + 3.0) * 1.8) as u32 % rows as u32).collect();
        let table = floats(rows * 3 * width, 4);
        let index = case
            .load(&b, &indices, Space::Main, view(&dims, &[count as i64, 1, 0], 0))
            .cast(DType::I32);
        let place = case.operand(&b, counter(&dims, &[0, 0, stride], first));
        let table = case.table(&table);
        let position = index * pitch as f64 + place;
        let row = b.fetch(table, position, crate::base::dtype::Ty::F32);
        let outputs = [(DType::F32, (row * 2.0).r()), (DType::I32, (position * 2.0).r())];
        case.check(&b, Form::map(&dims), &outputs, 1e-6);
    }
}

#[test]
fn columns_are_looked_up_in_each_row() {
    for (rows, width, len) in [(11, 40, 50), (3, 700, 30), (70, 112, 56), (2, 31, 8), (5, 32, 1)] {
        let dims = [rows, width];
        let (mut case, b) = (Case::default(), Builder::default());
        let indices: Vec<u32> = (0..width).map(|at| (at * 7 % len) as u32).collect();
        let by_column = view(&dims, &[0, 1], 0);
        let column = case.load(&b, &indices, Space::Main, by_column).cast(DType::I32);
        let row = case.operand(&b, counter(&dims, &[1, 0], 0));
        let [words, halves] = [4, 5].map(|seed| floats(rows * len, seed));
        let halves: Vec<half::f16> = halves.into_iter().map(half::f16::from_f32).collect();
        let tables = [case.table(&words), case.table(&halves)];
        let position = row * len as f64 + column;
        let [x, y] = tables.map(|table| b.fetch(table, position, crate::base::dtype::Ty::F32));
        let outputs = [(DType::F32, (x * 2.0 + y).r()), (DType::I32, (column + row).r())];
        case.check(&b, Form::map(&dims), &outputs, 1e-6);
    }
}
