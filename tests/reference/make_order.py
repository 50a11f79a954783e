"""Writes the reference values of scans and sorts that tests/reference/main.rs compares with.

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


# Sorts ------------------------------------------------------------------------------------------


def ascending(row):
    """The stable order with NaN last, whatever its sign, and -0 equal to 0."""
    missing = np.isnan(row) if row.dtype.kind == "f" else np.zeros(row.shape, bool)
    return np.lexsort((np.where(missing, 0, row), missing))


def descending(row):
    """The stable order with NaN first."""
    return len(row) - 1 - ascending(row[::-1])[::-1]


def sort_case(family, name, op, x, axis, down=False, k=None):
    order = np.apply_along_axis(descending if down else ascending, axis, x)
    order = order.reshape(x.shape).astype(np.int64)
    if k is not None:
        order = np.take(order, range(k), axis)
    values = np.take_along_axis(x, order, axis)
    params = {"axis": axis, "descending": down} | ({} if k is None else {"k": k})
    positions = order.astype(np.uint32)
    if op == "top_k":
        family.case(name, op, [x], values, params=params)
        family.case(f"{name}, positions", op, [x], positions, params=params | {"positions": True})
    else:
        family.case(name, op, [x], positions if op == "argsort" else values, params=params)


def sorts():
    family = Family("sort")
    cube = normal(3, 4, 5)
    special = np.array(
        [
            [0, -0.0, NAN, 1, -INF, INF, -NAN, -1, 0, -0.0],
            [NAN] * 10,
            [INF, 3e38, 1e-40, -1e-40, -3e38, -INF, 0, 1, 1, -1],
            [2, 1, 2, 1, 2, 1, 2, 1, 2, 1],
        ],
        np.float32,
    )
    long = np.round(normal(5000) * 100).astype(np.float32)
    for op in ("sort", "argsort", "top_k"):
        for down in (False, True):
            way = f"{op} {'down' if down else 'up'}"
            k = {"k": 3} if op == "top_k" else {}
            for axis in (0, 1, 2, -1):
                sort_case(family, f"{way} axis {axis}", op, cube, axis, down, **k)
            sort_case(family, f"{way} of special values", op, special, 1, down, **k)
            sort_case(family, f"{way} of a long row", op, long, 0, down, **k)
            sort_case(family, f"{way} f16", op, normal(3, 40).astype(np.float16), 1, down, **k)
            for dtype in (np.int32, np.uint32):
                limits = np.iinfo(dtype)
                x = rng.integers(limits.min, limits.max, (5, 40), dtype)
                x[0, :4] = [limits.max, limits.min, 0, 1]
                sort_case(family, f"{way} {np.dtype(dtype).name}", op, x, 1, down, **k)
            sort_case(family, f"{way} bool", op, normal(4, 9) > 0, 1, down, **k)
    for op in ("sort", "argsort"):
        sort_case(family, f"{op} of one", op, normal(2, 1), 1)
    sort_case(family, "top_k of none", "top_k", cube, 1, True, 0)
    sort_case(family, "top_k of all", "top_k", cube, 1, True, 4)
    family.write()


scans()
sorts()
