"""Writes the reference values of convolutions, pooling, normalisations and resizing (a safetensors file each), in the form of make_reference.py.

    python3 -m venv venv && venv/bin/pip install numpy scipy onnx onnxruntime torch
    venv/bin/python tests/reference/make_windows.py

Values are computed by loops in float64 and rounded once. Each is checked against PyTorch and ONNX Runtime, as far as
these have the case (PyTorch pads both sides alike).
"""

import itertools

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from make_reference import EPS, Family, f32, wide


rng = np.random.default_rng(20260102)
LIMITS = {"rtol": 8 * EPS, "atol": 4 * EPS}


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def agrees(want, got, what):
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5, err_msg=what)


def agrees_with_onnx(want, op, inputs, **attributes):
    """ONNX Runtime's result of one node."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {name: x for name, x in zip(names, inputs) if name}
    kinds = {np.dtype("float32"): onnx.TensorProto.FLOAT, np.dtype("int64"): onnx.TensorProto.INT64}
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    infos = [
        onnx.helper.make_tensor_value_info(name, kinds[x.dtype], x.shape)
        for name, x in given.items()
    ]
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "case", infos, [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)])
    model.ir_version = 9
    session = onnxruntime.InferenceSession(model.SerializeToString())
    agrees(want, session.run(None, given)[0], f"ONNX {op} {attributes}")


def agrees_with_torch(want, function, *inputs, **arguments):
    tensors = [x if x is None else torch.from_numpy(x) for x in inputs]
    agrees(want, function(*tensors, **arguments).numpy(), f"PyTorch {function} {arguments}")


# Convolution ------------------------------------------------------------------------------------


def convolved(x, w, bias, conv):
    """Sums over windows of the padded argument, a group at a time; and what errors are relative to."""
    groups = conv["groups"]
    border = [(0, 0), (0, 0), *zip(conv["before"], conv["after"])]
    x, w = np.pad(wide(x), border), wide(w)
    seen, filters, sizes = w.shape[1], w.shape[0] // groups, w.shape[2:]
    counts = [
        (n - (size - 1) * dilation - 1) // stride + 1
        for n, size, stride, dilation in zip(x.shape[2:], sizes, conv["stride"], conv["dilation"])
    ]
    out, size = np.zeros((2, x.shape[0], w.shape[0], *counts))
    for tap in itertools.product(*map(range, sizes)):
        index = tuple(
            slice(i * dilation, i * dilation + (count - 1) * stride + 1, stride)
            for i, dilation, count, stride in zip(tap, conv["dilation"], counts, conv["stride"])
        )
        part = x[(slice(None), slice(None), *index)]
        for group in range(groups):
            own = slice(group * filters, (group + 1) * filters)
            window = part[:, group * seen : (group + 1) * seen]
            out[:, own] += np.einsum("nc...,oc->no...", window, w[(own, slice(None), *tap)])
            size[:, own] += np.einsum(
                "nc...,oc->no...", abs(window), abs(w[(own, slice(None), *tap)])
            )
    if bias is not None:
        out += wide(bias).reshape(-1, *[1] * len(sizes))
    return out, float(np.nan_to_num(size, posinf=0).max(initial=1.0))


def conv_case(family, name, x, w, bias=None, **given):
    ndim = x.ndim - 2
    ones, zeros = [1] * ndim, [0] * ndim
    conv = {"stride": ones, "before": zeros, "after": zeros, "dilation": ones, "groups": 1} | given
    want, size = convolved(x, w, bias, conv)
    inputs = [x, w] + ([] if bias is None else [bias])
    attributes = {"strides": conv["stride"], "pads": [*conv["before"], *conv["after"]]}
    attributes |= {"dilations": conv["dilation"], "group": conv["groups"]}
    if x.dtype == np.float32:
        agrees_with_onnx(want, "Conv", inputs, **attributes)
        if conv["before"] == conv["after"]:
            options = {k: conv[k] for k in ("stride", "dilation", "groups")}
            function = getattr(F, f"conv{ndim}d")
            agrees_with_torch(want, function, x, w, bias, padding=conv["before"], **options)
    limits = {"rtol": 4 * EPS, "atol": 4 * EPS * size}
    if x.dtype == np.float16:
        limits["rtol"] = 2.0**-10
    family.case(f"conv{ndim}d {name}", f"conv{ndim}d", inputs, want.astype(x.dtype), params=conv, **limits)


def convolution():
    family = Family("convolution")
    x, bias = normal(2, 4, 8, 11), normal(6)
    w = normal(6, 4, 3, 3)
    conv_case(family, "3 by 3", x, w)
    edge = {"before": [1, 1], "after": [1, 1]}
    conv_case(family, "3 by 3, padding 1, bias", x, w, bias, **edge)
    conv_case(family, "stride 2", x, w, bias, stride=[2, 2], **edge)
    conv_case(family, "stride 2 by 3, uneven padding", x, w, stride=[2, 3], before=[0, 2], after=[1, 0])
    conv_case(family, "dilated", x, w, dilation=[2, 3], before=[2, 2], after=[2, 2])
    conv_case(family, "the whole image", x, normal(5, 4, 8, 11), normal(5))
    conv_case(family, "1 by 1", x, normal(7, 4, 1, 1), normal(7))
    conv_case(family, "1 by 1, stride 2", x, normal(7, 4, 1, 1), stride=[2, 2])
    conv_case(family, "patches", x, normal(3, 4, 4, 4), stride=[4, 4])
    conv_case(family, "two groups", x, normal(6, 2, 3, 2), bias, groups=2, before=[1, 0], after=[1, 0])
    conv_case(family, "depthwise", x, normal(4, 1, 3, 3), normal(4), groups=4, **edge)
    conv_case(family, "depthwise, two filters each", x, normal(8, 1, 3, 3), groups=4, stride=[2, 1], **edge)
    conv_case(family, "depthwise, eight filters each", x, normal(32, 1, 2, 2), groups=4)
    broken = normal(1, 2, 6, 6)
    broken[0, 0, 2, 3], broken[0, 1, 5, 5] = np.nan, np.inf
    conv_case(family, "NaN and infinity", broken, abs(normal(2, 2, 2, 2)))
    half = [a.astype(np.float16) for a in (normal(1, 3, 5, 6), normal(4, 3, 3, 3))]
    conv_case(family, "f16", *half, **edge)
    integers = rng.integers(-(2**31), 2**31, (1, 2, 4, 4)).astype(np.int32)
    small = rng.integers(-3, 4, (2, 2, 2, 2)).astype(np.int32)
    exact = convolved(integers, small, None, {"stride": [1, 1], "before": [0, 0], "after": [0, 0], "dilation": [1, 1], "groups": 1})[0]
    params = {"stride": [1, 1], "before": [0, 0], "after": [0, 0], "dilation": [1, 1], "groups": 1}
    wrapped = exact.astype(np.int64).astype(np.int32)
    family.case("conv2d i32 wraps", "conv2d", [integers, small], wrapped, params=params)
    line = normal(2, 3, 17)
    conv_case(family, "plain", line, normal(4, 3, 5), normal(4))
    conv_case(family, "strided, dilated", line, normal(4, 3, 3), stride=[2], dilation=[3], before=[2], after=[1])
    conv_case(family, "depthwise", line, normal(3, 1, 4), groups=3)
    transposed(family)
    family.write()


def transposed(family):
    cases = {
        "plain": (normal(2, 3, 4, 5), normal(3, 2, 3, 3), {}),
        "stride 2": (normal(1, 4, 5, 4), normal(4, 3, 2, 2), {"stride": [2, 2]}),
        "stride 2, padding 1, one more": (
            normal(2, 3, 5, 6), normal(3, 4, 3, 3),
            {"stride": [2, 2], "padding": [1, 1], "output_padding": [1, 1]}),
        "stride 3 by 1, more padding than reach": (
            normal(1, 2, 6, 7), normal(2, 2, 2, 1), {"stride": [3, 1], "padding": [2, 1]}),
        "dilated, two groups": (
            normal(1, 4, 5, 6), normal(4, 3, 3, 2),
            {"stride": [2, 1], "dilation": [2, 3], "groups": 2, "padding": [1, 2]}),
        "depthwise": (normal(1, 4, 3, 3), normal(4, 1, 4, 4), {"stride": [2, 2], "groups": 4, "padding": [1, 1]}),
        "1-D": (normal(2, 3, 7), normal(3, 2, 4), {"stride": [3], "padding": [1], "output_padding": [2]}),
    }
    transposed_cases(family, cases, normal)
    own = np.random.default_rng(20261123)

    def other(*shape):
        return own.standard_normal(shape).astype(np.float32)

    # With 4 channels or more, the phases of a stride are computed apart.
    cases = {
        "phases of 2": (other(2, 5, 4, 6), other(5, 3, 4, 4), {"stride": [2, 2], "padding": [1, 1]}),
        "phases of 2, odd filters": (
            other(2, 4, 5, 6), other(4, 3, 3, 3),
            {"stride": [2, 2], "padding": [1, 1], "output_padding": [1, 0]}),
        "phases of 3 and 2": (
            other(1, 6, 4, 3), other(6, 2, 5, 1), {"stride": [3, 2], "output_padding": [2, 1]}),
        "phases along one axis": (other(1, 4, 4, 5), other(4, 2, 3, 3), {"stride": [1, 4], "padding": [2, 3]}),
        "phases, filters shorter than the stride": (
            other(2, 4, 3, 4), other(4, 3, 2, 3), {"stride": [5, 4], "output_padding": [4, 3]}),
        "phases, two groups": (
            other(2, 8, 4, 3), other(8, 3, 3, 2), {"stride": [2, 3], "groups": 2, "padding": [2, 0]}),
        "phases, one result": (other(1, 4, 1, 1), other(4, 5, 3, 3), {"stride": [2, 2], "padding": [1, 1]}),
        "phases, padding past elements": (
            other(1, 4, 6, 5), other(4, 2, 3, 2), {"stride": [2, 2], "padding": [5, 4]}),
        "phases, 1-D": (other(2, 5, 7), other(5, 2, 8), {"stride": [3], "padding": [2], "output_padding": [2]}),
    }
    transposed_cases(family, cases, other)


def transposed_cases(family, cases, normal):
    for name, (x, w, given) in cases.items():
        ndim = x.ndim - 2
        conv = {"stride": [1] * ndim, "padding": [0] * ndim, "output_padding": [0] * ndim}
        conv |= {"dilation": [1] * ndim, "groups": 1} | given
        bias = normal(w.shape[1] * conv["groups"])
        want = laid_out(wide(x), wide(w), conv) + wide(bias).reshape(-1, *[1] * ndim)
        size = float(laid_out(abs(wide(x)), abs(wide(w)), conv).max())
        function = getattr(F, f"conv_transpose{ndim}d")
        agrees_with_torch(want, function, x, w, bias, **conv)
        params = conv | {"before": conv["padding"], "after": conv["padding"]}
        limits = {"rtol": 4 * EPS, "atol": 4 * EPS * size}
        op = f"conv_transpose{ndim}d"
        family.case(f"{op} {name}", op, [x, w, bias], f32(want), params=params, **limits)


def laid_out(x, w, conv):
    """Each element's filter, scaled by it, added up where they overlap."""
    groups, sizes = conv["groups"], w.shape[2:]
    keys = ("stride", "dilation", "padding", "output_padding")
    axes = list(zip(x.shape[2:], sizes, *(conv[key] for key in keys)))
    full = [(n - 1) * s + (size - 1) * d + 1 + more for n, size, s, d, _, more in axes]
    out = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    seen, filters = x.shape[1] // groups, w.shape[1]
    for tap in itertools.product(*map(range, sizes)):
        index = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s) for i, (n, _, s, d, _, _) in zip(tap, axes)
        )
        for group in range(groups):
            own, part = (slice(group * n, (group + 1) * n) for n in (filters, seen))
            product = np.einsum("nc...,co->no...", x[:, part], w[(part, slice(None), *tap)])
            out[(slice(None), own, *index)] += product
    cut = tuple(slice(p, n - p) for n, (_, _, _, _, p, _) in zip(full, axes))
    return out[(slice(None), slice(None), *cut)]


