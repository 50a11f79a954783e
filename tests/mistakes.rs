//! Bad input: each mistake is an error that says where it was made, what is wrong and what to do.

mod common;

use std::ops::Range;
use std::process::Command;

use onetrip::{
    Attention, AttentionMask, BufferId, CellWeights, ClassLoss, Conv1d, Conv2d, ConvTranspose2d,
    Corners, DataError, Device, Error, GpuCommandBatch, LossReduction, LstmState, MAX_RANK,
    PlanError, Pool1d, Pool2d, ReadError, Recurrence, Rotary, Shape, Side, SortOrder, f16,
};

const SOURCE: &str = include_str!("mistakes.rs");
const HAND_OVER: &str = "use `keep` and `bind` to hand data from batch to batch";

/// Records on a fresh batch and expects one mistake, `want`, in the line of this file where the method that it
/// names is called.
#[track_caller]
fn refused<R>(want: &str, record: impl FnOnce(&mut GpuCommandBatch) -> R) {
    let case = std::panic::Location::caller();
    let mut batch = GpuCommandBatch::new(&Device::cpu());
    record(&mut batch);
    let error = batch.check_recorded().expect_err(want);
    let Error::Record(mistakes) = &error else { panic!("{error:?}") };
    let [mistake] = mistakes.list() else { panic!("{} mistakes: {error}", mistakes.list().len()) };

    let line = mistake.place.line();
    assert_eq!(error.to_string(), format!("{}:{line}: {want}", file!()));
    let within = case.line()..case.line() + 8;
    assert!(within.contains(&line), "line {line} is not in the case at line {}", case.line());
    let text = SOURCE.lines().nth(line as usize - 1).expect("a line of this file");
    let called = format!("b.{}", mistake.op);
    assert!(text.contains(&called), "line {line} does not call `{}`: {text}", mistake.op);
}

fn zeros(b: &mut GpuCommandBatch, shape: impl Into<Shape>) -> BufferId<f32> {
    b.full(shape, 0.0)
}

fn foreign<T: onetrip::Element>() -> BufferId<T> {
    GpuCommandBatch::new(&Device::cpu()).full([2], T::default())
}

#[test]
fn the_place_is_the_callers() {
    let mut b = GpuCommandBatch::new(&Device::cpu());
    let (x, w) = (zeros(&mut b, [64, 784]), zeros(&mut b, [512, 256]));
    let line = line!() + 1;
    b.matmul(x, w);
    let want = format!(
        "tests/mistakes.rs:{line}: matmul: inner dimensions differ: x [64, 784] · w [512, 256]; the last axis of x must equal the last but one of w (`transpose` swaps them)"
    );
    assert_eq!(b.check_recorded().unwrap_err().to_string(), want);
    assert_eq!(b.explain().unwrap_err().to_string(), want);
}

#[test]
fn more_of_an_axis_than_there_is() {
    refused("top_k: k must be at most the length of the axis, not 3", |b| {
        let x = zeros(b, [5, 2]);
        b.top_k(x, 3, -1, SortOrder::Descending)
    });
}

#[test]
fn shapes_that_do_not_broadcast() {
    let rule = "do not broadcast: aligned at the last dimension, sizes must be equal or 1";
    refused(&format!("add: shapes [2, 3] and [2] {rule}"), |b| {
        let (x, y) = (zeros(b, [2, 3]), zeros(b, [2]));
        b.add(x, y)
    });
    refused(&format!("lt: shapes [0] and [2] {rule}"), |b| {
        let (x, y) = (zeros(b, [0]), zeros(b, [2]));
        b.lt(x, y)
    });
    refused(&format!("select: shapes [4] and [2, 3] {rule}"), |b| {
        let (x, y, c) = (zeros(b, [2, 3]), zeros(b, [3]), b.full([4], true));
        b.select(c, x, y)
    });
    refused(&format!("select: shapes [2] and [3] {rule}"), |b| {
        let (x, y, c) = (zeros(b, [2]), zeros(b, [3]), b.full([], true));
        b.select(c, x, y)
    });
    refused(&format!("linear: shapes [4, 5] and [4] {rule}"), |b| {
        let (x, w, bias) = (zeros(b, [4, 3]), zeros(b, [3, 5]), zeros(b, [4]));
        b.linear(x, w, bias)
    });
}

#[test]
fn matrix_products() {
    refused(
        "matmul: operands need at least one dimension, not [] · [2, 2]; use `mul` to multiply by a scalar",
        |b| {
            let (x, w) = (zeros(b, []), zeros(b, [2, 2]));
            b.matmul(x, w)
        },
    );
    refused(
        "matmul: inner dimensions differ: x [3] · w [4]; the last axis of x must equal the last but one of w (`transpose` swaps them)",
        |b| {
            let (x, w) = (zeros(b, [3]), zeros(b, [4]));
            b.matmul(x, w)
        },
    );
    refused(
        "matmul: inner dimensions differ: x [2, 3] · w [4]; the last axis of x must equal the last but one of w (`transpose` swaps them)",
        |b| {
            let (x, w) = (zeros(b, [2, 3]), zeros(b, [4]));
            b.matmul(x, w)
        },
    );
    refused(
        "matmul: batch dimensions of x [2, 3, 4] · w [3, 4, 5] do not broadcast: sizes must be equal or 1",
        |b| {
            let (x, w) = (zeros(b, [2, 3, 4]), zeros(b, [3, 4, 5]));
            b.matmul(x, w)
        },
    );
    refused(
        "linear: inner dimensions differ: x [2, 3] · w [2, 3]; the last axis of x must equal the last but one of w (`transpose` swaps them)",
        |b| {
            let (x, w, bias) = (zeros(b, [2, 3]), zeros(b, [2, 3]), zeros(b, [3]));
            b.linear(x, w, bias)
        },
    );
    let rule = "use `matmul` for matrices";
    refused(&format!("dot: needs two vectors of equal length, not [3] and [4]; {rule}"), |b| {
        let (x, y) = (zeros(b, [3]), zeros(b, [4]));
        b.dot(x, y)
    });
    refused(
        &format!("dot: needs two vectors of equal length, not [2, 2] and [2, 2]; {rule}"),
        |b| {
            let x = zeros(b, [2, 2]);
            b.dot(x, x)
        },
    );
}

