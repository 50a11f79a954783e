"""Writes the reference values that tests/reference/main.rs compares with.

    python3 -m venv venv && venv/bin/pip install numpy scipy
    venv/bin/python tests/reference/make_reference.py

Values are computed in float64 from the stored inputs, then rounded once to the stored type; `cases.py` has the format.
"""

import itertools

import numpy as np
from cases import Family
from scipy import special

EPS = 2.0**-23
# Results below the least normal number may be flushed to zero.
TINY = 2.0**-126

np.seterr(all="ignore")
rng = np.random.default_rng(20260101)


def f32(x):
    return np.asarray(x, np.float32)


def wide(x):
    return np.asarray(x, np.float64)


def normal(*shape):
    return f32(rng.standard_normal(shape))


def magnitude(x):
    """|x|, and 0 where x is not finite: what rounding errors are relative to."""
    return np.abs(np.nan_to_num(wide(x), nan=0.0, posinf=0.0, neginf=0.0))


def flush(x):
    """Subnormal numbers as zero of the same sign."""
    x = np.asarray(x)
    return np.where(np.abs(x) < TINY, np.copysign(0.0, x), x).astype(x.dtype)


# Elementwise ------------------------------------------------------------------------------------

EDGES = f32(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -3.0, 1e-8, -1e-8, 1e-3, -1e-3]
    + [0.1, -0.1, 10.0, -10.0, 40.0, -40.0, 88.0, -88.0, 100.0, -104.0, 8388609.5, 1e10, -1e10]
    + [np.inf, -np.inf, np.nan, 1e-40, -1e-40, 2.0**-149, 3.4e38, -3.4e38, TINY, -TINY]
)


def softplus(x):
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def hard_sigmoid(x):
    return np.clip(x / 6.0 + 0.5, 0.0, 1.0)


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def floor_pow2(x):
    power = np.where(np.abs(x) < TINY, 0.0, np.ldexp(0.5, np.frexp(np.abs(x))[1]))
    return np.where(np.isfinite(x), power, np.nan)


def selu(x):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return np.where(x < 0, scale * alpha * np.expm1(x), scale * x)


# Name: function on float64, ulps, absolute part. The sine and cosine lose accuracy past 1e5.
UNARY = {
    "neg": (np.negative, 0, 0),
    "abs": (np.abs, 0, 0),
    "sign": (np.sign, 0, 0),
    "recip": (np.reciprocal, 3, 0),
    "square": (np.square, 1, 0),
    "sqrt": (np.sqrt, 3, 0),
    "rsqrt": (lambda x: 1.0 / np.sqrt(x), 4, 0),
    "exp": (np.exp, 6, 0),
    "log": (np.log, 4, 2e-7),
    "log1p": (np.log1p, 8, 0),
    "expm1": (np.expm1, 8, 0),
    "sin": (np.sin, 4, 5e-7),
    "cos": (np.cos, 4, 5e-7),
    "tanh": (np.tanh, 8, 0),
    "erf": (special.erf, 8, 0),
    "floor": (np.floor, 0, 0),
    "ceil": (np.ceil, 0, 0),
    "floor_pow2": (floor_pow2, 0, 0),
    "round": (np.round, 0, 0),
    "sigmoid": (special.expit, 10, 0),
    "relu": (lambda x: np.where(x < 0, 0.0, x), 0, 0),
    "selu": (selu, 10, 0),
    "gelu": (lambda x: 0.5 * x * (1.0 + special.erf(x / np.sqrt(2.0))), 10, 2e-6),
    "gelu_tanh": (gelu_tanh, 10, 2e-6),
    "silu": (lambda x: x / (1.0 + np.exp(-x)), 10, 1e-36),
    "mish": (lambda x: x * np.tanh(softplus(x)), 16, 1e-36),
    "softplus": (softplus, 8, 0),
    "hard_sigmoid": (hard_sigmoid, 4, 2e-7),
    "hard_swish": (lambda x: x * hard_sigmoid(x), 4, 1e-6),
}

PARAMETRIC = [
    ("leaky_relu", {"slope": 0.125}, lambda x: np.where(x < 0, 0.125 * x, x), 1),
    ("elu", {"alpha": 1.5}, lambda x: np.where(x < 0, 1.5 * np.expm1(x), x), 10),
    ("clip", {"low": -1.25, "high": 2.0}, lambda x: np.minimum(np.maximum(x, -1.25), 2.0), 0),
    ("scale", {"factor": -2.5}, lambda x: -2.5 * x, 1),
    ("add_scalar", {"addend": 0.75}, lambda x: x + 0.75, 1),
    ("pow_scalar", {"exponent": 2.0}, lambda x: np.power(x, 2.0), 96),
    ("pow_scalar", {"exponent": 3.0}, lambda x: np.power(x, 3.0), 96),
    ("pow_scalar", {"exponent": -1.0}, lambda x: np.power(x, -1.0), 96),
    ("pow_scalar", {"exponent": 0.5}, lambda x: np.power(x, np.full_like(x, 0.5)), 96),
    ("pow_scalar", {"exponent": 0.0}, lambda x: np.power(x, 0.0), 96),
]

BINARY = {
    "add": (np.add, 1),
    "sub": (np.subtract, 1),
    "mul": (np.multiply, 1),
    "div": (np.divide, 4),
    "min": (np.minimum, 0),
    "max": (np.maximum, 0),
    "pow": (np.power, 96),
    "rem": (np.fmod, 4),
}

COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}

PAIRS = f32(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -3.5, 7.25, np.inf, -np.inf, np.nan, 1e-20, 1e20]
)


def tolerances(ulp, absolute):
    return {"rtol": ulp * EPS, "atol": max(absolute, TINY if ulp else 0.0)}


def elementwise():
    family = Family("elementwise")
    for op, (function, ulp, absolute) in UNARY.items():
        x = EDGES
        if op in ("sin", "cos"):
            x = x[~((np.abs(x) > 1e5) & np.isfinite(x))]
        signed = {"signed_zero": True} if op in ("neg", "abs") else {}
        flushed = f32(function(wide(flush(x))))
        limits = tolerances(ulp, absolute)
        family.case(op, op, [x], f32(function(wide(x))), flushed=flushed, **limits, **signed)
        half = x[np.abs(x) < 6e4].astype(np.float16) if op != "exp" else np.float16([-9, 0, 9, 11])
        half = half[(np.abs(half) > 1e-3) | (half == 0)]
        want = function(wide(half)).astype(np.float16)
        family.case(f"{op} f16", op, [half], want, rtol=2.0**-10, atol=2.0**-14)
    for op, params, function, ulp in PARAMETRIC:
        name = " ".join([op, *map(str, params.values())])
        flushed = f32(function(wide(flush(EDGES))))
        limits = tolerances(ulp, 0)
        want = f32(function(wide(EDGES)))
        family.case(name, op, [EDGES], want, flushed=flushed, params=params, **limits)
    pairs(family)
    integers(family)
    logic(family)
    casts(family)
    family.write()


def pairs(family):
    x, y = (a.ravel().copy() for a in np.meshgrid(PAIRS, PAIRS, indexing="ij"))
    for op, (function, ulp) in BINARY.items():
        finite = np.ones(x.shape, bool)
        if op == "rem":
            # A remainder of a large quotient has no correct digits.
            finite = ~(np.abs(wide(x) / wide(y)) > 1e4) | ~np.isfinite(y) | ~np.isfinite(x)
            finite &= ~((np.abs(x) > 1e4) & (np.abs(y) < 1e4) & np.isfinite(x) & np.isfinite(y))
        a, b = x[finite], y[finite]
        want = f32(function(wide(a), wide(b)))
        atol = 3e-5 if op == "rem" else 0.0
        family.case(op, op, [a, b], want, **tolerances(ulp, atol))
    for op, function in COMPARE.items():
        family.case(op, op, [x, y], function(x, y))
    row, column = normal(1, 5), normal(4, 1)
    for op in ("add", "sub", "mul", "max"):
        want = f32(BINARY[op][0](wide(column), wide(row)))
        family.case(f"{op} broadcast", op, [column, row], want, rtol=EPS)


def wrap(values, dtype):
    return np.array([int(v) & 0xFFFFFFFF for v in values], np.uint64).astype(np.uint32).view(dtype)


def truncated(a, b):
    """a / b toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def integer_pow(a, b):
    if b >= 0:
        return pow(a, b, 1 << 32)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


INTEGER = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": truncated,
    "min": min,
    "max": max,
    "pow": integer_pow,
    "rem": lambda a, b: a - b * truncated(a, b),
}


def integers(family):
    edges = {
        np.int32: [0, 1, -1, 2, -2, 3, 7, -7, 31, 65536, -65537, 2**31 - 1, -(2**31)],
        np.uint32: [0, 1, 2, 3, 7, 31, 65536, 2**31 - 1, 2**31, 2**32 - 1],
    }
    for dtype, values in edges.items():
        name = "i32" if dtype is np.int32 else "u32"
        grid = list(itertools.product(values, values))
        x, y = (np.array(side, dtype) for side in zip(*grid))
        for op, function in INTEGER.items():
            # A division by zero is a fault.
            pairs = [(a, b) for a, b in grid if b != 0 or op not in ("div", "rem")]
            want = wrap([function(a, b) for a, b in pairs], dtype)
            inputs = [np.array(side, dtype) for side in zip(*pairs)]
            family.case(f"{op} {name}", op, inputs, want)
        for op, function in COMPARE.items():
            family.case(f"{op} {name}", op, [x, y], function(x, y))
        x = np.array(values, dtype)
        unary = {"square": lambda a: a * a, "relu": lambda a: max(a, 0)}
        if dtype is np.int32:
            unary |= {"neg": lambda a: -a, "abs": abs, "sign": lambda a: (a > 0) - (a < 0)}
        for op, function in unary.items():
            family.case(f"{op} {name}", op, [x], wrap(map(function, values), dtype))
        for op, params, function in [
            ("scale", {"factor": 3}, lambda a: 3 * a),
            ("add_scalar", {"addend": 5}, lambda a: a + 5),
            ("pow_scalar", {"exponent": 3}, lambda a: pow(a, 3, 1 << 32)),
            ("clip", {"low": 2, "high": 40}, lambda a: min(max(a, 2), 40)),
        ]:
            want = wrap(map(function, values), dtype)
            family.case(f"{op} {name}", op, [x], want, params=params)


def logic(family):
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    family.case("and", "and", [x, y], x & y)
    family.case("or", "or", [x, y], x | y)
    family.case("not", "not", [x], ~x)
    family.case("eq bool", "eq", [x, y], x == y)
    family.case("ne bool", "ne", [x, y], x != y)
    condition = rng.random((3, 1)) < 0.5
    condition[0], condition[1] = True, False
    a, b = f32([[1.0, np.nan, -0.0, np.inf]]), f32(2.0)
    family.case("select broadcast", "select", [condition, a, b], np.where(condition, a, b))
    a, b = np.int32([1, 2, 3]), np.int32([-1, -2, -3])
    condition = np.array([1, 0, 1], bool)
    family.case("select i32", "select", [condition, a, b], np.where(condition, a, b))


def casts(family):
    x = f32([0.0, -0.0, 0.99, -0.99, 1.5, -1.5, 3e9, -3e9, 5e9, np.inf, -np.inf, np.nan, 16777216])
    whole = np.where(np.isnan(x), 0.0, np.trunc(wide(x)))
    family.case("f32 to i32", "cast", [x], np.clip(whole, -(2**31), 2**31 - 1).astype(np.int32))
    family.case("f32 to u32", "cast", [x], np.clip(whole, 0, 2**32 - 1).astype(np.uint32))
    family.case("f32 to bool", "cast", [x], x != 0)
    family.case("f32 to f16", "cast", [x], x.astype(np.float16), rtol=2.0**-11)
    i = np.int32([0, 1, -1, 2**31 - 1, -(2**31), 16777217])
    family.case("i32 to f32", "cast", [i], f32(i))
    family.case("i32 to bool", "cast", [i], i != 0)
    u = np.uint32([0, 1, 2**31, 2**32 - 1, 16777217])
    family.case("u32 to f32", "cast", [u], f32(u))
    b = np.array([0, 1], bool)
    family.case("bool to f32", "cast", [b], f32(b))
    family.case("bool to i32", "cast", [b], b.astype(np.int32))
    h = np.float16([0.0, -1.5, 65504.0, np.inf, -np.inf, np.nan, 6e-5])
    family.case("f16 to f32", "cast", [h], f32(h))


# Reductions -------------------------------------------------------------------------------------


def flat(x, axes):
    """The reduced axes merged into one last axis, in row-major order."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = int(np.prod([x.shape[axis] for axis in axes]))
    return x.transpose(kept + sorted(axes)).reshape([x.shape[axis] for axis in kept] + [count])