# Pooling ----------------------------------------------------------------------------------------


def slide(length, size, stride, before, after, dilation, ceil):
    """For each window its elements, counted from the start of the axis."""
    reach = (size - 1) * dilation + 1
    windows = []
    for start in itertools.count(-before, stride):
        fits = start + reach <= length + after
        last = ceil and start < length and start - stride + reach < length + after
        if not fits and not last:
            return windows
        windows.append([start + i * dilation for i in range(size)])
        if not fits:
            return windows


def pooled(x, pool, average):
    *lead, h, w = x.shape
    sides = zip((h, w), pool["size"], pool["stride"], pool["before"], pool["after"], pool["dilation"])
    rows, columns = (slide(*side, pool["ceil"]) for side in sides)
    out = np.empty((*lead, len(rows), len(columns)))
    padding = pool["count"]
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        inside = [[p for p in at if 0 <= p < n] for at, n in ((row, h), (column, w))]
        reach = [
            [p for p in at if p < n + after]
            for at, n, after in zip((row, column), (h, w), pool["after"])
        ]
        values = wide(x)[..., inside[0], :][..., inside[1]]
        if average:
            counted = reach if padding else inside
            out[..., i, j] = values.sum((-2, -1)) / (len(counted[0]) * len(counted[1]))
        else:
            out[..., i, j] = values.max((-2, -1), initial=-np.inf)
            out[..., i, j][np.isnan(values).any((-2, -1))] = np.nan
    return f32(out)