#[test]
fn transposed_convolutions_and_sizes() {
    refused(
        "conv_transpose2d: w must be [channels, filters / groups, height, width], not [3, 4]",
        |b| {
            let (x, w) = (zeros(b, [1, 3, 4, 4]), zeros(b, [3, 4]));
            b.conv_transpose2d(x, w, None, ConvTranspose2d::default())
        },
    );
    refused(
        "conv_transpose2d: output_padding must be less than the stride or the dilation, not 2",
        |b| {
            let (x, w) = (zeros(b, [1, 3, 4, 4]), zeros(b, [3, 4, 2, 2]));
            let conv = ConvTranspose2d { output_padding: [0, 2], ..ConvTranspose2d::default() };
            b.conv_transpose2d(x, w, None, conv)
        },
    );
    refused("conv_transpose2d: bias must be [filters], not [3]", |b| {
        let (x, w, bias) = (zeros(b, [1, 3, 4, 4]), zeros(b, [3, 4, 2, 2]), zeros(b, [3]));
        b.conv_transpose2d(x, w, bias, ConvTranspose2d::default())
    });
    refused("resize_nearest: size must be 1 to 16777216, not [0, 2]", |b| {
        let x = zeros(b, [3, 3]);
        b.resize_nearest(x, [0, 2])
    });
    refused("resize_nearest: size must be 1 to 16777216, not [2, 16777217]", |b| {
        let x = zeros(b, [3, 3]);
        b.resize_nearest(x, [2, (1 << 24) + 1])
    });
    refused(
        "resize_nearest: size must be 1 to 16777216, not [1, 0], by the factors [0.5, 0.2]",
        |b| {
            let x = zeros(b, [3, 3]);
            b.resize_nearest(x, [0.5, 0.2])
        },
    );
    refused("resize_bilinear: factors must be over 0 and finite, not [2.0, NaN]", |b| {
        let x = zeros(b, [3, 3]);
        b.resize_bilinear(x, [2.0, f64::NAN], Corners::HalfPixel)
    });
    refused("resize_bilinear: x must be […, height, width], not [3]", |b| {
        let x = zeros(b, [3]);
        b.resize_bilinear(x, [1, 2], Corners::Aligned)
    });
}

fn cell(b: &mut GpuCommandBatch, gates: usize, input: usize, size: usize) -> CellWeights<f32> {
    let (input, hidden) = ([gates * size, input], [gates * size, size]);
    CellWeights { input: zeros(b, input), hidden: zeros(b, hidden), bias: None }
}

#[test]
fn recurrent_layers() {
    let (forwards, both) =
        (Recurrence::default(), Recurrence { bidirectional: true, ..Recurrence::default() });
    refused("lstm: the number of cells must be two for each layer, not 1", |b| {
        let (x, cell) = (zeros(b, [7, 2, 3]), cell(b, 4, 3, 5));
        b.lstm(x, &[cell], None, both)
    });
    refused(
        "gru: sequences and states need three dimensions, as [steps, batch, width], not [7, 3]",
        |b| {
            let (x, cell) = (zeros(b, [7, 3]), cell(b, 3, 3, 5));
            b.gru(x, &[cell], None, forwards)
        },
    );
    refused("lstm: input weights of shape [20, 4], where the other shapes ask for [20, 3]", |b| {
        let (x, cell) = (zeros(b, [7, 2, 3]), cell(b, 4, 4, 5));
        b.lstm(x, &[cell], None, forwards)
    });
    // The second layer takes what the first gives.
    refused("gru: input weights of shape [18, 3], where the other shapes ask for [18, 5]", |b| {
        let (x, cells) = (zeros(b, [7, 2, 3]), [cell(b, 3, 3, 5), cell(b, 3, 3, 6)]);
        b.gru(x, &cells, None, forwards)
    });
    refused("lstm: state of shape [2, 2, 5], where the other shapes ask for [1, 2, 5]", |b| {
        let (x, h, cell) = (zeros(b, [7, 2, 3]), zeros(b, [2, 2, 5]), cell(b, 4, 3, 5));
        b.lstm(x, &[cell], Some(LstmState { h, c: h }), forwards)
    });
    refused("gru: state of shape [3, 5], where the other shapes ask for [2, 5]", |b| {
        let (x, h, cell) = (zeros(b, [7, 2, 3]), zeros(b, [1, 3, 5]), cell(b, 3, 3, 5));
        b.gru(x, &[cell], Some(h), forwards)
    });
    refused(
        "lstm_cell: hidden weights of shape [15, 5], where the other shapes ask for [20, 5]",
        |b| {
            let (x, h, cell) = (zeros(b, [2, 3]), zeros(b, [2, 5]), cell(b, 3, 3, 5));
            b.lstm_cell(x, LstmState { h, c: h }, cell)
        },
    );
    refused("gru_cell: bias of shape [5], where the other shapes ask for [15]", |b| {
        let (x, h, cell) = (zeros(b, [2, 3]), zeros(b, [2, 5]), cell(b, 3, 3, 5));
        let bias = zeros(b, [5]);
        b.gru_cell(x, h, CellWeights { bias: Some([bias; 2]), ..cell })
    });
}

#[test]
fn positions_and_slices() {
    refused("rotary: the size of the last axis must be even, not 5", |b| {
        let x = zeros(b, [4, 5]);
        b.rotary(x, Rotary::default())
    });
    refused("rotary: base must be finite and greater than 0, not 0", |b| {
        let x = zeros(b, [4, 6]);
        b.rotary(x, Rotary { base: 0.0, ..Rotary::default() })
    });
    refused("rotary: cannot broadcast [5] to [2, 4]: only sizes of 1 can grow", |b| {
        let (x, positions) = (zeros(b, [2, 4, 6]), Some(zeros(b, [5])));
        b.rotary(x, Rotary { positions, ..Rotary::default() })
    });
    refused(
        "replace_slice: slice 3..5 does not lie in axis 1 of [2, 4]; it needs start <= end <= 4",
        |b| {
            let (x, new) = (zeros(b, [2, 4]), zeros(b, [2, 2]));
            b.replace_slice(x, new, 1, 3)
        },
    );
    refused("replace_slice: [3, 2] does not fit [2, 4]: all axes but axis 1 must be equal", |b| {
        let (x, new) = (zeros(b, [2, 4]), zeros(b, [3, 2]));
        b.replace_slice(x, new, 1, 0)
    });
    refused("replace_slice: axis 2 is out of range for shape [2, 4], which has 2 axes", |b| {
        let x = zeros(b, [2, 4]);
        b.replace_slice(x, x, 2, 0)
    });
}

