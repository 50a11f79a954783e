"""Writes the reference values of what is made of no data: random numbers, and constants and ranges.

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python tests/reference/make_random.py

Philox is written out from its paper (Salmon et al., 2011) and checked against the words that Random123 publishes;
`random.rs` states what is made of them. `cases.py` has the format.
"""

import numpy as np
from cases import Family

EPS = 2.0**-23
HALF = 2.0**-11
LOW = np.uint64(0xFFFFFFFF)
WORD = np.uint64(32)


def philox(counter, key):
    """Philox 4×32-10 of arrays of words, held in 64 bits."""
    a, b, c, d = (np.asarray(word, np.uint64) for word in counter)
    k, l = (np.asarray(word, np.uint64) for word in key)
    for _ in range(10):
        p, q = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (q >> WORD) ^ b ^ k, q & LOW, (p >> WORD) ^ d ^ l, p & LOW
        k, l = (k + np.uint64(0x9E3779B9)) & LOW, (l + np.uint64(0xBB67AE85)) & LOW
    return a, b, c, d


def known():
    """The published words for counters and keys of zeros, and of the digits of π."""
    zeros = [int(word) for word in philox([0] * 4, [0] * 2)]
    assert zeros == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    pi = philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0])
    assert [int(word) for word in pi] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def words(count, seed, stream):
    """The first two words of each element."""
    at = np.arange(count, dtype=np.uint64)
    halves = [seed & 0xFFFFFFFF, seed >> 32, stream & 0xFFFFFFFF, stream >> 32]
    k, l, low, high = (np.uint64(half) for half in halves)
    return philox([at, np.zeros_like(at), low, high], [k, l])[:2]


def random():
    family = Family("random")
    for seed, stream, shape in ((0, 0, (11,)), (7, 3, (4, 5, 3)), (2**64 - 1, 2**40 + 5, (257,)), (1, 2**63, (0, 3)), (9, 9, ())):
        count = int(np.prod(shape))
        first, second = words(count, seed, stream)
        name, how = f"{seed}, {stream}, {shape}", {"seed": seed, "stream": stream}

        def case(op, want, **rest):
            params = how | rest.pop("params", {})
            inputs = rest.pop("inputs", [])
            family.case(f"{op} {name}, {want.dtype} {rest or ''}", op, inputs, want.reshape(shape), params=params, **rest)

        case("random_bits", first.astype(np.uint32))
        for dtype, bits in ((np.float32, 24), (np.float16, 11)):
            case("random_uniform", ((first >> np.uint64(32 - bits)).astype(np.float64) * 2.0**-bits).astype(dtype))
            # The radius is of an f32.
            apart = first.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
            turn = (second >> np.uint64(8)).astype(np.float64) * 2.0**-24
            normal = np.sqrt(-2 * np.log(apart.astype(np.float64))) * np.cos(2 * np.pi * turn)
            rtol = 3e-6 + (HALF if dtype == np.float16 else 0)
            case("random_normal", normal.astype(dtype), rtol=rtol, atol=3e-6)
        p = 0.375
        coins = first >> np.uint64(8) < np.uint64(p * 2**24)
        case("random_bernoulli", coins, params={"p": p})
        x = np.random.default_rng(seed % 1000).standard_normal(shape).astype(np.float32)
        stays = first >> np.uint64(8) < np.uint64((1 - p) * 2**24)
        kept = np.where(stays, x.reshape(-1).astype(np.float64) / (1 - p), 0).astype(np.float32)
        case("dropout", kept, params={"p": p}, inputs=[x], rtol=4 * EPS)
        if len(shape) == 1:
            order = np.argsort(first, kind="stable").astype(np.uint32)
            case("random_permutation", order)
    family.write()


def creation():
    family = Family("creation")
    for dtype, value in ((np.float32, -0.0), (np.float32, np.inf), (np.float16, 0.1), (np.int32, -7), (np.uint32, 2**32 - 1), (np.bool_, True)):
        for shape in ((), (3, 2), (0, 4)):
            want = np.full(shape, value, dtype)
            params = {"value": str(value) if dtype != np.bool_ else "1"}
            family.case(f"full {want.dtype} {value} {shape}", "full", [], want, params=params, signed_zero=True)
    ranges = [
        (np.int32, -3, 4, 2), (np.int32, 5, -6, -3), (np.uint32, 1, 12, 4), (np.int32, 2, 2, 1), (np.int32, 4, 2, 1),
        (np.float32, 0, 1, 0.25), (np.float32, 1, -1, -0.375), (np.float16, -2, 2, 0.5),
    ]
    for dtype, start, stop, step in ranges:
        want = np.arange(start, stop, step, dtype)
        params = {"start": start, "stop": stop, "step": step}
        family.case(f"arange {want.dtype} {start} {stop} {step}", "arange", [], want, params=params)
    family.write()


if __name__ == "__main__":
    known()
    random()
    creation()
