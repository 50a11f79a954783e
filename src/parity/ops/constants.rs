//! Constants beside other values: what they give, and that those that are only read get no kernel of their own.

use std::sync::Arc;

use half::f16;

use crate::Device;
use crate::batch::{GpuCommandBatch, Tensor};
use crate::cost::{Backend, DeviceProfile, Limits};
use crate::methods::Attention;
use crate::ops::Tolerance;
use crate::parity::compare::check;
use crate::parity::sample::{FromNumber, Rng, values};
use crate::plan::{Target, plan};

const TOLERANCE: Tolerance = Tolerance { ulp: 64.0, abs: 4e-6 };

/// Rows and columns: none, one, odd, and so many that the host, too, saves time with each kernel less or more.
const SIZES: [[usize; 2]; 6] = [[0, 3], [3, 0], [1, 1], [7, 13], [64, 64], [300, 129]];

/// Steps of the plans for the host's cores and for a GPU.
fn steps(record: impl Fn(&GpuCommandBatch)) -> [usize; 2] {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    [Backend::Cpu, Backend::Gpu].map(|backend| {
        let profile = Arc::new(DeviceProfile::typical(4));
        let target = Target { backend, limits: Limits::webgpu(), profile };
        plan(&batch.recorded().graph, &target).expect("a sound graph").steps.len()
    })
}

/// Checks that what `record` records over a matrix takes `kernels` on both sides, and its results.
fn takes<T: FromNumber>(
    what: &str,
    kernels: usize,
    record: impl for<'b> Fn(&'b GpuCommandBatch, Tensor<'b, T>),
) {
    let mut rng = Rng::new(5);
    for size in SIZES {
        let data: Vec<T> = values(&mut rng, size.iter().product(), (0.5, 4.0));
        let what = format!("{what} of {} {size:?}", T::DTYPE);
        let record = |batch: &GpuCommandBatch| record(batch, batch.upload_shaped(&data, size));
        assert_eq!(steps(record), [kernels; 2], "{what}");
        check(&what, TOLERANCE, record);
    }
}

#[test]
fn a_number_is_part_of_the_kernel_that_maps() {
    takes::<f32>("x * 2 + 1", 1, |_, x| _ = x * 2.0 + 1.0);
    takes::<f32>("2 - x", 1, |_, x| _ = 2.0 - x);
    takes::<f32>("1 / x", 1, |_, x| _ = 1.0 / x);
    takes::<f32>("two results", 1, |_, x| _ = ((x * 2.0).download() + 1.0).download());
    takes::<i32>("x / 3 % 2", 1, |_, x| _ = x / 3 % 2);
    takes::<f16>("max(x, 0.5)", 1, |_, x| _ = x.max(f16::from_f32(0.5)));
    takes::<i32>("max(x, 2)", 1, |_, x| _ = x.max(2));
    takes::<f32>("x < 2 ? 1 : x", 1, |b, x| _ = b.select(b.lt(x, 2.0), 1.0, x));
    takes::<f32>("with a part beside", 1, |b, x| {
        let [rows, columns] = x.shape().unwrap().dims().try_into().unwrap();
        b.concat([x, b.full([rows, columns + 2], 0.5)], 1);
    });
}

#[test]
fn a_number_comes_before_and_after_all_forms() {
    takes::<f32>("sum", 1, |_, x| _ = (x + 1.0).sum(0) / 3.0);
    takes::<f32>("softmax", 1, |_, x| _ = (x * 0.125).softmax(-1) * 2.0);
    takes::<f32>("cumsum", 1, |_, x| _ = (x * 0.125).cumsum(0));
    takes::<f32>("attention", 1, |b, x| {
        let keys = x.shape().unwrap()[0];
        let v = b.upload_shaped(vec![0.25; keys * 4], [keys, 4]);
        b.scaled_dot_product_attention(x * 0.5, x * 0.5, v + 1.0, Attention::default());
    });
    type Factor = for<'b> fn(Tensor<'b, f32>) -> Tensor<'b, f32>;
    let factors: [Factor; 2] = [|x| x.scale(2.0), |x| 2.0 * x];
    for factor in factors {
        takes::<f32>("product", 1, |b, x| {
            let columns = x.shape().unwrap()[1];
            let w = b.upload_shaped(vec![0.25; columns * 8], [columns, 8]);
            factor(x).matmul(factor(w)).relu();
        });
    }
}

#[test]
fn a_constant_of_any_shape_and_any_number_of_readers_is_no_kernel() {
    takes::<f32>("a row", 1, |b, x| _ = x * b.full(x.shape().unwrap()[1], 0.5));
    takes::<f32>("a matrix", 1, |b, x| _ = (b.full(x.shape().unwrap(), 0.5) - x).sum(1));
    takes::<f32>("two readers", 2, |b, x| {
        let half = b.full([], 0.5);
        (x * half).sum(0);
        (x + half).softmax(1);
    });
    // Each number known from the start to the end, and more of them than a kernel binds buffers.
    takes::<f32>("many", 1, |b, x| {
        let numbers: Vec<_> = (0..40).map(|n| b.full([], 0.01 * n as f32)).collect();
        numbers.into_iter().fold(x, |x, number| x + number);
    });
}

#[test]
fn a_constant_is_stored_for_outputs_and_tables() {
    takes::<f32>("alone", 2, |b, x| {
        x.exp();
        b.full([5], 2.0);
    });
    takes::<f32>("read and downloaded", 1, |b, x| {
        let twos = b.full(x.shape().unwrap(), 2.0).download();
        (x * twos).download();
    });
    takes::<f32>("another shape, downloaded", 2, |b, x| {
        let two = b.full([], 2.0).download();
        (x * two).download();
    });
    takes::<f32>("a table and a number", 3, |b, x| {
        let table = b.full([4], 0.5);
        let ids = b.full(x.shape().unwrap(), 3_i32);
        ((x + b.gather(table, ids, 0)) * b.full([1], 0.5)).download();
        (b.arange(0.0, 4.0, 1.0) + table).download();
    });
}