#[test]
fn more_positions_than_there_are() {
    refused("nonzero: size must be at most the number of elements, not 5", |b| {
        let mask = b.full([2, 2], true);
        b.nonzero(mask, 5)
    });
}

#[test]
fn weights_of_classes() {
    refused("cross_entropy: weight must be [classes], not [3]", |b| {
        let (x, classes, weight) = (zeros(b, [2, 4]), b.full([2], 0), Some(zeros(b, [3])));
        b.cross_entropy(x, classes, ClassLoss { weight, ..ClassLoss::default() })
    });
    refused("cross_entropy_with: weight must be [classes], not [1, 4]", |b| {
        let (x, weight) = (zeros(b, [2, 4]), Some(zeros(b, [1, 4])));
        b.cross_entropy_with(x, x, ClassLoss { weight, ..ClassLoss::default() })
    });
}

#[test]
fn normalizations_of_channels() {
    refused("batch_norm: mean must be [channels], not [4]", |b| {
        let (x, four, three) = (zeros(b, [2, 3, 8]), zeros(b, [4]), zeros(b, [3]));
        b.batch_norm(x, four, three, None, None, 1e-5)
    });
    refused("instance_norm: x must be [batch, channels, …], not [3]", |b| {
        let x = zeros(b, [3]);
        b.instance_norm(x, None, None, 1e-5)
    });
    refused("group_norm: 6 channels of [2, 6] cannot be cut into 4 groups of one size", |b| {
        let x = zeros(b, [2, 6]);
        b.group_norm(x, 4, None, None, 1e-5)
    });
    refused("group_norm: bias must be [channels], not [2]", |b| {
        let (x, bias) = (zeros(b, [2, 6]), zeros(b, [2]));
        b.group_norm(x, 2, None, bias, 1e-5)
    });
    refused("l2_normalize: epsilon must be finite and not negative, not -1", |b| {
        let x = zeros(b, [2, 6]);
        b.l2_normalize(x, 0, -1.0)
    });
}

#[test]
fn convolutions() {
    let conv = Conv2d { groups: 2, ..Conv2d::default() };
    let sees = "the channels of x must be those of w times the groups, and the filters a multiple of the groups";
    refused(
        &format!("conv2d: filters [4, 3, 3, 3] in 2 groups do not fit [1, 3, 8, 8]: {sees}"),
        |b| {
            let (x, w) = (zeros(b, [1, 3, 8, 8]), zeros(b, [4, 3, 3, 3]));
            b.conv2d(x, w, None, conv)
        },
    );
    refused(
        &format!("conv2d: filters [3, 2, 3, 3] in 2 groups do not fit [1, 4, 8, 8]: {sees}"),
        |b| {
            let (x, w) = (zeros(b, [1, 4, 8, 8]), zeros(b, [3, 2, 3, 3]));
            b.conv2d(x, w, None, conv)
        },
    );
    refused("conv2d: x must be [batch, channels, height, width], not [3, 8, 8]", |b| {
        let (x, w) = (zeros(b, [3, 8, 8]), zeros(b, [4, 3, 3, 3]));
        b.conv2d(x, w, None, Conv2d::default())
    });
    refused("conv1d: w must be [filters, channels / groups, size], not [4, 3]", |b| {
        let (x, w) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3]));
        b.conv1d(x, w, None, Conv1d::default())
    });
    refused("conv1d: bias must be [filters], not [1]", |b| {
        let (x, w, bias) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3, 1]), zeros(b, [1]));
        b.conv1d(x, w, bias, Conv1d::default())
    });
    refused("conv2d: groups must be at least 1, not 0", |b| {
        let (x, w) = (zeros(b, [1, 3, 8, 8]), zeros(b, [4, 3, 3, 3]));
        b.conv2d(x, w, None, Conv2d { groups: 0, ..conv })
    });
    refused("conv1d: stride must be at least 1, not 0", |b| {
        let (x, w) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3, 1]));
        b.conv1d(x, w, None, Conv1d { stride: [0], ..Conv1d::default() })
    });
    refused(
        "conv1d: a window that reaches over 9 elements does not fit into axis 2 of [1, 3, 8] with its padding",
        |b| {
            let (x, w) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3, 5]));
            b.conv1d(x, w, None, Conv1d { dilation: [2], ..Conv1d::default() })
        },
    );
    refused(&format!("conv1d: this id belongs to another batch; {HAND_OVER}"), |b| {
        let x = zeros(b, [1, 3, 8]);
        b.conv1d(x, foreign(), None, Conv1d::default())
    });
}

#[test]
fn windows() {
    let none = "does not fit into axis";
    refused(
        &format!("unfold: a window that reaches over 5 elements {none} 0 of [4] with its padding"),
        |b| {
            let x = zeros(b, [4]);
            b.unfold(x, 0, 5, 1)
        },
    );
    refused("unfold: stride must be at least 1, not 0", |b| {
        let x = zeros(b, [4]);
        b.unfold(x, -1, 2, 0)
    });
    refused("unfold: axis 1 is out of range for shape [4], which has 1 axis", |b| {
        let x = zeros(b, [4]);
        b.unfold(x, 1, 2, 1)
    });
    refused("unfold: 9 dimensions are more than the 8 supported; merge some", |b| {
        let x = zeros(b, [2; MAX_RANK]);
        b.unfold(x, 1, 2, 1)
    });
    refused(&format!("unfold: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.unfold(foreign::<f32>(), 1, 2, 1)
    });
    let pool = Pool2d { padding: [(0, 0), (1, 0)], dilation: [1, 2], ..Pool2d::new([2, 3]) };
    refused(
        &format!(
            "max_pool2d: a window that reaches over 5 elements {none} 2 of [1, 2, 3] with its padding"
        ),
        |b| {
            let x = zeros(b, [1, 2, 3]);
            b.max_pool2d(x, pool)
        },
    );
    refused("avg_pool2d: x must be […, height, width], not [3]", |b| {
        let x = zeros(b, [3]);
        b.avg_pool2d(x, pool)
    });
    refused("max_pool1d: size must be at least 1, not 0", |b| {
        let x = zeros(b, [3]);
        b.max_pool1d(x, Pool1d::new([0]))
    });
    refused("avg_pool1d: dilation must be at least 1, not 0", |b| {
        let x = zeros(b, [3]);
        b.avg_pool1d(x, Pool1d { dilation: [0], ..Pool1d::default() })
    });
    refused(&format!("max_pool1d: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.max_pool1d(foreign::<f32>(), Pool1d::default())
    });
    refused(
        &format!(
            "max_pool1d: shape [{}] has more elements than can be addressed",
            3 + (1_usize << 40)
        ),
        |b| {
            let x = zeros(b, [3]);
            b.max_pool1d(x, Pool1d { padding: [(1 << 40, 0)], ..Pool1d::default() })
        },
    );
    refused("adaptive_avg_pool2d: size must be at least 1, not [2, 0]", |b| {
        let x = zeros(b, [3, 3]);
        b.adaptive_avg_pool2d(x, [2, 0])
    });
    refused("global_avg_pool: x must be [batch, channels, …], not [3, 3]", |b| {
        let x = zeros(b, [3, 3]);
        b.global_avg_pool(x)
    });
}

