// Exponentials, logarithms, trigonometric functions, powers and remainders.

// e^(t − n·ln 2), where n is the nearest integer to t / ln 2.
fn p_exp_rest(t: f32, n: f32) -> f32 {
    let r = t - n * 0.693359375 - n * -0.00021219444;
    var q = 0.0013821448;
    q = q * r + 0.008368857;
    q = q * r + 0.041668262;
    q = q * r + 0.1666652;
    q = q * r + 0.49999994;
    return 1.0 + (r + r * r * q);
}

fn p_exp(x: f32) -> f32 {
    let t = clamp(x, -104.0, 89.0);
    let n = round(t * 1.442695);
    var y = p_scale2(p_exp_rest(t, n), i32(n));
    y = select(y, p_inf(), x > 88.72284);
    y = select(y, 0.0, x < -103.97208);
    return select(y, x, p_is_nan(x));
}

// eˣ for x ≤ 0, with 0 for what is less than the least normal number. Of NaN it makes any number.
fn p_exp_nonpositive(x: f32) -> f32 {
    let t = max(x, -88.02969);
    let n = round(t * 1.442695);
    // The bits of 2ⁿ, and of 0 for n = −127.
    return p_exp_rest(t, n) * bitcast<f32>(u32(i32(n) + 127) << 23u);
}

// Next to nothing of `x`, so that sums do not overflow; NaN of NaN, and ±∞ of ±∞.
fn p_faint(x: f32) -> f32 {
    return x * 1e-30;
}

// `x` if `by` is finite, else NaN.
fn p_if_finite(x: f32, by: f32) -> f32 {
    return select(x, p_nan(), p_is_nan(by) || p_is_inf(by));
}

fn p_expm1(x: f32) -> f32 {
    let t = clamp(x, -20.0, 89.0);
    let n = round(t * 1.442695);
    let r = t - n * 0.693359375 - n * -0.00021219444;
    var q = 0.00019764455;
    q = q * r + 0.0013932389;
    q = q * r + 0.008333543;
    q = q * r + 0.041666493;
    q = q * r + 0.16666666;
    q = q * r + 0.5;
    // 2ⁿ·(p + 1) − 1 = b·(a·p + (a − 1/b)) with a·b = 2ⁿ.
    let half = i32(n) >> 1u;
    let rest = i32(n) - half;
    let a = p_exp2i(half);
    var y = (a * (r + r * r * q) + (a - p_exp2i(-rest))) * p_exp2i(rest);
    y = select(y, p_inf(), x > 88.72284);
    return select(y, x, p_is_nan(x) || abs(x) < 1e-30);
}

// log(1 + f) − f for 1 + f in √½..√2.
fn p_log_tail(f: f32) -> f32 {
    var p = 0.06750956;
    p = p * f - 0.11671449;
    p = p * f + 0.11883568;
    p = p * f - 0.12406032;
    p = p * f + 0.14220327;
    p = p * f - 0.16667996;
    p = p * f + 0.20002073;
    p = p * f - 0.2500001;
    p = p * f + 0.33333313;
    return f * f * (p * f - 0.5);
}

// (m − 1, e) with x = m·2ᵉ and m in √½..√2, for finite x > 0, subnormal ones too.
fn p_split(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    let tiny = bits < 0x00800000u;
    let v = select(bits, bitcast<u32>(f32(bits)), tiny);
    let e = bitcast<i32>(v - 0x3f3504f3u) >> 23u;
    let m = bitcast<f32>(v - (bitcast<u32>(e) << 23u));
    return vec2<f32>(m - 1.0, f32(e + select(0, -149, tiny)));
}

fn p_log(x: f32) -> f32 {
    let s = p_split(x);
    let y = s.y * 0.693359375 + (s.x + (s.y * -0.00021219444 + p_log_tail(s.x)));
    let bits = bitcast<u32>(x);
    if bits > 0x80000000u && !p_is_nan(x) {
        return p_nan();
    }
    if (bits << 1u) == 0u {
        return -p_inf();
    }
    return select(y, x, bits >= 0x7f800000u);
}

fn p_log1p(x: f32) -> f32 {
    if p_is_nan(x) {
        return x;
    }
    if x > -0.29 && x < 0.41 {
        return x + p_log_tail(x);
    }
    let u = 1.0 + x;
    let y = p_log(u);
    if p_is_inf(y) || p_is_nan(y) {
        return y;
    }
    // The part that the rounding of 1 + x lost.
    let lost = select(x - (u - 1.0), 1.0 - (u - x), x >= 1.0);
    return y + lost / u;
}

// sin(x + turns·π/2), for |x| up to about 1e5.
fn p_sin_turned(x: f32, turns: i32) -> f32 {
    if p_is_nan(x) || p_is_inf(x) {
        return p_nan();
    }
    let q = round(x * 0.63661975);
    let r0 = x - q * 1.5703125 - q * 0.0004825592041015625 - q * 1.2675908e-6;
    let r = clamp(r0, -0.8, 0.8);
    let z = r * r;
    var s = -0.00019507846;
    s = s * z + 0.008332106;
    s = s * z - 0.16666654;
    let sine = r + r * (z * s);
    var c = 2.4431882e-5;
    c = c * z - 0.0013887307;
    c = c * z + 0.041666646;
    let cosine = 1.0 - (0.5 * z - z * z * c);
    let k = i32(clamp(q, -2e9, 2e9)) + turns;
    let y = select(sine, cosine, (k & 1) != 0);
    return select(y, -y, (k & 2) != 0);
}

