//! Operations over shapes, axes and numbers that they do not take.

use std::ops::Range;

use onetrip::{MAX_RANK, Side, SortOrder, f16};

use crate::{HAND_OVER, foreign, refused, zeros};

#[test]
fn more_of_an_axis_than_there_is() {
    refused("top_k: k must be at most 2, the length of the axis, not 3", |b| {
        let x = zeros(b, [5, 2]);
        b.top_k(x, 3, -1, SortOrder::Descending)
    });
}

#[test]
fn shapes_that_do_not_broadcast() {
    let rule = "do not broadcast: aligned at the last dimension, sizes must be equal or 1; `unsqueeze` adds a size of 1";
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
        "matmul: batch dimensions of x [2, 3, 4] · w [3, 4, 5] do not broadcast: sizes must be equal or 1; `unsqueeze` adds a size of 1",
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
fn more_positions_than_there_are() {
    refused("nonzero: size must be at most 4, the number of elements, not 5", |b| {
        let mask = b.full([2, 2], true);
        b.nonzero(mask, 5)
    });
}

#[test]
fn axes() {
    refused(
        "sum: axis 2 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| {
            let x = zeros(b, [2, 3]);
            b.sum(x, 2)
        },
    );
    refused(
        "mean: axis -3 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| {
            let x = zeros(b, [2, 3]);
            b.mean(x, [0, -3])
        },
    );
    refused(
        "softmax: axis 0 is out of range for shape [], which has 0 axes; `unsqueeze` adds one",
        |b| {
            let x = zeros(b, []);
            b.softmax(x, 0)
        },
    );
    refused(
        "layer_norm: axis -2 is out of range for shape [3], which has 1 axis; it may be -1 to 0",
        |b| {
            let x = zeros(b, [3]);
            b.layer_norm(x, -2, 1e-5)
        },
    );
    refused("prod: axis -1 is given twice for shape [2, 3]; name each axis once", |b| {
        let x = zeros(b, [2, 3]);
        b.prod(x, [1, -1])
    });
    refused("flip: axis 0 is given twice for shape [2, 3]; name each axis once", |b| {
        let x = zeros(b, [2, 3]);
        b.flip(x, [0, 0])
    });
    refused(
        "flip: axis 5 is out of range for shape [2, 3], which has 2 axes; it may be -2 to 1",
        |b| {
            let x = zeros(b, [2, 3]);
            b.flip(x, 5)
        },
    );
    let fix = "use `reshape` to make a row or column";
    refused(&format!("transpose: needs at least two axes, and shape [3] has 1 axis; {fix}"), |b| {
        let x = zeros(b, [3]);
        b.transpose(x)
    });
    refused(
        "squeeze: axis 1 is out of range for shape [1], which has 1 axis; it may be -1 to 0",
        |b| {
            let x = zeros(b, [1]);
            b.squeeze(x, 1)
        },
    );
    refused("unsqueeze: a new axis -3 is out of range for shape [3]: it may be -2 to 1", |b| {
        let x = zeros(b, [3]);
        b.unsqueeze(x, -3)
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
        |b| {
            let (x, i) = (zeros(b, [2, 3]), b.full([4], 0_i32));
            b.gather(x, i, 2)
        },
    );
    refused(
        "embedding: axis 0 is out of range for shape [], which has 0 axes; `unsqueeze` adds one",
        |b| {
            let (x, i) = (zeros(b, []), b.full([4], 0_u32));
            b.embedding(x, i)
        },
    );
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
    refused(
        "reshape: cannot reshape [2, 3] (6 elements) to [4, 2] (8 elements): the numbers must be equal; `slice` or `pad` it first",
        |b| {
            let x = zeros(b, [2, 3]);
            b.reshape(x, [4, 2])
        },
    );
    refused(
        "reshape: cannot reshape [0, 3] (0 elements) to [] (1 elements): the numbers must be equal; `slice` or `pad` it first",
        |b| {
            let x = zeros(b, [0, 3]);
            b.reshape(x, [])
        },
    );
    refused(
        "broadcast_to: cannot broadcast [4, 3] to [3]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| {
            let x = zeros(b, [4, 3]);
            b.broadcast_to(x, [3])
        },
    );
    refused(
        "broadcast_to: cannot broadcast [3] to [1]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| {
            let x = zeros(b, [3]);
            b.broadcast_to(x, [1])
        },
    );
    refused(
        "squeeze: axis 1 of [1, 3] has size 3, and only a size of 1 can be squeezed; `slice` takes one element, `reshape` merges axes",
        |b| {
            let x = zeros(b, [1, 3]);
            b.squeeze(x, -1)
        },
    );
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
    refused("concat: needs at least one tensor; `full` makes one without elements", |b| {
        b.concat::<f32>(&[], 0)
    });
    refused(
        "concat: [2, 4] does not fit [2, 3]: all axes but axis 0 must be equal; `slice` or `pad` one of them",
        |b| {
            let (x, y) = (zeros(b, [2, 3]), zeros(b, [2, 4]));
            b.concat(&[x, y], -2)
        },
    );
    refused(
        "concat: [3] does not fit [2, 3]: all axes but axis 0 must be equal; `slice` or `pad` one of them",
        |b| {
            let (x, y) = (zeros(b, [2, 3]), zeros(b, [3]));
            b.concat(&[x, y], 0)
        },
    );
    refused("pad: a border needs one entry for each of the 2 axes of [2, 3], not 3", |b| {
        let x = zeros(b, [2, 3]);
        b.pad(x, [(1, 1), (0, 0), (2, 2)], 0.0)
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
        |b| b.einsum::<f32>("", &[]),
    );
}

#[test]
fn too_many_dimensions_or_elements() {
    let nine = [1; MAX_RANK + 1];
    let rule = "9 dimensions are more than the 8 supported; merge some";
    refused(&format!("full: {rule}"), |b| b.full(nine, 0_u32));
    refused(&format!("upload_shaped: {rule}"), |b| b.upload_shaped(&[0_u32], nine));
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

    let rule = "has more elements than can be addressed; split it";
    let max = usize::MAX;
    refused(&format!("full: shape [{max}, 2] {rule}"), |b| b.full([max, 2], 0_i32));
    refused(&format!("full: shape [{max}, {max}, 0] {rule}"), |b| b.full([max, max, 0], 0_i32));
    refused(&format!("upload_shaped: shape [{max}, 3] {rule}"), |b| {
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
