//! Convolutions, pooling, normalisations and resizing by name.

use onetrip::{
    BufferId, Conv, ConvTranspose, Corners, Float, GpuCommandBatch, ImageSize, Numeric, Pool,
    Tensor,
};

use crate::case::Case;

/// The case's operation on `x`, if it is one of these.
pub fn float<'b, T: Float>(
    b: &'b GpuCommandBatch,
    case: &Case,
    ids: &[BufferId<T>],
) -> Option<Tensor<'b, T>> {
    let x = ids[0];
    let given = |at: usize| ids.get(at).copied();
    let eps = || case.number("eps") as f32;
    Some(match case.op.as_str() {
        "resize_nearest" => b.resize_nearest(x, image_size(case)),
        "resize_bilinear" => {
            let corners = match case.text("corners") {
                "half_pixel" => Corners::HalfPixel,
                "aligned" => Corners::Aligned,
                "asymmetric" => Corners::Asymmetric,
                other => panic!("no corners are {other}"),
            };
            b.resize_bilinear(x, image_size(case), corners)
        }
        "batch_norm" => b.batch_norm(x, ids[1], ids[2], given(3), given(4), eps()),
        "group_norm" => {
            let groups = case.number("groups") as usize;
            b.group_norm(x, groups, given(1), given(2), eps())
        }
        "instance_norm" => b.instance_norm(x, given(1), given(2), eps()),
        "l2_normalize" => b.l2_normalize(x, case.number("axis") as isize, eps()),
        "max_pool1d" => b.max_pool1d(x, pool(case)),
        "max_pool2d" => b.max_pool2d(x, pool(case)),
        "avg_pool1d" => b.avg_pool1d(x, pool(case)),
        "avg_pool2d" => b.avg_pool2d(x, pool(case)),
        "adaptive_avg_pool2d" => b.adaptive_avg_pool2d(x, sizes(case, "size")),
        "global_avg_pool" => b.global_avg_pool(x),
        _ => return None,
    })
}

/// The case's convolution, if it is one.
pub fn numeric<'b, T: Numeric>(
    b: &'b GpuCommandBatch,
    case: &Case,
    ids: &[BufferId<T>],
) -> Option<Tensor<'b, T>> {
    let &[x, w, ref rest @ ..] = ids else { return None };
    let bias = rest.first().copied();
    match case.op.as_str() {
        "conv1d" => Some(b.conv1d(x, w, bias, conv(case))),
        "conv2d" => Some(b.conv2d(x, w, bias, conv(case))),
        "conv_transpose1d" => Some(b.conv_transpose1d(x, w, bias, transposed(case))),
        "conv_transpose2d" => Some(b.conv_transpose2d(x, w, bias, transposed(case))),
        _ => None,
    }
}

fn transposed<const D: usize>(case: &Case) -> ConvTranspose<D> {
    ConvTranspose {
        stride: sizes(case, "stride"),
        padding: padding(case),
        output_padding: sizes(case, "output_padding"),
        dilation: sizes(case, "dilation"),
        groups: case.number("groups") as usize,
        ..ConvTranspose::default()
    }
}

fn conv<const D: usize>(case: &Case) -> Conv<D> {
    Conv {
        stride: sizes(case, "stride"),
        padding: padding(case),
        dilation: sizes(case, "dilation"),
        groups: case.number("groups") as usize,
        ..Conv::default()
    }
}

/// A list with one entry an axis.
fn sizes<const D: usize>(case: &Case, key: &str) -> [usize; D] {
    case.list(key).try_into().unwrap_or_else(|list| panic!("{}: {key} {list:?}", case.name))
}

fn image_size(case: &Case) -> ImageSize {
    let factor = |at: usize| case.params["factors"][at].as_f64();
    let factors = factor(0).zip(factor(1)).map(|(height, width)| [height, width].into());
    factors.unwrap_or_else(|| sizes::<2>(case, "size").into())
}

fn padding<const D: usize>(case: &Case) -> [(usize, usize); D] {
    let (before, after): ([usize; D], [usize; D]) = (sizes(case, "before"), sizes(case, "after"));
    std::array::from_fn(|axis| (before[axis], after[axis]))
}

fn pool<const D: usize>(case: &Case) -> Pool<D> {
    Pool {
        size: sizes(case, "size"),
        stride: Some(sizes(case, "stride")),
        padding: padding(case),
        dilation: sizes(case, "dilation"),
        ceil_mode: case.flag("ceil"),
        count_padding: case.flag("count"),
    }
}
