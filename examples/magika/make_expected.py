"""Writes data/magika_expected.safetensors: a few small files, and what magika says of each.

    python3 -m venv venv && venv/bin/pip install magika numpy onnxruntime safetensors
    venv/bin/python examples/magika/make_expected.py

The files are made here. The answers are those of the network that the package ships, by ONNX Runtime, and are checked
against what the package itself makes of them.
"""

import io
import json
import pathlib
import struct
import zipfile
import zlib

import magika
import numpy as np
import onnxruntime
from safetensors.numpy import save_file

BLOCK, TOKENS, PADDING = 4096, 1024, 256
DATA = pathlib.Path(__file__).parents[2] / "data"
MODEL = pathlib.Path(magika.__file__).parent / "models" / "standard_v3_3"

RUST = """\
/// The greatest common divisor.
pub fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}

#[test]
fn of_multiples() {
    assert_eq!(gcd(12, 18), 6);
}
"""
PYTHON = """\
import sys


def words(path):
    with open(path) as file:
        for line in file:
            yield from line.split()


if __name__ == "__main__":
    print(len(set(words(sys.argv[1]))))
"""
SHELL = """\
#!/usr/bin/env bash
set -euo pipefail
for file in "$@"; do
    gzip -k "$file" && echo "packed $file"
done
"""
HTML = """\
<!doctype html>
<html lang="en">
  <head><meta charset="utf-8"><title>Tides</title></head>
  <body><h1>Tides</h1><p>High water at <b>06:12</b>.</p></body>
</html>
"""
C = """\
#include <stdio.h>

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) printf("%s\\n", argv[i]);
    return 0;
}
"""


def picture():
    """A PNG of 32 × 32 greys."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(32)) for y in range(32))
    header = struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def archive():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in (("gcd.rs", RUST), ("words.py", PYTHON)):
            file.writestr(zipfile.ZipInfo(name), text)
    return out.getvalue()


def files():
    table = "\n".join(["station,day,level"] + [f"{n % 7},{n},{(n * 37) % 90 / 10}" for n in range(120)])
    settings = json.dumps({"name": "tides", "days": list(range(40)), "unit": "m"}, indent=2)
    texts = {"gcd.rs": RUST, "words.py": PYTHON, "pack.sh": SHELL, "tides.html": HTML, "echo.c": C, "levels.csv": table}
    texts["settings.json"] = settings
    return {name: text.encode() for name, text in texts.items()} | {"grey.png": picture(), "sources.zip": archive()}


def tokens(content):
    """The first and the last bytes, without white space at the ends, and padding between them."""
    first, last = content[:BLOCK].lstrip()[:TOKENS], content[-BLOCK:].rstrip()[-TOKENS:]
    return [*first, *[PADDING] * (2 * TOKENS - len(first) - len(last)), *last]


def main():
    given = files()
    session = onnxruntime.InferenceSession(MODEL / "model.onnx")
    inputs = np.asarray([tokens(content) for content in given.values()], np.int32)
    (answers,) = session.run(None, {"bytes": inputs})
    labels = json.loads((MODEL / "config.min.json").read_text())["target_labels_space"]
    package = magika.Magika()
    for (name, content), answer in zip(given.items(), answers, strict=True):
        said = package.identify_bytes(content)
        assert said.prediction.dl.label == labels[int(answer.argmax())], (name, said)
        assert abs(said.prediction.score - answer.max()) < 1e-4, (name, said)
    metadata = {"files": " ".join(given), "labels": " ".join(labels)}
    tensors = {"tokens": inputs.astype(np.float32), "answers": answers}
    save_file(tensors, DATA / "magika_expected.safetensors", metadata=metadata)


if __name__ == "__main__":
    main()
