"""Writes the reference values of whole layers, which PyTorch computes.

    python3 -m venv venv && venv/bin/pip install numpy torch
    venv/bin/python tests/reference/make_pytorch.py

Values are computed in float64 from the stored inputs, then rounded once to the stored type; `cases.py` has the format.
"""

import numpy as np
import torch
from cases import Family
from torch.nn import functional

EPS = 2.0**-23
HALF = 2.0**-11

rng = np.random.default_rng(20261121)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def wide(x):
    """The stored numbers as PyTorch's float64, or as its indices."""
    x = np.asarray(x)
    if x.dtype.kind == "f":
        return torch.from_numpy(x.astype(np.float64))
    return torch.from_numpy(x.astype(bool if x.dtype == bool else np.int64))


def stored(x, dtype=np.float32):
    x = x.numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    return x.astype(dtype)


# Losses -----------------------------------------------------------------------------------------

REDUCTIONS = ("none", "mean", "sum")


def losses():
    family = Family("loss")

    def case(name, op, inputs, want, **params):
        want = stored(want, np.float32 if op.startswith("accuracy") else inputs[0].dtype)
        finite = np.abs(want[np.isfinite(want)].astype(np.float64))
        limits = {"rtol": 16 * EPS, "atol": 16 * EPS * float(np.max(finite, initial=1.0))}
        if want.dtype == np.float16:
            limits["rtol"] += HALF
        family.case(name, op, inputs, want, params=params, **limits)

    class_losses(case)
    probabilities(case)
    differences(case)
    accuracies(case)
    weights_of_classes(case)
    accuracies_without_a_class(case)
    family.write()


def class_losses(case):
    shapes = {"rows": (6, 5), "one row": (5,), "images": (2, 4, 3, 3), "no rows": (0, 3), "one class": (3, 1)}
    for name, shape in shapes.items():
        axis = 1 if len(shape) > 1 else 0
        x = normal(*shape)
        classes = rng.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :]).astype(np.int32)
        for reduction in REDUCTIONS:
            want = functional.cross_entropy(wide(x), wide(classes), reduction=reduction)
            case(f"cross entropy, {name}, {reduction}", "cross_entropy", [x, classes], want, reduction=reduction)
            logs = stored(functional.log_softmax(wide(x), axis))
            want = functional.nll_loss(wide(logs), wide(classes), reduction=reduction)
            case(f"nll, {name}, {reduction}", "nll_loss", [logs, classes], want, reduction=reduction)
    x = normal(7, 5)
    classes = np.asarray([0, 2, -100, 4, 2, 1, -100], np.int32)
    for ignore in (-100, 2):
        labels = np.where(classes == -100, 3, classes).astype(np.int32) if ignore == 2 else classes
        for smoothing in (0.0, 0.125):
            for reduction in REDUCTIONS:
                how = {"reduction": reduction, "ignore": ignore, "smoothing": smoothing}
                want = functional.cross_entropy(
                    wide(x), wide(labels), ignore_index=ignore, label_smoothing=smoothing, reduction=reduction
                )
                case(f"cross entropy {how}", "cross_entropy", [x, labels], want, **how)
    nothing = np.full(7, -100, np.int32)
    want = functional.cross_entropy(wide(x), wide(nothing))
    case("cross entropy, all ignored", "cross_entropy", [x, nothing], want, reduction="mean", ignore=-100)
    last = np.moveaxis(x, 0, 0)[None].repeat(2, 0)
    labels = rng.integers(0, 5, (2, 7)).astype(np.uint32)
    want = functional.cross_entropy(wide(np.moveaxis(last, -1, 1)), wide(labels), reduction="none")
    case("cross entropy, classes last", "cross_entropy", [last, labels], want, reduction="none", axis=-1)
    edges = np.asarray([[1e4, -1e4, 0], [-np.inf, 1, 2], [np.nan, 0, 1], [np.inf, 0, 1], [-1e4] * 3], np.float32)
    labels = np.asarray([1, 1, 1, 0, 2], np.int32)
    want = functional.cross_entropy(wide(edges), wide(labels), reduction="none")
    case("cross entropy at the edges", "cross_entropy", [edges, labels], want, reduction="none")
    half = normal(6, 9, dtype=np.float16)
    labels = rng.integers(0, 9, 6).astype(np.int32)
    for reduction in REDUCTIONS:
        want = functional.cross_entropy(wide(half), wide(labels), reduction=reduction)
        case(f"cross entropy, f16, {reduction}", "cross_entropy", [half, labels], want, reduction=reduction)


