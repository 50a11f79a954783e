//! Operations over shapes, axes and numbers that they do not take.

use std::ops::Range;

use onetrip::{BufferId, Device, GpuCommandBatch, MAX_RANK, SearchSide, SortOrder, f16};

use crate::{HAND_OVER, foreign, misshaped, refused, zeros};

#[test]
fn more_of_an_axis_than_there_is() {
    refused("top_k: k must be at most 2, the length of the axis, not 3", |b| {
        b.top_k(zeros(b, [5, 2]), 3, -1, SortOrder::Descending).0
    });
}

#[test]
fn shapes_that_do_not_broadcast() {
    let misfit = "do not broadcast: aligned at the last dimension, sizes must be equal or 1";
    let rule = format!("{misfit}; `unsqueeze` adds a size of 1");
    let fix = "`reshape([2, 1])` puts [2] along axis 0 of [2, 3]";
    refused(&format!("add: shapes [2, 3] and [2] {misfit}; {fix}"), |b| {
        b.add(zeros(b, [2, 3]), zeros(b, [2]))
    });
    let fix = "`reshape([3, 1, 1])` puts [3] along axis 1 of [2, 3, 5, 4]";
    refused(&format!("sub: shapes [2, 3, 5, 4] and [3] {misfit}; {fix}"), |b| {
        b.sub(zeros(b, [2, 3, 5, 4]), zeros(b, [3]))
    });
    refused(&format!("sub: shapes [3] and [2, 3, 5, 4] {misfit}; {fix}"), |b| {
        b.sub(zeros(b, [3]), zeros(b, [2, 3, 5, 4]))
    });
    refused(&format!("sub: shapes [3, 3, 4] and [3] {rule}"), |b| {
        b.sub(zeros(b, [3, 3, 4]), zeros(b, [3]))
    });
    // Images whose channels come first, and last.
    let fix = "`permute([0, 3, 1, 2])` brings [2, 5, 4, 3] into the order of [2, 3, 5, 4]";
    refused(&format!("add: shapes [2, 3, 5, 4] and [2, 5, 4, 3] {misfit}; {fix}"), |b| {
        b.add(zeros(b, [2, 3, 5, 4]), zeros(b, [2, 5, 4, 3]))
    });
    let rest = "all axes but axis 1 must be equal";
    refused(&format!("concat: [2, 5, 4, 3] does not fit [2, 3, 5, 4]: {rest}; {fix}"), |b| {
        b.concat([zeros(b, [2, 3, 5, 4]), zeros(b, [2, 5, 4, 3])], 1)
    });
    refused(&format!("add: shapes [2, 3] and [3, 2] {misfit}; `transpose` one of them"), |b| {
        b.add(zeros(b, [2, 3]), zeros(b, [3, 2]))
    });
    refused(&format!("lt: shapes [0] and [2] {rule}"), |b| b.lt(zeros(b, [0]), zeros(b, [2])));
    refused(&format!("select: shapes [4] and [2, 3] {rule}"), |b| {
        let (x, y, c) = (zeros(b, [2, 3]), zeros(b, [3]), b.full([4], true));
        b.select(c, x, y)
    });
    refused(&format!("select: shapes [2] and [3] {rule}"), |b| {
        let (x, y, c) = (zeros(b, [2]), zeros(b, [3]), b.full([], true));
        b.select(c, x, y)
    });
    let bias = "linear: bias of shape [4], where the other shapes ask for [5]; change this shape, or the others";
    refused(bias, |b| {
        let (x, w, bias) = (zeros(b, [4, 3]), zeros(b, [3, 5]), zeros(b, [4]));
        b.linear(x, w, bias)
    });
}

