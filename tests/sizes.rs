//! Tensors of no element and of one: every family gives what NumPy gives.

mod common;

use onetrip::{Attention, Device, Element, GpuCommandBatch, Shape, Tensor};

/// Runs `record` and checks its one result, NaN being equal to NaN.
#[track_caller]
fn gives<T: Element, const N: usize>(
    device: &Device,
    shape: [usize; N],
    want: &[T],
    record: impl for<'b> FnOnce(&'b GpuCommandBatch) -> Tensor<'b, T>,
) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    let batch = GpuCommandBatch::new(device);
    let result = record(&batch).id();
    batch.download(result);
    async move {
        let on = batch.device().info().name.clone();
        batch.execute().await.unwrap_or_else(|error| panic!("{place} on {on}: {error}"));
        assert_eq!(batch.shape(result), Some(Shape::from(shape)), "{place} on {on}");
        let got = batch.read(result).await.expect("what was downloaded");
        // `Debug` tells −0 from 0 and calls every NaN by the same name.
        assert_eq!(format!("{got:?}"), format!("{want:?}"), "{place} on {on}");
    }
}

const NOTHING: &[f32] = &[];

#[tokio::test]
async fn elementwise() {
    for d in &common::devices().await {
        gives(d, [0], NOTHING, |b| b.upload::<f32>(&[]).gelu()).await;
        gives(d, [3, 0], NOTHING, |b| b.full([3, 1], 2.0).add(b.full([0], 1.0))).await;
        gives(d, [0, 2], &[] as &[bool], |b| b.upload_shaped::<i32>(&[], [0, 2]).lt(b.full([], 1)))
            .await;
        gives(d, [0], &[] as &[u32], |b| b.upload::<bool>(&[]).cast()).await;
        gives(d, [], &[9.0_f32], |b| b.upload_shaped(&[-3.0_f32], []).square()).await;
        gives(d, [1, 1, 1], &[3.0_f32], |b| {
            b.upload_shaped(&[1.0_f32], [1, 1, 1]).add(b.upload(&[2.0]))
        })
        .await;
    }
}

#[tokio::test]
async fn reductions_over_nothing() {
    fn empty(b: &GpuCommandBatch) -> Tensor<'_, f32> {
        b.upload_shaped(&[], [2, 0])
    }
    for d in &common::devices().await {
        // Two axes that are no single one.
        gives(d, [3], &[0.0, 0.0, 0.0], |b| b.upload_shaped::<f32>(&[], [4, 3, 0]).sum([0, 2]))
            .await;
        gives(d, [2], &[0.0, 0.0], |b| empty(b).sum(1)).await;
        gives(d, [], &[0.0], |b| empty(b).sum(..)).await;
        gives(d, [0], NOTHING, |b| empty(b).sum(0)).await;
        gives(d, [2], &[1.0, 1.0], |b| empty(b).prod(1)).await;
        gives(d, [2, 1], &[f32::NAN; 2], |b| empty(b).mean(onetrip::Axes::from(-1).keep_dims()))
            .await;
        gives(d, [2], &[f32::NEG_INFINITY; 2], |b| empty(b).logsumexp(1)).await;
        gives(d, [2], &[0.0, 0.0], |b| empty(b).norm(1)).await;
        gives(d, [2], &[false; 2], |b| b.upload_shaped::<bool>(&[], [2, 0]).any(1)).await;
        gives(d, [], &[true], |b| b.upload_shaped::<bool>(&[], [2, 0]).all(..)).await;
        gives(d, [], &[1], |b| b.upload::<i32>(&[]).prod(0)).await;
        gives(d, [], &[0.0], |b| {
            let x = b.upload::<f32>(&[]);
            b.dot(x, x)
        })
        .await;
        // No row is reduced, so none lacks its greatest element.
        gives(d, [0], &[] as &[u32], |b| empty(b).argmax(0)).await;
    }
}

#[tokio::test]
async fn reductions_of_one_element_and_over_no_axes() {
    for d in &common::devices().await {
        gives(d, [], &[-2.0], |b| b.upload_shaped(&[-2.0_f32], [1, 1]).sum(..)).await;
        gives(d, [1], &[0_u32], |b| b.upload_shaped(&[f32::NAN], [1, 1]).argmin(0)).await;
        gives(d, [], &[5.0], |b| b.upload_shaped(&[5.0_f32], []).mean(..)).await;
        gives(d, [2], &[3.0, 4.0], |b| b.upload(&[-3.0_f32, 4.0]).norm([])).await;
        gives(d, [2], &[7, -8], |b| b.upload(&[7, -8]).sum([])).await;
    }
}

