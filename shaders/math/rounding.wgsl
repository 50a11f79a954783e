// Extremes, rounding, roots, quotients and conversions.

fn p_min(x: f32, y: f32) -> f32 {
    if p_is_nan(x) {
        return x;
    }
    return select(x, y, y < x || p_is_nan(y));
}

fn p_max(x: f32, y: f32) -> f32 {
    if p_is_nan(x) {
        return x;
    }
    return select(x, y, y > x || p_is_nan(y));
}

fn p_sign(x: f32) -> f32 {
    let y = select(select(0.0, -1.0, x < 0.0), 1.0, x > 0.0);
    return select(y, x, p_is_nan(x));
}

// To the nearest f16, half to even, by integers alone: drivers remove a conversion there and back.
fn p_round_f16(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let a = bits & 0x7fffffffu;
    var r = (a + 0xfffu + ((a >> 13u) & 1u)) & 0xffffe000u;
    if a < 0x38800000u {
        // A multiple of 2⁻²⁴.
        let shift = min(126u - (a >> 23u), 25u);
        let mantissa = (a & 0x7fffffu) | 0x800000u;
        let count = (mantissa + ((1u << (shift - 1u)) - 1u) + ((mantissa >> shift) & 1u)) >> shift;
        r = select(bitcast<u32>(f32(count)) - (24u << 23u), 0u, count == 0u);
    }
    r = select(r, 0x7f800000u, a >= 0x477ff000u);
    r = select(r, a, a > 0x7f800000u);
    var y = r | (bits & 0x80000000u);
    return bitcast<f32>(y);
}

fn p_sqrt(x: f32) -> f32 {
    if x < 0.0 {
        return p_nan();
    }
    return select(sqrt(x), x, x == 0.0 || p_is_inf(x) || p_is_nan(x));
}

// An infinity of the sign of 0 at 0.
fn p_rsqrt(x: f32) -> f32 {
    if x < 0.0 {
        return p_nan();
    }
    var y = inverseSqrt(x);
    // The sign is taken by bits: drivers may take −0 for 0.
    y = select(y, bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | bitcast<u32>(p_inf())), x == 0.0);
    y = select(y, 0.0, p_is_inf(x));
    return select(y, x, p_is_nan(x));
}

// x² scaled up by 2⁸⁴ and down by 2⁻¹⁴⁸: for each x from 2⁻¹⁰⁵ on, one of them is a normal number, and so are sums of a
// million. Powers of two change no digit.
fn p_squares(x: f32) -> vec2<f32> {
    let y = x * vec2<f32>(0x1p42f, 0x1p-74f);
    return y * y;
}

// Two numbers whose product is 1 / √(Σx² / len + epsilon), given the sums of p_squares.
fn p_rms_scale(squares: vec2<f32>, len: f32, epsilon: f32) -> vec2<f32> {
    let near = squares.x / len + epsilon * 0x1p84f;
    let far = squares.y / len + epsilon * 0x1p-74f * 0x1p-74f;
    if p_is_inf(near) {
        return vec2<f32>(0x1p-74f, p_rsqrt(far));
    }
    return vec2<f32>(0x1p42f, p_rsqrt(near));
}

// Two numbers whose product is 1 / max(√Σx², epsilon), given the sums of p_squares.
fn p_norm_scale(squares: vec2<f32>, epsilon: f32) -> vec2<f32> {
    let near = p_max(sqrt(squares.x), epsilon * 0x1p42f);
    let far = p_max(sqrt(squares.y), epsilon * 0x1p-74f);
    if p_is_inf(near) {
        return vec2<f32>(0x1p-74f, 1f / far);
    }
    return vec2<f32>(0x1p42f, 1f / near);
}

// Drivers multiply by the reciprocal, which past 2^126 is subnormal and may be taken for 0.
fn p_div(x: f32, y: f32) -> f32 {
    let s = select(1.0, 0.0625, abs(y) > 1e37);
    return (x * s) / (y * s);
}

// x / y by a driver's division and a correction: exact where the quotient is a number.
fn p_quotient(x: f32, y: f32) -> f32 {
    let q = x / y;
    return q + fma(-q, y, x) / y;
}

fn p_recip(x: f32) -> f32 {
    var y = 1.0 / x;
    y = select(y, p_copysign(p_inf(), x), x == 0.0);
    y = select(y, p_copysign(0.0, x), p_is_inf(x));
    return select(y, x, p_is_nan(x));
}

fn p_f32_to_i32(x: f32) -> i32 {
    let y = i32(clamp(x, -2147483648.0, 2147483520.0));
    return select(select(y, 0x7fffffff, x >= 2147483648.0), 0, p_is_nan(x));
}

fn p_f32_to_u32(x: f32) -> u32 {
    let y = u32(clamp(x, 0.0, 4294967040.0));
    return select(select(y, 0xffffffffu, x >= 4294967296.0), 0u, p_is_nan(x));
}

// The divisor, or 1 where the quotient is defined apart.
fn p_divisor_i32(x: i32, y: i32) -> i32 {
    return select(y, 1, y == 0 || (y == -1 && bitcast<u32>(x) == 0x80000000u));
}

fn p_div_i32(x: i32, y: i32) -> i32 {
    return select(x / p_divisor_i32(x, y), 0, y == 0);
}

fn p_rem_i32(x: i32, y: i32) -> i32 {
    return x % p_divisor_i32(x, y);
}

fn p_div_u32(x: u32, y: u32) -> u32 {
    return select(x / max(y, 1u), 0u, y == 0u);
}

fn p_rem_u32(x: u32, y: u32) -> u32 {
    return x % max(y, 1u);
}

// The upper word of x·y, from products of halves.
fn p_mul_high(x: u32, y: u32) -> u32 {
    let low = (x & 0xffffu) * (y & 0xffffu);
    let middle = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
    let other = (x & 0xffffu) * (y >> 16u) + (middle & 0xffffu);
    return (x >> 16u) * (y >> 16u) + (middle >> 16u) + (other >> 16u);
}

fn p_pow_u32(x: u32, y: u32) -> u32 {
    var power = 1u;
    var base = x;
    var left = y;
    while left != 0u {
        power = select(power, power * base, (left & 1u) != 0u);
        base = base * base;
        left = left >> 1u;
    }
    return power;
}

fn p_pow_i32(x: i32, y: i32) -> i32 {
    if y >= 0 {
        return bitcast<i32>(p_pow_u32(bitcast<u32>(x), bitcast<u32>(y)));
    }
    if x == 1 || (x == -1 && (y & 1) == 0) {
        return 1;
    }
    return select(0, -1, x == -1);
}