#[test]
fn matrix_products() {
    refused(
        "matmul: operands need at least one dimension, not [] · [2, 2]; use `mul` to multiply by a scalar",
        |b| b.matmul(zeros(b, []), zeros(b, [2, 2])),
    );
    refused(
        "matmul: inner dimensions differ: x [3] · w [4]; the last axis of x must equal the one of w",
        |b| b.matmul(zeros(b, [3]), zeros(b, [4])),
    );
    refused(
        "matmul: inner dimensions differ: x [2, 3] · w [4]; the last axis of x must equal the one of w",
        |b| b.matmul(zeros(b, [2, 3]), zeros(b, [4])),
    );
    refused(
        "matmul: batch dimensions of x [2, 3, 4] · w [3, 4, 5] do not broadcast: sizes must be equal or 1; `unsqueeze` adds a size of 1",
        |b| b.matmul(zeros(b, [2, 3, 4]), zeros(b, [3, 4, 5])),
    );
    let rule = "the last axis of x must equal the last but one of w";
    let fix = "transposed, w fits: `w.transpose()`, of a resident `batch.bind(&w).transpose()`, or `Weights::resident_transposed` for [outputs, inputs] as in files of PyTorch";
    let want = format!("linear: inner dimensions differ: x [2, 3] · w [2, 3]; {rule}; {fix}");
    refused(&want, |b| {
        let (x, w, bias) = (zeros(b, [2, 3]), zeros(b, [2, 3]), zeros(b, [3]));
        b.linear(x, w, bias)
    });
    let fix = "`x.reshape([2, 3])` leaves out sizes of 1, and fits";
    let want = format!("linear: inner dimensions differ: x [2, 3, 1, 1] · w [3, 2]; {rule}; {fix}");
    refused(&want, |b| b.linear(zeros(b, [2, 3, 1, 1]), zeros(b, [3, 2]), zeros(b, [2])));
    let fix = "transposed, x fits: `x.transpose()`";
    let of_one = "the last axis of x must equal the one of w";
    for (w, said, rule) in [(vec![3, 5], "[3, 5]", rule), (vec![3], "[3]", of_one)] {
        let want = format!("matmul: inner dimensions differ: x [3, 2] · w {said}; {rule}; {fix}");
        refused(&want, |b| b.matmul(zeros(b, [3, 2]), zeros(b, w)));
    }
    // A bias may be broadcast, not the product.
    refused(
        "linear: cannot broadcast [7, 1] to [1, 5]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| b.linear(zeros(b, [1, 3]), zeros(b, [3, 5]), zeros(b, [7, 1])),
    );
    refused(
        "linear: cannot broadcast [5, 1] to [5]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| b.linear(zeros(b, [3]), zeros(b, [3, 5]), zeros(b, [5, 1])),
    );
    let b = GpuCommandBatch::new(&Device::cpu());
    let y = b.linear(zeros(&b, [7, 3]), zeros(&b, [3, 5]), zeros(&b, [7, 1]));
    assert_eq!(y.shape().expect("a bias a row").dims(), [7, 5]);
    let rule = "use `matmul` for matrices";
    refused(&format!("dot: needs two vectors of equal length, not [3] and [4]; {rule}"), |b| {
        b.dot(zeros(b, [3]), zeros(b, [4]))
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
fn more_positions_than_there_are() {
    refused("nonzero: size must be at most 4, the number of elements, not 5", |b| {
        b.nonzero(b.full([2, 2], true), 5).0
    });
}

#[test]
fn axes() {
    refused(
        "sum: axis 2 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| b.sum(zeros(b, [2, 3]), 2),
    );
    refused(
        "mean: axis -3 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| b.mean(zeros(b, [2, 3]), [0, -3]),
    );
    refused(
        "softmax: axis 0 is out of range for shape [], which has 0 axes; `unsqueeze` adds one",
        |b| b.softmax(zeros(b, []), 0),
    );
    refused(
        "layer_norm: axis -2 is out of range for shape [3], which has 1 axis; it may be -1 to 0",
        |b| b.layer_norm(zeros(b, [3]), -2, 1e-5),
    );
    refused("prod: axis -1 is given twice for shape [2, 3]; name each axis once", |b| {
        b.prod(zeros(b, [2, 3]), [1, -1])
    });
    refused("flip: axis 0 is given twice for shape [2, 3]; name each axis once", |b| {
        b.flip(zeros(b, [2, 3]), [0, 0])
    });
    refused(
        "flip: axis 5 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| b.flip(zeros(b, [2, 3]), 5),
    );
    let fix = "use `reshape` to make a row or column";
    refused(&format!("transpose: needs at least two axes, and shape [3] has 1 axis; {fix}"), |b| {
        b.transpose(zeros(b, [3]))
    });
    refused(
        "squeeze: axis 1 is out of range for shape [1], which has 1 axis; it may be -1 to 0",
        |b| b.squeeze(zeros(b, [1]), 1),
    );
    refused("unsqueeze: a new axis -3 is out of range for shape [3]: it may be -2 to 1", |b| {
        b.unsqueeze(zeros(b, [3]), -3)
    });
    refused(
        "concat: axis 2 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| {
            let x = zeros(b, [2, 3]);
            b.concat(&[x, x], 2)
        },
    );
}

#[test]
fn indexing() {
    let need = "as many axes, and equal sizes or 1 on all but axis 1, are needed; `unsqueeze` adds an axis";
    refused(
        "gather: axis 2 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| b.gather(zeros(b, [2, 3]), b.full([4], 0_i32), 2),
    );
    refused(
        "embedding: axis 0 is out of range for shape [], which has 0 axes; `unsqueeze` adds one",
        |b| b.embedding(zeros(b, []), b.full([4], 0_u32)),
    );
    refused(&format!("take_along_axis: indices [3, 3] do not fit [2, 3]: {need}"), |b| {
        b.take_along_axis(zeros(b, [2, 3]), b.full([3, 3], 0_u32), 1)
    });
    refused("searchsorted: needs a vector, not [2, 3]; use `reshape`", |b| {
        b.searchsorted(zeros(b, [2, 3]), zeros(b, [5]), SearchSide::Left)
    });
    refused(&misshaped("scatter_add: updates", "[2, 3]", "[2, 4]"), |b| {
        let (x, i) = (zeros(b, [2, 3]), b.full([4], 0_i32));
        b.scatter_add(x, i, x, -1)
    });
    refused("scatter_max: needs a vector, not [3, 1]; use `reshape`", |b| {
        let (x, i) = (zeros(b, [2, 3]), b.full([3, 1], 0_i32));
        b.scatter_max(x, i, x, 1)
    });
    refused(&format!("scatter: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.scatter(zeros(b, [2, 3]), b.full([3], 0_i32), foreign(), 1)
    });
    refused(&format!("one_hot: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.one_hot::<f32, i32>(foreign(), 4)
    });
    refused("histogram: the number of bins must be below 2³¹, not 2147483648", |b| {
        b.histogram(b.full([2], 0_i32), 1 << 31)
    });
    let fix = "use `reshape` to make a row or column";
    refused(&format!("triu: needs at least two axes, and shape [3] has 1 axis; {fix}"), |b| {
        b.triu(zeros(b, [3]), 0)
    });
}

#[test]
fn movement() {
    let each = "a permutation of shape [2, 3] names each of its 2 axes once";
    refused(&format!("permute: {each}, not [0]"), |b| b.permute(zeros(b, [2, 3]), [0]));
    refused(&format!("permute: {each}, not [1, -1]"), |b| b.permute(zeros(b, [2, 3]), [1, -1]));
    refused(&format!("permute: {each}, not [0, 2]"), |b| b.permute(zeros(b, [2, 3]), [0, 2]));
    refused(
        "reshape: cannot reshape [2, 3] (6 elements) to [4, 2] (8 elements): the numbers must be equal; [3, 2] would fit",
        |b| b.reshape(zeros(b, [2, 3]), [4, 2]),
    );
    refused(
        "reshape: cannot reshape [0, 3] (0 elements) to [] (1 element): the numbers must be equal; `slice` or `pad` it first",
        |b| b.reshape(zeros(b, [0, 3]), []),
    );
    refused(
        "broadcast_to: cannot broadcast [4, 3] to [3]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| b.broadcast_to(zeros(b, [4, 3]), [3]),
    );
    refused(
        "broadcast_to: cannot broadcast [3] to [1]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| b.broadcast_to(zeros(b, [3]), [1]),
    );
    refused(
        "squeeze: axis 1 of [1, 3] has size 3, and only a size of 1 can be squeezed; `slice` takes one element, `reshape` merges axes",
        |b| b.squeeze(zeros(b, [1, 3]), -1),
    );
}

#[test]
fn slices() {
    refused("slice: a slice needs one entry for each of the 2 axes of [4, 5], not 1", |b| {
        b.slice(zeros(b, [4, 5]), [(0..4, 1)])
    });
    refused(
        "slice: slice 2..6 does not lie in axis 1 of [4, 5]; it needs start <= end <= 5",
        |b| b.slice(zeros(b, [4, 5]), [(0..4, 1), (2..6, 1)]),
    );
    refused("slice: slice 3..1 does not lie in axis 0 of [4]; it needs start <= end <= 4", |b| {
        b.slice(zeros(b, [4]), [(Range { start: 3, end: 1 }, 1)])
    });
    let step = "use 1 for every element, a negative step to go backwards";
    refused(&format!("slice: the step of axis 0 is 0; {step}"), |b| {
        b.slice(zeros(b, [4]), [(0..4, 0)])
    });
}

#[test]
fn joins_and_borders() {
    refused("concat: needs at least one tensor; `full` makes one without elements", |b| {
        b.concat([] as [BufferId<f32>; 0], 0)
    });
    refused(
        "concat: [2, 4] does not fit [2, 3]: all axes but axis 0 must be equal; `slice` or `pad` one of them",
        |b| b.concat(&[zeros(b, [2, 3]), zeros(b, [2, 4])], -2),
    );
    refused(
        "concat: [3] does not fit [2, 3]: all axes but axis 0 must be equal; `slice` or `pad` one of them",
        |b| b.concat(&[zeros(b, [2, 3]), zeros(b, [3])], 0),
    );
    refused("pad: a border needs one entry for each of the 2 axes of [2, 3], not 3", |b| {
        b.pad(zeros(b, [2, 3]), [(1, 1), (0, 0), (2, 2)], 0.0)
    });
}

#[test]
fn ranges_without_a_finite_length() {
    let rule = "has no length below 2^31; the numbers must be finite, the step not 0, and the elements fewer";
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
    refused(&format!("layer_norm: {rule}, not NaN"), |b| b.layer_norm(zeros(b, [3]), 0, f32::NAN));
    refused(&format!("layer_norm: {rule}, not inf"), |b| {
        b.layer_norm(zeros(b, [3]), 0, f32::INFINITY)
    });
    refused(&format!("rms_norm: {rule}, not -0.5"), |b| b.rms_norm(zeros(b, [3]), 0, -0.5));
}

#[test]
fn reductions_that_need_an_element() {
    let rule = "of [3, 0] is empty, and";
    let fix = "of no elements has no value; leave the empty case out";
    refused(&format!("argmax: axis 1 {rule} argmax {fix}"), |b| b.argmax(zeros(b, [3, 0]), -1));
    refused(&format!("argmin: axis 1 {rule} argmin {fix}"), |b| b.argmin(zeros(b, [3, 0]), ..));
    refused(&format!("amax: axis 1 {rule} amax {fix}"), |b| b.amax(zeros(b, [3, 0]), 1));
    refused(&format!("amin: axis 1 {rule} amin {fix}"), |b| b.amin(zeros(b, [3, 0]), [0, 1]));
}

#[test]
fn subscripts_that_cannot_be_read() {
    refused("einsum: in \"ij,j1->i\", at character 5: `1` is no label; use letters", |b| {
        let x = zeros(b, [2, 2]);
        b.einsum("ij,j1->i", &[x, x])
    });
    refused(
        "einsum: in \"ij,jk\", `j` has sizes 3 and 2: they must be equal or 1; give one axis another label",
        |b| {
            let x = zeros(b, [2, 3]);
            b.einsum("ij,jk", &[x, x])
        },
    );
    refused(
        "einsum: in \"\", at character 1: there is no operand for these subscripts; leave out what follows",
        |b| b.einsum("", [] as [BufferId<f32>; 0]),
    );
}

#[test]
fn too_many_dimensions_or_elements() {
    let nine = [1; MAX_RANK + 1];
    let rule = "9 dimensions are more than the 8 supported; merge some";
    refused(&format!("full: {rule}"), |b| b.full(nine, 0_u32));
    refused(&format!("upload_shaped: {rule}"), |b| b.upload_shaped(&[0_u32], nine));
    refused(&format!("reshape: {rule}"), |b| b.reshape(zeros(b, []), nine));
    refused(&format!("broadcast_to: {rule}"), |b| b.broadcast_to(zeros(b, []), nine));
    refused(&format!("unsqueeze: {rule}"), |b| b.unsqueeze(zeros(b, [1; MAX_RANK]), 0));

    let rule = "has more elements than can be addressed; split it";
    let max = usize::MAX;
    refused(&format!("full: shape [{max}, 2] {rule}"), |b| b.full([max, 2], 0_i32));
    refused(&format!("full: shape [{max}, {max}, 0] {rule}"), |b| b.full([max, max, 0], 0_i32));
    refused(&format!("upload_shaped: shape [{max}, 3] {rule}"), |b| {
        b.upload_shaped(&[0.0_f32; 3], [max, 3])
    });
    refused(&format!("add: shape [{0}, {0}] {rule}", 1_u64 << 32), |b| {
        b.add(zeros(b, [1 << 32, 1]), zeros(b, [1 << 32]))
    });
    refused(&format!("matmul: shape [{0}, {0}] {rule}", 1_u64 << 32), |b| {
        b.matmul(zeros(b, [1 << 32, 0]), zeros(b, [0, 1 << 32]))
    });
    refused(&format!("pad: shape [{max}] {rule}"), |b| b.pad(zeros(b, [1]), [(max, 7)], 0.0));
    refused(&format!("concat: shape [{}] {rule}", 3_u64 << 58), |b| {
        let x = zeros(b, [1 << 58]);
        b.concat(&[x, x, x], 0)
    });
}