def log_sum_exp(x):
    top = np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    sums = np.sum(np.exp(x - shift), axis=-1)
    return np.where(np.isposinf(top[..., 0]), np.inf, np.log(sums) + shift[..., 0])


REDUCE = {
    "sum": lambda x: np.sum(x, axis=-1),
    "mean": lambda x: np.mean(x, axis=-1),
    "prod": lambda x: np.prod(x, axis=-1),
    "amax": lambda x: np.max(x, axis=-1),
    "amin": lambda x: np.min(x, axis=-1),
    "argmax": lambda x: np.argmax(x, axis=-1),
    "argmin": lambda x: np.argmin(x, axis=-1),
    "any": lambda x: np.any(x, axis=-1),
    "all": lambda x: np.all(x, axis=-1),
    "logsumexp": log_sum_exp,
    "norm": lambda x: np.sqrt(np.sum(x * x, axis=-1)),
}
EXACT = ("amax", "amin", "argmax", "argmin", "any", "all")


def reduced(op, x, axes, keep):
    positive = [axis % x.ndim for axis in axes]
    rows = flat(x, positive)
    integer = np.issubdtype(x.dtype, np.integer)
    if integer and op in ("sum", "prod"):
        total = np.sum if op == "sum" else np.prod
        out = wrap(np.ravel(total(rows.astype(object), axis=-1)), x.dtype).reshape(rows.shape[:-1])
    else:
        rows = rows if x.dtype == bool or integer else wide(rows)
        out = np.asarray(REDUCE[op](rows))
        out = out.astype(np.uint32 if op.startswith("arg") else x.dtype)
    if keep:
        out = out.reshape([1 if axis in positive else n for axis, n in enumerate(x.shape)])
    return out


def reduce_case(family, name, op, x, axes, keep=False):
    want = reduced(op, x, axes, keep)
    params = {"axes": list(axes), "keep": keep}
    limits = {}
    if op not in EXACT and x.dtype in (np.float32, np.float16):
        rows = magnitude(flat(x, [axis % x.ndim for axis in axes]))
        n = max(rows.shape[-1], 1)
        size = float(np.max(np.sum(rows, axis=-1), initial=0.0))
        unit = EPS if x.dtype == np.float32 else 2.0**-10
        limits = {"rtol": 4 * unit * np.sqrt(n), "atol": 4 * unit + EPS * size * np.sqrt(n)}
        if op == "mean":
            limits["atol"] = 4 * unit + EPS * size / np.sqrt(n)
        if op in ("prod", "norm"):
            limits["atol"] = TINY
    family.case(name, op, [x], want, params=params, **limits)


def reductions():
    family = Family("reduce")
    shape = (3, 4, 5)
    x = normal(*shape)
    truth = rng.random(shape) < 0.5
    truth[0], truth[:, 0], truth[1, 2] = False, True, True
    long = normal(3, 300)
    near_one = f32(1.0 + normal(3, 300) / 64.0)
    combinations = [c for n in (1, 2, 3) for c in itertools.combinations(range(3), n)]
    for op in REDUCE:
        values = truth if op in ("any", "all") else x
        for axes in combinations:
            for keep in (False, True):
                name = f"{op} {list(axes)}{' kept' if keep else ''}"
                reduce_case(family, name, op, values, axes, keep)
        reduce_case(family, f"{op} [-1, 0]", op, values, (-1, 0))
        wide_rows = near_one if op == "prod" else long > 0 if op in ("any", "all") else long
        reduce_case(family, f"{op} of long rows", op, wide_rows, (1,))
        reduce_case(family, f"{op} of long columns", op, np.ascontiguousarray(wide_rows.T), (0,))
    specials(family)
    integer_reductions(family)
    family.write()


