"""The networks of `benches/networks` in PyTorch on a GPU: `network <name> <batch> <data> <how> <median_ms>`.

The median of whole calls, from the first Python line to the end of `torch.cuda.synchronize`. *Data* is `resident` if the
input lies on the GPU and the result stays there; `host` if the input comes from host memory and the result returns to it.
*How* is `eager`, `graph` (a CUDA graph of the eager calls) or `compiled` (`torch.compile`). TF32 is off: f32 means f32.

    python3 benches/peers/networks_pytorch.py [--compile 1,32] [parts of names]
"""

import argparse
import statistics
import time

import torch
import torchvision

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
DEVICE = "cuda"
IMAGE = (3, 224, 224)


class Bert(torch.nn.Module):
    """The encoder of BERT-base: 12 layers, 768 wide."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True)
        # Without nested tensors and its fused path, which needs no gradient and gains nothing at full length.
        self.layers = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(x)


class Lstm(torch.nn.Module):
    """100 steps of an LSTM from 64 to 128 numbers; all states are the result."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(64, 128)

    def forward(self, x):
        return self.lstm(x)[0]


NETWORKS = [
    ("bert_base", Bert, (1, 8, 32), lambda n: (n, 128, 768)),
    ("resnet18", torchvision.models.resnet18, (1, 8, 64), lambda n: (n, *IMAGE)),
    ("mobilenet_v2", torchvision.models.mobilenet_v2, (1, 8, 64), lambda n: (n, *IMAGE)),
    ("lstm_100", Lstm, (1, 8, 64), lambda n: (100, n, 64)),
]


def measured(call):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    start = time.perf_counter()
    while len(times) < 10 or (len(times) < 1000 and time.perf_counter() - start < 0.4):
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def captured(model, x):
    """A call that replays the eager kernels on `x`, without Python between them."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    return graph.replay


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", default="1,32,64", help="batches that are measured compiled too")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    compiled_batches = {int(n) for n in arguments.compile.split(",") if n}
    print(f"# PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    for name, make, batches, shape in NETWORKS:
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        for dtype, suffix in ((torch.float32, ""), (torch.float16, "_f16")):
            model = make().eval().to(DEVICE, dtype)
            for batch in batches:
                host = torch.rand(*shape(batch), dtype=dtype) * 2 - 1
                x = host.to(DEVICE)
                ways = [("eager", lambda: model(x)), ("graph", captured(model, x))]
                if batch in compiled_batches and suffix == "" and name != "lstm_100":
                    torch._dynamo.reset()
                    fused = torch.compile(model)
                    ways.append(("compiled", lambda: fused(x)))
                for how, call in ways:
                    line = f"network {name}{suffix} {batch} resident {how}"
                    print(f"{line} {measured(call):.4f}", flush=True)
                call = lambda: model(host.to(DEVICE)).cpu()
                print(f"network {name}{suffix} {batch} host eager {measured(call):.4f}", flush=True)


if __name__ == "__main__":
    main()
