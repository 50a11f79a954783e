"""Writes the reference values of scans that tests/reference/main.rs compares with.

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python tests/reference/make_order.py

Values are computed by NumPy, sums and products of floats in float64; `cases.py` has the format.
"""

import numpy as np
from cases import Family

EPS = 2.0**-23
NAN, INF = np.nan, np.inf

np.seterr(all="ignore")
rng = np.random.default_rng(20260102)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# Scans ------------------------------------------------------------------------------------------

SCANS = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
}


def scan_case(family, name, op, x, axis):
    exact = op in ("cummax", "cummin") or np.issubdtype(x.dtype, np.integer)
    dtype = x.dtype if exact else np.float64
    kind = {} if op in ("cummax", "cummin") else {"dtype": dtype}
    want = SCANS[op](x.astype(dtype), axis=axis, **kind).astype(x.dtype)
    limits = {}
    if not exact:
        steps = np.sqrt(max(x.shape[axis], 1))
        scale = np.nan_to_num(np.abs(x.astype(np.float64)), nan=0.0, posinf=0.0).max(initial=1.0)
        half = x.dtype == np.float16
        limits = {"rtol": 2.0**-10 if half else 8 * steps * EPS, "atol": 4 * steps * EPS * scale}
    family.case(name, op, [x], want, params={"axis": axis}, **limits)


def scans():
    family = Family("scan")
    cube = normal(3, 4, 5)
    special = np.array(
        [[1, NAN, 3, 0], [INF, 1, -INF, 2], [-INF, 1, 2, 3], [0, -0.0, 0, 0], [3, 2, 1, 2]],
        np.float32,
    )
    for op in SCANS:
        for axis in (0, 1, 2, -1):
            scan_case(family, f"{op} axis {axis}", op, cube, axis)
        for length in (1, 2, 31, 33, 300):
            x = normal(2, length) if op != "cumprod" else 1 + normal(2, length) / 64
            scan_case(family, f"{op} of {length}", op, x, 1)
        scan_case(family, f"{op} down columns", op, 1 + normal(257, 3) / 64, 0)
        scan_case(family, f"{op} of NaN and infinity", op, special, 1)
        scan_case(family, f"{op} of nothing", op, np.zeros((2, 0), np.float32), 1)
        scan_case(family, f"{op} for nobody", op, np.zeros((0, 3), np.float32), 1)
        scan_case(family, f"{op} f16", op, (1 + normal(3, 40) / 32).astype(np.float16), 1)
        for dtype in (np.int32, np.uint32):
            low = np.iinfo(dtype).min // 2
            x = rng.integers(low, np.iinfo(dtype).max // 2, (5, 40)).astype(dtype)
            scan_case(family, f"{op} {np.dtype(dtype).name}", op, x, 1)
    family.write()


scans()