def specials(family):
    n, i = np.nan, np.inf
    rows = f32(
        [[1, n, 3, n], [i, 1, -i, 2], [-i, -i, -i, -i], [i, i, 1, 2], [2, 7, 7, -1], [-2, 5, -2, 5]]
        + [[0.0, -0.0, 0.0, -0.0], [3e38, 3e38, -3e38, 1], [90, 90, 90, 90]]
    )
    for op in REDUCE:
        if op in ("any", "all"):
            continue
        # Sums past the greatest f32 depend on the order of summation.
        x = rows[:-2] if op in ("sum", "mean", "norm", "prod") else rows
        reduce_case(family, f"{op} of NaN and infinity", op, x, (1,))
    for op in ("sum", "mean", "prod", "any", "all", "logsumexp", "norm"):
        dtype = bool if op in ("any", "all") else np.float32
        reduce_case(family, f"{op} of nothing", op, np.zeros((0, 3), dtype), (0,))
        reduce_case(family, f"{op} for nobody", op, np.zeros((3, 0), dtype), (0,))
        reduce_case(family, f"{op} of one", op, np.ones((1, 1), dtype), (0, 1))
    half = normal(5, 33).astype(np.float16)
    for op in ("sum", "mean", "amax", "argmin", "logsumexp", "norm"):
        reduce_case(family, f"{op} f16", op, half, (1,))
    reduce_case(family, "sum f16 past f16", "sum", np.full((2, 70), 1000, np.float16), (1,))
    # Every partial sum in f16 would stop at 2048.
    reduce_case(family, "sum f16 of many ones", "sum", np.ones((1, 3000), np.float16), (1,))
    a, b = normal(129), normal(129)
    size = EPS * np.abs(wide(a)) @ np.abs(wide(b)) * np.sqrt(129)
    family.case("dot", "dot", [a, b], f32(wide(a) @ wide(b)), rtol=4 * EPS, atol=size)
    a, b = np.int32([2**30, 3, -5]), np.int32([4, 7, 9])
    want = wrap([sum(int(p) * int(q) for p, q in zip(a, b))], np.int32).reshape(())
    family.case("dot i32", "dot", [a, b], want)


def integer_reductions(family):
    signed = np.int32([[2**31 - 1, 1, -7], [-(2**31), -1, 5], [65536, 65537, 3]])
    for op in ("sum", "prod", "amax", "amin", "argmax", "argmin"):
        for axes in ((0,), (1,), (0, 1)):
            reduce_case(family, f"{op} i32 {list(axes)}", op, signed, axes)
            unsigned = signed.view(np.uint32)
            reduce_case(family, f"{op} u32 {list(axes)}", op, unsigned, axes)


# Rows -------------------------------------------------------------------------------------------


def soft(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_soft(x):
    shifted = x - np.max(x, axis=-1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def layer_norm(x, eps):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)


def rms_norm(x, eps):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)


ROW = {"softmax": soft, "log_softmax": log_soft, "layer_norm": layer_norm, "rms_norm": rms_norm}


def row_case(family, name, op, x, axis, atol=4e-6):
    params = {"axis": axis}
    extra = []
    if op.endswith("_norm"):
        params["eps"] = 1e-5
        extra = [float(f32(1e-5))]
    want = np.moveaxis(ROW[op](np.moveaxis(wide(x), axis, -1), *extra), -1, axis)
    half = x.dtype == np.float16
    limits = {"rtol": 2.0**-9, "atol": 2.0**-12} if half else {"rtol": 32 * EPS, "atol": atol}
    family.case(name, op, [x], want.astype(x.dtype), params=params, **limits)


def weighted_norms(family):
    """Norms with a weight and a bias along an axis, of odd sizes."""
    own = np.random.default_rng(20261123)
    for shape, axis in [((3, 5, 7), -1), ((3, 5, 7), 1), ((7, 3), 0), ((2, 129), -1), ((1, 1), 1), ((301,), 0)]:
        x, weight, bias = (f32(own.standard_normal(size)) for size in (shape, shape[axis], shape[axis]))
        for dtype in (np.float32, np.float16):
            x, weight, bias = (part.astype(dtype) for part in (x, weight, bias))
            for op, parts in (("layer_norm", [weight, bias]), ("rms_norm", [weight])):
                want = ROW[op](np.moveaxis(wide(x), axis, -1), float(f32(1e-5))) * wide(weight)
                want = np.moveaxis(want + wide(bias) if op == "layer_norm" else want, -1, axis)
                name = f"{op}_with {x.dtype} {shape} axis {axis}"
                half = {"rtol": 2.0**-9, "atol": 2.0**-9}
                limits = half if dtype == np.float16 else {"rtol": 32 * EPS, "atol": 8e-6}
                params = {"axis": axis, "eps": 1e-5}
                family.case(name, f"{op}_with", [x, *parts], want.astype(dtype), params=params, **limits)