#[test]
fn axes() {
    refused("sum: axis 2 is out of range for shape [2, 3], which has 2 axes", |b| {
        let x = zeros(b, [2, 3]);
        b.sum(x, 2)
    });
    refused("mean: axis -3 is out of range for shape [2, 3], which has 2 axes", |b| {
        let x = zeros(b, [2, 3]);
        b.mean(x, [0, -3])
    });
    refused("softmax: axis 0 is out of range for shape [], which has 0 axes", |b| {
        let x = zeros(b, []);
        b.softmax(x, 0)
    });
    refused("layer_norm: axis -2 is out of range for shape [3], which has 1 axis", |b| {
        let x = zeros(b, [3]);
        b.layer_norm(x, -2, 1e-5)
    });
    refused("prod: axis -1 is given twice for shape [2, 3]", |b| {
        let x = zeros(b, [2, 3]);
        b.prod(x, [1, -1])
    });
    refused("flip: axis 0 is given twice for shape [2, 3]", |b| {
        let x = zeros(b, [2, 3]);
        b.flip(x, [0, 0])
    });
    refused("flip: axis 5 is out of range for shape [2, 3], which has 2 axes", |b| {
        let x = zeros(b, [2, 3]);
        b.flip(x, 5)
    });
    let fix = "use `reshape` to make a row or column";
    refused(&format!("transpose: needs at least two axes, and shape [3] has 1 axis; {fix}"), |b| {
        let x = zeros(b, [3]);
        b.transpose(x)
    });
    refused("squeeze: axis 1 is out of range for shape [1], which has 1 axis", |b| {
        let x = zeros(b, [1]);
        b.squeeze(x, 1)
    });
    refused("unsqueeze: a new axis -3 is out of range for shape [3]: it may be -2 to 1", |b| {
        let x = zeros(b, [3]);
        b.unsqueeze(x, -3)
    });
    refused("concat: axis 2 is out of range for shape [2, 3], which has 2 axes", |b| {
        let x = zeros(b, [2, 3]);
        b.concat(&[x, x], 2)
    });
}

#[test]
fn indexing() {
    let need = "as many axes, and equal sizes or 1 on all but axis 1, are needed";
    refused("gather: axis 2 is out of range for shape [2, 3], which has 2 axes", |b| {
        let (x, i) = (zeros(b, [2, 3]), b.full([4], 0_i32));
        b.gather(x, i, 2)
    });
    refused("embedding: axis 0 is out of range for shape [], which has 0 axes", |b| {
        let (x, i) = (zeros(b, []), b.full([4], 0_u32));
        b.embedding(x, i)
    });
    refused(&format!("take_along_axis: indices [3, 3] do not fit [2, 3]: {need}"), |b| {
        let (x, i) = (zeros(b, [2, 3]), b.full([3, 3], 0_u32));
        b.take_along_axis(x, i, 1)
    });
    refused("searchsorted: needs a vector, not [2, 3]; use `reshape`", |b| {
        let (x, y) = (zeros(b, [2, 3]), zeros(b, [5]));
        b.searchsorted(x, y, Side::Left)
    });
    refused(
        "scatter_add: updates must be [2, 4], one along the axis for each index, not [2, 3]",
        |b| {
            let (x, i) = (zeros(b, [2, 3]), b.full([4], 0_i32));
            b.scatter_add(x, i, x, -1)
        },
    );
    refused("scatter_max: needs a vector, not [3, 1]; use `reshape`", |b| {
        let (x, i) = (zeros(b, [2, 3]), b.full([3, 1], 0_i32));
        b.scatter_max(x, i, x, 1)
    });
    refused(&format!("scatter: this id belongs to another batch; {HAND_OVER}"), |b| {
        let (x, i) = (zeros(b, [2, 3]), b.full([3], 0_i32));
        b.scatter(x, i, foreign(), 1)
    });
    refused(&format!("one_hot: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.one_hot::<f32, i32>(foreign(), 4)
    });
    refused("histogram: the number of bins must be below 2³¹, not 2147483648", |b| {
        let x = b.full([2], 0_i32);
        b.histogram(x, 1 << 31)
    });
    let fix = "use `reshape` to make a row or column";
    refused(&format!("triu: needs at least two axes, and shape [3] has 1 axis; {fix}"), |b| {
        let x = zeros(b, [3]);
        b.triu(x, 0)
    });
}

#[test]
fn movement() {
    let each = "a permutation of shape [2, 3] names each of its 2 axes once";
    refused(&format!("permute: {each}, not [0]"), |b| {
        let x = zeros(b, [2, 3]);
        b.permute(x, [0])
    });
    refused(&format!("permute: {each}, not [1, -1]"), |b| {
        let x = zeros(b, [2, 3]);
        b.permute(x, [1, -1])
    });
    refused(&format!("permute: {each}, not [0, 2]"), |b| {
        let x = zeros(b, [2, 3]);
        b.permute(x, [0, 2])
    });
    refused("reshape: cannot reshape [2, 3] (6 elements) to [4, 2] (8 elements)", |b| {
        let x = zeros(b, [2, 3]);
        b.reshape(x, [4, 2])
    });
    refused("reshape: cannot reshape [0, 3] (0 elements) to [] (1 elements)", |b| {
        let x = zeros(b, [0, 3]);
        b.reshape(x, [])
    });
    refused("broadcast_to: cannot broadcast [4, 3] to [3]: only sizes of 1 can grow", |b| {
        let x = zeros(b, [4, 3]);
        b.broadcast_to(x, [3])
    });
    refused("broadcast_to: cannot broadcast [3] to [1]: only sizes of 1 can grow", |b| {
        let x = zeros(b, [3]);
        b.broadcast_to(x, [1])
    });
    refused("squeeze: axis 1 of [1, 3] has size 3, and only a size of 1 can be squeezed", |b| {
        let x = zeros(b, [1, 3]);
        b.squeeze(x, -1)
    });
}