def probabilities(case):
    for name, shape in {"rows": (6, 5), "one row": (5,), "images": (2, 4, 3, 3)}.items():
        axis = 1 if len(shape) > 1 else 0
        x, p = normal(*shape), stored(functional.softmax(wide(normal(*shape)), axis))
        for smoothing in (0.0, 0.25):
            for reduction in REDUCTIONS:
                want = functional.cross_entropy(wide(x), wide(p), label_smoothing=smoothing, reduction=reduction)
                how = {"reduction": reduction, "smoothing": smoothing}
                case(f"probabilities, {name} {how}", "cross_entropy_with", [x, p], want, **how)


def differences(case):
    pairs = {
        "matrix": (normal(5, 7), normal(5, 7)),
        "scalar": (normal(), normal()),
        "nothing": (normal(0, 3), normal(0, 3)),
        "edges": (
            np.asarray([0, 1, -1, 2, np.inf, np.nan, 1e4, -0.0, 0.5], np.float32),
            np.asarray([0, 0, 0, 2, 1, 1, -1e4, 0.0, 0.0], np.float32),
        ),
        "f16": (normal(5, 7, dtype=np.float16), normal(5, 7, dtype=np.float16)),
    }
    kinds = [
        ("mse_loss", functional.mse_loss, {}),
        ("l1_loss", functional.l1_loss, {}),
        ("huber_loss", functional.huber_loss, {"delta": 1.0}),
        ("huber_loss", functional.huber_loss, {"delta": 0.25}),
        ("smooth_l1_loss", functional.smooth_l1_loss, {"beta": 1.0}),
        ("smooth_l1_loss", functional.smooth_l1_loss, {"beta": 0.25}),
        ("smooth_l1_loss", functional.smooth_l1_loss, {"beta": 0.0}),
    ]
    for name, (x, y) in pairs.items():
        for op, function, params in kinds:
            for reduction in REDUCTIONS:
                want = function(wide(x), wide(y), reduction=reduction, **params)
                case(f"{op} {params}, {name}, {reduction}", op, [x, y], want, reduction=reduction, **params)
    logits = np.asarray([0, 1, -1, 20, -20, 100, -100, 1e4, -1e4, np.nan, 0.5], np.float32)
    target = np.asarray([0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0.25], np.float32)
    op = "binary_cross_entropy_with_logits"
    for name, (x, y) in {"edges": (logits, target), "matrix": (normal(5, 7), rng.random((5, 7), np.float32))}.items():
        for reduction in REDUCTIONS:
            want = functional.binary_cross_entropy_with_logits(wide(x), wide(y), reduction=reduction)
            case(f"{op}, {name}, {reduction}", op, [x, y], want, reduction=reduction)


def accuracies(case):
    x = normal(40, 6)
    labels = rng.integers(0, 6, 40).astype(np.int32)
    labels[::2] = np.argmax(x, 1)[::2]
    case("accuracy", "accuracy", [x, labels], np.mean(np.argmax(x, 1) == labels), axis=-1)
    columns = np.argmax(x, 0).astype(np.uint32)
    case("accuracy of columns", "accuracy", [x, columns], 1.0, axis=0)
    case("accuracy of nothing", "accuracy", [normal(0, 3), np.zeros(0, np.int32)], np.nan, axis=1)


def accuracies_without_a_class(case):
    own = np.random.default_rng(20261124)
    op = "accuracy_with"

    def add(name, x, labels, axis, ignore):
        counted = labels != ignore
        hits = np.argmax(x, axis) == labels
        want = np.mean(hits[counted]) if counted.any() else np.nan
        case(f"{op}, {name}", op, [x, labels], want, axis=axis, ignore=ignore)

    x = own.standard_normal((40, 6)).astype(np.float32)
    labels = own.integers(0, 6, 40).astype(np.int32)
    labels[::2] = np.argmax(x, 1)[::2]
    add("a class", x, labels, -1, 3)
    add("no class", x, np.where(labels == 3, -100, labels).astype(np.int32), 1, -100)
    add("none of the indices", x, labels.astype(np.uint32), 1, -100)
    add("all", x, np.full(40, -100, np.int32), 1, -100)
    images = own.standard_normal((2, 5, 3, 2)).astype(np.float16)
    add("images", images, own.integers(0, 5, (2, 3, 2)).astype(np.uint32), 1, 4)