#[tokio::test]
async fn rows() {
    for d in &common::devices().await {
        for shape in [[0, 3], [3, 0], [0, 0]] {
            gives(d, shape, NOTHING, |b| b.upload_shaped::<f32>(&[], shape).softmax(-1)).await;
            gives(d, shape, NOTHING, |b| b.upload_shaped::<f32>(&[], shape).layer_norm(0, 1e-5))
                .await;
        }
        gives(d, [2, 1], &[1.0, 1.0], |b| b.upload_shaped(&[-1e30_f32, 88.0], [2, 1]).softmax(1))
            .await;
        gives(d, [1], &[0.0], |b| b.upload(&[3.0_f32]).log_softmax(0)).await;
        gives(d, [1], &[0.0], |b| b.upload(&[3.0_f32]).layer_norm(0, 1e-5)).await;
        gives(d, [1], &[-1.0], |b| b.upload(&[-4.0_f32]).rms_norm(0, 0.0)).await;
    }
}

#[tokio::test]
async fn products() {
    for d in &common::devices().await {
        // All keys count alike without a feature, and one query is another kernel than several.
        for queries in [1, 3] {
            gives(d, [queries, 2], &vec![2.0_f32; 2 * queries], |b| {
                let [q, k] = [[queries, 0], [3, 0]].map(|shape| b.full(shape, 1.0));
                q.scaled_dot_product_attention(k, b.full([3, 2], 2.0), Attention::default())
            })
            .await;
        }
        gives(d, [2, 3], &[0.0; 6], |b| b.full([2, 0], 1.0).matmul(b.full([0, 3], 1.0))).await;
        gives(d, [2, 3], &[5.0; 6], |b| {
            b.full([2, 0], 1.0).linear(b.full([0, 3], 1.0), b.full([3], 5.0))
        })
        .await;
        gives(d, [0, 3], NOTHING, |b| b.full([0, 4], 1.0).matmul(b.full([4, 3], 1.0))).await;
        gives(d, [0, 2, 2], NOTHING, |b| b.full([0, 2, 4], 1.0).matmul(b.full([4, 2], 1.0))).await;
        gives(d, [], &[0], |b| {
            let x = b.upload::<i32>(&[]);
            b.matmul(x, x)
        })
        .await;
        gives(d, [1, 1], &[-6.0], |b| b.full([1, 1], 2.0).matmul(b.full([1, 1], -3.0))).await;
    }
}

#[tokio::test]
async fn movement() {
    for d in &common::devices().await {
        gives(d, [3], &[1.0, 2.0, 3.0], |b| {
            let (x, y) = (b.upload::<f32>(&[]), b.upload(&[1.0, 2.0, 3.0]));
            b.concat(&[x, y, x], 0)
        })
        .await;
        gives(d, [0, 4], NOTHING, |b| {
            let (x, y) = (b.full([0, 1], 1.0), b.full([0, 3], 1.0));
            b.concat(&[x, y], 1)
        })
        .await;
        gives(d, [2, 2], &[9.0; 4], |b| {
            b.upload_shaped::<f32>(&[], [0, 2]).pad([(1, 1), (0, 0)], 9.0)
        })
        .await;
        gives(d, [0, 5], NOTHING, |b| {
            b.upload_shaped::<f32>(&[], [0, 2]).pad([(0, 0), (1, 2)], 9.0)
        })
        .await;
        gives(d, [], &[4.0], |b| b.upload_shaped(&[4.0_f32], []).pad([], 9.0)).await;
        gives(d, [0, 7], NOTHING, |b| b.upload_shaped::<f32>(&[], [3, 0]).reshape([0, 7])).await;
        gives(d, [0, 3], NOTHING, |b| b.upload_shaped::<f32>(&[], [3, 0]).transpose()).await;
        gives(d, [0], NOTHING, |b| b.upload(&[1.0_f32, 2.0]).slice([(1..1, -1)])).await;
        gives(d, [2, 0], NOTHING, |b| {
            b.upload_shaped::<f32>(&[], [1, 0]).flip(..).broadcast_to([2, 0])
        })
        .await;
        gives(d, [1, 1], &[4.0], |b| {
            b.upload_shaped(&[4.0_f32], []).unsqueeze(0).unsqueeze(-1).flip(..)
        })
        .await;
        gives(d, [0], &[] as &[i32], |b| b.arange(3, 3, 1)).await;
        gives(d, [0], NOTHING, |b| b.arange(3.0, 0.0, 0.5)).await;
        gives(d, [1], &[2.0], |b| b.arange(2.0, 2.5, 7.0)).await;
        gives(d, [0, 9], &[] as &[bool], |b| b.full([0, 9], true)).await;
    }
}