#[test]
fn slices() {
    refused("slice: a slice needs one entry for each of the 2 axes of [4, 5], not 1", |b| {
        let x = zeros(b, [4, 5]);
        b.slice(x, [(0..4, 1)])
    });
    refused(
        "slice: slice 2..6 does not lie in axis 1 of [4, 5]; it needs start <= end <= 5",
        |b| {
            let x = zeros(b, [4, 5]);
            b.slice(x, [(0..4, 1), (2..6, 1)])
        },
    );
    refused("slice: slice 3..1 does not lie in axis 0 of [4]; it needs start <= end <= 4", |b| {
        let x = zeros(b, [4]);
        b.slice(x, [(Range { start: 3, end: 1 }, 1)])
    });
    let step = "use 1 to take every element, a negative step to go backwards";
    refused(&format!("slice: the step of axis 0 is 0; {step}"), |b| {
        let x = zeros(b, [4]);
        b.slice(x, [(0..4, 0)])
    });
}

#[test]
fn joins_and_borders() {
    refused("concat: needs at least one tensor", |b| b.concat::<f32>(&[], 0));
    refused("concat: [2, 4] does not fit [2, 3]: all axes but axis 0 must be equal", |b| {
        let (x, y) = (zeros(b, [2, 3]), zeros(b, [2, 4]));
        b.concat(&[x, y], -2)
    });
    refused("concat: [3] does not fit [2, 3]: all axes but axis 0 must be equal", |b| {
        let (x, y) = (zeros(b, [2, 3]), zeros(b, [3]));
        b.concat(&[x, y], 0)
    });
    refused("pad: a border needs one entry for each of the 2 axes of [2, 3], not 3", |b| {
        let x = zeros(b, [2, 3]);
        b.pad(x, [(1, 1), (0, 0), (2, 2)], 0.0)
    });
}

#[test]
fn data_that_does_not_fill_its_shape() {
    refused("upload: 5 elements do not fill shape [2, 3], which has 6", |b| {
        b.upload_shaped(&[0.0_f32; 5], [2, 3])
    });
    refused("upload: 1 elements do not fill shape [0, 7], which has 0", |b| {
        b.upload_shaped(&[true], [0, 7])
    });
    refused("upload: 0 elements do not fill shape [], which has 1", |b| {
        b.upload_shaped::<i32>(&[], [])
    });
}

#[test]
fn data_that_the_host_has_no_memory_for() {
    refused(
        "upload: the host has no memory left for f32[1073741824, 65536]; free residents, or split the batch",
        |b| {
            b.upload_with([1 << 30, 1 << 16], |_: &mut [f32]| {
                unreachable!("there is nothing to fill")
            })
        },
    );
}

#[test]
fn too_many_dimensions_or_elements() {
    let nine = [1; MAX_RANK + 1];
    let rule = "9 dimensions are more than the 8 supported; merge some";
    refused(&format!("full: {rule}"), |b| b.full(nine, 0_u32));
    refused(&format!("upload: {rule}"), |b| b.upload_shaped(&[0_u32], nine));
    refused(&format!("reshape: {rule}"), |b| {
        let x = zeros(b, []);
        b.reshape(x, nine)
    });
    refused(&format!("broadcast_to: {rule}"), |b| {
        let x = zeros(b, []);
        b.broadcast_to(x, nine)
    });
    refused(&format!("unsqueeze: {rule}"), |b| {
        let x = zeros(b, [1; MAX_RANK]);
        b.unsqueeze(x, 0)
    });

    let rule = "has more elements than can be addressed";
    let max = usize::MAX;
    refused(&format!("full: shape [{max}, 2] {rule}"), |b| b.full([max, 2], 0_i32));
    refused(&format!("full: shape [{max}, {max}, 0] {rule}"), |b| b.full([max, max, 0], 0_i32));
    refused(&format!("upload: shape [{max}, 3] {rule}"), |b| {
        b.upload_shaped(&[0.0_f32; 3], [max, 3])
    });
    refused(&format!("add: shape [{0}, {0}] {rule}", 1_u64 << 32), |b| {
        let (x, y) = (zeros(b, [1 << 32, 1]), zeros(b, [1 << 32]));
        b.add(x, y)
    });
    refused(&format!("matmul: shape [{0}, {0}] {rule}", 1_u64 << 32), |b| {
        let (x, w) = (zeros(b, [1 << 32, 0]), zeros(b, [0, 1 << 32]));
        b.matmul(x, w)
    });
    refused(&format!("pad: shape [{max}] {rule}"), |b| {
        let x = zeros(b, [1]);
        b.pad(x, [(max, 7)], 0.0)
    });
    refused(&format!("concat: shape [{}] {rule}", 3_u64 << 58), |b| {
        let x = zeros(b, [1 << 58]);
        b.concat(&[x, x, x], 0)
    });
}

#[test]
fn ranges_without_a_finite_length() {
    let rule = "has no length that can be counted in 31 bits; the numbers must be finite, and the step not 0";
    refused(&format!("arange: a range from 0 to 5 by 0 {rule}"), |b| b.arange(0, 5, 0));
    refused(&format!("arange: a range from 0 to 5 by NaN {rule}"), |b| {
        b.arange(0.0, 5.0, f32::NAN)
    });
    refused(&format!("arange: a range from NaN to 5 by 1 {rule}"), |b| {
        b.arange(f32::NAN, 5.0, 1.0)
    });
    refused(&format!("arange: a range from 0 to NaN by 1 {rule}"), |b| {
        b.arange(0.0, f32::NAN, 1.0)
    });
    refused(&format!("arange: a range from 0 to inf by 1 {rule}"), |b| {
        b.arange(0.0, f32::INFINITY, 1.0)
    });
    refused(&format!("arange: a range from 0 to 5 by inf {rule}"), |b| {
        b.arange(0.0, 5.0, f32::INFINITY)
    });
    refused(&format!("arange: a range from 0 to 65504 by 0 {rule}"), |b| {
        b.arange(f16::ZERO, f16::MAX, f16::ZERO)
    });
    refused(&format!("arange: a range from 0 to 4294967295 by 1 {rule}"), |b| {
        b.arange(0, u32::MAX, 1)
    });
}

