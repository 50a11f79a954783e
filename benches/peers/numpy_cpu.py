"""The cases of `benches/cpu/by_hand` in NumPy on the host: `kernel <case> <median_ms>`.

Elementwise work and reductions run on one thread, as NumPy does; products on those of its BLAS. Each
result goes to an array that exists, where NumPy can write it there.
"""

import statistics
import sys
import time

import numpy as np

RANDOM = np.random.default_rng(1)
SIDE = 4096
WIDE = 8000


def case(name, call):
    if len(sys.argv) > 1 and sys.argv[1] not in name:
        return
    call()
    times = []
    start = time.perf_counter()
    while len(times) < 5 or (len(times) < 1000 and time.perf_counter() - start < 0.5):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    print(f"kernel {name} {statistics.median(times):.4g}", flush=True)


def random(*shape):
    return RANDOM.random(shape, dtype=np.float32) * 2 - 1


def chain(a, b, c, d, y):
    np.multiply(a, b, out=y)
    np.add(y, c, out=y)
    np.maximum(y, 0, out=y)
    np.multiply(y, np.float32(0.5), out=y)
    np.subtract(y, d, out=y)
    np.square(y, out=y)
    np.add(y, np.float32(-0.125), out=y)
    np.maximum(y, a, out=y)


def softmax(x, y):
    np.subtract(x, x.max(-1, keepdims=True), out=y)
    np.exp(y, out=y)
    np.divide(y, y.sum(-1, keepdims=True), out=y)


def log_softmax(x, y):
    np.subtract(x, x.max(-1, keepdims=True), out=y)
    np.subtract(y, np.log(np.exp(y).sum(-1, keepdims=True)), out=y)


def layer_norm(x, y):
    np.subtract(x, x.mean(-1, keepdims=True), out=y)
    variance = np.square(y).mean(-1, keepdims=True)
    np.divide(y, np.sqrt(variance + np.float32(1e-5)), out=y)


def log_sum_exp(x, axis):
    greatest = x.max(axis, keepdims=True)
    return greatest + np.log(np.exp(x - greatest).sum(axis, keepdims=True))


def linear_relu(x, w, bias, y):
    np.matmul(x, w, out=y)
    np.add(y, bias, out=y)
    np.maximum(y, 0, out=y)


def chains_and_functions():
    for power in (3, 4, 5, 6, 8):
        n = 10**power
        operands, y = [random(n) for _ in range(4)], np.empty(n, np.float32)
        case(f"chain8_1e{power}", lambda: chain(*operands, y))
    x, y = random(10**7) * 4, np.empty(10**7, np.float32)
    case("exp_1e7", lambda: np.exp(x, out=y))
    case("tanh_1e7", lambda: np.tanh(x, out=y))


def products():
    for n in (64, 128, 256, 512, 1024, 2048):
        x, w, y = random(n, n), random(n, n), np.empty((n, n), np.float32)
        case(f"matmul_{n}", lambda: np.matmul(x, w, out=y))
    x, w, y = random(1024, 1024), random(1024, 1024), np.empty((1024, 1024), np.float32)
    case("matmul_1024_transposed", lambda: np.matmul(x, w.T, out=y))
    x, w, y = random(64, 128, 128), random(64, 128, 128), np.empty((64, 128, 128), np.float32)
    case("matmul_64x128x128x128", lambda: np.matmul(x, w, out=y))
    for side, batches in ((1024, (1, 8, 64, 1024)), (4096, (1, 64))):
        w, bias = random(side, side), random(side)
        for rows in batches:
            x, y = random(rows, side), np.empty((rows, side), np.float32)
            case(f"linear_relu_{rows}x{side}x{side}", lambda: linear_relu(x, w, bias, y))


def rows_and_reductions():
    x, y = random(SIDE, SIDE), np.empty((SIDE, SIDE), np.float32)
    case("softmax_4096", lambda: softmax(x, y))
    case("log_softmax_4096", lambda: log_softmax(x, y))
    case("layer_norm_4096", lambda: layer_norm(x, y))
    x = random(WIDE, WIDE)
    case("sum_64e6", lambda: x.sum())
    case("max_64e6", lambda: x.max())
    case("argmax_64e6", lambda: x.argmax())
    case("logsumexp_64e6", lambda: log_sum_exp(x, None))
    case("sum_rows_8000", lambda: x.sum(1))
    case("sum_columns_8000", lambda: x.sum(0))
    case("argmax_columns_8000", lambda: x.argmax(0))
    case("logsumexp_columns_8000", lambda: log_sum_exp(x, 0))


def main():
    print(f"# NumPy {np.__version__}")
    chains_and_functions()
    products()
    rows_and_reductions()


if __name__ == "__main__":
    main()