def weights_of_classes(case):
    own = np.random.default_rng(20261122)
    x = own.standard_normal((7, 5)).astype(np.float32)
    weight = np.asarray([0.5, 2, 0, 1, 3], np.float32)
    classes = np.asarray([0, 2, 3, 4, 2, 1, 3], np.int32)
    for ignore in (None, 3):
        for smoothing in (0.0, 0.125):
            for reduction in REDUCTIONS:
                given = {"reduction": reduction, "label_smoothing": smoothing, "weight": wide(weight)}
                want = functional.cross_entropy(wide(x), wide(classes), ignore_index=-100 if ignore is None else ignore, **given)
                how = {"reduction": reduction, "ignore": ignore, "smoothing": smoothing}
                case(f"weights {how}", "cross_entropy", [x, classes, weight], want, **how)
        for reduction in REDUCTIONS:
            logs = stored(functional.log_softmax(wide(x), 1))
            given = {"reduction": reduction, "weight": wide(weight), "ignore_index": -100 if ignore is None else ignore}
            want = functional.nll_loss(wide(logs), wide(classes), **given)
            how = {"reduction": reduction, "ignore": ignore}
            case(f"nll, weights {how}", "nll_loss", [logs, classes, weight], want, **how)
    images = own.standard_normal((2, 5, 3, 2)).astype(np.float16)
    labels = own.integers(0, 5, (2, 3, 2)).astype(np.uint32)
    p = stored(functional.softmax(wide(own.standard_normal((7, 5))), 1))
    for reduction in REDUCTIONS:
        want = functional.cross_entropy(wide(images), wide(labels), wide(weight), label_smoothing=0.25, reduction=reduction)
        how = {"reduction": reduction, "smoothing": 0.25}
        case(f"weights, images of f16, {reduction}", "cross_entropy", [images, labels, weight], want, **how)
        want = functional.cross_entropy(wide(x), wide(p), wide(weight), label_smoothing=0.25, reduction=reduction)
        case(f"weights, probabilities, {reduction}", "cross_entropy_with", [x, p, weight], want, **how)


# Attention --------------------------------------------------------------------------------------


def attention():
    family = Family("attention")

    def case(name, q, k, v, mask=None, **params):
        how = {"is_causal": params.get("causal") == "top left", "scale": params.get("scale")}
        seen = wide(mask) if mask is not None else None
        if params.get("causal") == "bottom right":
            size = (q.shape[-2], k.shape[-2])
            seen = torch.ones(size, dtype=torch.bool).tril(size[1] - size[0])
        gqa = q.ndim > 2 and q.shape[-3] != k.shape[-3]
        want = functional.scaled_dot_product_attention(wide(q), wide(k), wide(v), seen, enable_gqa=gqa, **how)
        want = stored(want, q.dtype)
        limits = {"rtol": 32 * EPS, "atol": 4e-6}
        if q.dtype == np.float16:
            limits["rtol"] += HALF
        inputs = [q, k, v] + ([mask] if mask is not None else [])
        family.case(name, "scaled_dot_product_attention", inputs, want, params=params, **limits)

    q, k, v = normal(2, 3, 5, 8), normal(2, 3, 7, 8), normal(2, 3, 7, 6)
    case("plain", q, k, v)
    case("scaled", q, k, v, scale=0.5)
    case("causal", q, k, v, causal="top left")
    case("causal, last queries", q, k, v, causal="bottom right")
    case("f16", *(x.astype(np.float16) for x in (q, k, v)))
    added = normal(5, 7)
    added[2, 3:], added[4, 0] = -np.inf, -np.inf
    case("added mask", q, k, v, added)
    case("lowest mask", q, k, v, np.where(added < 0, np.finfo(np.float32).min, 0).astype(np.float32))
    kept = rng.random((2, 1, 5, 7)) > 0.4
    kept[1, 0, 2] = False
    case("kept mask, one query sees nothing", q, k, v, kept)
    heads = normal(2, 6, 5, 8)
    case("grouped heads", heads, k, v)
    case("grouped heads, causal", heads, k, v, causal="top left")
    case("grouped heads, mask", heads, k, v, kept)
    case("one query", normal(2, 3, 1, 8), k, v, causal="bottom right")
    case("large scores", q * 100, k * 100, v)
    case("long", normal(1, 2, 70, 32), normal(1, 2, 130, 32), normal(1, 2, 130, 32))
    rotary(family)
    family.write()


