//! The list of all operations, for documentation, tests and tools.

use super::{Accepts, ELEMENTWISE, Reduction, RowKind, Scan, Tolerance};

/// What there is to know of an operation from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpInfo {
    /// The method of [`GpuCommandBatch`](crate::GpuCommandBatch) that records it.
    pub name: &'static str,
    /// The family: `elementwise`, `reduce`, `row`, `scan`, `matmul`, `convolution`, `pooling`, `normalization`, `resize`,
    /// `attention`, `recurrent`, `loss`, `movement`, `indexing`, `sort`, `random`, `creation`.
    pub family: &'static str,
    /// The element types that it takes.
    pub dtypes: &'static str,
    /// What it computes.
    pub doc: &'static str,
    /// What it fuses with.
    pub fusion: &'static str,
    /// The error that tests allow against an `f64` reference, in units in the last place of an `f32` and
    /// in absolute terms; for reductions it grows with the root of the number of elements.
    pub tolerance: (f64, f64),
}

/// Every operation, family by family.
pub fn registry() -> impl Iterator<Item = OpInfo> {
    let info = |name, family, accepts, doc, fusion, tolerance: Tolerance| OpInfo {
        name,
        family,
        dtypes: accepted(accepts),
        doc: summary(doc),
        fusion,
        tolerance: (tolerance.ulp, tolerance.abs),
    };
    let elementwise = ELEMENTWISE.iter().map(move |def| {
        info(def.name, "elementwise", def.accepts, def.doc, ANYTHING, def.tolerance)
    });
    let reduce = Reduction::ALL
        .iter()
        .map(|op| op.def())
        .map(move |def| info(def.name, "reduce", def.accepts, def.doc, AROUND, def.tolerance));
    let row = RowKind::ALL
        .iter()
        .map(|op| op.def())
        .map(move |def| info(def.name, def.family, Accepts::Float, def.doc, AROUND, def.tolerance));
    let scan = Scan::ALL
        .iter()
        .map(|op| op.def())
        .map(move |def| info(def.name, "scan", def.accepts, def.doc, AROUND, def.tolerance));
    elementwise.chain(reduce).chain(row).chain(scan).chain(OTHERS.iter().copied())
}

/// The first paragraph of an operation's documentation.
fn summary(doc: &'static str) -> &'static str {
    doc.split("\n\n").next().unwrap_or(doc).trim()
}

const fn accepted(accepts: Accepts) -> &'static str {
    match accepts {
        Accepts::Element => "all",
        Accepts::Numeric => "f32 f16 i32 u32",
        Accepts::Signed => "f32 f16 i32",
        Accepts::Float => "f32 f16",
        Accepts::Logical => "bool",
    }
}

/// The errors allowed: to what only moves or selects values, to sums of products, to losses and turned pairs, to
/// normalisations and attention, and to what goes through several functions.
const EXACT: (f64, f64) = (0.0, 0.0);
const SUMMED: (f64, f64) = (4.0, 1e-7);
const COMPOSED: (f64, f64) = (16.0, 2e-6);
const NORMED: (f64, f64) = (32.0, 4e-6);
const GATED: (f64, f64) = (64.0, 2e-6);

const NUMERIC: &str = accepted(Accepts::Numeric);
const FLOAT: &str = accepted(Accepts::Float);
const ALL: &str = accepted(Accepts::Element);

const ANYTHING: &str = "everything before and after";
const AFTER: &str = "everything after";
const AROUND: &str = "elementwise before and after";
const BEFORE: &str = "elementwise before";
const TURNED: &str = "elementwise before and after, transposes for free";
const STORED: &str = "everything before and after; the tensor read is stored";
const CELL: &str = "made of products and elementwise operations, which fuse";
const LAYER: &str = "made of elementwise operations and reductions, which fuse";
const CLASSES: &str = "made of elementwise operations, reductions and look-ups, which fuse";
const CONVOLVED: &str = "elementwise before and after; on a GPU windows are never written out";
const TURNED_AROUND: &str = "elementwise after; the tensor or its phases may be written out";
const WINDOWED: &str = "elementwise before and after, borders too";
const VIEW: &str = "a view, no kernel: folded into its readers";

macro_rules! others {
    ($($family:literal $name:literal, $dtypes:expr, $fusion:expr, $tolerance:expr, $doc:literal;)*) => {
        &[$(OpInfo {
            name: $name,
            family: $family,
            dtypes: $dtypes,
            doc: $doc,
            fusion: $fusion,
            tolerance: $tolerance,
        }),*]
    };
}

