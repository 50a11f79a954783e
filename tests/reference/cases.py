"""How cases of reference values are written.

One safetensors file a family. Its metadata entry `cases` is a JSON list of

    {"name", "op", "params", "inputs": [tensor], "output": tensor, "rtol", "atol",
     "flushed": tensor, "signed_zero": true}

of which `params`, the tolerances and the last two may be missing. `flushed`, where it is there, is the result for an
implementation that takes subnormal numbers for zero, which WGSL allows. `signed_zero` asks for the sign of a zero too.
"""

import json
import pathlib
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
DTYPES = {"float32": "F32", "float16": "F16", "int32": "I32", "uint32": "U32", "bool": "BOOL"}


class Family:
    """The cases and tensors of one file; equal tensors are stored once."""

    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.cases = []

    def store(self, array):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        assert str(array.dtype) in DTYPES, array.dtype
        for name, other in self.tensors.items():
            same = other.dtype == array.dtype and other.shape == array.shape
            if same and other.tobytes() == array.tobytes():
                return name
        name = f"t{len(self.tensors)}"
        self.tensors[name] = array
        return name

    def case(self, name, op, inputs, output, *, rtol=0.0, atol=0.0, flushed=None, **rest):
        params = rest.pop("params", {})
        case = {"name": name, "op": op} | ({"params": params} if params else {})
        case["inputs"] = [self.store(x) for x in inputs]
        case["output"] = self.store(output)
        limits = {"rtol": rtol, "atol": atol}
        case |= {key: float(f"{limit:.1e}") for key, limit in limits.items() if limit}
        if flushed is not None and not np.array_equal(flushed, output, equal_nan=True):
            case["flushed"] = self.store(flushed)
        case.update(rest)
        assert all(case["name"] != other["name"] for other in self.cases), name
        self.cases.append(case)

    def write(self):
        header = {"__metadata__": {"cases": json.dumps(self.cases, separators=(",", ":"))}}
        data = b""
        for name, array in sorted(self.tensors.items(), key=lambda item: -item[1].itemsize):
            end = len(data) + array.nbytes
            dtype = DTYPES[str(array.dtype)]
            header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), end]}
            data += array.tobytes()
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path = HERE / f"{self.name}.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + data)
        print(f"{path.name}: {len(self.cases)} cases, {path.stat().st_size} bytes")