fn p_sin(x: f32) -> f32 {
    return p_sin_turned(x, 0);
}

fn p_cos(x: f32) -> f32 {
    return p_sin_turned(x, 1);
}

fn p_tanh(x: f32) -> f32 {
    if p_is_nan(x) {
        return x;
    }
    let t = abs(x);
    if t < 0.625 {
        let z = x * x;
        var p = -0.005695813;
        p = p * z + 0.020630825;
        p = p * z - 0.05373714;
        p = p * z + 0.1333141;
        p = p * z - 0.3333328;
        return x + x * (z * p);
    }
    return p_copysign(1.0 - 2.0 / (p_exp(2.0 * min(t, 20.0)) + 1.0), x);
}

fn p_erf(x: f32) -> f32 {
    if p_is_nan(x) {
        return x;
    }
    let t = abs(x);
    if t < 1.0 {
        let z = x * x;
        var p = 7.806903e-5;
        p = p * z - 0.0007997853;
        p = p * z + 0.005187162;
        p = p * z - 0.026853347;
        p = p * z + 0.11283579;
        p = p * z - 0.37612626;
        p = p * z + 0.12837917;
        return x + x * p;
    }
    // log(1 − erf t) as a polynomial of t − 1.
    let u = min(t, 4.0) - 1.0;
    var p = 9.6969874e-5;
    p = p * u - 0.0015061275;
    p = p * u + 0.0094845295;
    p = p * u - 0.041279294;
    p = p * u - 0.8431687;
    p = p * u - 2.638963;
    p = p * u - 1.8496056;
    return p_copysign(1.0 - p_exp(p), x);
}

// 2^(y·log₂ x) for finite x > 0. The logarithm and its product with y are kept in two parts.
fn p_pow_positive(x: f32, y: f32) -> f32 {
    let s = p_split(x);
    let f = s.x;
    var p = -0.11989914;
    p = p * f + 0.18880798;
    p = p * f - 0.1878178;
    p = p * f + 0.20383587;
    p = p * f - 0.23996411;
    p = p * f + 0.28863457;
    p = p * f - 0.3606826;
    p = p * f + 0.4808963;
    p = p * f - 0.7213475;
    p = p * f + 0.44269505;
    let high = s.y + f;
    let low = (f - (high - s.y)) + f * p;
    let estimate = y * (high + low);
    if estimate > 130.0 {
        return p_inf();
    }
    if estimate < -152.0 {
        return 0.0;
    }
    let y1 = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
    let h1 = bitcast<f32>(bitcast<u32>(high) & 0xfffff000u);
    let big = y1 * h1;
    let rest = (y1 * (high - h1) + (y - y1) * high) + y * low;
    let n = round(big + rest);
    let r = (big - n) + rest;
    var q = 0.00015327103;
    q = q * r + 0.0013391242;
    q = q * r + 0.009618506;
    q = q * r + 0.055503592;
    q = q * r + 0.24022648;
    q = q * r + 0.6931472;
    let e = i32(n);
    let z = p_scale2(1.0 + r * q, e);
    return select(z, p_inf(), e > 128 || (e == 128 && r >= 0.0));
}

// As C's pow.
fn p_pow(x: f32, y: f32) -> f32 {
    if x == 1.0 || (bitcast<u32>(y) << 1u) == 0u {
        return 1.0;
    }
    if p_is_nan(x) || p_is_nan(y) {
        return p_nan();
    }
    if y == 1.0 {
        return x;
    }
    let magnitude = abs(x);
    let whole = p_is_inf(y) || floor(y) == y;
    let half = 0.5 * y;
    let odd = whole && abs(y) < 16777216.0 && floor(half) != half;
    let zero = (bitcast<u32>(x) << 1u) == 0u;
    let negative = (bitcast<u32>(x) >> 31u) != 0u;
    if negative && !zero && !p_is_inf(x) && !whole {
        return p_nan();
    }
    var z = 0.0;
    if zero || p_is_inf(x) {
        z = select(0.0, p_inf(), zero == (y < 0.0));
    } else {
        z = p_pow_positive(magnitude, clamp(y, -3e38, 3e38));
    }
    return select(z, -z, negative && odd);
}

// Exact: a long division of the mantissas, eight bits at a time.
fn p_rem(x: f32, y: f32) -> f32 {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    if a >= 0x7f800000u || b > 0x7f800000u || b == 0u {
        return p_nan();
    }
    if a < b {
        return x;
    }
    let exponent = max(b >> 23u, 1u);
    let divisor = (b & 0x7fffffu) | select(0u, 0x800000u, b >= 0x800000u);
    var left = max(a >> 23u, 1u) - exponent;
    var r = ((a & 0x7fffffu) | select(0u, 0x800000u, a >= 0x800000u)) % divisor;
    while left > 0u && r != 0u {
        let shift = min(left, 8u);
        r = (r << shift) % divisor;
        left -= shift;
    }
    let shift = min(countLeadingZeros(r) - 8u, exponent - 1u);
    let mantissa = r << shift;
    let bits = (mantissa & 0x7fffffu) | select(0u, (exponent - shift) << 23u, mantissa >= 0x800000u);
    return bitcast<f32>(bits | (bitcast<u32>(x) & 0x80000000u));
}
