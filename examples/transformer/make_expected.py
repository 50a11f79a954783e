"""Writes data/encoder.safetensors, a small sentence encoder with made-up weights, and data/encoder_expected.safetensors,
its embeddings of some sentences.

    python3 -m venv venv && venv/bin/pip install numpy safetensors
    venv/bin/python examples/transformer/make_expected.py

The network is BERT (Devlin et al., 2018), post-norm, with GELU, mean pooling and embeddings of length 1. Names and layout
are those that PyTorch's BERT models save: the weight of a linear layer is [outputs, inputs], position ids are 64-bit
integers. The expected embeddings are computed here in float64, sentence by sentence, without padding.
"""

import math
import pathlib

import numpy as np
from safetensors.numpy import save_file

DATA = pathlib.Path(__file__).parents[2] / "data"
VOCABULARY, POSITIONS, WIDTH, HEADS, INNER, LAYERS = 128, 32, 48, 4, 96, 2
EPSILON = 1e-12


def weights(rng):
    def linear(name, outputs, inputs):
        yield f"{name}.weight", rng.normal(0, 1.2 / math.sqrt(inputs), (outputs, inputs))
        yield f"{name}.bias", rng.normal(0, 0.1, outputs)

    def norm(name):
        yield f"{name}.weight", rng.normal(1, 0.1, WIDTH)
        yield f"{name}.bias", rng.normal(0, 0.1, WIDTH)

    yield "embeddings.word_embeddings.weight", rng.normal(0, 1, (VOCABULARY, WIDTH))
    yield "embeddings.position_embeddings.weight", rng.normal(0, 0.5, (POSITIONS, WIDTH))
    yield from norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for part in ["query", "key", "value"]:
            yield from linear(f"{at}.attention.self.{part}", WIDTH, WIDTH)
        yield from linear(f"{at}.attention.output.dense", WIDTH, WIDTH)
        yield from norm(f"{at}.attention.output.LayerNorm")
        yield from linear(f"{at}.intermediate.dense", INNER, WIDTH)
        yield from linear(f"{at}.output.dense", WIDTH, INNER)
        yield from norm(f"{at}.output.LayerNorm")


def embed(w, ids):
    """The embedding of one sentence, in float64."""

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x):
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    def heads(x):
        return x.reshape(len(ids), HEADS, -1).swapaxes(0, 1)

    x = w["embeddings.word_embeddings.weight"][ids]
    x = norm(x + w["embeddings.position_embeddings.weight"][: len(ids)], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        q, k, v = (heads(linear(x, f"{at}.attention.self.{part}")) for part in ["query", "key", "value"])
        scores = q @ k.swapaxes(1, 2) / math.sqrt(WIDTH / HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        mixed = (shares @ v).swapaxes(0, 1).reshape(len(ids), WIDTH)
        x = norm(x + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        inner = gelu(linear(x, f"{at}.intermediate.dense"))
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def main():
    rng = np.random.default_rng(20261123)
    stored = {name: value.astype(np.float32) for name, value in weights(rng)}
    # As PyTorch's models save them.
    positions = np.arange(POSITIONS, dtype=np.int64)[None]
    save_file({**stored, "embeddings.position_ids": positions}, DATA / "encoder.safetensors")

    exact = {name: value.astype(np.float64) for name, value in stored.items()}
    lengths = [1, 3, 7, 8, 12, 20, 31, 32]
    sentences = [rng.integers(0, VOCABULARY, length) for length in lengths]
    embeddings = np.stack([embed(exact, ids) for ids in sentences])
    expected = {
        "lengths": np.array(lengths, dtype=np.int64),
        "ids": np.concatenate(sentences).astype(np.int64),
        "embeddings": embeddings.astype(np.float32),
    }
    save_file(expected, DATA / "encoder_expected.safetensors")


if __name__ == "__main__":
    main()
