"""ONNX models with numbers that `benches/common/random.rs` and `benches/networks/weights.rs` make too."""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 23


def numbers(name, shape, spread=1.0, middle=0.0):
    """Uniform numbers in middle ± spread: splitmix64 (Steele et al., 2014) from the 64-bit FNV-1a hash of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    count = math.prod(shape)
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    uniform = (z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)
    return (uniform * np.float32(spread) + np.float32(middle)).reshape(shape)


def spread(factor, terms):
    """sqrt(factor / terms): 3 keeps the variance of sums of so many terms, 6 does so before a relu (He et al., 2015)."""
    return np.float32(math.sqrt(factor / terms))


class Graph:
    """A model of one result, with the data of its inputs."""

    def __init__(self):
        self.nodes, self.inputs, self.weights = [], {}, {}

    def input(self, name, shape, spread=1.0):
        self.inputs[name] = numbers(name, shape, spread)
        return name

    def constant(self, name, array):
        self.weights[name] = np.ascontiguousarray(array)
        return name

    def weight(self, name, shape, spread=1.0, middle=0.0):
        return self.constant(name, numbers(name, shape, spread, middle))

    def filters(self, name, shape):
        return self.weight(name, shape, spread(6, math.prod(shape[1:])))

    def matrix(self, name, shape):
        return self.weight(name, shape, spread(3, shape[0]))

    def bias(self, name, count):
        return self.weight(name, [count], 0.1)

    def factors(self, name, count):
        return self.weight(name, [count], 0.25, 1.0)

    def op(self, kind, *operands, outputs=1, **attributes):
        """The first result of a node."""
        results = [f"value{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(operands), results, **attributes))
        return results[0]

    def reshape(self, x, shape):
        return self.op("Reshape", x, self.constant(f"shape{len(self.nodes)}", np.array(shape, np.int64)))

    def model(self):
        """The model, whose result is that of the last node."""
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in self.inputs.items()]
        result = helper.make_tensor_value_info(self.nodes[-1].output[0], TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "case", inputs, [result], weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
