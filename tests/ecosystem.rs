//! Exchange with other crates: newtypes, arrays, files of weights; formulas of the user's own.

mod common;

use onetrip::bytemuck::{CheckedBitPattern, NoUninit, Pod, TransparentWrapper, Zeroable};
use onetrip::{Device, Error, GpuCommandBatch, Newtype, f16};

#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, TransparentWrapper)]
#[repr(transparent)]
struct Metres(f32);
impl Newtype for Metres {
    type Inner = f32;
}

#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    NoUninit,
    CheckedBitPattern,
    Zeroable,
    TransparentWrapper,
)]
#[repr(transparent)]
struct Wet(bool);
impl Newtype for Wet {
    type Inner = bool;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, TransparentWrapper)]
#[repr(transparent)]
struct Row(u32);
impl Newtype for Row {
    type Inner = u32;
}

#[tokio::test]
async fn newtypes_are_what_they_wrap() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let depths = [Metres(-1.5), Metres(f32::NAN), Metres(-0.0), Metres(7.0)];
        let depth = batch.upload(&depths);
        let wet = batch.upload_shaped(vec![Wet(true), Wet(false), Wet(true), Wet(false)], 4);
        let rows = batch.upload(&[Row(3), Row(0)]);
        let deep = batch.add_scalar(depth, Metres(1.0));
        let dry = batch.not(wet);
        let taken = batch.gather(depth, rows, 0);
        batch.outputs((deep, taken, dry));
        batch.execute().await.expect("a sound batch");
        let deep = batch.read(deep).await.expect("a result");
        assert_eq!((deep[0], deep[2], deep[3]), (Metres(-0.5), Metres(1.0), Metres(8.0)));
        assert!(deep[1].0.is_nan());
        let dry = batch.read(dry).await.expect("a result");
        assert_eq!(dry, [Wet(false), Wet(true), Wet(false), Wet(true)]);
        let view = batch.read_view(taken).expect("a view");
        assert_eq!(view[..], [Metres(7.0), Metres(-1.5)]);
        let resident = device.resident(&depths[2..], 2).expect("room");
        assert_eq!(resident.read().await.expect("the data"), depths[2..]);
    }
}

#[tokio::test]
async fn a_formula_is_one_kernel_and_fuses() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let (xs, ys) = ([0.5_f32, -2.0, 3.0, 0.0, 1.0, -0.25], [2.0_f32, -1.0, 4.0]);
        let x = batch.upload_shaped(&xs, [2, 3]);
        let y = batch.upload(&ys);
        let before = batch.exp(x);
        let positive = x.gt(0.0) & !y.lt(0.0);
        let value = positive.select(x * y - 1.5, 0.25) + before / 2.0 + (-y).max(x).abs();
        let total = batch.sum(value, ..);
        batch.outputs((value, total));
        batch.execute().await.expect("a sound batch");
        let got = batch.read(value).await.expect("a result");
        let want: Vec<f64> = (0..6)
            .map(|at| {
                let (x, y) = (f64::from(xs[at]), f64::from(ys[at % 3]));
                let chosen = if x > 0.0 && y >= 0.0 { x * y - 1.5 } else { 0.25 };
                chosen + x.exp() / 2.0 + (-y).max(x).abs()
            })
            .collect();
        for (got, want) in got.iter().zip(&want) {
            assert!((f64::from(*got) - want).abs() <= 1e-5 * want.abs(), "{got} for {want}");
        }
        let total = batch.read(total).await.expect("a result")[0];
        let whole: f64 = want.iter().sum();
        assert!((f64::from(total) - whole).abs() <= 1e-5 * whole.abs());

        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&xs);
        let e = batch.exp(x);
        let y = e.log1p() * x + x;
        batch.relu(y).download();
        assert_eq!(batch.explain().expect("a plan").kernels().len(), 1);
    }
}

