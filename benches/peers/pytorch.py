"""The cases of `benches/kernels` in PyTorch on a GPU: `kernel <case> <median_ms> <events_ms>`.

The median of whole calls, from the first Python line to the end of `torch.cuda.synchronize`, as `benches/kernels`
measures; and the time between CUDA events, which leaves out what a synchronised call waits.
TF32 is off: f32 means f32. Chains are measured eagerly and compiled.
"""

import statistics
import time

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
DEVICE = "cuda"
CHAIN = 64_000_000
SIDE = 4096


def case(name, call):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    whole, events = [], []
    start = time.perf_counter()
    while len(whole) < 5 or (len(whole) < 2000 and time.perf_counter() - start < 0.5):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        whole.append((time.perf_counter() - begin) * 1e3)
    repeats = max(1, min(200, int(100 / statistics.median(whole))))
    for _ in range(5):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(repeats):
            call()
        last.record()
        torch.cuda.synchronize()
        events.append(first.elapsed_time(last) / repeats)
    print(f"kernel {name} {statistics.median(whole):.4f} {statistics.median(events):.4f}", flush=True)


def random(*shape):
    return torch.rand(*shape, device=DEVICE) * 2 - 1


def chain(a, b, c, d):
    y = torch.relu(a * b + c) * 0.5 - d
    return torch.maximum(y * y - 0.125, a)


def attention():
    """The cases of `benches/kernels/attention.rs`."""
    functional = torch.nn.functional
    cases = [
        ("8x16x1024x64", (8, 16, 16, 1024, 1024, 64), False),
        ("causal_8x16x1024x64", (8, 16, 16, 1024, 1024, 64), True),
        ("2x16x2048x128", (2, 16, 16, 2048, 2048, 128), False),
        ("one_query_8x16x4096x64", (8, 16, 16, 1, 4096, 64), False),
        ("one_query_8x32of8x4096x128", (8, 32, 8, 1, 4096, 128), False),
    ]
    for name, (batch, heads, served, queries, keys, width), causal in cases:
        for dtype in (torch.float32, torch.float16):
            q = random(batch, heads, queries, width).to(dtype)
            k, v = (random(batch, served, keys, width).to(dtype) for _ in range(2))
            how = {"is_causal": causal, "enable_gqa": heads != served}
            short = "f32" if dtype == torch.float32 else "f16"
            case(f"attention_{short}_{name}", lambda: functional.scaled_dot_product_attention(q, k, v, **how))


def memory():
    """The cases of `benches/kernels/memory.rs`."""
    functional = torch.nn.functional
    cases = [
        ("relu_64e6", [CHAIN], torch.relu),
        ("add_row_16384x4095", [16384, 4095], lambda x: x + x[:1]),
        ("add_column_8192", [8192, 8192], lambda x: x + x[:, :1]),
        ("transpose_8192", [8192, 8192], lambda x: x.t().contiguous()),
        ("transpose_8191_relu", [8191, 8191], lambda x: torch.relu(x.t()).contiguous()),
        ("permute_32x1024x16x64_heads", [32, 1024, 16, 64], lambda x: x.permute(0, 2, 1, 3).contiguous()),
        ("permute_256x512x512_last_first", [256, 512, 512], lambda x: x.permute(2, 0, 1).contiguous()),
        ("sum_axis0_8192", [8192, 8192], lambda x: x.sum(0)),
        ("sum_axis1_8192", [8192, 8192], lambda x: x.sum(1)),
        ("sum_8e6x8", [8_000_000, 8], lambda x: x.sum(1)),
        ("sum_axis0_8e6x8", [8_000_000, 8], lambda x: x.sum(0)),
        ("softmax_1e6x8", [1_000_000, 8], lambda x: torch.softmax(x, -1)),
        ("softmax_1e6x33", [1_000_000, 33], lambda x: torch.softmax(x, -1)),
        ("softmax_8x1e6", [8, 1_000_000], lambda x: torch.softmax(x, -1)),
        ("softmax_512x100003", [512, 100_003], lambda x: torch.softmax(x, -1)),
        ("softmax_axis0_4096", [SIDE, SIDE], lambda x: torch.softmax(x, 0)),
        ("softmax_4095", [4095, 4095], lambda x: torch.softmax(x, -1)),
        ("log_softmax_4096", [SIDE, SIDE], lambda x: torch.log_softmax(x, -1)),
        ("rms_norm_4096", [SIDE, SIDE], lambda x: functional.rms_norm(x, (SIDE,), eps=1e-5)),
        ("layer_norm_16384x1024", [16384, 1024], lambda x: functional.layer_norm(x, (1024,))),
        ("argmax_64e6", [CHAIN], torch.argmax),
        ("dot_33e6", [2, 8192 * 4096], lambda x: x[0] @ x[1]),
    ]
    for name, shape, call in cases:
        x = random(*shape)
        case(name, lambda: call(x))
    x = random(CHAIN).half()
    case("relu_f16_64e6", lambda: torch.relu(x))
    x = random(SIDE, SIDE).half()
    case("softmax_f16_4096", lambda: torch.softmax(x, -1))


