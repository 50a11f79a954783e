"""ONNX graphs in NumPy in double precision, the reference of all results."""

import math

import numpy as np
from onnx import helper, numpy_helper


def conv(x, w, bias=None, strides=None, pads=None, dilations=None, group=1, kernel_shape=None):
    axes = x.ndim - 2
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * 2 * axes
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:])])
    sizes = list(zip(x.shape[2:], w.shape[2:], strides, dilations))
    counts = [(length - (size - 1) * far - 1) // step + 1 for length, size, step, far in sizes]
    n, channels, filters = x.shape[0], x.shape[1], w.shape[0]
    y = np.zeros([n, group, filters // group, math.prod(counts)])
    for tap in np.ndindex(*w.shape[2:]):
        seen = (slice(i * far, i * far + (count - 1) * step + 1, step)
                for i, far, step, count in zip(tap, dilations, strides, counts))
        part = x[:, :, *seen].reshape(n, group, channels // group, -1)
        factors = w[:, :, *tap].reshape(group, filters // group, channels // group)
        y += factors * part if channels == group else factors @ part
    y = y.reshape(n, filters, *counts)
    return y if bias is None else y + bias.reshape(-1, *[1] * axes)


def conv_transpose(x, w, bias=None, strides=None, pads=(0, 0, 0, 0)):
    (n, channels, *counts), filters, sizes = x.shape, w.shape[1], w.shape[2:]
    y = np.zeros([n, filters, *((count - 1) * step + size for count, step, size in zip(counts, strides, sizes))])
    for i, j in np.ndindex(*sizes):
        part = (w[:, :, i, j].T @ x.reshape(n, channels, -1)).reshape(n, filters, *counts)
        y[:, :, i::strides[0], j::strides[1]][:, :, :counts[0], :counts[1]] += part
    y = y[:, :, pads[0]:y.shape[2] - pads[2], pads[1]:y.shape[3] - pads[3]]
    return y if bias is None else y + bias.reshape(-1, 1, 1)


def windows(x, border, kernel_shape, strides, pads=(0, 0, 0, 0), count_include_pad=1):
    """The elements of windows along a new last axis."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])], constant_values=border)
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel_shape, (2, 3))[:, :, ::strides[0], ::strides[1]]
    return seen.reshape(*seen.shape[:4], -1)


def resize(x, _, scales, mode):
    """Linear, pixels being squares."""
    for axis, scale in enumerate(scales):
        count = int(x.shape[axis] * scale)
        place = np.clip((np.arange(count) + 0.5) / scale - 0.5, 0, x.shape[axis] - 1)
        near, part = place.astype(int), place % 1
        part = part.reshape(-1, *[1] * (x.ndim - 1 - axis))
        following = np.minimum(near + 1, x.shape[axis] - 1)
        x = x.take(near, axis) * (1 - part) + x.take(following, axis) * part
    return x


def batch_norm(x, scale, bias, mean, variance, epsilon):
    scale, bias, mean, variance = (v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def layer_norm(x, scale, bias, axis, epsilon):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon) * scale + bias


def softmax(x, axis=-1):
    x = np.exp(x - x.max(axis, keepdims=True))
    return x / x.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def attention(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])) @ v


def lstm(x, w, r, bias, _=None, h=None, c=None, *, hidden_size):
    h, c = (np.zeros([x.shape[1], hidden_size]) if state is None else state[0] for state in (h, c))
    states = []
    for step in x:
        gates = step @ w[0].T + h @ r[0].T + sum(np.split(bias[0], 2))
        i, o, f, g = np.split(gates, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.stack(states)[:, None]


def gru(x, w, r, bias, hidden_size, linear_before_reset):
    h, states, (bias_w, bias_r) = np.zeros([x.shape[1], hidden_size]), [], np.split(bias[0], 2)
    for step in x:
        (z, reset, new), (hz, hr, hn) = (np.split(part, 3, 1) for part in (step @ w[0].T + bias_w, h @ r[0].T + bias_r))
        z, reset = sigmoid(z + hz), sigmoid(reset + hr)
        h = (1 - z) * np.tanh(new + reset * hn) + z * h
        states.append(h)
    return np.stack(states)[:, None]


def cut(x, starts, ends, axes, steps=None):
    ranges = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, [1] * len(starts) if steps is None else steps):
        ranges[axis] = slice(start, end, step)
    return x[tuple(ranges)]


OPERATIONS = {
    "Add": np.add,
    "Attention": attention,
    "AveragePool": lambda x, **how: windows(x, 0, **how).mean(-1),
    "BatchNormalization": batch_norm,
    "Cast": lambda x, to: x.astype(np.float64 if to == 1 else np.int64),
    "Clip": np.clip,
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Constant": lambda value: numpy_helper.to_array(value),
    "ConstantOfShape": lambda shape, value: np.full(shape, numpy_helper.to_array(value)[0]),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "CumSum": lambda x, axis: x.cumsum(*axis),
    "Div": np.divide,
    "Equal": np.equal,
    "Erf": erf,
    "Exp": np.exp,
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Flatten": lambda x: x.reshape(len(x), -1),
    "GRU": gru,
    "Gelu": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "Gemm": lambda x, w, bias=0.0, transB=0: x @ (w.T if transB else w) + bias,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True),
    "GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
    "LSTM": lstm,
    "LayerNormalization": layer_norm,
    "LogSoftmax": lambda x, axis: x - np.log(np.exp(x).sum(axis, keepdims=True)),
    "MatMul": np.matmul,
    "Max": np.maximum,
    "MaxPool": lambda x, **how: windows(x, -np.inf, **how).max(-1),
    "Mul": np.multiply,
    "Pad": lambda x, pads, mode: np.pad(x, pads.reshape(2, -1).T, mode.decode()),
    "Pow": np.power,
    "Reciprocal": np.reciprocal,
    "ReduceLogSumExp": lambda x, axes, keepdims: np.log(np.exp(x).sum(*axes)),
    "ReduceMax": lambda x, axes, keepdims: x.max(tuple(axes), keepdims=bool(keepdims)),
    "ReduceMean": lambda x, axes, keepdims: x.mean(tuple(axes), keepdims=bool(keepdims)),
    "ReduceSum": lambda x, axes, keepdims, noop_with_empty_axes=0: x.sum(tuple(axes), keepdims=bool(keepdims)),
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": lambda x, shape, allowzero=0: x.reshape(shape),
    "Resize": resize,
    "Shape": lambda x: np.array(x.shape),
    "Sigmoid": sigmoid,
    "Slice": cut,
    "Softmax": softmax,
    "Sqrt": np.sqrt,
    "Squeeze": lambda x, axes: x.squeeze(tuple(axes)),
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": lambda x, perm: x.transpose(perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
}


def evaluate(graph, inputs):
    """The result of an `onnx.GraphProto`."""
    values = {"": None}
    for name, array in [*inputs.items(), *((w.name, numpy_helper.to_array(w)) for w in graph.initializer)]:
        values[name] = array.astype(np.float64) if array.dtype == np.float32 else array
    for node in graph.node:
        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        values[node.output[0]] = OPERATIONS[node.op_type](*(values[name] for name in node.input), **options)
    return values[graph.output[0].name]
