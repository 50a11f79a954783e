// Primitives whose WGSL builtins are too loose: IEEE special values and a stated accuracy on every
// driver. A kernel includes the functions that it calls, and those that they call.
//
// NaN is tested by its bits, and infinities pass through a `var`, since a compiler may assume
// that neither occurs and may not write an infinity as a constant. Polynomials are minimax fits, lowest
// coefficient first; src/exec/cpu/tape/math.rs has the same ones. Bindings: none. Dispatch: none.

fn p_is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// True if neither is less than the other nor equal to it.
fn p_unordered(x: f32, y: f32) -> bool {
    return p_is_nan(x) || p_is_nan(y);
}

fn p_is_inf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn p_inf() -> f32 {
    var bits = 0x7f800000u;
    return bitcast<f32>(bits);
}

fn p_nan() -> f32 {
    var bits = 0x7fc00000u;
    return bitcast<f32>(bits);
}

// `sum`, of which `term` is a part with both signs: NaN where that is NaN or infinite.
fn p_cancelled(sum: f32, term: f32) -> f32 {
    return select(sum, p_nan(), (bitcast<u32>(term) & 0x7f800000u) == 0x7f800000u);
}

// An unsigned number in the order of x: −0 is 0, and NaN past all others.
fn p_key(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let whole = select(bits, 0u, bits == 0x80000000u);
    let key = whole ^ (bitcast<u32>(bitcast<i32>(whole) >> 31u) | 0x80000000u);
    return select(key, 0xffffffffu, p_is_nan(x));
}

// The number that has the key.
fn p_of_key(key: u32) -> f32 {
    var bits = key ^ (bitcast<u32>(bitcast<i32>(~key) >> 31u) | 0x80000000u);
    bits = select(bits, 0x7fc00000u, key == 0xffffffffu);
    return bitcast<f32>(bits);
}

// |x| with the sign of `s`.
fn p_copysign(x: f32, s: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(s) & 0x80000000u));
}

// 2^⌊log₂|x|⌋; 0 below the least normal number, NaN at NaN and ±∞.
fn p_floor_pow2(x: f32) -> f32 {
    let exponent = bitcast<u32>(x) & 0x7f800000u;
    return select(bitcast<f32>(exponent), p_nan(), exponent == 0x7f800000u);
}

// 2ⁿ for n in −126..=127.
fn p_exp2i(n: i32) -> f32 {
    return bitcast<f32>(u32(n + 127) << 23u);
}

// x·2ⁿ in two steps, each of which has a normal factor.
fn p_scale2(x: f32, n: i32) -> f32 {
    let half = n >> 1u;
    return x * p_exp2i(half) * p_exp2i(n - half);
}