static OTHERS: &[OpInfo] = others! {
    "elementwise" "select", ALL, ANYTHING, EXACT,
        "x where the condition holds, else y.";
    "elementwise" "cast", ALL, ANYTHING, EXACT,
        "To another element type. Float to integer truncates and saturates, NaN becomes 0; to bool is ≠ 0.";
    "reduce" "dot", NUMERIC, AROUND, SUMMED,
        "The inner product of two vectors.";
    "matmul" "matmul", NUMERIC, TURNED, SUMMED,
        "The matrix product by NumPy's rules for 1-D, 2-D and batched operands.";
    "matmul" "matmul_with", FLOAT, TURNED, SUMMED,
        "The matrix product, as exact as asked for: `f32` may be multiplied on matrix units.";
    "matmul" "linear", NUMERIC, TURNED, SUMMED, "x·w + b.";
    "matmul" "einsum", NUMERIC, "made of views, `matmul`, `mul` and `sum`", SUMMED, "Einstein's summation, with ellipses, diagonals and any number of operands.";
    "attention" "scaled_dot_product_attention", FLOAT, "elementwise after, masks before", NORMED, "softmax(q·kᵀ·scale + mask)·v with masks, causal order and grouped heads; scores are never written.";
    "attention" "rotary", FLOAT, ANYTHING, COMPOSED, "Pairs of elements turned by angles that grow with the position (Su et al., 2021).";
    "recurrent" "lstm_cell", FLOAT, CELL, GATED, "One step of an LSTM (Hochreiter and Schmidhuber, 1997).";
    "recurrent" "gru_cell", FLOAT, CELL, GATED, "One step of a GRU (Cho et al., 2014).";
    "recurrent" "lstm", FLOAT, CELL, GATED, "LSTM layers over whole sequences, both ways if wanted.";
    "recurrent" "gru", FLOAT, CELL, GATED, "GRU layers over whole sequences, both ways if wanted.";
    "loss" "cross_entropy", FLOAT, CLASSES, COMPOSED, "−log softmax at the classes that indices name.";
    "loss" "cross_entropy_with", FLOAT, LAYER, COMPOSED, "−Σ p·log softmax for probabilities p.";
    "loss" "nll_loss", FLOAT, CLASSES, COMPOSED, "−log p at the classes that indices name.";
    "loss" "mse_loss", FLOAT, LAYER, COMPOSED, "(x − y)².";
    "loss" "l1_loss", FLOAT, LAYER, COMPOSED, "|x − y|.";
    "loss" "huber_loss", FLOAT, LAYER, COMPOSED, "½·(x − y)², and a line far from 0 (Huber, 1964).";
    "loss" "smooth_l1_loss", FLOAT, LAYER, COMPOSED, "|x − y|, and a parabola near 0 (Girshick, 2015).";
    "loss" "binary_cross_entropy_with_logits", FLOAT, LAYER, COMPOSED, "−y·log σ(x) − (1 − y)·log(1 − σ(x)).";
    "loss" "accuracy", FLOAT, CLASSES, EXACT, "The share of elements whose greatest logit is that of their class.";
    "convolution" "conv1d", NUMERIC, CONVOLVED, SUMMED, "Filters that slide along one axis, with stride, padding, dilation and groups.";
    "convolution" "conv2d", NUMERIC, CONVOLVED, SUMMED, "Filters that slide along two axes, with stride, padding, dilation and groups.";
    "convolution" "conv_transpose1d", NUMERIC, TURNED_AROUND, SUMMED, "Filters laid out along one axis and added up: a convolution turned around.";
    "convolution" "conv_transpose2d", NUMERIC, TURNED_AROUND, SUMMED, "Filters laid out along two axes and added up: a convolution turned around.";
    "pooling" "max_pool1d", NUMERIC, WINDOWED, EXACT, "The greatest element of each window along the last axis.";
    "pooling" "max_pool2d", NUMERIC, WINDOWED, EXACT, "The greatest element of each window along the last two axes.";
    "pooling" "avg_pool1d", FLOAT, WINDOWED, SUMMED, "The mean of each window along the last axis.";
    "pooling" "avg_pool2d", FLOAT, WINDOWED, SUMMED, "The mean of each window along the last two axes.";
    "pooling" "adaptive_avg_pool2d", FLOAT, WINDOWED, SUMMED, "Means over a given number of windows that cover the last two axes.";
    "pooling" "global_avg_pool", FLOAT, WINDOWED, SUMMED, "The mean over all axes but the first two.";
    "normalization" "batch_norm", FLOAT, ANYTHING, NORMED, "Channels by given means and variances.";
    "normalization" "group_norm", FLOAT, BEFORE, NORMED, "Groups of channels by their own means and variances.";
    "normalization" "instance_norm", FLOAT, AROUND, NORMED, "Each channel by its own mean and variance.";
    "resize" "resize_nearest", ALL, "made of look-ups, which fuse", EXACT, "Images of another size, from the nearest elements.";
    "resize" "resize_bilinear", FLOAT, "made of look-ups and elementwise operations, which fuse", SUMMED, "Images of another size, from between the nearest elements.";
    "movement" "reshape", ALL, "a view where strides can express it, else a copy", EXACT, "The same elements in row-major order under another shape.";
    "movement" "permute", ALL, VIEW, EXACT, "The axes in another order.";
    "movement" "transpose", ALL, VIEW, EXACT, "The last two axes swapped.";
    "movement" "slice", ALL, VIEW, EXACT, "A range with a step along each axis.";
    "movement" "squeeze", ALL, VIEW, EXACT, "Without an axis of size 1.";
    "movement" "unsqueeze", ALL, VIEW, EXACT, "With a new axis of size 1.";
    "movement" "broadcast_to", ALL, VIEW, EXACT, "Repeated along axes of size 1, by NumPy's rules.";
    "movement" "flip", ALL, VIEW, EXACT, "Backwards along some axes.";
    "movement" "unfold", ALL, VIEW, EXACT, "Windows along an axis, which may overlap.";
    "movement" "replace_slice", ALL, ANYTHING, EXACT, "A tensor with others in place of its elements from one place of an axis on.";
    "movement" "concat", ALL, ANYTHING, EXACT, "Tensors end to end along an axis.";
    "movement" "pad", ALL, ANYTHING, EXACT, "A border of one value around a tensor.";
    "indexing" "gather", ALL, STORED, EXACT, "Elements at indices along an axis.";
    "indexing" "embedding", ALL, STORED, EXACT, "Rows at indices.";
    "indexing" "searchsorted", NUMERIC, "everything before and after; the vector searched is stored", EXACT, "Where numbers would go among ascending ones.";
    "indexing" "scatter", ALL, AROUND, EXACT, "A tensor with elements replaced at indices, the last of several.";
    "indexing" "scatter_add", NUMERIC, AROUND, SUMMED, "A tensor with updates added at indices.";
    "indexing" "scatter_max", NUMERIC, AROUND, EXACT, "The greatest of elements and their updates.";
    "indexing" "scatter_min", NUMERIC, AROUND, EXACT, "The least of elements and their updates.";
    "indexing" "histogram", "i32 u32", AROUND, EXACT, "How often each number below a bound is there.";
    "indexing" "one_hot", ALL, ANYTHING, EXACT, "1 where the index is the coordinate.";
    "indexing" "nonzero", "bool", "made of `argsort` and look-ups", EXACT, "The first positions where a mask is true, and how many there are.";
    "indexing" "triu", ALL, ANYTHING, EXACT, "The upper triangle of matrices.";
    "indexing" "tril", ALL, ANYTHING, EXACT, "The lower triangle of matrices.";
    "indexing" "take_along_axis", ALL, STORED, EXACT, "For each element its own index along an axis.";
    "sort" "sort", ALL, BEFORE, EXACT, "The elements along `axis` in order; stable, NaN past all numbers.";
    "sort" "argsort", ALL, BEFORE, EXACT, "Where along `axis` the elements in order are.";
    "sort" "top_k", ALL, BEFORE, EXACT, "The first `k` of an order along `axis`, and where they are.";
    "random" "random_bits", "u32", AFTER, EXACT, "32 random bits an element (Philox 4×32-10).";
    "random" "random_uniform", FLOAT, AFTER, EXACT, "Uniform in 0..1.";
    "random" "random_normal", FLOAT, AFTER, (8.0, 3e-6), "Normal with mean 0 and variance 1.";
    "random" "random_bernoulli", "bool", AFTER, EXACT, "True with probability `p`.";
    "random" "random_permutation", "u32", AFTER, EXACT, "The numbers 0 to n − 1 in random order.";
    "random" "dropout", FLOAT, ANYTHING, (4.0, 0.0), "Zeros with probability `p`, else x / (1 − p).";
    "creation" "full", ALL, AFTER, EXACT, "One value everywhere.";
    "creation" "arange", NUMERIC, AFTER, EXACT, "start, start + step, … before stop.";
};