def pool_case(family, name, x, average=False, ndim=2, **given):
    ones, zeros = [1] * ndim, [0] * ndim
    pool = {"stride": given["size"], "before": zeros, "after": zeros, "dilation": ones}
    pool |= {"ceil": False, "count": True} | given
    # One axis is two, of which the first has one element.
    both = {k: [d, *v] if ndim == 1 and isinstance(v, list) else v
            for (k, v), d in zip(pool.items(), [1 if k in ("size", "stride", "dilation") else 0 for k in pool])}
    want = pooled(x[..., None, :] if ndim == 1 else x, both, average)
    want = want[..., 0, :] if ndim == 1 else want
    attributes = {
        "kernel_shape": pool["size"],
        "strides": pool["stride"],
        "pads": [*pool["before"], *pool["after"]],
        "dilations": pool["dilation"],
        "ceil_mode": int(pool["ceil"]),
    }
    if average:
        attributes["count_include_pad"] = int(pool["count"])
    # ONNX Runtime leaves NaN out of a maximum, and counts what ceil mode adds.
    if not np.isnan(x).any() and not (average and pool["ceil"]):
        agrees_with_onnx(want, "AveragePool" if average else "MaxPool", [x], **attributes)
    if pool["before"] == pool["after"] and not (average and pool["dilation"] != ones):
        arguments = {"padding": pool["before"], "stride": pool["stride"], "ceil_mode": pool["ceil"]}
        kind = {"count_include_pad": pool["count"]} if average else {"dilation": pool["dilation"]}
        function = getattr(F, f"{'avg' if average else 'max'}_pool{ndim}d")
        agrees_with_torch(want, function, x, kernel_size=pool["size"], **arguments, **kind)
    op = f"{'avg' if average else 'max'}_pool{ndim}d"
    limits = LIMITS if average else {}
    family.case(f"{op} {name}", op, [x], want, params=pool, **limits)