def indexing():
    """The cases of `benches/kernels/indexing.rs`."""

    def below(size, *shape):
        return torch.randint(0, size, shape, device=DEVICE)

    x, i = random(50257, 1024), below(50257, 32, 512)
    case("embedding_50257x1024_32x512", lambda: torch.nn.functional.embedding(i, x))
    x, i = random(500_000, 128), below(500_000, 500_000)
    case("embedding_500000x128_500000", lambda: torch.nn.functional.embedding(i, x))
    x, i = random(8192, 8192), below(8192, 8192)
    case("gather_columns_8192x8192_8192", lambda: x.index_select(1, i))
    x, i = random(8192, 4096), below(8192, 8192, 4096)
    case("take_along_axis0_8192x4096", lambda: x.gather(0, i))
    scatters = [("50257x1024_16384", 50257, 1024, 16384), ("1e6_1e7", 1_000_000, 1, 10_000_000)]
    for name, rows, width, count in scatters:
        x, i, updates = random(rows, width), below(rows, count), random(count, width)
        # What is the same from run to run, as the engine's results are; and by atomic additions.
        torch.use_deterministic_algorithms(True)
        case(f"scatter_add_{name}", lambda: x.index_add(0, i, updates))
        torch.use_deterministic_algorithms(False)
        case(f"scatter_add_atomic_{name}", lambda: x.index_add(0, i, updates))


def convolutions():
    """The cases of `benches/kernels/convolution.rs`."""
    functional = torch.nn.functional

    def chain(x, w, count, **options):
        for _ in range(count):
            x = functional.conv2d(x, w, **options)
        return x

    x = random(8, 64, 56, 56)
    for name, size, groups in (("3x3", 3, 1), ("1x1", 1, 1), ("depthwise_3x3", 3, 64)):
        w = random(64, 64 // groups, size, size) * (64 // groups * size * size) ** -0.5
        options = {"padding": size // 2, "groups": groups}
        for count, suffix in ((1, ""), (16, "_times_16")):
            case(f"conv2d_{name}_8x64x56x56{suffix}", lambda: chain(x, w, count, **options))
            if name == "3x3":
                half = x.half(), w.half()
                case(f"conv2d_3x3_f16_8x64x56x56{suffix}", lambda: chain(*half, count, **options))
    image, w = random(8, 3, 224, 224), random(64, 3, 7, 7)
    case("conv2d_7x7_stride_2_8x3x224x224", lambda: functional.conv2d(image, w, stride=2, padding=3))
    x = random(8, 64, 448, 448)
    case("max_pool2d_3x3_8x64x448x448", lambda: functional.max_pool2d(x, 3, 2, 1))
    case("global_avg_pool_8x64x448x448", lambda: functional.adaptive_avg_pool2d(x, 1))


def order():
    """The cases of `benches/kernels/order.rs`; PyTorch's sorts give values and positions."""
    x, rows = random(10_000_000), random(10_000, 1000)
    case("cumsum_1e7", lambda: torch.cumsum(x, 0))
    case("cumsum_axis0_10000x1000", lambda: torch.cumsum(rows, 0))
    case("cumsum_axis1_10000x1000", lambda: torch.cumsum(rows, 1))
    case("sort_1e7", lambda: torch.sort(x))
    case("argsort_1e7", lambda: torch.argsort(x, stable=True))
    case("top_k32_1e7", lambda: torch.topk(x, 32))
    case("sort_rows_10000x1000", lambda: torch.sort(rows, 1))
    case("random_uniform_1e7", lambda: torch.rand(10_000_000, device=DEVICE))
    case("random_normal_1e7", lambda: torch.randn(10_000_000, device=DEVICE))


@torch.no_grad()
def main():
    print(f"# PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    small = random(1024)
    case("latency", lambda: torch.relu(small))
    operands = [random(CHAIN) for _ in range(4)]
    case("chain8_64e6_eager", lambda: chain(*operands))
    compiled = torch.compile(chain)
    case("chain8_64e6", lambda: compiled(*operands))
    for n in (1024, 2048, 4095, 4096, 4097, 8192):
        x, w = random(n, n), random(n, n)
        case(f"matmul_f32_{n}", lambda: x @ w)
    for n in (1024, 2048, 4096, 8192):
        x, w = random(n, n).half(), random(n, n).half()
        case(f"matmul_f16_{n}", lambda: x @ w)
    w, bias = random(SIDE, SIDE), random(SIDE)
    for rows in (1, SIDE):
        x = random(rows, SIDE)
        case(f"matmul_transposed_{rows}x4096x4096", lambda: x @ w.T)
    for rows in (1, 64, 1024, 4096):
        x = random(rows, SIDE)
        case(f"linear_relu_{rows}x4096x4096", lambda: torch.relu(torch.addmm(bias, x, w)))
    x = random(SIDE, SIDE)
    case("softmax_4096", lambda: torch.softmax(x, -1))
    case("layer_norm_4096", lambda: torch.nn.functional.layer_norm(x, (SIDE,)))
    x = random(CHAIN)
    case("sum_64e6", lambda: x.sum())
    attention()
    memory()
    indexing()
    convolutions()
    order()
    layers = [(random(i, o) * 0.05, random(o)) for i, o in ((784, 512), (512, 256), (256, 10))]
    host = torch.rand(64, 784)

    def network():
        y = host.to(DEVICE)
        for at, (w, bias) in enumerate(layers):
            y = torch.addmm(bias, y, w)
            if at < 2:
                y = torch.relu(y)
        return y.cpu()

    case("mlp_784_512_256_10_batch64_host_to_host", network)


main()