#[tokio::test]
async fn mistakes_in_a_formula_are_at_their_line() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1.0_f32, 2.0]);
    let y = batch.upload(&[1.0_f32, 2.0, 3.0]);
    let (sum, line) = ((x + y).sqrt(), line!());
    batch.relu(sum);
    let error = batch.check_recorded().expect_err("shapes that do not fit");
    let want = format!("tests/ecosystem.rs:{line}: add: shapes [2] and [3] do not broadcast");
    assert!(error.to_string().starts_with(&want), "{error}");

    let batch = GpuCommandBatch::new(&Device::cpu());
    let n = batch.upload(&[7, 8]);
    (n / 0).download();
    assert!(matches!(batch.execute().await, Err(Error::Fault(_))));
}

#[tokio::test]
async fn numbers_stand_on_either_side() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let (x, i) = (batch.upload(&[0.5_f32, -4.0]), batch.upload(&[3_i32, -4]));
        let (h, u) = (batch.cast::<f32, f16>(x), batch.upload(&[3_u32, 5]));
        let floats = [1.0 - x, 2.0 / x + 1.0, 1.0 + 3.0 * x, (7.0 % x) - 1.0];
        let half = f16::ONE - h;
        let integers = [10 - i, 10 / i];
        let words = 17 % u;
        batch.execute().await.expect("a sound batch");
        let want = [[0.5, 5.0], [5.0, 0.5], [2.5, -11.0], [-1.0, 2.0]];
        for (got, want) in floats.into_iter().zip(want) {
            assert_eq!(batch.read(got).await.expect("a result"), want);
        }
        assert_eq!(batch.read(half).await.expect("a result"), [0.5, 5.0].map(f16::from_f32));
        for (got, want) in integers.into_iter().zip([[7, 14], [3, -2]]) {
            assert_eq!(batch.read(got).await.expect("a result"), want);
        }
        assert_eq!(batch.read(words).await.expect("a result"), [2, 2]);
    }
    let batch = GpuCommandBatch::new(&Device::cpu());
    let n = batch.upload(&[0]);
    let (quotient, line) = (7 / n, line!());
    batch.download(quotient);
    let fault = batch.execute().await.expect_err("a division by 0").to_string();
    assert!(fault.starts_with(&format!("tests/ecosystem.rs:{line}: div")), "{fault}");
}

/// Bounds in the wrong order give the upper one, as in PyTorch.
#[tokio::test]
async fn clipped_to_nothing_is_the_upper_bound() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&[f32::NEG_INFINITY, -2.0, 0.5, 9.0, f32::INFINITY, f32::NAN]);
        let i = batch.upload(&[-7, 0, 7]);
        let (y, j) = (batch.clip(x, 3.0, -1.0), batch.clip(i, 3, -1));
        batch.execute().await.expect("a sound batch");
        let y = batch.read(y).await.expect("a result");
        assert!(y[5].is_nan() && y[..5] == [-1.0; 5], "{y:?}");
        assert_eq!(batch.read(j).await.expect("a result"), [-1; 3]);
    }
}

#[cfg(feature = "ndarray")]
mod arrays {
    use ndarray::{Array, Array2, Axis, arr0, s};
    use onetrip::{DataError, DeviceError, Input};

    use super::*;

    #[tokio::test]
    async fn arrays_of_any_layout_come_in_and_go_out() {
        for device in common::devices().await {
            let x = Array::from_iter((0..60_u16).map(f32::from));
            let x = x.into_shape_with_order((3, 4, 5)).expect("60 elements");
            let views = [
                x.view().into_dyn(),
                x.t().into_dyn(),
                x.slice(s![..;-1, 1..;2, ..]).into_dyn(),
                x.slice(s![1, .., 2]).into_dyn(),
                x.slice(s![.., 2..2, ..]).into_dyn(),
                x.index_axis(Axis(0), 1).into_dyn(),
            ];
            for view in views {
                let batch = GpuCommandBatch::new(&device);
                let id = batch.upload_array(view.clone());
                let y = batch.add_scalar(id, 0.5);
                batch.download(y);
                batch.execute().await.expect("a sound batch");
                assert_eq!(batch.read_array(y).await.expect("a result"), view.mapv(|x| x + 0.5));
                batch.write_array(id, (&view * 2.0).view()).expect("the same shape");
                batch.execute().await.expect("a sound batch");
                assert_eq!(
                    batch.read_array(y).await.expect("a result"),
                    view.mapv(|x| 2.0 * x + 0.5)
                );
                let resident = device.resident_array(view.clone()).expect("room");
                assert_eq!(resident.read_array().await.expect("the data"), view);
            }
            let nine = Array::<f32, _>::zeros(vec![1; 9]);
            let (error, line) =
                (device.resident_array(nine.view()).expect_err("nine axes"), line!());
            let want =
                format!("resident (at tests/ecosystem.rs:{line}): 9 dimensions are more than");
            assert!(error.to_string().starts_with(&want), "{error}");
            let batch = GpuCommandBatch::new(&device);
            let one = batch.upload_array(arr0(7).view());
            batch.execute().await.expect("a sound batch");
            assert_eq!(batch.read_array(one).await.expect("a result"), arr0(7).into_dyn());
        }
    }