POOLS = {
    "2 by 2": {"size": [2, 2]},
    "3 by 3, stride 2, padding 1": {
        "size": [3, 3], "stride": [2, 2], "before": [1, 1], "after": [1, 1]},
    "3 by 2, stride 1": {"size": [3, 2], "stride": [1, 1]},
    "uneven padding": {"size": [3, 3], "stride": [2, 1], "before": [0, 1], "after": [1, 0]},
    "dilated": {"size": [2, 3], "stride": [1, 2], "dilation": [3, 2]},
    "dilated, padded": {
        "size": [3, 2], "stride": [2, 2], "before": [1, 1], "after": [1, 1], "dilation": [2, 2]},
    "ceil mode": {"size": [2, 3], "stride": [2, 2], "ceil": True},
    "ceil mode, padded": {
        "size": [3, 3], "stride": [2, 2], "before": [1, 1], "after": [1, 1], "ceil": True},
    "ceil mode, whose last window would start in the padding": {
        "size": [2, 2], "stride": [3, 3], "before": [1, 1], "after": [1, 1], "ceil": True},
    "larger stride than window": {"size": [1, 2], "stride": [3, 3]},
    "the whole image": {"size": [7, 9]},
}


def pooling():
    family = Family("pooling")
    x = normal(2, 3, 7, 9)
    broken = normal(1, 2, 6, 6)
    broken[0, 0, 2, 3], broken[0, 0, 0, 0], broken[0, 1, 5, 5] = np.nan, np.inf, -np.inf
    for name, pool in POOLS.items():
        pool_case(family, name, x, **pool)
        for count in (True, False):
            padding = "" if count else ", padding not counted"
            pool_case(family, name + padding, x, average=True, count=count, **pool)
    edge = {"size": [3, 3], "stride": [1, 1], "before": [1, 1], "after": [1, 1]}
    pool_case(family, "NaN and infinity", broken, **edge)
    pool_case(family, "NaN and infinity", broken, average=True, **edge)
    line = normal(2, 2, 11)
    for ceil, count in itertools.product((True, False), (True, False)):
        name = f"ceil mode {ceil}, padding counted {count}"
        pool = {"size": [3], "stride": [2], "before": [1], "after": [1], "ceil": ceil, "count": count}
        pool_case(family, name, line, ndim=1, average=True, **pool)
    pool_case(family, "dilated", line, ndim=1, size=[3], stride=[1], dilation=[2])
    averages(family)
    family.write()