#[test]
fn parameters() {
    let rule = "epsilon must be finite and not negative";
    refused(&format!("layer_norm: {rule}, not NaN"), |b| {
        let x = zeros(b, [3]);
        b.layer_norm(x, 0, f32::NAN)
    });
    refused(&format!("layer_norm: {rule}, not inf"), |b| {
        let x = zeros(b, [3]);
        b.layer_norm(x, 0, f32::INFINITY)
    });
    refused(&format!("rms_norm: {rule}, not -0.5"), |b| {
        let x = zeros(b, [3]);
        b.rms_norm(x, 0, -0.5)
    });
}

#[test]
fn reductions_that_need_an_element() {
    let rule = "of [3, 0] is empty, and";
    let fix = "of no elements has no value; leave the empty case out";
    refused(&format!("argmax: axis 1 {rule} argmax {fix}"), |b| {
        let x = zeros(b, [3, 0]);
        b.argmax(x, -1)
    });
    refused(&format!("argmin: axis 1 {rule} argmin {fix}"), |b| {
        let x = zeros(b, [3, 0]);
        b.argmin(x, ..)
    });
    refused(&format!("amax: axis 1 {rule} amax {fix}"), |b| {
        let x = zeros(b, [3, 0]);
        b.amax(x, 1)
    });
    refused(&format!("amin: axis 1 {rule} amin {fix}"), |b| {
        let x = zeros(b, [3, 0]);
        b.amin(x, [0, 1])
    });
}

#[test]
fn ids_of_another_batch() {
    let rule =
        "this id belongs to another batch; use `keep` and `bind` to hand data from batch to batch";
    refused(&format!("relu: {rule}"), |b| b.relu(foreign::<f32>()));
    refused(&format!("add: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.add(x, foreign())
    });
    refused(&format!("cast: {rule}"), |b| b.cast::<f32, i32>(foreign()));
    refused(&format!("select: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.select(foreign(), x, x)
    });
    refused(&format!("matmul: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.matmul(foreign(), x)
    });
    refused(&format!("sum: {rule}"), |b| b.sum(foreign::<i32>(), 7));
    refused(&format!("log_softmax: {rule}"), |b| b.log_softmax(foreign::<f32>(), 7));
    refused(&format!("reshape: {rule}"), |b| b.reshape(foreign::<f32>(), [9, 9]));
    refused(&format!("slice: {rule}"), |b| b.slice(foreign::<f32>(), []));
    refused(&format!("pad: {rule}"), |b| b.pad(foreign::<f32>(), [], 0.0));
    refused(&format!("concat: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.concat(&[x, foreign()], 0)
    });
    refused(&format!("concat: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.concat(&[foreign(), x], 0)
    });
    refused(&format!("dot: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.dot(x, foreign())
    });
    refused(&format!("download: {rule}"), |b| b.download(foreign::<f32>()));
    refused(&format!("keep: {rule}"), |b| {
        b.keep(foreign::<f32>());
    });

    let b = GpuCommandBatch::new(&Device::cpu());
    assert_eq!(b.shape(foreign::<f32>()), None);
}

#[test]
fn one_mistake_is_one_line() {
    let mut b = GpuCommandBatch::new(&Device::cpu());
    let (x, y) = (zeros(&mut b, [2]), zeros(&mut b, [3]));
    let first = line!() + 1;
    let wrong = b.add(x, y);
    // Everything that follows from it is silent, whatever else would be wrong with it.
    let reduced = b.argmax(wrong, 9);
    let moved = b.reshape(wrong, [77]);
    let padded = b.pad(wrong, [(0, 0); 5], 0.0);
    let joined = b.concat(&[x, wrong, y], 0);
    let product = b.matmul(wrong, moved);
    let normal = b.softmax(product, 4);
    b.dot(wrong, y);
    let condition = b.full([], true);
    b.select(condition, wrong, padded);
    b.download(joined);
    b.keep(normal);
    assert_eq!(b.shape(wrong), None);
    assert_eq!(b.shape(reduced), None);
    let second = line!() + 1;
    b.squeeze(y, 0);

    let error = b.check_recorded().unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(Into::into).collect();
    assert_eq!(
        lines,
        [
            format!(
                "tests/mistakes.rs:{first}: add: shapes [2] and [3] do not broadcast: aligned at the last \
                 dimension, sizes must be equal or 1"
            ),
            format!(
                "tests/mistakes.rs:{second}: squeeze: axis 0 of [3] has size 3, and only a size of 1 can be squeezed"
            ),
        ]
    );
    let Error::Record(mistakes) = error else { panic!("{error:?}") };
    assert_eq!(mistakes.list()[1].op, "squeeze");
    assert_eq!(mistakes.list()[0].place.line(), first);
}

#[tokio::test]
async fn mistakes_come_from_execute_too() {
    let mut b = GpuCommandBatch::new(&Device::cpu());
    let x = b.upload(&[1.0_f32]);
    let y = b.reshape(x, [2]);
    assert!(matches!(b.execute().await, Err(Error::Record(_))));
    assert!(matches!(b.read(y).await, Err(Error::Read(ReadError::NotExecuted))));
    let device = Device::cpu();
    let result = device.eval(|b| {
        let x = b.upload(&[1, 2]);
        b.reshape(x, [3])
    });
    let message = result.await.unwrap_err().to_string();
    assert!(message.contains("reshape: cannot reshape [2] (2 elements) to [3]"), "{message}");
}

#[tokio::test]
async fn an_empty_batch() {
    let mut b = GpuCommandBatch::new(&Device::cpu());
    let want = "the batch is empty; record at least one operation or upload before it is executed";
    assert_eq!(b.execute().await.unwrap_err().to_string(), want);
    assert_eq!(b.explain().unwrap_err().to_string(), want);
    assert!(b.shaders().is_err());
}

