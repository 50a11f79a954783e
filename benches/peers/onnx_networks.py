"""The networks of `benches/networks` as ONNX graphs, as exporters write them."""

import json
import os
import pathlib

import numpy as np
import onnx
from onnx import numpy_helper

from graph import Graph, numbers


def gates(x, order):
    """The gates of a recurrent cell, which lie one below the other, in another order."""
    return np.concatenate([np.split(x, len(order))[at] for at in order])


def conv_norm(graph, conv, norm, x, channels, filters, size, stride=1, groups=1):
    w = graph.filters(f"{conv}.weight", [filters, channels // groups, size, size])
    y = graph.op("Conv", x, w, strides=[stride] * 2, pads=[size // 2] * 4, group=groups)
    weight, bias = graph.factors(f"{norm}.weight", filters), graph.bias(f"{norm}.bias", filters)
    mean, variance = graph.bias(f"{norm}.running_mean", filters), graph.factors(f"{norm}.running_var", filters)
    return graph.op("BatchNormalization", y, weight, bias, mean, variance, epsilon=1e-5)


def classified(graph, name, x, inputs):
    """Means of channels, and a dense layer of 1000 classes."""
    x = graph.op("Flatten", graph.op("GlobalAveragePool", x))
    return graph.op("Gemm", x, graph.matrix(f"{name}.weight", [inputs, 1000]), graph.bias(f"{name}.bias", 1000))


def resnet18(batch):
    graph = Graph()
    x = graph.op("Relu", conv_norm(graph, "conv1", "bn1", graph.input("x", [batch, 3, 224, 224]), 3, 64, 7, 2))
    x = graph.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for at in range(2):
            name, stride = f"layer{stage + 1}.{at}", 2 if stage > 0 and at == 0 else 1
            y = conv_norm(graph, f"{name}.conv1", f"{name}.bn1", x, channels, filters, 3, stride)
            y = conv_norm(graph, f"{name}.conv2", f"{name}.bn2", graph.op("Relu", y), filters, filters, 3)
            if stride == 2:
                x = conv_norm(graph, f"{name}.downsample.0", f"{name}.downsample.1", x, channels, filters, 1, 2)
            x, channels = graph.op("Relu", graph.op("Add", y, x)), filters
    classified(graph, "fc", x, 512)
    return graph


def mobilenet_v2(batch):
    graph = Graph()
    least, most = (graph.constant(name, np.float32(value)) for name, value in (("least", 0), ("most", 6)))

    def part(name, conv, norm, x, *sizes):
        return conv_norm(graph, f"{name}.{conv}", f"{name}.{norm}", x, *sizes)

    def clipped(name, x, *sizes):
        return graph.op("Clip", part(name, 0, 1, x, *sizes), least, most)

    x = clipped("features.0", graph.input("x", [batch, 3, 224, 224]), 3, 32, 3, 2)
    channels, at = 32, 0
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, filters, blocks, stride in stages:
        for block in range(blocks):
            at += 1
            name, wide, step = f"features.{at}.conv", channels * expansion, stride if block == 0 else 1
            y, first = x, 0
            if expansion > 1:
                y, first = clipped(f"{name}.0", y, channels, wide, 1), 1
            y = clipped(f"{name}.{first}", y, wide, wide, 3, step, wide)
            y = part(name, first + 1, first + 2, y, wide, filters, 1)
            x = graph.op("Add", x, y) if step == 1 and channels == filters else y
            channels = filters
    x = clipped(f"features.{at + 1}", x, channels, 1280, 1)
    classified(graph, "classifier.1", x, 1280)
    return graph


def unet_block(batch):
    graph, upper, lower = Graph(), 32, 64

    def conv(name, x, channels, filters, size):
        w = graph.filters(f"{name}.weight", [filters, channels, size, size])
        return graph.op("Conv", x, w, graph.bias(f"{name}.bias", filters), pads=[size // 2] * 4)

    def twice(name, x, channels, filters):
        x = graph.op("Relu", conv(f"{name}.0", x, channels, filters, 3))
        return graph.op("Relu", conv(f"{name}.1", x, filters, filters, 3))

    skip = twice("down", graph.input("x", [batch, 3, 128, 128]), 3, upper)
    below = twice("bottom", graph.op("MaxPool", skip, kernel_shape=[2, 2], strides=[2, 2]), upper, lower)
    w = graph.filters("up.weight", [lower, upper, 2, 2])
    up = graph.op("ConvTranspose", below, w, graph.bias("up.bias", upper), strides=[2, 2])
    conv("out", twice("joined", graph.op("Concat", skip, up, axis=1), 2 * upper, upper), upper, 1, 1)
    return graph


def bert_layer(batch):
    graph, width, inner, heads, tokens = Graph(), 768, 3072, 12, 128

    def linear(name, x, inputs, outputs):
        x = graph.op("MatMul", x, graph.matrix(f"{name}.weight", [inputs, outputs]))
        return graph.op("Add", x, graph.bias(f"{name}.bias", outputs))

    def head(name):
        x = graph.reshape(linear(f"attention.self.{name}", hidden, width, width), [batch, tokens, heads, width // heads])
        return graph.op("Transpose", x, perm=[0, 2, 1, 3])

    def norm(name, x):
        weight, bias = graph.factors(f"{name}.weight", width), graph.bias(f"{name}.bias", width)
        return graph.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-12)

    hidden = graph.input("x", [batch, tokens, width])
    mixed = graph.op("Attention", *(head(name) for name in ("query", "key", "value")))
    mixed = graph.reshape(graph.op("Transpose", mixed, perm=[0, 2, 1, 3]), [batch, tokens, width])
    x = linear("attention.output.dense", mixed, width, width)
    x = norm("attention.output.LayerNorm", graph.op("Add", hidden, x))
    y = linear("output.dense", graph.op("Gelu", linear("intermediate.dense", x, width, inner)), inner, width)
    norm("output.LayerNorm", graph.op("Add", x, y))
    return graph


def gru_100(batch):
    """ONNX has gates in the order z, r, h and one axis of directions."""
    graph, states = Graph(), 128
    w, r = (graph.filters(name, [3 * states, k]) for name, k in (("weight_ih_l0", 64), ("weight_hh_l0", states)))
    biases = [graph.bias(name, 3 * states) for name in ("bias_ih_l0", "bias_hh_l0")]
    w, r, *biases = (gates(graph.weights.pop(name), (1, 0, 2)) for name in (w, r, *biases))
    weights = {"w": w[None], "r": r[None], "bias": np.concatenate(biases)[None]}
    names = [graph.constant(name, array) for name, array in weights.items()]
    x = graph.input("x", [100, batch, 64])
    y = graph.op("GRU", x, *names, hidden_size=states, linear_before_reset=1)
    graph.op("Squeeze", y, graph.constant("axes", np.array([1], np.int64)))
    return graph


class Model:
    """A public model as it is, whose path is in an environment variable, with its inputs and perhaps other weights."""

    def __init__(self, variable, inputs, weights=()):
        self.inputs, self.stored = inputs, onnx.load(os.environ[variable])
        del self.stored.graph.output[1:]
        for weight in self.stored.graph.initializer:
            if weight.name in weights:
                array = weights[weight.name].reshape(weight.dims)
                weight.CopyFrom(numpy_helper.from_array(array, weight.name))

    def model(self):
        return self.stored


def tensors(name):
    """The `f32` tensors of a safetensors file of `data/`."""
    data = (pathlib.Path(__file__).resolve().parents[2] / "data" / name).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    rows = json.loads(data[8:start])
    rows.pop("__metadata__", None)
    return {key: np.frombuffer(data[start:][slice(*row["data_offsets"])], np.float32) for key, row in rows.items()}


def voice():
    """The windows of two seconds, one after the other. The package's file of weights is newer than its ONNX models."""
    file, state = tensors("silero_vad_16k.safetensors"), np.zeros([1, 1, 128], np.float32)
    cell = {name: gates(file[f"lstm_cell.{name}"], (0, 3, 1, 2)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    weights = {f"encoder.{at}.{part}": file[f"conv{at + 1}.{part}"] for at in range(4) for part in ("weight", "bias")}
    weights |= {f"output.{part}": file[f"final_conv.{part}"] for part in ("weight", "bias")}
    weights |= {"onnx::LSTM_209": cell["weight_ih"], "onnx::LSTM_210": cell["weight_hh"]}
    weights["onnx::LSTM_211"] = np.concatenate([cell["bias_ih"], cell["bias_hh"]])
    return Model("VOICE_MODEL", {"input": numbers("x", [59, 576]), "h": state, "c": state}, weights)


def magika(batch):
    return Model("MAGIKA_MODEL", {"bytes": numbers("x", [batch, 2048], 128, 128).astype(np.int32)})


NETWORKS = {
    f"{network.__name__}_batch{batch}": lambda network=network, batch=batch: network(batch)
    for network in (resnet18, mobilenet_v2, unet_block, bert_layer, gru_100)
    for batch in (1, 8)
}
if os.environ.get("VOICE_MODEL"):
    NETWORKS["voice_batch1"] = voice
if os.environ.get("MAGIKA_MODEL"):
    NETWORKS |= {f"magika_batch{batch}": lambda batch=batch: magika(batch) for batch in (1, 8)}