def averages(family):
    x = normal(2, 3, 7, 10)
    for size in ([1, 1], [7, 5], [3, 4], [2, 10], [9, 3]):
        want = np.empty((2, 3, *size))
        for i, j in itertools.product(range(size[0]), range(size[1])):
            rows = slice(i * 7 // size[0], -(-(i + 1) * 7 // size[0]))
            columns = slice(j * 10 // size[1], -(-(j + 1) * 10 // size[1]))
            want[..., i, j] = wide(x)[..., rows, columns].mean((-2, -1))
        agrees_with_torch(want, F.adaptive_avg_pool2d, x, output_size=size)
        name = f"adaptive {size}"
        family.case(name, "adaptive_avg_pool2d", [x], f32(want), params={"size": size}, **LIMITS)
    want = wide(x).mean((-2, -1), keepdims=True)
    agrees_with_onnx(want, "GlobalAveragePool", [x])
    family.case("global", "global_avg_pool", [x], f32(want), **LIMITS)


# Normalisation ----------------------------------------------------------------------------------


def normalization():
    family = Family("normalization")
    limits = {"rtol": 32 * EPS, "atol": 16 * EPS}
    given = [normal(6) for _ in range(2)] + [np.square(normal(6)) + np.float32(0.1)]
    for shape in ((2, 6), (3, 6, 5), (2, 6, 4, 7)):
        x = normal(*shape)
        columns = [1, 6] + [1] * (len(shape) - 2)
        weight, bias, variance = (wide(v).reshape(columns) for v in given)
        mean = wide(normal(6)).reshape(columns)
        inputs = [x, f32(mean.ravel()), given[2], given[0], given[1]]
        want = (wide(x) - mean) / np.sqrt(variance + 1e-5) * weight + bias
        agrees_with_torch(want, F.batch_norm, *inputs, eps=1e-5)
        name = f"{list(shape)}"
        family.case(f"batch_norm {name}", "batch_norm", inputs, f32(want), params={"eps": 1e-5}, **limits)
        plain = (wide(x) - mean) / np.sqrt(variance + 1e-3)
        family.case(f"batch_norm {name} alone", "batch_norm", inputs[:3], f32(plain), params={"eps": 1e-3}, **limits)
        # A group of one element is 0, which PyTorch gives only nearly.
        for groups in (1, 2, 3) if len(shape) == 2 else (1, 2, 3, 6):
            rows = wide(x).reshape(shape[0], groups, -1)
            scale = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
            plain = ((rows - rows.mean(-1, keepdims=True)) / scale).reshape(shape)
            want = plain * weight + bias
            agrees_with_torch(want, F.group_norm, x, num_groups=groups, weight=torch.from_numpy(given[0]), bias=torch.from_numpy(given[1]))
            params = {"groups": groups, "eps": 1e-5}
            name = f"{groups} of {list(shape)}"
            inputs = [x, given[0], given[1]]
            family.case(f"group_norm {name}", "group_norm", inputs, f32(want), params=params, **limits)
            family.case(f"group_norm {name} alone", "group_norm", [x], f32(plain), params=params, **limits)
        if len(shape) > 2:
            params = {"eps": 1e-5}
            family.case(f"instance_norm {list(shape)}", "instance_norm", inputs, f32(want), params=params, **limits)
    x = normal(3, 5, 7)
    x[0, 0], x[1, :, 2], x[2, 3] = 0, 1e-14, 1e12
    for axis, eps in itertools.product((0, 1, -1), (1e-12, 0.5)):
        norm = np.sqrt(np.square(wide(x)).sum(axis, keepdims=True))
        want = wide(x) / np.maximum(norm, float(np.float32(eps)))
        agrees_with_torch(want, F.normalize, x, dim=axis, eps=eps)
        params = {"axis": axis, "eps": eps}
        name = f"l2_normalize {axis}, eps {eps}"
        family.case(name, "l2_normalize", [x], f32(want), params=params, **limits)
    family.write()


# Resizing ---------------------------------------------------------------------------------------


def places(length, count, corners, ratio=None):
    """Where each of `count` elements lies; `ratio` is that of the lengths, unless a factor is given."""
    i, ratio = np.arange(count), ratio or length / count
    if count == length:
        return i * 1.0
    if corners == "aligned":
        return i * ((length - 1) / (count - 1)) if count > 1 else i * 0.0
    at = i * ratio if corners == "asymmetric" else (i + 0.5) * ratio - 0.5
    return np.clip(at, 0, length - 1)


def bilinear(x, size, corners, ratios=(None, None)):
    want = wide(x)
    for axis, count, ratio in zip((2, 3), size, ratios):
        at = places(x.shape[axis], count, corners, ratio)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        weight = (at - low).reshape(-1, *[1] * (3 - axis))
        want = want.take(low, axis) * (1 - weight) + want.take(high, axis) * weight
    return want


def agrees_with_onnx_resize(want, x, **options):
    size = np.array([*x.shape[:2], *want.shape[2:]], np.int64)
    agrees_with_onnx(want, "Resize", [x, None, None, size], **options)


def resize():
    family = Family("resize")
    x = normal(2, 3, 5, 7)
    for size in ([10, 14], [5, 7], [8, 3], [1, 1], [13, 20], [2, 7]):
        rows, columns = (np.arange(n) * length // n for n, length in zip(size, x.shape[2:]))
        want = x[..., rows, :][..., columns]
        agrees_with_torch(want, F.interpolate, x, size=size, mode="nearest")
        family.case(f"nearest {size}", "resize_nearest", [x], want, params={"size": size})
        for corners in ("half_pixel", "aligned", "asymmetric"):
            want = bilinear(x, size, corners)
            if corners == "asymmetric":
                options = {"mode": "linear", "coordinate_transformation_mode": corners}
                agrees_with_onnx_resize(want, x, **options)
            else:
                options = {"mode": "bilinear", "align_corners": corners == "aligned"}
                agrees_with_torch(want, F.interpolate, x, size=size, **options)
            params = {"size": size, "corners": corners}
            name = f"bilinear {size}, {corners}"
            family.case(name, "resize_bilinear", [x], f32(want), params=params, **LIMITS)
    for factors in ([2.0, 2.0], [1.0, 1.0], [1.1, 0.3], [0.25, 2.5], [2.1, 1.99]):
        size = [int(length * factor) for length, factor in zip(x.shape[2:], factors)]
        rows, columns = (
            np.arange(n) * length // n if n in (length, 2 * length) else (np.arange(n) / factor).astype(int)
            for n, factor, length in zip(size, factors, x.shape[2:])
        )
        want = x[..., rows, :][..., columns]
        agrees_with_torch(want, F.interpolate, x, scale_factor=factors, mode="nearest")
        params = {"factors": factors}
        family.case(f"nearest by {factors}", "resize_nearest", [x], want, params=params)
        for corners in ("half_pixel", "aligned"):
            want = bilinear(x, size, corners, [1 / factor for factor in factors])
            options = {"mode": "bilinear", "align_corners": corners == "aligned"}
            agrees_with_torch(want, F.interpolate, x, scale_factor=factors, **options)
            params = {"factors": factors, "corners": corners}
            name = f"bilinear by {factors}, {corners}"
            family.case(name, "resize_bilinear", [x], f32(want), params=params, **LIMITS)
    family.write()


if __name__ == "__main__":
    convolution()
    pooling()
    normalization()
    resize()
