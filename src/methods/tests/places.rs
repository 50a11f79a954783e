//! The lines in which nodes say that they were recorded.

use std::panic::Location;

use crate::methods::{
    Attention, AttentionMask, CellWeights, ClassLoss, Conv2d, ConvTranspose2d, Corners,
    LossReduction, LstmState, Pool2d, Recurrence, Rotary,
};
use crate::{Device, GpuCommandBatch};

/// All that `record` records says a line of this file, from the caller's on.
#[track_caller]
fn ours(record: impl FnOnce(&GpuCommandBatch)) {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    batch.check_recorded().expect("no mistakes");
    let caller = Location::caller();
    for (_, node) in batch.recorded().graph.iter() {
        let (file, line) = (node.place.file(), node.place.line());
        let within = caller.line()..caller.line() + 12;
        let ours = file == caller.file() && within.contains(&line);
        assert!(ours, "{} of the case at {} says {file}:{line}", node.op.name(), caller.line());
    }
}

#[test]
fn losses() {
    ours(|b| {
        let (x, classes) = (b.full([2, 3], 1.0), b.full([2], 1_i32));
        let weighted = ClassLoss::weighted(b, 0.5 * b.full([3], 1.0));
        let how = ClassLoss { ignore: Some(0), smoothing: 0.1, ..weighted };
        b.cross_entropy::<f32, _>(x, classes, how);
        b.nll_loss(x, classes, how);
        b.cross_entropy_with(x, x, how);
        b.accuracy(x, classes, 1);
    });
    ours(|b| {
        let (x, y) = (b.full([2, 3], 1.0_f32), b.full([2, 3], 2.0));
        b.mse_loss(x, y, LossReduction::Mean);
        b.l1_loss(x, y, LossReduction::Sum);
        b.huber_loss(x, y, 0.5, LossReduction::None);
        b.smooth_l1_loss(x, y, 0.5, LossReduction::Mean);
        b.smooth_l1_loss(x, y, 0.0, LossReduction::Mean);
        b.binary_cross_entropy_with_logits(x, y, LossReduction::Mean);
    });
}

#[test]
fn indexing() {
    ours(|b| {
        let (x, i, u) = (b.full([4, 3], 1.0_f32), b.full([5], 2_u32), b.full([5, 3], 7.0));
        b.scatter(x, i, u, 0);
        b.scatter_add(x, i, u, 0);
        b.scatter_max(x, i, u, 0);
        b.scatter_min(x, i, u, 0);
        b.one_hot::<f32, _>(i, 4);
        b.histogram(i, 4);
        b.histogram(i, 1 << 23);
        b.triu(x, 1);
        b.tril(x, -1);
    });
}

#[test]
fn layers() {
    ours(|b| {
        let (x, h) = (b.full([4, 2, 3], 1.0_f32), b.full([2, 2, 5], 0.0));
        let (input, hidden) = (b.full([20, 3], 1.0), b.full([20, 5], 1.0));
        let cell = CellWeights::with_bias(b, input, hidden, [b.full([20], 0.0); 2]);
        let how = Recurrence { batch_first: false, bidirectional: true };
        b.lstm(x, &[cell; 2], Some(LstmState::new(b, h, h)), how);
        let (x, h) = (b.full([2, 3], 1.0_f32), b.full([2, 5], 0.0));
        b.lstm_cell(x, LstmState::new(b, h, h), cell);
    });
    ours(|b| {
        let (x, h) = (b.full([2, 4, 3], 1.0_f32), b.full([2, 5], 0.0));
        let (input, hidden) = (b.full([15, 3], 1.0), b.full([15, 5], 1.0));
        let cell = CellWeights::with_bias(b, input, hidden, [b.full([15], 0.0); 2]);
        let how = Recurrence { batch_first: true, bidirectional: false };
        b.gru(x, &[cell], None, how);
        b.full([2, 3], 1.0_f32).gru_cell(h, cell);
    });
    ours(|b| {
        let (q, k) = (b.full([1, 4, 6, 8], 1.0_f32), b.full([1, 2, 6, 8], 1.0));
        let mask = Some(AttentionMask::keep(b, b.full([6, 6], true)));
        b.scaled_dot_product_attention(q, k, k, Attention { mask, ..Attention::default() });
        b.rotary(q, Rotary::default());
        b.rotary(q, Rotary { interleaved: true, ..Rotary::default() });
        let new = b.full([1, 2, 1, 8], 2.0);
        b.replace_slice(k, new, 2, 3);
        b.einsum("abcd,efcd->ae", [q, k]);
        let x = b.full([3, 3], 1.0_f32);
        b.einsum("ii,jk->ik", [x, x]);
    });
}

#[test]
fn images() {
    ours(|b| {
        let (x, w) = (b.full([2, 4, 7, 5], 1.0_f32), b.full([4, 2, 3, 2], 1.0));
        let bias = b.full([4], 1.0);
        b.conv2d(x, w, bias, Conv2d { groups: 2, ..Conv2d::default() });
        let w = b.full([4, 2, 3, 2], 1.0);
        let conv = ConvTranspose2d { stride: [2, 3], groups: 2, ..ConvTranspose2d::default() };
        b.conv_transpose2d(x, w, bias, conv);
        b.resize_nearest(x, [3, 9]);
        b.resize_bilinear(x, [3, 9], Corners::HalfPixel);
    });
    ours(|b| {
        let x = b.full([2, 4, 7, 5], 1.0_f32);
        let pool =
            Pool2d { padding: [(1, 0), (0, 1)], count_padding: false, ..Pool2d::new([2, 2]) };
        b.max_pool2d(x, pool);
        b.avg_pool2d(x, pool);
        b.adaptive_avg_pool2d(x, [3, 4]);
        b.global_avg_pool(x);
        let four = b.full([4], 1.0);
        b.batch_norm(x, four, four, None, None, 1e-5);
        b.group_norm(x, 2, None, None, 1e-5);
        b.dropout(x, 0.5, 1, 2);
    });
}