def rotary(family):
    def turned(x, positions, interleaved, base):
        x, width = wide(x), x.shape[-1]
        angles = positions[..., None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
        whole = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_real(whole)
        return pairs.flatten(-2) if interleaved else pairs.transpose(-1, -2).flatten(-2)

    limits = {"rtol": 16 * EPS, "atol": 2e-6}
    for interleaved in (False, True):
        x = normal(2, 3, 7, 8)
        for start, base in ((0, 10000.0), (5, 500.0)):
            want = turned(x, torch.arange(start, start + 7, dtype=torch.float64), interleaved, base)
            params = {"interleaved": interleaved, "start": start, "base": base}
            family.case(f"rotary {params}", "rotary", [x], stored(want), params=params, **limits)
        positions = rng.integers(0, 50, (2, 1, 7)).astype(np.float32)
        want = turned(x, wide(positions), interleaved, 10000.0)
        params = {"interleaved": interleaved, "base": 10000.0}
        family.case(f"rotary at positions, {params}", "rotary", [x, positions], stored(want), params=params, **limits)
    half = normal(3, 4, 6, dtype=np.float16)
    want = turned(half, torch.arange(4, dtype=torch.float64), False, 10000.0)
    params = {"interleaved": False, "base": 10000.0}
    family.case("rotary f16", "rotary", [half], stored(want, np.float16), params=params, rtol=HALF, atol=2e-6)


# Recurrent layers -------------------------------------------------------------------------------


def recurrent():
    family = Family("recurrent")

    def case(name, op, inputs, want, **params):
        limits = {"rtol": 64 * EPS, "atol": 2e-6}
        if inputs[0].dtype == np.float16:
            limits = {"rtol": 0.0, "atol": 8 * HALF}
        family.case(name, op, inputs, stored(want, inputs[0].dtype), params=params, **limits)

    for op, gates, layer, cell in (("lstm", 4, torch.nn.LSTM, torch.nn.LSTMCell), ("gru", 3, torch.nn.GRU, torch.nn.GRUCell)):
        sequences(case, op, gates, layer)
        for bias in (True, False):
            size, width, batch = 6, 5, 3
            shapes = [(gates * size, width), (gates * size, size)] + [(gates * size,)] * (2 if bias else 0)
            weights = [normal(*shape) for shape in shapes]
            module = cell(width, size, bias, dtype=torch.float64)
            for parameter, value in zip(module.parameters(), weights, strict=True):
                parameter.data = wide(value)
            x, *state = normal(batch, width), *(normal(batch, size) for _ in range(2 if op == "lstm" else 1))
            with torch.no_grad():
                got = module(wide(x), tuple(map(wide, state)) if op == "lstm" else wide(state[0]))
            for output, want in zip("hc", got if op == "lstm" else [got], strict=False):
                name = f"{op} cell, bias {bias}, {output}"
                case(name, f"{op}_cell", [x, *state, *weights], want, output=output, bias=bias)
    family.write()


def sequences(case, op, gates, layer):
    variants = [
        {"steps": 4},
        {"steps": 5, "batch_first": True},
        {"steps": 3, "bidirectional": True},
        {"steps": 3, "layers": 2, "bidirectional": True, "start": True, "bias": False},
        {"steps": 1, "layers": 2, "start": True},
        {"steps": 4, "dtype": np.float16},
    ]
    for variant in variants:
        steps, layers = variant["steps"], variant.get("layers", 1)
        both, first, bias = (variant.get(key, key == "bias") for key in ("bidirectional", "batch_first", "bias"))
        dtype = variant.get("dtype", np.float32)
        size, width, batch = 4, 5, 2
        module = layer(width, size, layers, bias, first, bidirectional=both, dtype=torch.float64)
        weights = []
        for parameter in module.parameters():
            weights.append((normal(*parameter.shape) * 0.6).astype(dtype))
            parameter.data = wide(weights[-1])
        x = normal(*((batch, steps, width) if first else (steps, batch, width))).astype(dtype)
        cells = layers * (2 if both else 1)
        state = [normal(cells, batch, size).astype(dtype) for _ in range(2 if op == "lstm" else 1)]
        start = None
        if variant.get("start"):
            start = tuple(map(wide, state)) if op == "lstm" else wide(state[0])
        with torch.no_grad():
            y, last = module(wide(x), start)
        last = last if op == "lstm" else (last,)
        params = {"batch_first": first, "bidirectional": both, "bias": bias, "start": start is not None, "cells": cells}
        inputs = [x, *(state if start is not None else []), *weights]
        shown = {key: value for key, value in variant.items() if key != "dtype"} | {"dtype": np.dtype(dtype).name}
        for output, want in zip("yhc", (y, *last), strict=False):
            case(f"{op} {shown}, {output}", op, inputs, want, output=output, **params)


if __name__ == "__main__":
    losses()
    attention()
    recurrent()