    /// A view of one element may have more than any host has memory for.
    #[tokio::test]
    async fn arrays_without_room_are_an_error_at_their_place() {
        let one = arr0(1.0_f32);
        let shape = [1_usize << 20, 1 << 20, 1 << 10];
        let vast = one.broadcast(shape).expect("one element");
        let no_room = |error: Error, of: &str, line: u32| {
            let text = error.to_string();
            let at = format!("{of} (at tests/ecosystem.rs:{line})");
            assert!(matches!(error, Error::Device(DeviceError::OutOfMemory { .. })), "{text}");
            assert!(text.contains(&at), "{text}");
        };
        for device in common::devices().await {
            let (error, line) = (device.resident_array(vast).expect_err("no room"), line!());
            no_room(error, "resident", line);
            let batch = GpuCommandBatch::new(&device);
            let (x, line) = (batch.input::<f32>("x", shape), line!());
            no_room(batch.write_array(x, vast).expect_err("no room"), "input \"x\"", line);
        }
        let batch = GpuCommandBatch::new(&Device::cpu());
        let (x, line) = (batch.input::<f32>("x", shape), line!());
        batch.slice(x, [(0..1, 1), (0..1, 1), (0..1, 1)]).download();
        let program = batch.compile().await.expect("a sound batch");
        for input in [Input::from((x, vast)), Input::from(("x", vast))] {
            no_room(program.run([input]).await.expect_err("no room"), "input \"x\"", line);
        }
    }

    #[tokio::test]
    async fn arrays_are_inputs_of_programs() {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.input::<f32>("x", [2, 3]);
        let y = batch.scale(x, 2.0);
        let program = batch.compile().await.expect("a sound batch");
        let columns = Array2::from_shape_fn((3, 2), |(i, j)| (10 * i + j) as f32);
        for input in [Input::from((x, columns.t())), Input::from(("x", columns.t()))] {
            let outputs = program.run([input]).await.expect("a run");
            assert_eq!(
                outputs.read_array(y).await.expect("a result"),
                (&columns.t() * 2.0).into_dyn()
            );
        }
        // As many elements in another shape are refused.
        let misfit = |error: &Error, [given, expected]: [[usize; 2]; 2]| {
            let Error::Data(DataError::Shape { given: is, expected: needs, .. }) = error else {
                return false;
            };
            (is.dims(), needs.dims()) == (&given[..], &expected[..])
        };
        for input in [Input::from((x, columns.view())), Input::from(("x", columns.view()))] {
            let error = program.run([input]).await.expect_err("another shape");
            assert!(misfit(&error, [[3, 2], [2, 3]]), "{error}");
        }
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_array(columns.view());
        let error = batch.write_array(x, columns.t()).expect_err("another shape");
        assert!(misfit(&error, [[2, 3], [3, 2]]), "{error}");
        assert!(error.to_string().contains(" takes an array of [3, 2], not of [2, 3]"), "{error}");
    }
}

#[cfg(feature = "safetensors")]
mod weights {
    use std::path::PathBuf;

    use onetrip::{DataError, Program, TensorType, Weights};
    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    use super::*;

    /// A file in the temporary folder, until it is dropped.
    struct Temporary(PathBuf);