#[tokio::test]
async fn reading_what_is_not_there() {
    for device in common::devices().await {
        let mut b = GpuCommandBatch::new(&device);
        let x = b.upload(&[1.0_f32, -2.0]);
        let line = line!() + 1;
        let h = b.neg(x);
        let y = b.exp(h);
        let not_executed =
            "nothing was executed since the last change to the batch; call `execute` before `read`";
        assert_eq!(b.read(y).await.unwrap_err().to_string(), not_executed);

        b.execute().await.unwrap();
        assert_eq!(b.read(y).await.unwrap().len(), 2);
        let error = b.read(h).await.unwrap_err();
        let (op, place) = match &error {
            Error::Read(ReadError::NotDownloaded { op, place }) => (*op, place.clone()),
            other => panic!("{other:?}"),
        };
        assert_eq!(op, "neg");
        assert!(place.starts_with(&format!("tests/mistakes.rs:{line}")), "{place}");
        let want = format!(
            "neg (recorded at {place}) was not downloaded; call `download(id)` on it before `execute`"
        );
        assert_eq!(error.to_string(), want);

        let error = b.read(foreign::<f32>()).await.unwrap_err();
        assert!(matches!(error, Error::Read(ReadError::Foreign)));
        let want = "this id belongs to another batch; read it from the batch that made it";
        assert_eq!(error.to_string(), want);

        // More was recorded: what was read before belongs to another graph.
        let z = b.abs(y);
        assert_eq!(b.read(y).await.unwrap_err().to_string(), not_executed);
        assert_eq!(b.read(z).await.unwrap_err().to_string(), not_executed);
        b.execute().await.unwrap();
        assert_eq!(b.read(z).await.unwrap().len(), 2);

        // The data was replaced.
        b.write(x, &[0.0, 0.0]).unwrap();
        assert_eq!(b.read(z).await.unwrap_err().to_string(), not_executed);
    }
}

#[test]
fn writing_what_cannot_be_written() {
    let mut b = GpuCommandBatch::new(&Device::cpu());
    let x = b.upload_shaped(&[0.0_f32; 6], [2, 3]);
    let y = b.relu(x);
    let error = b.write(y, &[0.0; 6]).unwrap_err();
    assert!(matches!(error, Error::Data(DataError::NotAnUpload("relu"))));
    let want = "only an upload can be written, and this id is the result of `relu`; use the id that `upload` returned";
    assert_eq!(error.to_string(), want);
    let error = b.write(x, &[0.0; 5]).unwrap_err();
    assert_eq!(error.to_string(), "5 elements do not fill shape [2, 3], which has 6");
    let error = b.write(foreign::<f32>(), &[0.0; 2]).unwrap_err();
    assert!(matches!(error, Error::Data(DataError::Foreign)));
    let want = "this id belongs to another batch; write to the batch that made it";
    assert_eq!(error.to_string(), want);
    b.write(x, &[1.0; 6]).unwrap();
    assert!(b.check_recorded().is_ok(), "a refused write leaves the batch as it was");
}

#[tokio::test]
async fn residents() {
    for device in common::devices().await {
        let error = device.resident(&[0.0_f32; 5], [2, 3]).unwrap_err();
        assert_eq!(error.to_string(), "5 elements do not fill shape [2, 3], which has 6");
        let error = device.resident(&[0_u32], [1; 9]).unwrap_err();
        assert_eq!(error.to_string(), "9 dimensions are more than the 8 supported; merge some");
        let error = device.resident(&[0_u32; 2], [usize::MAX, 2]).unwrap_err();
        assert!(matches!(error, Error::Data(DataError::Length { given: 2, .. })));

        let elsewhere = Device::cpu();
        let stranger = elsewhere.resident(&[1.0_f32], [1]).unwrap();
        let mut b = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        b.bind(&stranger);
        let want = format!(
            "tests/mistakes.rs:{line}: bind: this resident lives on another device (cpu); upload the data to \
             this one"
        );
        assert_eq!(b.check_recorded().unwrap_err().to_string(), want);

        let mut maker = GpuCommandBatch::new(&device);
        let x = maker.upload(&[1.0_f32, 2.0]);
        let y = maker.neg(x);
        let (kept, line) = (maker.keep(y), line!());
        let error = kept.read().await.unwrap_err();
        assert!(matches!(error, Error::Read(ReadError::EmptyResident { .. })));
        let want = format!(
            "tests/mistakes.rs:{line}: the resident made here is empty: \
             execute the batch that keeps it first"
        );
        assert_eq!(error.to_string(), want);

        let mut user = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        let k = user.bind(&kept);
        let y = user.neg(k);
        let error = user.execute().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("tests/mistakes.rs:{line}:")), "{error}");
        let want = ": the resident bound here is empty: execute the batch that keeps it first";
        assert!(error.ends_with(want), "{error}");

        maker.execute().await.unwrap();
        assert_eq!(kept.read().await.unwrap(), [-1.0, -2.0]);
        user.execute().await.unwrap();
        assert_eq!(user.read(y).await.unwrap(), [1.0, 2.0]);
    }
}

/// Whatever they are made of, and whichever part of that refuses.
#[test]
fn operations_that_are_made_of_others() {
    let fix = "of no elements has no value; leave the empty case out";
    refused(&format!("accuracy: axis 1 of [3, 0] is empty, and argmax {fix}"), |b| {
        let (x, classes) = (zeros(b, [3, 0]), b.full([3], 0_u32));
        b.accuracy(x, classes, 1)
    });
    let rule = "has more elements than can be addressed";
    refused(&format!("random_permutation: shape [4294967296] {rule}"), |b| {
        b.random_permutation(1 << 32, 0, 0)
    });
    refused(
        "input: another value of this batch is called \"x\"; give each a name of its own",
        |b| {
            zeros(b, 1);
            b.input::<f32>("x", 1);
            b.input::<f32>("x", 1)
        },
    );
}

#[test]
fn losses_of_what_does_not_fit() {
    refused(
        "mse_loss: shapes [3] and [3, 1] must be equal; use `broadcast_to` to repeat one of them",
        |b| {
            let (x, y) = (zeros(b, [3]), zeros(b, [3, 1]));
            b.mse_loss(x, y, LossReduction::Mean)
        },
    );
    let want = "cross_entropy: classes of shape [4] do not fit [4, 5, 6]: they need its shape without axis 1, that of the classes";
    refused(want, |b| {
        let (x, classes) = (zeros(b, [4, 5, 6]), b.full([4], 0_i32));
        b.cross_entropy(x, classes, ClassLoss::default())
    });
    refused("nll_loss: smoothing must be 0 to 1, not 1.5", |b| {
        let (x, classes) = (zeros(b, [4, 5]), b.full([4], 0_u32));
        b.nll_loss(x, classes, ClassLoss { smoothing: 1.5, ..ClassLoss::default() })
    });
    refused("accuracy: axis 2 is out of range for shape [4, 5], which has 2 axes", |b| {
        let (x, classes) = (zeros(b, [4, 5]), b.full([4], 0_u32));
        b.accuracy(x, classes, 2)
    });
    refused("huber_loss: delta must be greater than 0, not 0", |b| {
        let x = zeros(b, [3]);
        b.huber_loss(x, x, 0.0, LossReduction::Sum)
    });
    refused("smooth_l1_loss: beta must be 0 or greater, not NaN", |b| {
        let x = zeros(b, [3]);
        b.smooth_l1_loss(x, x, f32::NAN, LossReduction::Sum)
    });
    let want = "cross_entropy_with: this id belongs to another batch; use `keep` and `bind` to hand data from batch to batch";
    refused(want, |b| {
        let x = zeros(b, [2]);
        b.cross_entropy_with(x, foreign(), ClassLoss::default())
    });
}