def rows():
    family = Family("row")
    cube = normal(3, 4, 5)
    n, i = np.nan, np.inf
    special_rows = f32([[1, n, 3], [i, 1, 2], [-i, 1, 2], [-i, -i, -i], [i, -i, 0], [0, -0.0, 0]])
    large = f32([[1e4, 1e4 + 1, -1e4], [-1e4, -1e4, -1e4], [88, 89, 90], [-200, 0, 200]])
    widths = [normal(2, width) for width in (1, 2, 31, 33, 64, 300)]
    vector, columns, off_centre = normal(129), normal(257, 3), f32(100.0 + normal(3, 65))
    half = normal(3, 40).astype(np.float16)
    for op in ROW:
        for axis in (0, 1, 2, -1, -2, -3):
            row_case(family, f"{op} axis {axis}", op, cube, axis)
        for x in widths:
            row_case(family, f"{op} of {x.shape[1]}", op, x, 1)
        row_case(family, f"{op} of one vector", op, vector, 0)
        row_case(family, f"{op} down long columns", op, columns, 0)
        row_case(family, f"{op} of NaN and infinity", op, special_rows, 1)
        # The spread is what counts for a norm; there, 1e4 beside 1e4 + 1 leaves few digits.
        row_case(family, f"{op} of large values", op, large, 1, atol=1e-3 if "log" in op else 4e-6)
        row_case(family, f"{op} off centre", op, off_centre, 1, atol=2e-4)
        row_case(family, f"{op} of equal values", op, np.full((2, 9), 3.0, np.float32), 1)
        row_case(family, f"{op} f16", op, half, 1)
    for op in ("softmax", "log_softmax"):
        row_case(family, f"{op} of nothing", op, np.zeros((2, 0), np.float32), 1)
        row_case(family, f"{op} for nobody", op, np.zeros((0, 3), np.float32), 1)
    weighted_norms(family)
    family.write()


# Matrix products --------------------------------------------------------------------------------


def product(family, name, x, w, flip_x=False, flip_w=False):
    """x·w, with operands stored transposed where a flag says so."""
    dtype = x.dtype
    a = np.swapaxes(x, -1, -2) if flip_x else x
    b = np.swapaxes(w, -1, -2) if flip_w else w
    params = {"transpose_x": flip_x, "transpose_w": flip_w}
    if np.issubdtype(dtype, np.integer):
        want = np.asarray(a.astype(object) @ b.astype(object))
        want = wrap(want.ravel(), dtype).reshape(want.shape)
        family.case(name, "matmul", [x, w], want, params=params)
        return
    want = np.matmul(wide(a), wide(b)).astype(dtype)
    size = float(np.max(np.matmul(magnitude(a), magnitude(b)), initial=0.0))
    k = max(a.shape[-1], 1)
    unit = EPS if dtype == np.float32 else 2.0**-10
    atol = max(2 * EPS * size * np.sqrt(k), TINY)
    family.case(name, "matmul", [x, w], want, params=params, rtol=4 * unit, atol=atol)


MATMUL_SHAPES = [
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((1, 1), (1, 1)),
    ((7, 5), (5, 3)),
    ((2, 3), (3, 1)),
    ((1, 33), (33, 17)),
    ((33, 65), (65, 17)),
    ((17, 129), (129, 5)),
    ((3, 4, 5), (3, 5, 2)),
    ((2, 1, 4, 5), (3, 5, 2)),
    ((2, 3, 4, 5), (5, 6)),
    ((4, 5), (2, 3, 5, 6)),
    ((5,), (2, 5, 3)),
    ((2, 3, 5), (5,)),
    ((1, 4, 5), (6, 5, 2)),
    ((3, 0), (0, 2)),
    ((0, 3), (3, 2)),
    ((0, 3, 2), (2, 2)),
]


def matmuls():
    family = Family("matmul")
    for x, w in MATMUL_SHAPES:
        product(family, f"{list(x)} {list(w)}", normal(*x), normal(*w))
    for flips in ((True, False), (False, True), (True, True)):
        x = normal(*((9, 6) if flips[0] else (6, 9)))
        w = normal(*((7, 9) if flips[1] else (9, 7)))
        product(family, f"transposed {flips}", x, w, *flips)
        x = normal(*((2, 9, 6) if flips[0] else (2, 6, 9)))
        w = normal(*((2, 7, 9) if flips[1] else (2, 9, 7)))
        product(family, f"batched, transposed {flips}", x, w, *flips)
    x, w = normal(5, 7), normal(7, 4)
    x[0, 3], x[2, 1], w[6, 3] = np.nan, np.inf, -np.inf
    product(family, "NaN and infinity", x, w)
    product(family, "infinity times zero", f32([[np.inf, 1], [1, 1]]), f32([[0, 1], [1, 1]]))
    integers_ = rng.integers(-(2**31), 2**31, (5, 6)).astype(np.int32)
    product(family, "i32 wraps", integers_, integers_.T.copy())
    unsigned = rng.integers(0, 2**32, (3, 4)).astype(np.uint32)
    product(family, "u32 wraps", unsigned, unsigned.T.copy())
    product(family, "f16", normal(9, 20).astype(np.float16), normal(20, 6).astype(np.float16))
    linear(family)
    einsums(family)
    family.write()


