"""Trains the network of the demo page, and writes its weights as a safetensors file.

    python3 -m venv venv && venv/bin/pip install numpy safetensors
    venv/bin/python web/demo/train.py target/drawn_digits.safetensors

The network reads 8 × 8 pixels. It learns from the training rows of `data/digits.csv.gz`, moved and turned at random,
and from digits drawn along strokes. `picture` makes pixels of strokes as `strokes.js` does on the page.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

SIDE = 8
# The bitmap of which each pixel is a block of 4 × 4 points, as in the data.
GRID = 32
# The room in the bitmap for the strokes' middle lines.
HEIGHT, WIDTH = 27.0, 19.0
CLASSES = 10
TRAINING_ROWS = 1437
EPOCHS = 30
DRAWN_PER_EPOCH = 4000
rng = np.random.default_rng(20260301)

# Points from the left (0) to the right (1) and from the top (0) to the bottom (1). A repeated point is a corner.
STROKES = {
    0: [
        [[(0.5, 0), (0.1, 0.25), (0.05, 0.65), (0.45, 1), (0.9, 0.7), (0.9, 0.3), (0.5, 0)]],
        [[(0.6, 0.02), (0.2, 0.15), (0.1, 0.6), (0.4, 1), (0.75, 0.8), (0.85, 0.35), (0.6, 0), (0.35, 0.1)]],
        [[(0.45, 0.05), (0.9, 0.3), (0.85, 0.75), (0.5, 1), (0.1, 0.7), (0.12, 0.25), (0.5, 0.02)]],
    ],
    1: [
        [[(0.5, 0), (0.5, 1)]],
        [[(0.2, 0.25), (0.55, 0), (0.55, 0), (0.55, 1)]],
        [[(0.1, 0.35), (0.55, 0), (0.55, 0), (0.5, 1)], [(0.15, 1), (0.9, 1)]],
        [[(0.3, 0.2), (0.5, 0), (0.5, 0), (0.5, 1)], [(0.25, 1), (0.75, 1)]],
    ],
    2: [
        [[(0.1, 0.25), (0.35, 0.02), (0.75, 0.06), (0.85, 0.3), (0.5, 0.65), (0.1, 1), (0.1, 1), (0.95, 1)]],
        [[(0.1, 0.3), (0.4, 0), (0.8, 0.15), (0.75, 0.45), (0.1, 1), (0.1, 1), (0.9, 0.95)]],
        [[(0.1, 0.2), (0.4, 0), (0.75, 0.15), (0.7, 0.45), (0.35, 0.85), (0.1, 0.95), (0.15, 0.75), (0.5, 0.9), (0.95, 1)]],
    ],
    3: [
        [[(0.1, 0.12), (0.45, 0), (0.8, 0.18), (0.7, 0.4), (0.4, 0.48), (0.4, 0.48), (0.8, 0.58), (0.85, 0.82), (0.5, 1), (0.08, 0.88)]],
        [[(0.1, 0), (0.85, 0), (0.85, 0), (0.45, 0.4), (0.45, 0.4), (0.85, 0.6), (0.8, 0.9), (0.4, 1), (0.05, 0.88)]],
        [[(0.15, 0.1), (0.5, 0), (0.85, 0.2), (0.6, 0.45), (0.85, 0.7), (0.5, 1), (0.1, 0.9)]],
    ],
    4: [
        [[(0.3, 0), (0.1, 0.6), (0.1, 0.6), (0.95, 0.6)], [(0.7, 0.3), (0.65, 1)]],
        [[(0.7, 1), (0.7, 0), (0.7, 0), (0.05, 0.65), (0.05, 0.65), (0.95, 0.65)]],
        [[(0.15, 0), (0.12, 0.5), (0.12, 0.5), (0.85, 0.5)], [(0.8, 0), (0.75, 1)]],
        [[(0.15, 0.02), (0.12, 0.4), (0.4, 0.55), (0.8, 0.45)], [(0.85, 0), (0.8, 1)]],
    ],
    5: [
        [[(0.85, 0), (0.2, 0), (0.2, 0), (0.15, 0.45), (0.15, 0.45), (0.55, 0.38), (0.9, 0.65), (0.65, 0.97), (0.1, 0.93)]],
        [[(0.2, 0.02), (0.18, 0.45), (0.18, 0.45), (0.7, 0.45), (0.85, 0.75), (0.5, 1), (0.08, 0.9)], [(0.2, 0), (0.9, 0)]],
        [[(0.85, 0.05), (0.3, 0.05), (0.2, 0.4), (0.7, 0.5), (0.8, 0.8), (0.4, 1), (0.1, 0.9)]],
    ],
    6: [
        [[(0.75, 0), (0.3, 0.3), (0.1, 0.7), (0.35, 1), (0.8, 0.88), (0.8, 0.6), (0.45, 0.5), (0.12, 0.7)]],
        [[(0.5, 0), (0.15, 0.45), (0.15, 0.85), (0.5, 1), (0.85, 0.8), (0.6, 0.58), (0.2, 0.75)]],
        [[(0.25, 0), (0.12, 0.6), (0.3, 0.98), (0.75, 0.95), (0.8, 0.65), (0.4, 0.58), (0.15, 0.75)]],
    ],
    7: [
        [[(0.05, 0.02), (0.9, 0), (0.9, 0), (0.4, 1)]],
        [[(0.05, 0.02), (0.9, 0.02), (0.9, 0.02), (0.4, 1)], [(0.25, 0.5), (0.85, 0.48)]],
        [[(0.08, 0.2), (0.1, 0.02), (0.1, 0.02), (0.9, 0.02), (0.6, 0.45), (0.45, 1)]],
        [[(0.05, 0.1), (0.5, 0.02), (0.85, 0.1), (0.6, 0.5), (0.45, 1)]],
    ],
    8: [
        [[(0.8, 0.15), (0.5, 0), (0.2, 0.2), (0.5, 0.47), (0.85, 0.75), (0.5, 1), (0.12, 0.78), (0.5, 0.47), (0.8, 0.2)]],
        [[(0.5, 0.48), (0.2, 0.25), (0.5, 0), (0.8, 0.25), (0.5, 0.48), (0.12, 0.75), (0.5, 1), (0.88, 0.75), (0.5, 0.48)]],
        [[(0.5, 0), (0.2, 0.22), (0.5, 0.45), (0.8, 0.22), (0.5, 0)], [(0.5, 0.45), (0.12, 0.72), (0.5, 1), (0.88, 0.72), (0.5, 0.45)]],
    ],
    9: [
        [[(0.82, 0.2), (0.5, 0), (0.15, 0.25), (0.4, 0.5), (0.82, 0.25), (0.82, 0.25), (0.8, 1)]],
        [[(0.82, 0.25), (0.5, 0), (0.15, 0.25), (0.4, 0.5), (0.82, 0.25), (0.85, 0.6), (0.6, 0.95), (0.2, 0.95)]],
        [[(0.8, 0.1), (0.3, 0.05), (0.15, 0.35), (0.5, 0.48), (0.85, 0.2), (0.75, 0.6), (0.5, 1)]],
    ],
}


def smooth(points, steps=6):
    """Points along a Catmull-Rom curve through `points`, with their corners."""
    p = np.asarray(points, float)
    p = np.concatenate([p[:1], p, p[-1:]])
    t = np.arange(steps)[:, None] / steps
    parts = []
    for a, b, c, d in zip(p, p[1:], p[2:], p[3:]):
        if np.array_equal(b, c):
            continue
        # A corner has no direction in common with the other side.
        a, d = (b if np.array_equal(a, b) else a), (c if np.array_equal(c, d) else d)
        curve = 2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3
        parts.append(curve / 2)
    return np.concatenate([*parts, p[-1:]])


def picture(strokes, radius):
    """The 8 × 8 pixels of strokes, lists of points: `pixels` in strokes.js."""
    every = np.concatenate(strokes)
    low, high = every.min(0), every.max(0)
    scale = min(WIDTH / max(high[0] - low[0], 1e-6), HEIGHT / max(high[1] - low[1], 1e-6))
    middle = (low + high) / 2
    moved = [(stroke - middle) * scale + GRID / 2 for stroke in strokes]
    begins = np.concatenate([stroke[:-1] for stroke in moved])
    ways = np.concatenate([stroke[1:] - stroke[:-1] for stroke in moved])
    y, x = np.mgrid[0:GRID, 0:GRID] + 0.5
    points = np.stack([x, y], -1)[..., None, :] - begins
    along = (points * ways).sum(-1) / np.maximum((ways * ways).sum(-1), 1e-12)
    rest = points - np.clip(along, 0, 1)[..., None] * ways
    nearest = np.sqrt((rest * rest).sum(-1).min(-1))
    ink = np.clip(radius - nearest + 0.5, 0, 1)
    return ink.reshape(SIDE, 4, SIDE, 4).mean((1, 3)).astype(np.float32)


def drawn(digit):
    """A digit along the strokes of a random style, bent at random."""
    style = STROKES[digit][rng.integers(len(STROKES[digit]))]
    turn, shear, aspect = rng.normal(0, 0.1), rng.normal(-0.1, 0.15), np.exp(rng.normal(0, 0.15))
    cos, sin = np.cos(turn), np.sin(turn)
    bend = np.array([[cos, -sin], [sin, cos]]) @ np.array([[0.7 * aspect, shear], [0, 1]])
    noise = {}

    def moved(point):
        if point not in noise:
            noise[point] = np.array(point) + rng.normal(0, 0.035, 2)
        return noise[point]

    strokes = [smooth([moved(point) for point in stroke]) @ bend.T for stroke in style]
    return picture(strokes, rng.uniform(1.7, 3.1))


def shaken(x):
    """Pictures turned, scaled and moved at random, by bilinear interpolation."""
    turn, size = rng.normal(0, 0.1, len(x)), rng.uniform(0.9, 1.1, (len(x), 2))
    y, at = np.mgrid[0:SIDE, 0:SIDE] - (SIDE - 1) / 2
    cos, sin = (f(turn)[:, None, None] for f in (np.cos, np.sin))
    shift = rng.uniform(-0.5, 0.5, (len(x), 2, 1, 1))
    u = (cos * at - sin * y) * size[:, 0, None, None] + shift[:, 0] + SIDE / 2 + 0.5
    v = (sin * at + cos * y) * size[:, 1, None, None] + shift[:, 1] + SIDE / 2 + 0.5
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    u, v = np.clip(u, 0, SIDE + 0.999), np.clip(v, 0, SIDE + 0.999)
    left, top = u.astype(int), v.astype(int)
    du, dv, rows = u - left, v - top, np.arange(len(x))[:, None, None]
    pick = lambda dy, dx: wide[rows, top + dy, left + dx]
    upper = pick(0, 0) * (1 - du) + pick(0, 1) * du
    lower = pick(1, 0) * (1 - du) + pick(1, 1) * du
    return (upper * (1 - dv) + lower * dv).astype(np.float32)


class Convolution:
    """3 × 3 with a border of zeros, over images [rows, height, width, channels]."""

    def __init__(self, inputs, outputs):
        self.w = (rng.normal(0, np.sqrt(2 / (9 * inputs)), (9 * inputs, outputs))).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)

    def forward(self, x):
        n, h, w, c = x.shape
        wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        parts = [wide[:, dy : dy + h, dx : dx + w] for dy in range(3) for dx in range(3)]
        self.columns = np.concatenate(parts, -1).reshape(-1, 9 * c)
        self.shape = x.shape
        return (self.columns @ self.w + self.b).reshape(n, h, w, -1)

    def backward(self, g):
        n, h, w, c = self.shape
        g = g.reshape(n * h * w, -1)
        self.gradients = [self.columns.T @ g, g.sum(0)]
        columns = (g @ self.w.T).reshape(n, h, w, 9, c)
        wide = np.zeros((n, h + 2, w + 2, c), np.float32)
        for at in range(9):
            dy, dx = divmod(at, 3)
            wide[:, dy : dy + h, dx : dx + w] += columns[:, :, :, at]
        return wide[:, 1:-1, 1:-1]


class Linear:
    def __init__(self, inputs, outputs):
        self.w = (rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs))).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, g):
        self.gradients = [self.x.T @ g, g.sum(0)]
        return g @ self.w.T


class Relu:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, g):
        return g * self.on


class Pool:
    """The greatest of each 2 × 2."""

    def forward(self, x):
        n, h, w, c = x.shape
        blocks = x.reshape(n, h // 2, 2, w // 2, 2, c)
        y = blocks.max((2, 4), keepdims=True)
        self.on = blocks == y
        return y[:, :, 0, :, 0]

    def backward(self, g):
        spread = g[:, :, None, :, None] * self.on / self.on.sum((2, 4), keepdims=True)
        n, h, _, w, _, c = spread.shape
        return spread.reshape(n, 2 * h, 2 * w, c).astype(np.float32)


class Flat:
    """Channels first, as the recorded network has them."""

    def forward(self, x):
        self.shape = x.shape
        return x.transpose(0, 3, 1, 2).reshape(len(x), -1)

    def backward(self, g):
        n, h, w, c = self.shape
        return g.reshape(n, c, h, w).transpose(0, 2, 3, 1)


LAYERS = [
    Convolution(1, 16), Relu(), Convolution(16, 32), Relu(), Pool(), Flat(), Linear(512, 64), Relu(), Linear(64, CLASSES),
]


def forward(x, drop=0.0):
    """Logits. With `drop`, this part of the first picture features is left out at random."""
    y = x[..., None]
    for layer in LAYERS:
        y = layer.forward(y)
        if drop and isinstance(layer, Flat):
            kept = (rng.random(y.shape) >= drop) / (1 - drop)
            layer.kept, y = kept.astype(np.float32), (y * kept).astype(np.float32)
    return y


def step(x, classes, state, rate):
    """One step of Adam with decay of weights. Returns the loss."""
    logits = forward(x, drop=0.3)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    rows = np.arange(len(x))
    # Soft targets keep the confidences honest.
    target = np.full_like(p, 0.05 / CLASSES)
    target[rows, classes] += 0.95
    g = ((p - target) / len(x)).astype(np.float32)
    for layer in reversed(LAYERS):
        if isinstance(layer, Flat):
            g = g * layer.kept
        g = layer.backward(g)
    state["step"] += 1
    for at, layer in enumerate(layer for layer in LAYERS if hasattr(layer, "w")):
        for name, gradient in zip("wb", layer.gradients):
            m, v = state.setdefault((at, name), (0.0, 0.0))
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            state[at, name] = m, v
            mean, square = m / (1 - 0.9 ** state["step"]), v / (1 - 0.999 ** state["step"])
            value = getattr(layer, name)
            value *= 1 - rate * 0.01
            value -= rate * mean / (np.sqrt(square) + 1e-8)
    return -np.log(p[rows, classes]).mean()


def right(x, classes):
    return int((forward(x).argmax(1) == classes).sum())


def some_drawn(count):
    classes = rng.integers(CLASSES, size=count)
    return np.stack([drawn(digit) for digit in classes]), classes


def main(path):
    data = Path(__file__).resolve().parents[2] / "data" / "digits.csv.gz"
    table = np.loadtxt(gzip.open(data), delimiter=",")
    x, classes = (table[:, :-1].reshape(-1, SIDE, SIDE) / 16).astype(np.float32), table[:, -1].astype(int)
    train, test = slice(TRAINING_ROWS), slice(TRAINING_ROWS, None)
    unseen = some_drawn(1000)
    pool, state = some_drawn(4 * DRAWN_PER_EPOCH), {"step": 0}
    for epoch in range(EPOCHS):
        some = rng.choice(len(pool[0]), DRAWN_PER_EPOCH, replace=False)
        images = np.concatenate([shaken(x[train]), x[train], pool[0][some]])
        wanted = np.concatenate([classes[train], classes[train], pool[1][some]])
        order = rng.permutation(len(images))
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS)) + 1e-5
        losses = [step(images[rows], wanted[rows], state, rate) for rows in np.array_split(order, len(order) // 64)]
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, {right(x[test], classes[test])} of {len(x[test])} rows, "
              f"{right(*unseen)} of 1000 drawn digits", flush=True)
    weights = [layer for layer in LAYERS if hasattr(layer, "w")]
    tensors = {}
    for number, layer in enumerate(weights, 1):
        w = layer.w
        if isinstance(layer, Convolution):
            # [outputs, inputs, 3, 3], as convolutions have their weights.
            w = w.reshape(3, 3, -1, w.shape[1]).transpose(3, 2, 0, 1)
        tensors[f"w{number}"], tensors[f"b{number}"] = np.ascontiguousarray(w), layer.b
    save_file(tensors, path)


if __name__ == "__main__":
    main(sys.argv[1])
