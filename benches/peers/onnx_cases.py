"""The cases of `benches/cpu/cases` as ONNX graphs, under the same names."""

import numpy as np

import onnx_networks
from graph import Graph, spread


def conv(size=3, stride=1, dilation=1, groups=1, shape=(8, 64, 56, 56)):
    graph, seen = Graph(), shape[1] // groups
    w = graph.weight("w", [64, seen, size, size], spread(3, seen * size * size))
    options = {"strides": [stride] * 2, "pads": [size // 2 * dilation] * 4, "dilations": [dilation] * 2}
    graph.op("Conv", graph.input("x", shape), w, group=groups, **options)
    return graph


def conv1d():
    graph = Graph()
    w = graph.weight("w", [64, 64, 5], spread(3, 64 * 5))
    graph.op("Conv", graph.input("x", [8, 64, 1024]), w, pads=[2, 2])
    return graph


def conv_transpose():
    graph = Graph()
    w = graph.weight("w", [64, 64, 4, 4], spread(3, 64 * 4))
    graph.op("ConvTranspose", graph.input("x", [8, 64, 28, 28]), w, strides=[2, 2], pads=[1] * 4)
    return graph


def pool(kind, side=112, **options):
    graph = Graph()
    graph.op(kind, graph.input("x", [8, 64, side, side]), **options)
    return graph


def resize():
    graph = Graph()
    scales = graph.constant("scales", np.array([1, 1, 2, 2], np.float32))
    graph.op("Resize", graph.input("x", [8, 64, 56, 56]), "", scales, mode="linear")
    return graph


def batch_norm():
    graph = Graph()
    scale, bias = graph.weight("weight", [64], 0.25, 1.0), graph.weight("bias", [64], 0.25)
    mean, variance = graph.weight("mean", [64], 0.25), graph.weight("variance", [64], 0.25, 1.0)
    graph.op("BatchNormalization", graph.input("x", [8, 64, 56, 56]), scale, bias, mean, variance, epsilon=1e-5)
    return graph


def permute(axes, *shape):
    graph = Graph()
    graph.op("Transpose", graph.input("x", shape), perm=axes)
    return graph


def rows(kind, weights=(), **options):
    graph = Graph()
    weights = [graph.weight(name, [1024]) for name in weights]
    graph.op(kind, graph.input("x", [4096, 1024]), *weights, axis=-1, **options)
    return graph


def reduced(kind, axis, *shape):
    graph = Graph()
    axes = graph.constant("axes", np.array([axis], np.int64))
    graph.op(kind, graph.input("x", shape), axes, keepdims=0)
    return graph


def running_sums():
    graph = Graph()
    graph.op("CumSum", graph.input("x", MATRIX), graph.constant("axis", np.array([1], np.int64)))
    return graph


def matmul(*batch, n):
    graph = Graph()
    graph.op("MatMul", graph.input("x", [*batch, n, n]), graph.input("w", [*batch, n, n], spread(3, n)))
    return graph


def thin(rows, transposed):
    graph = Graph()
    operands = graph.input("x", [rows, 1024]), graph.matrix("w", [1024, 1024])
    if transposed:
        graph.op("Gemm", *operands, transB=1)
    else:
        graph.op("MatMul", *operands)
    return graph


def attention(length):
    graph = Graph()
    graph.op("Attention", *(graph.input(name, [1, 12, length, 64]) for name in "qkv"))
    return graph


def lstm():
    """ONNX has gates in the order i, o, f, c and one axis of directions."""
    graph, states = Graph(), 128
    gates = [graph.weights.pop(graph.weight(name, shape, scale)) for name, shape, scale in (
        ("w", [4 * states, 64], spread(3, 64)),
        ("r", [4 * states, states], spread(3, states)),
        ("bias_w", [4 * states], 0.25),
        ("bias_r", [4 * states], 0.25),
    )]
    w, r, *biases = (onnx_networks.gates(x, (0, 3, 1, 2)) for x in gates)
    weights = {"w": w[None], "r": r[None], "bias": np.concatenate(biases)[None]}
    names = [graph.constant(name, array) for name, array in weights.items()]
    y = graph.op("LSTM", graph.input("x", [50, 8, 64]), *names, hidden_size=states)
    graph.op("Squeeze", y, graph.constant("axes", np.array([1], np.int64)))
    return graph


def function(kind):
    graph = Graph()
    graph.op(kind, graph.input("x", [1_000_000], 4.0))
    return graph


def chain():
    graph = Graph()
    a, b, c, d = (graph.input(name, [10_000_000]) for name in "abcd")
    half, eighth = (graph.constant(name, np.float32(value)) for name, value in (("half", 0.5), ("eighth", -0.125)))
    y = graph.op("Relu", graph.op("Add", graph.op("Mul", a, b), c))
    y = graph.op("Sub", graph.op("Mul", y, half), d)
    graph.op("Max", graph.op("Add", graph.op("Mul", y, y), eighth), a)
    return graph


def mlp(rows):
    graph = Graph()
    x = graph.input("x", [rows, 784])
    for layer, (k, n) in enumerate(((784, 512), (512, 256), (256, 10))):
        if layer > 0:
            x = graph.op("Relu", x)
        x = graph.op("Gemm", x, graph.matrix(f"w{layer}", [k, n]), graph.weight(f"bias{layer}", [n], 0.25))
    return graph


POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
MATRIX, IMAGES = (4096, 1024), (8, 64, 3136)
OPERATIONS = {
    "conv2d_3x3": conv,
    "conv2d_3x3_stride2": lambda: conv(stride=2),
    "conv2d_1x1": lambda: conv(1),
    "conv2d_5x5": lambda: conv(5),
    "conv2d_depthwise_3x3": lambda: conv(groups=64),
    "conv2d_depthwise_3x3_stride2": lambda: conv(groups=64, stride=2),
    "conv2d_depthwise_5x5": lambda: conv(5, groups=64),
    "conv2d_depthwise_5x5_stride2": lambda: conv(5, groups=64, stride=2),
    "conv2d_3x3_dilated": lambda: conv(dilation=2),
    "conv2d_3x3_groups8": lambda: conv(groups=8),
    "conv2d_7x7_stride2_stem": lambda: conv(7, stride=2, shape=(1, 3, 224, 224)),
    "conv1d_5": conv1d,
    "conv_transpose2d_4x4_stride2": conv_transpose,
    "max_pool2d_3x3_stride2": lambda: pool("MaxPool", **POOL),
    "avg_pool2d_3x3_stride2": lambda: pool("AveragePool", count_include_pad=1, **POOL),
    "global_avg_pool": lambda: pool("GlobalAveragePool", 56),
    "resize_bilinear_x2": resize,
    "batch_norm": batch_norm,
    "transpose_2048": lambda: permute([1, 0], 2048, 2048),
    "channels_last": lambda: permute([0, 2, 3, 1], 8, 64, 56, 56),
    "channels_first": lambda: permute([0, 3, 1, 2], 8, 56, 56, 64),
    "layer_norm": lambda: rows("LayerNormalization", ["weight", "bias"], epsilon=1e-5),
    "softmax": lambda: rows("Softmax"),
    "log_softmax": lambda: rows("LogSoftmax"),
    "logsumexp": lambda: reduced("ReduceLogSumExp", -1, 4096, 1024),
    "sum_rows": lambda: reduced("ReduceSum", 1, *MATRIX),
    "sum_columns": lambda: reduced("ReduceSum", 0, *MATRIX),
    "sum_channels": lambda: reduced("ReduceSum", 1, *IMAGES),
    "mean_tokens": lambda: reduced("ReduceMean", 1, 8, 128, 768),
    "max_rows": lambda: reduced("ReduceMax", 1, *MATRIX),
    "max_channels": lambda: reduced("ReduceMax", 1, *IMAGES),
    "cumsum_rows": running_sums,
    **{f"matmul_{n}": lambda n=n: matmul(n=n) for n in (16, 32, 64, 128, 256, 512, 1024, 2048)},
    "matmul_64x64x64x64": lambda: matmul(64, n=64),
    **{
        f"matmul_{rows}x1024x1024{suffix}": lambda rows=rows, suffix=suffix: thin(rows, bool(suffix))
        for rows in (1, 8, 64)
        for suffix in ("", "_transposed")
    },
    **{f"attention_12x{length}x64": lambda length=length: attention(length) for length in (128, 256, 512, 1024)},
    "lstm_50x8x64_128": lstm,
    **{f"{kind.lower()}_1e6": lambda kind=kind: function(kind) for kind in ("Gelu", "Exp", "Tanh", "Sigmoid", "Erf")},
    "chain8_1e7": chain,
}
NETWORKS = {
    **{f"mlp_784_512_256_10_rows{rows}": lambda rows=rows: mlp(rows) for rows in (1, 64, 1024)},
    **onnx_networks.NETWORKS,
}
CASES = {**OPERATIONS, **NETWORKS}