#[tokio::test]
async fn nothing_and_something_in_one_trip() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let (none, some) = (b.upload::<f32>(&[]), b.upload(&[1.0_f32, 2.0]));
        let (none, some, total) = (b.neg(none), b.neg(some), b.sum(none, 0));
        b.execute().await.unwrap();
        assert_eq!(b.read(none).await.unwrap(), NOTHING);
        assert_eq!(b.read(some).await.unwrap(), [-1.0, -2.0]);
        assert_eq!(b.read(total).await.unwrap(), [0.0]);
        let resident = device.resident::<f32>(&[], [0, 4]).unwrap();
        assert_eq!(resident.read().await.unwrap(), NOTHING);
        let b = GpuCommandBatch::new(&device);
        let r = b.bind(&resident);
        let y = b.sum(r, 0);
        let kept = b.keep(r);
        b.download(y);
        b.execute().await.unwrap();
        assert_eq!(b.read(y).await.unwrap(), [0.0; 4]);
        assert_eq!(kept.read().await.unwrap(), NOTHING);
    }
}

#[tokio::test]
async fn steps_and_shapes_of_any_size() {
    for d in &common::devices().await {
        gives(d, [1, 1], &[3.0_f32], |b| {
            let x = b.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
            b.slice(x, [(0..2, isize::MIN), (0..2, isize::MAX)])
        })
        .await;
    }
    // Far more than any memory: an error, not the end of the process.
    let batch = GpuCommandBatch::new(&Device::cpu());
    batch.upload(&[1.0_f32]).broadcast_to([1 << 58]).exp();
    let error = batch.execute().await.expect_err("no machine has room");
    assert!(error.to_string().starts_with("out of memory"), "{error}");
}

/// Each step reads the one before in two ways, so that computing it where it is read would double
/// the work every time.
#[tokio::test]
async fn stencils_do_not_blow_up() {
    for d in &common::devices().await {
        gives(d, [4], &[0.0_f32, 0.0, 0.0, 0.0], |b| {
            let mut x = b.upload(&[1.0_f32, 2.0, 3.0, 4.0]);
            for _ in 0..60 {
                let y = b.flip(x, ..);
                x = b.sub(x, y);
                x = b.scale(x, 0.5);
            }
            let y = b.flip(x, ..);
            b.add(x, y)
        })
        .await;
    }
}

/// The expression of a joined value that repeats is that of one value, or of a join inside of it.
#[tokio::test]
async fn values_that_repeat_are_joined() {
    for d in &common::devices().await {
        let rows = |n: usize| [1.0_f32, 2.0, 3.0].repeat(n);
        gives(d, [6, 3], &rows(6), |b| {
            let x = b.upload(&[1.0_f32, 2.0, 3.0]).broadcast_to([2, 3]);
            let y = b.concat([x, x], 0);
            b.concat([y, x], 0)
        })
        .await;
        gives(d, [8, 3], &rows(8), |b| {
            let x = b.upload(&[1.0_f32, 2.0, 3.0]).broadcast_to([2, 3]);
            let y = b.concat([x, x], 0);
            b.concat([y, y], 0)
        })
        .await;
        gives(d, [4], &[7.0_f32; 4], |b| {
            let x = b.upload(&[7.0_f32]);
            let y = b.concat([x, x], 0);
            b.concat([x, y, x], 0)
        })
        .await;
        gives(d, [4, 3], &rows(4), |b| {
            let x = b.upload(&[1.0_f32, 2.0, 3.0]).broadcast_to([2, 3]);
            let y = x.replace_slice(x.slice([0..1, 0..3]), 0, 0);
            b.concat([y, x], 0)
        })
        .await;
        gives(d, [4, 2], &[1.0_f32, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0], |b| {
            let parts = [b.upload(&[1.0_f32]), b.upload(&[2.0_f32])];
            let x = b.concat(parts, 0).unsqueeze(1).broadcast_to([2, 2]);
            b.concat([x, x], 0)
        })
        .await;
    }
}