def linear(family):
    for name, shape in (("row", (3,)), ("matrix", (6, 3)), ("column", (6, 1))):
        x, w, b = normal(6, 5), normal(5, 3), normal(*shape)
        want = f32(wide(x) @ wide(w) + wide(b))
        size = float(np.max(np.abs(wide(x)) @ np.abs(wide(w)))) + 4.0
        limits = {"rtol": 4 * EPS, "atol": 4 * EPS * size}
        family.case(f"linear, bias a {name}", "linear", [x, w, b], want, **limits)


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bti,io->bot", (2, 5, 3), (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 6), (2, 3, 5, 6)),
    ("ij,ij->", (3, 4), (3, 4)),
    ("ij,ij->i", (3, 4), (3, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i", (7,), (7,)),
    ("ij,j", (3, 4), (4,)),
    ("abc,cd,bd->a", (2, 3, 4), (4, 5), (3, 5)),
    ("ij,jk,kl,lm->im", (2, 9), (9, 3), (3, 8), (8, 4)),
    ("ijkl,klmn->mnij", (2, 3, 4, 5), (4, 5, 2, 3)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("iji->ij", (3, 2, 3)),
    ("iijj->ij", (3, 3, 2, 2)),
    ("iii->i", (3, 3, 3)),
    ("ba", (2, 3)),
    ("ij->", (3, 4)),
    ("...i->...", (2, 3, 4)),
    ("...ij,...jk", (2, 1, 3, 4), (5, 4, 2)),
    ("i...,j...->ij...", (2, 3), (4, 3)),
    ("ij,kj->ik", (3, 4), (5, 1)),
    ("i,", (3,), ()),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ij,jk->ik", (0, 4), (4, 5)),
    ("ii,ij->j", (3, 3), (3, 4)),
]


def einsums(family):
    # Numbers of their own, so that those of later families stay.
    own = np.random.default_rng(7)
    for subscripts, *shapes in EINSUMS:
        operands = [f32(own.standard_normal(shape)) for shape in shapes]
        want = np.einsum(subscripts, *map(wide, operands))
        sizes = np.einsum(subscripts, *(np.abs(wide(x)) for x in operands))
        size = float(np.max(sizes, initial=1.0))
        name = f"einsum {subscripts} {[list(shape) for shape in shapes]}"
        limits = {"rtol": 4 * EPS, "atol": 4 * EPS * size, "params": {"subscripts": subscripts}}
        family.case(name, "einsum", operands, f32(want), **limits)
    integers_ = own.integers(-(2**31), 2**31, (5, 6)).astype(np.int32)
    want = np.einsum("ij,kj->ik", integers_, integers_)
    family.case("einsum i32 wraps", "einsum", [integers_] * 2, want, params={"subscripts": "ij,kj->ik"})
    for precision, unit in (("exact", EPS), ("split", 4 * EPS), ("half", 2.0**-10)):
        x, w = f32(own.standard_normal((33, 40))), f32(own.standard_normal((40, 18)))
        size = float((np.abs(wide(x)) @ np.abs(wide(w))).max())
        params = {"precision": precision}
        family.case(f"with {precision}", "matmul_with", [x, w], f32(wide(x) @ wide(w)), params=params, atol=2 * unit * size)


# Movement ---------------------------------------------------------------------------------------


def movement():
    family = Family("movement")
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    x[0, 0, 0], x[1, 2, 3], x[2, 0, 1] = np.nan, -0.0, -np.inf
    integers_ = np.arange(-30, 30, dtype=np.int32).reshape(3, 4, 5)
    truth = np.asarray(x > 30)
    half = np.arange(60, dtype=np.float16).reshape(3, 4, 5)

    def move(name, op, inputs, want, **params):
        want = np.ascontiguousarray(want).reshape(want.shape)
        family.case(name, op, inputs, want, params=params, signed_zero=True)

    for suffix, a in (("", x), (" i32", integers_), (" bool", truth), (" f16", half)):
        move(f"reshape{suffix}", "reshape", [a], a.reshape(5, 12), shape=[5, 12])
        move(f"permute{suffix}", "permute", [a], a.transpose(2, 0, 1), axes=[2, 0, 1])
        move(f"transpose{suffix}", "transpose", [a], a.swapaxes(-1, -2))
        move(f"flip 1{suffix}", "flip", [a], a[:, ::-1], axes=[1])
        cut = a[1:3, 0:4:2, 1:5:3]
        move(f"slice steps{suffix}", "slice", [a], cut, ranges=[[1, 3, 1], [0, 4, 2], [1, 5, 3]])
        joined = np.concatenate([a, a[:, :1], a[:, 2:]], axis=1)
        parts = [a, a[:, :1].copy(), a[:, 2:].copy()]
        move(f"concat{suffix}", "concat", parts, joined, axis=1)
        fill = {"value": True} if a.dtype == bool else {"value": 7}
        padded = np.pad(a, ((1, 0), (0, 2), (3, 1)), constant_values=fill["value"])
        move(f"pad{suffix}", "pad", [a], padded, before=[1, 0, 3], after=[0, 2, 1], **fill)
    for shape in ([60], [1, 60, 1], [2, 2, 3, 5], [4, 15]):
        move(f"reshape to {shape}", "reshape", [x], x.reshape(shape), shape=shape)
    for axes in itertools.permutations(range(3)):
        move(f"permute {list(axes)}", "permute", [x], x.transpose(axes), axes=list(axes))
    move("permute negative", "permute", [x], x.transpose(-1, 0, -2), axes=[-1, 0, -2])
    for axes in ([0], [2], [-1], [0, 2], [0, 1, 2]):
        move(f"flip {axes}", "flip", [x], np.flip(x, axes), axes=axes)
    slices(move, x)
    windows(move, x)
    broadcasts(move, x)
    joins(move, x)
    family.write()


def slices(move, x):
    """A range [start, stop, step] takes start..stop, and walks it backwards for a negative step."""
    whole = [[0, 3, 1], [0, 4, 1], [0, 5, 1]]
    cuts = {
        "backwards": [[0, 3, -1], [0, 4, -1], [0, 5, -1]],
        "backwards by two": [[0, 3, -2], [0, 4, -2], [0, 5, -2]],
        "backwards inside": [[1, 3, -1], [1, 3, 1], [1, 4, -2]],
        "one": [[1, 2, 1], [3, 4, 1], [4, 5, 1]],
        "nothing": [[1, 1, 1], whole[1], whole[2]],
        "past the end by step": [[0, 3, 2], [0, 4, 3], [0, 5, 4]],
        "a step longer than the axis": [[0, 3, 9], [1, 4, 9], [0, 5, -9]],
        "whole": whole,
    }
    for name, ranges in cuts.items():
        want = x
        for axis, (start, stop, step) in enumerate(ranges):
            index = [slice(None)] * axis
            want = want[(*index, slice(start, stop))][(*index, slice(None, None, step))]
        move(f"slice {name}", "slice", [x], want, ranges=ranges)


def windows(move, x):
    for axis, size, step in ((2, 3, 1), (1, 2, 2), (0, 1, 2), (-2, 4, 1), (2, 2, 9)):
        want = np.lib.stride_tricks.sliding_window_view(x, size, axis)
        index = [slice(None)] * 4
        index[axis % 3] = slice(None, None, step)
        params = {"axis": axis, "size": size, "step": step}
        move(f"unfold {list(params.values())}", "unfold", [x], want[tuple(index)], **params)


def broadcasts(move, x):
    for source, shape in [
        ((1,), (4,)),
        ((), (2, 3)),
        ((3, 1), (3, 4)),
        ((4,), (2, 3, 4)),
        ((1, 4, 1), (3, 4, 5)),
        ((1, 3), (0, 3)),
    ]:
        a = normal(*source)
        name = f"broadcast {list(source)} to {list(shape)}"
        move(name, "broadcast_to", [a], np.broadcast_to(a, shape), shape=list(shape))
    a = x.reshape(3, 1, 20)
    move("squeeze", "squeeze", [a], x.reshape(3, 20), axis=1)
    move("squeeze negative", "squeeze", [a], x.reshape(3, 20), axis=-2)
    for axis in (0, 1, 3, -1):
        move(f"unsqueeze {axis}", "unsqueeze", [x], np.expand_dims(x, axis), axis=axis)


def joins(move, x):
    for axis in (0, 1, 2, -1):
        move(f"concat axis {axis}", "concat", [x, x], np.concatenate([x, x], axis), axis=axis)
    empty = np.zeros((3, 0, 5), np.float32)
    move("concat with nothing", "concat", [empty, x], x, axis=1)
    move("concat of one", "concat", [x], x, axis=0)
    vectors = [normal(n) for n in (1, 2, 3, 5, 8, 13, 1, 1, 2, 4)]
    move("concat of ten", "concat", vectors, np.concatenate(vectors), axis=0)
    vector = normal(4)
    for value in (0.0, -1.5, float("-inf")):
        text = "-inf" if value == float("-inf") else value
        want = np.pad(vector, (2, 3), constant_values=value)
        move(f"pad with {value}", "pad", [vector], want, before=[2], after=[3], value=text)
    nothing = np.zeros((0, 2), np.float32)
    border = np.full((2, 2), 4.0, np.float32)
    move("pad nothing", "pad", [nothing], border, before=[1, 0], after=[1, 0], value=4)
    move("pad not at all", "pad", [vector], vector, before=[0], after=[0], value=9)
    for axis, at, count in ((0, 1, 2), (1, 0, 1), (2, 4, 1), (-2, 1, 3), (1, 2, 0), (0, 0, 3)):
        shape = list(x.shape)
        shape[axis] = count
        new = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) + 0.5
        want, place = x.copy(), [slice(None)] * 3
        place[axis] = slice(at, at + count)
        want[tuple(place)] = new
        move(f"replace {count} from {at} along {axis}", "replace_slice", [x, new], want, axis=axis, at=at)


# Indexing ---------------------------------------------------------------------------------------


def indexing():
    family = Family("indexing")
    own = np.random.default_rng(11)

    def look_up(name, op, table, indices, want, **params):
        limits = {"signed_zero": True} if table.dtype == np.float32 else {}
        family.case(name, op, [table, indices], want, params=params, **limits)

    x = f32(own.standard_normal((5, 4, 6)))
    x[0, 0, 0], x[1, 2, 3], x[2, 0, 1] = np.nan, -0.0, -np.inf
    tables = [("f32", x), ("f16", x.astype(np.float16)), ("i32", np.int32(x * 100).copy())]
    tables += [("u32", np.uint32(own.integers(0, 2**32, x.shape))), ("bool", x > 0)]
    tables[2][1][0, 0, 0] = 7
    for name, table in tables:
        for axis in (0, 1, 2, -1, -3):
            for shape in ((), (3,), (2, 2), (0,)):
                dtype = own.choice([np.int32, np.uint32])
                i = np.asarray(own.integers(0, table.shape[axis], shape), dtype)
                want = np.take(table, i, axis)
                label = f"{name} axis {axis} {list(shape)}"
                look_up(f"gather {label}", "gather", table, i, want, axis=axis)
        i = np.int32(own.integers(0, 5, (3, 2)))
        look_up(f"embedding {name}", "embedding", table, i, table[i])
        for axis, shape in [(0, (3, 4, 6)), (1, (5, 7, 6)), (2, (5, 4, 1)), (-1, (1, 4, 9))]:
            i = np.int32(own.integers(0, table.shape[axis], shape))
            off = [1 if a == axis % 3 else n for a, n in enumerate(table.shape)]
            full = np.broadcast_to(i, np.broadcast_shapes(i.shape, off))
            want = np.take_along_axis(table, full, axis)
            label = f"take {name} axis {axis} {list(shape)}"
            look_up(label, "take_along_axis", table, i, want, axis=axis)
        square = table[0]
        for diagonal in (0, 1, -1, 3, -2, 9, -9):
            for op, cut in (("triu", np.triu), ("tril", np.tril)):
                want = cut(table, diagonal).astype(table.dtype)
                family.case(f"{op} {name} {diagonal}", op, [table], want, params={"diagonal": diagonal})
        family.case(f"tril {name} matrix", "tril", [square], np.tril(square), params={"diagonal": 0})
    scatters(family, own)
    searches(family, own)
    i = np.int32(own.integers(-2, 9, (4, 5)))
    for dtype in (np.int32, np.uint32):
        counted = np.asarray(i, dtype)
        want = np.array([np.sum(counted == k) for k in range(7)], np.uint32)
        family.case(f"histogram {dtype.__name__}", "histogram", [counted], want, params={"bins": 7})
        classes = (counted % 7).astype(dtype)
        hot = np.asarray(classes[..., None] == np.arange(7), np.float32)
        family.case(f"one_hot {dtype.__name__}", "one_hot", [classes], hot, params={"classes": 7})
    own = np.random.default_rng(11)
    for shape, size in (((17,), 17), ((4, 9), 12), ((300,), 5), ((3, 0), 0), ((), 1), ((2, 2, 2), 8)):
        for share in (0.0, 0.3, 1.0):
            mask = np.asarray(own.random(shape) < share)
            where = np.flatnonzero(mask)[:size]
            want = np.full(size, mask.size, np.uint32)
            want[: len(where)] = where
            name = f"nonzero {list(shape)} {size} {share}"
            family.case(name, "nonzero", [mask], want, params={"size": size})
            count = np.asarray(np.count_nonzero(mask), np.uint32)
            family.case(f"count of {name}", "nonzero", [mask], count, params={"size": size, "count": True})
    empty = np.zeros((0,), np.int32)
    family.case("histogram of nothing", "histogram", [empty], np.zeros(3, np.uint32), params={"bins": 3})
    family.write()


def scatters(family, own):
    """Places repeat, so that what is last, and sums of several, show."""

    def updated(op, x, i, u, axis):
        y, moved, u = np.moveaxis(wide(x).copy(), axis, 0), i, np.moveaxis(wide(u), axis, 0)
        for at, update in zip(moved, u):
            if op == "scatter":
                y[at] = update
            elif op == "scatter_add":
                y[at] = y[at] + update
            else:
                y[at] = np.maximum(y[at], update) if op == "scatter_max" else np.minimum(y[at], update)
        return np.moveaxis(y, 0, axis)

    for dtype in (np.float32, np.float16, np.int32, np.uint32):
        most = ((0, 7), (2, 1), (-1, 12), (0, 0)) if dtype == np.float32 else ()
        for axis, count in ((1, 9), *most):
            shape = [5, 4, 3]
            x = np.asarray(own.integers(0, 50, shape), dtype)
            i = np.asarray(own.integers(0, shape[axis], count), own.choice([np.int32, np.uint32]))
            shape[axis] = count
            u = np.asarray(own.integers(0, 50, shape), dtype)
            if dtype == np.float32 and count > 2:
                u.flat[4], u.flat[9] = np.nan, -np.inf
            for op in ("scatter", "scatter_add", "scatter_max", "scatter_min"):
                want = updated(op, x, i, u, axis).astype(dtype)
                name = f"{op} {np.dtype(dtype).name} axis {axis}, {count}"
                family.case(name, op, [x, u, i], want, params={"axis": axis})


def searches(family, own):
    for dtype in (np.float32, np.float16, np.int32, np.uint32):
        for n in (0, 1, 2, 7, 8, 100):
            x = np.sort(np.asarray(own.integers(0, 40, n), dtype))
            values = np.asarray(own.integers(0, 42, (6, 5)), dtype)
            if np.issubdtype(dtype, np.floating):
                values.flat[0], values.flat[1], values.flat[2] = np.nan, np.inf, -np.inf
                if n > 7:
                    x[-2:], x[0] = np.nan, -np.inf
            for after in (False, True):
                want = np.searchsorted(x, values, "right" if after else "left").astype(np.uint32)
                name = f"searchsorted {np.dtype(dtype).name} {n} {after}"
                family.case(name, "searchsorted", [x, values], want, params={"after": after})


if __name__ == "__main__":
    elementwise()
    reductions()
    rows()
    matmuls()
    movement()
    indexing()