#[test]
fn attention_over_what_does_not_fit() {
    let rule = "do not fit: they are […, L, E], […, S, E], […, S, Ev] (and broadcast to […, L, S])";
    for (k, v, heads) in
        [([4, 7, 9], [4, 7, 8], 4), ([4, 7, 8], [4, 6, 8], 4), ([3, 7, 8], [3, 7, 8], 4)]
    {
        let all = format!("[[{heads}, 5, 8], {k:?}, {v:?}]");
        let want =
            format!("scaled_dot_product_attention: queries, keys, values (and mask) {all} {rule}");
        refused(&want, |b| {
            let (q, k, v) = (zeros(b, [heads, 5, 8]), zeros(b, k), zeros(b, v));
            b.scaled_dot_product_attention(q, k, v, Attention::default())
        });
    }
    let all = "[[5, 8], [7, 8], [7, 8], [4, 7]]";
    let want =
        format!("scaled_dot_product_attention: queries, keys, values (and mask) {all} {rule}");
    refused(&want, |b| {
        let (q, k) = (zeros(b, [5, 8]), zeros(b, [7, 8]));
        let mask = Some(AttentionMask::Add(zeros(b, [4, 7])));
        b.scaled_dot_product_attention(q, k, k, Attention { mask, ..Attention::default() })
    });
}

#[test]
fn subscripts_that_cannot_be_read() {
    refused("einsum: in \"ij,j1->i\", at character 5: `1` is no label", |b| {
        let x = zeros(b, [2, 2]);
        b.einsum("ij,j1->i", &[x, x])
    });
    refused("einsum: in \"ij,jk\", `j` has sizes 3 and 2: they must be equal or 1", |b| {
        let x = zeros(b, [2, 3]);
        b.einsum("ij,jk", &[x, x])
    });
    refused("einsum: in \"\", at character 1: there are only 0 operands", |b| {
        b.einsum::<f32>("", &[])
    });
}

#[tokio::test]
async fn a_tensor_larger_than_the_adapter_can_bind() {
    let Some(device) = common::gpu().await else { return };
    let mut b = GpuCommandBatch::new(&device);
    let line = line!() + 1;
    let x = b.full([1 << 31], true);
    b.download(x);
    let error = b.execute().await.unwrap_err();
    let (place, limit) = match &error {
        Error::Plan(PlanError::TooLarge { place, limit, .. }) => (place.clone(), *limit),
        other => panic!("{other:?}"),
    };
    assert!(place.starts_with(&format!("tests/mistakes.rs:{line}")), "{place}");
    let want = format!(
        "{place}: full makes bool[2147483648] of 8589934592 bytes, and {} binds at most {limit}; split it, or \
         run on `Device::cpu()`",
        device.info().name
    );
    assert_eq!(error.to_string(), want);

    // On the host a truth value is a byte, and nothing binds but the memory.
    let elements = limit as usize / 4 + 1;
    if elements > 1 << 27 {
        println!("skipped on the CPU: {} binds {limit} bytes", device.info().name);
        return;
    }
    let one_too_many = device.eval(|b| b.full([elements], true)).await;
    assert!(matches!(one_too_many, Err(Error::Plan(PlanError::TooLarge { .. }))));
    let result = Device::cpu().eval(|b| b.full([elements], true)).await.unwrap();
    assert!(result.len() == elements && result.iter().all(|&truth| truth));
    // What is fused is never stored: this fits on any device.
    let sum = device.eval(|b| {
        let ones = b.full([elements], true);
        let ones = b.cast::<bool, u32>(ones);
        b.sum(ones, ..)
    });
    assert_eq!(sum.await.unwrap(), [elements as u32]);
}

/// Opens `Device::auto` in a process of its own with `variables` set; what it printed.
fn opened_with(variables: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().expect("the path of this test"));
    child.args(["--exact", "child_that_opens_a_device", "--ignored", "--nocapture"]);
    child.env_remove("ONETRIP_BACKEND").env_remove("ONETRIP_ADAPTER");
    let output = child.envs(variables.iter().copied()).output().expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("opened: "));
    line.unwrap_or_else(|| panic!("no answer in {text}")).1.to_owned()
}

#[tokio::test]
#[ignore = "the tests of the environment run it in a process of its own"]
async fn child_that_opens_a_device() {
    match Device::auto().await {
        Ok(device) => println!("opened: {} gpu={}", device.info().name, device.is_gpu()),
        Err(error) => println!("opened: error: {error}"),
    }
}

#[test]
fn a_backend_that_is_not_understood() {
    let want = "error: ONETRIP_BACKEND=tpu is not understood; use auto, cpu or gpu";
    assert_eq!(opened_with(&[("ONETRIP_BACKEND", "tpu")]), want);
    assert_eq!(opened_with(&[("ONETRIP_BACKEND", "CPU")]), "cpu gpu=false");
}

#[tokio::test]
async fn an_adapter_that_is_not_there() {
    let answer = opened_with(&[("ONETRIP_BACKEND", "gpu"), ("ONETRIP_ADAPTER", "no such card")]);
    if !cfg!(feature = "gpu") {
        assert!(answer.starts_with("error: this build has no GPU support"), "{answer}");
        return;
    }
    let start = "error: no GPU adapter whose name contains \"no such card\"; found: ";
    assert!(answer.starts_with(start), "{answer}");
    // Naming an adapter asks for a GPU, whatever the backend says.
    let answer = opened_with(&[("ONETRIP_ADAPTER", "no such card")]);
    assert!(answer.starts_with(start), "{answer}");

    let Some(device) = common::gpu().await else { return };
    let name = &device.info().name;
    assert!(answer[start.len()..].contains(name), "{answer} lists {name}");
    assert!(answer.ends_with("Ask for one of these, or use `Device::cpu()`"), "{answer}");
    let named = opened_with(&[("ONETRIP_ADAPTER", &name.to_uppercase())]);
    assert_eq!(named, format!("{name} gpu=true"));
}