    impl Temporary {
        fn holding(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("onetrip-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).expect("a file in the temporary folder");
            Self(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn file() -> Vec<u8> {
        let floats: Vec<u8> = [1.5_f32, -2.0, 0.0, 1e-3, 5.0, 6.0].map(f32::to_le_bytes).concat();
        let longs: Vec<u8> = [1_i64, 2].map(i64::to_le_bytes).concat();
        let view = |dtype, shape: &[usize], bytes| {
            TensorView::new(dtype, shape.to_vec(), bytes).expect("a tensor")
        };
        let tensors = [
            ("fc.weight", view(Dtype::F32, &[2, 3], &floats)),
            ("fc.mask", view(Dtype::BOOL, &[3], &[1, 0, 1])),
            ("fc.odd", view(Dtype::BOOL, &[1], &[7])),
            ("fc.double", view(Dtype::F64, &[1], &[0; 8])),
            ("fc.half", view(Dtype::F16, &[1], &[0x00, 0x3c])),
            ("steps", view(Dtype::I64, &[2], &longs)),
            ("none", view(Dtype::F32, &[0, 4], &[])),
        ];
        safetensors::serialize(tensors, None).expect("a file")
    }

    #[tokio::test]
    async fn tensors_become_residents_by_name() {
        let file = Temporary::holding("weights", &file());
        for device in common::devices().await {
            // SAFETY: nobody else knows of the file.
            let mapped = unsafe { Weights::map(&file.0) }.expect("a file");
            for weights in [mapped, Weights::read(&file.0).expect("a file")] {
                assert_eq!(weights.names().len(), 7);
                assert_eq!(weights.shape("fc.weight").expect("a tensor").dims(), [2, 3]);
                let weight = weights.resident::<f32>(&device, "fc.weight").expect("a tensor");
                assert_eq!(weight.shape().dims(), [2, 3]);
                let values = weight.read().await.expect("the data");
                assert_eq!(values, [1.5, -2.0, 0.0, 1e-3, 5.0, 6.0]);
                let metres = weights.resident::<Metres>(&device, "fc.weight").expect("a tensor");
                assert_eq!(metres.read().await.expect("the data")[1], Metres(-2.0));
                let mask = weights.resident::<bool>(&device, "fc.mask").expect("a tensor");
                assert_eq!(mask.read().await.expect("the data"), [true, false, true]);
                let half = weights.resident::<f16>(&device, "fc.half").expect("a tensor");
                assert_eq!(half.read().await.expect("the data")[0].to_f32(), 1.0);
                let none = weights.resident::<f32>(&device, "none").expect("a tensor");
                assert_eq!(none.read().await.expect("the data"), [0.0_f32; 0]);
            }
        }
    }

    #[tokio::test]
    async fn tensors_are_read_converted_and_transposed() {
        let device = Device::cpu();
        let ids = [7_i64, -1, 1 << 31].map(i64::to_le_bytes).concat();
        let half = [1.5_f32, -2.0].map(|x| half::bf16::from_f32(x).to_le_bytes()).concat();
        let matrix = [1_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
        let tensors = [
            ("a.ids", TensorView::new(Dtype::I64, vec![3, 1], &ids).expect("a tensor")),
            ("a.half", TensorView::new(Dtype::BF16, vec![2], &half).expect("a tensor")),
            ("b.weight", TensorView::new(Dtype::F32, vec![2, 3], &matrix).expect("a tensor")),
        ];
        let file = safetensors::serialize(tensors, None).expect("a file");
        let weights = Weights::from_bytes(file).expect("a file");
        let (a, b) = (weights.prefix("a."), weights.prefix("b."));
        assert_eq!((a.names(), b.names().len()), (vec!["half".to_owned(), "ids".to_owned()], 1));
        assert_eq!(a.dtype("ids").expect("a tensor"), TensorType::I64);
        assert_eq!(a.vec::<f32>("half").expect("a tensor"), [1.5, -2.0]);
        let Err(Error::Data(error)) = a.vec::<i32>("ids") else { panic!("2³¹ is no i32") };
        let text = "tensor \"a.ids\" holds 2147483648 at [2, 0], which no i32 holds";
        assert!(error.to_string().contains(text), "{error}");
        let transposed = b.resident_transposed::<f32>(&device, "weight").expect("a tensor");
        assert_eq!(transposed.shape().dims(), [3, 2]);
        assert_eq!(transposed.read().await.expect("the data"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }

    #[tokio::test]
    async fn a_table_of_a_file_has_the_name_of_its_tensor() {
        let (device, weights) = (Device::cpu(), Weights::from_bytes(file()).expect("a file"));
        let table = weights.prefix("fc.").resident::<f32>(&device, "weight").expect("a tensor");
        let batch = GpuCommandBatch::new(&device);
        batch.embedding(&table, batch.upload(&[2_u32]));
        let error = batch.execute().await.expect_err("2 is out of range").to_string();
        let said = "; the table is resident \"fc.weight\" (at tests/ecosystem.rs:";
        assert!(error.contains(said) && error.ends_with("), of shape [2, 3]"), "{error}");
    }

    #[tokio::test]
    async fn files_that_are_not_there_are_told_with_the_call() {
        let folder = std::env::current_dir().expect("a folder");
        let absolute = folder.join("none.safetensors");
        let (absolute, relative) = (absolute.to_str().expect("text"), "none.safetensors");
        for path in [absolute, relative] {
            let program = Program::load(&Device::cpu(), path).await.err();
            // SAFETY: there is no such file.
            let mapped = unsafe { Weights::map(path) }.err();
            let read = Weights::read(path).err();
            for (error, call) in
                [(read, "Weights::read"), (mapped, "Weights::map"), (program, "Program::load")]
            {
                let error = error.expect("no such file").to_string();
                let start = format!("{path}: `{call}` cannot read this file: ");
                let end = format!("; a relative path is taken from {}", folder.display());
                assert!(error.starts_with(&start), "{error}");
                assert_eq!(error.ends_with(&end), path == relative, "{error}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let device = Device::cpu();
        let weights = Weights::from_bytes(file()).expect("a file");
        let says = |error: Error, part: &str| {
            assert!(matches!(error, Error::Data(_)) && error.to_string().contains(part), "{error}");
        };
        let unknown = weights.resident::<f32>(&device, "fc.bias").expect_err("no tensor");
        says(unknown.clone(), "the file in memory: there is no tensor \"fc.bias\"");
        says(unknown, "\"fc.weight\"");
        let inner = weights.resident::<f32>(&device, "weight").expect_err("a prefix is missing");
        says(inner, "; read it through `Weights::prefix(\"fc.\")`");
        let floats = weights.resident::<u32>(&device, "fc.weight").expect_err("floats");
        says(floats, "f32, not u32; ask for f32 and `cast` the tensor, or convert it in the file");
        let longs = weights.vec::<f32>("steps").expect_err("64 bits");
        says(
            longs,
            "i64, not f32; ask for i32 or u32 and `cast` the tensor, or convert it in the file",
        );
        let double = weights.vec::<f32>("fc.double").expect_err("64 bits");
        says(
            double,
            "f64, not f32; convert it when the file is written: by `tensor.float()` in PyTorch",
        );
        let unknown = weights.prefix("fc.").vec::<f32>("wieght").expect_err("no tensor");
        says(unknown, "did you mean \"fc.weight\"?");
        let vector = weights.resident_transposed::<bool>(&device, "fc.mask").expect_err("1 axis");
        says(vector, "shape [3] has no two axes to swap");
        let odd = weights.resident::<bool>(&device, "fc.odd").expect_err("7");
        assert!(matches!(odd, Error::Data(DataError::File { .. })), "{odd}");
        let mut short = file();
        short.truncate(short.len() - 1);
        for bytes in [short, Vec::new(), b"not a file of tensors".to_vec()] {
            assert!(matches!(Weights::from_bytes(bytes), Err(Error::Data(DataError::File { .. }))));
        }
        says(Weights::read("/nowhere/at/all").expect_err("no file"), "/nowhere/at/all: ");
    }
}
