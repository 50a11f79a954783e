//! Scalar functions of one lane, free of branches and calls so that loops over them vectorise.
//!
//! The algorithms are those of `shaders/math/`, with fewer steps where a loop over vectors gains by it. Polynomials
//! are minimax fits, lowest coefficient first. `FMA` is true in functions that are compiled for an instruction set with
//! fused multiply-add; elsewhere that would be a call.
//!
//! Errors are in units in the last place of the exact result, if that is a normal number, with `FMA` and without.

use std::f32::consts::{FRAC_2_PI, LN_2, LOG2_E};

use crate::exec::cpu::vectors::exponential::{EXP_REST, LN2_HIGH, LN2_LOW, ROUND};

/// π/2 in three parts, of which the first two have eight bits.
const HALF_PI: [f32; 3] = [1.570_312_5, 0.000_482_559_2, 1.267_590_8e-6];

/// a·b + c, rounded once with `FMA`.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Σ cᵢ·xⁱ. Halves of the sum are independent of each other, so that a vector waits less for the one before.
#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let square = x * x;
    let pair = |i: usize| if i + 1 < N { fma::<FMA>(c[i + 1], x, c[i]) } else { c[i] };
    let quad =
        |i: usize| if i + 2 < N { fma::<FMA>(pair(i + 2), square, pair(i)) } else { pair(i) };
    match N {
        0..=4 => quad(0),
        5..=8 => fma::<FMA>(quad(4), square * square, quad(0)),
        _ => {
            let fourth = square * square;
            fma::<FMA>(fma::<FMA>(quad(8), fourth, quad(4)), fourth, quad(0))
        }
    }
}

/// Σ cᵢ·xⁱ in as many steps as there are coefficients but one.
#[inline(always)]
fn horner<const FMA: bool>(x: f32, [a, b, c, d, e]: [f32; 5]) -> f32 {
    let high = fma::<FMA>(fma::<FMA>(e, x, d), x, c);
    fma::<FMA>(fma::<FMA>(high, x, b), x, a)
}

/// The nearest integer to x, as a float and as an integer, for |x| < 2²².
#[inline(always)]
fn nearest(x: f32) -> (f32, i32) {
    let shifted = x + ROUND;
    (shifted - ROUND, shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed())
}

/// 2ⁿ for n in −126..=127.
#[inline(always)]
fn exp2i(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned())
}

/// Returns r and n of x = r + n·ln 2 with |r| ≤ ½ ln 2.
#[inline(always)]
fn reduce_by_ln2<const FMA: bool>(x: f32) -> (f32, i32) {
    let shifted = fma::<FMA>(x, LOG2_E, ROUND);
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
    (rest_by_ln2::<FMA>(x, shifted - ROUND), n)
}

/// x − n·ln 2.
#[inline(always)]
fn rest_by_ln2<const FMA: bool>(x: f32, n: f32) -> f32 {
    fma::<FMA>(-n, LN2_LOW, fma::<FMA>(-n, LN2_HIGH, x))
}

/// eʳ − 1 for |r| ≤ ½ ln 2.
#[inline(always)]
fn expm1_rest<const FMA: bool>(r: f32) -> f32 {
    /// Coefficients of (eʳ − 1 − r) / r².
    const C: [f32; 6] =
        [0.5, 0.166_666_66, 0.041_666_493, 0.008_333_543, 0.001_393_238_9, 0.000_197_644_55];
    fma::<FMA>(r * r, polynomial::<FMA, 6>(r, C), r)
}

/// eʳ·`power` for |r| ≤ ½ ln 2. Results are normal numbers.
#[inline(always)]
fn exp_rest<const FMA: bool>(r: f32, power: f32) -> f32 {
    let rest = horner::<FMA>(r, EXP_REST);
    if FMA {
        fma::<FMA>(fma::<FMA>(rest, r, 1.0), r, 1.0) * power
    } else {
        // The sum rounds once more above, which is too much if products round as well.
        fma::<FMA>(fma::<FMA>(r * r, rest, r), power, power)
    }
}

/// eˣ, within 1 ulp (0.972 measured over every 61st float, and 0.874 with `FMA`).
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    /// As [`ROUND`], with both biases of the powers: the last bits of a sum are those of n + 254.
    const BIASED: f32 = ROUND + 254.0;
    let x = x.clamp(-104.0, 89.0);
    let shifted = fma::<FMA>(x, LOG2_E, BIASED);
    let r = rest_by_ln2::<FMA>(x, shifted - BIASED);
    // Both powers are normal, so that only the last product leaves the range.
    let half = shifted.to_bits() >> 1;
    let power = f32::from_bits(half << 23);
    let other = f32::from_bits((shifted.to_bits() - half) << 23);
    exp_rest::<FMA>(r, power) * other
}

/// [`exp`] to the bit for x ≤ 0, and NaN for NaN. The result for other x is unspecified.
#[inline(always)]
pub(crate) fn exp_nonpositive<const FMA: bool>(x: f32) -> f32 {
    // This keeps every exponent that of a normal number, so that only the last product rounds.
    const UP: i32 = 64;
    let (r, n) = reduce_by_ln2::<FMA>(if x < -104.0 { -104.0 } else { x });
    exp_rest::<FMA>(r, exp2i(n.wrapping_add(UP))) * exp2i(-UP)
}

/// eˣ − 1, within 1.5 ulp (1.482 measured over every 61st float).
#[inline(always)]
pub(crate) fn expm1<const FMA: bool>(x: f32) -> f32 {
    let (r, n) = reduce_by_ln2::<FMA>(x.clamp(-20.0, 89.0));
    let p = expm1_rest::<FMA>(r);
    // 2ⁿ·(p + 1) − 1 = b·(a·p + (a − 1/b)) with a·b = 2ⁿ.
    let half = n >> 1;
    let rest = n - half;
    let y = fma::<FMA>(exp2i(half), p, exp2i(half) - exp2i(-rest)) * exp2i(rest);
    if x.abs() < 1e-30 { x } else { y }
}

/// log(1 + f) − f for 1 + f in √½..√2.
#[inline(always)]
fn log_tail<const FMA: bool>(f: f32) -> f32 {
    const C: [f32; 9] = [
        0.333_333_13,
        -0.250_000_1,
        0.200_020_73,
        -0.166_679_96,
        0.142_203_27,
        -0.124_060_32,
        0.118_835_68,
        -0.116_714_49,
        0.067_509_56,
    ];
    f * f * fma::<FMA>(polynomial::<FMA, 9>(f, C), f, -0.5)
}

/// log x, within 1 ulp (0.86 measured over every 61st float).
#[inline(always)]
pub(crate) fn log<const FMA: bool>(x: f32) -> f32 {
    // The bits of a subnormal number are its value in units of 2⁻¹⁴⁹.
    let bits = x.to_bits();
    let tiny = bits < 0x0080_0000;
    let v = if tiny { (bits.cast_signed() as f32).to_bits() } else { bits };
    let e = v.wrapping_sub(0x3f35_04f3).cast_signed() >> 23;
    let f = f32::from_bits(v.wrapping_sub((e << 23).cast_unsigned())) - 1.0;
    let e = (e + if tiny { -149 } else { 0 }) as f32;
    let y = fma::<FMA>(e, LN2_HIGH, f + fma::<FMA>(e, LN2_LOW, log_tail::<FMA>(f)));
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x >= 0.0 { y } else { f32::NAN };
    if x == 0.0 { f32::NEG_INFINITY } else { y }
}

/// log(1 + x), within 1.5 ulp (1.28 measured over every 61st float).
#[inline(always)]
pub(crate) fn log1p<const FMA: bool>(x: f32) -> f32 {
    let u = 1.0 + x;
    // The part of x that the rounding of 1 + x lost.
    let lost = if x >= 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let y = log::<FMA>(u);
    let far = if y.abs() < f32::INFINITY { y + lost / u } else { y };
    if x > -0.29 && x < 0.41 { x + log_tail::<FMA>(x) } else { far }
}

/// sin(x + turns·π/2).
#[inline(always)]
fn sin_turned<const FMA: bool>(x: f32, turns: i32) -> f32 {
    const S: [f32; 3] = [-0.166_666_54, 0.008_332_106, -0.000_195_078_46];
    const C: [f32; 3] = [0.041_666_646, -0.001_388_730_7, 0.000_024_431_882];
    let (q, k) = nearest(x * FRAC_2_PI);
    let r = HALF_PI.iter().fold(x, |r, &part| fma::<FMA>(-q, part, r));
    // NaN goes through. Past the range of the reduction the result stays in −1..1.
    let r = r.clamp(-0.8, 0.8);
    let z = r * r;
    let sine = fma::<FMA>(r, z * polynomial::<FMA, 3>(z, S), r);
    let cosine = 1.0 - (0.5 * z - z * z * polynomial::<FMA, 3>(z, C));
    let k = k.wrapping_add(turns);
    let y = if k & 1 == 0 { sine } else { cosine };
    let y = if k & 2 == 0 { y } else { -y };
    if x.abs() < f32::INFINITY { y } else { f32::NAN }
}

#[inline(always)]
pub(crate) fn sin<const FMA: bool>(x: f32) -> f32 {
    sin_turned::<FMA>(x, 0)
}

#[inline(always)]
pub(crate) fn cos<const FMA: bool>(x: f32) -> f32 {
    sin_turned::<FMA>(x, 1)
}

/// tanh x, within 7 ulp (6.94 measured over every 61st float, and 4.95 with `FMA`). A quotient of polynomials takes half as
/// many steps as an exponential, and a division as long as sixteen steps.
#[inline(always)]
pub(crate) fn tanh<const FMA: bool>(x: f32) -> f32 {
    /// Coefficients of a function of x², to 3e-8. Those that have little to round were sought among their multiples.
    const P: [f32; 5] = [1.237_371_1, 0.165_556_88, 0.004_323_429, 2.546_956_2e-5, 1.648_079_4e-8];
    const Q: [f32; 5] = [1.237_371_1, 0.578_013_7, 0.032_012_165, 4.062_421_8e-4, 9.604_576e-7];
    /// Twice the bits of 1, less what makes the differences of bits small on both sides.
    const RECIPROCAL: u32 = 0x7ef3_1000;
    let t = x.abs();
    // From here on, the result is 1.
    let t = if t > 9.02 { 9.02 } else { t };
    let z = t * t;
    let (p, q) = (horner::<FMA>(z, P), horner::<FMA>(z, Q));
    // 1/q within a twentieth, and then twice 1/(1 − e) ≈ 1 + e + e².
    let mut recip = f32::from_bits(RECIPROCAL.wrapping_sub(q.to_bits()));
    let e = fma::<FMA>(-q, recip, 1.0);
    recip = fma::<FMA>(recip, fma::<FMA>(e, e, e), recip);
    let e = fma::<FMA>(-q, recip, 1.0);
    let y = t * p * recip;
    let y = fma::<FMA>(y, fma::<FMA>(e, e, e), y);
    (if y > 1.0 { 1.0 } else { y }).copysign(x)
}

/// 1 / (1 + e⁻ˣ), within 3 ulp (2.88 measured over every 61st float above −87). Below it, the result is less than
/// 1.3e-38 off.
#[inline(always)]
pub(crate) fn sigmoid<const FMA: bool>(x: f32) -> f32 {
    // e^−|x|, which is 0 from 88 on.
    let t = x.abs();
    let (r, n) = reduce_by_ln2::<FMA>(-(if t > 88.0 { 88.0 } else { t }));
    let e = exp_rest::<FMA>(r, exp2i(n));
    // 1/d for d in 1..=2: by a parabola within 1/99, and two steps of Newton's method.
    let d = 1.0 + e;
    let recip = fma::<FMA>(fma::<FMA>(0.323_232_32, d, -1.454_545_5), d, 2.121_212);
    let recip = fma::<FMA>(recip, fma::<FMA>(-d, recip, 1.0), recip);
    let recip = fma::<FMA>(recip, fma::<FMA>(-d, recip, 1.0), recip);
    (if x < 0.0 { e } else { 1.0 }) * recip
}

/// erf x, within 1.5 ulp (1.35 measured over every 61st float).
#[inline(always)]
pub(crate) fn erf<const FMA: bool>(x: f32) -> f32 {
    const NEAR: [f32; 7] = [
        0.128_379_17,
        -0.376_126_26,
        0.112_835_79,
        -0.026_853_347,
        0.005_187_162,
        -0.000_799_785_3,
        0.000_078_069_03,
    ];
    // log₂(1 − erf t) as a polynomial of t − 1.
    const FAR: [f32; 7] = [
        -2.668_416_7,
        -3.807_218_8,
        -1.216_435_3,
        -0.059_553_433,
        0.013_683_285,
        -0.002_172_882_7,
        0.000_139_897_95,
    ];
    // 2ʳ for |r| ≤ ½, to 1.1e-7. The power is at most a fifth of the result.
    const POWER: [f32; 6] =
        [1.0, LN_2, 0.240_222_83, 0.055_505_585, 0.009_669_692, 0.001_330_059_6];
    let t = x.abs();
    let near = fma::<FMA>(x, polynomial::<FMA, 7>(x * x, NEAR), x);
    let log = polynomial::<FMA, 7>(t.clamp(0.0, 4.0) - 1.0, FAR);
    let (n, i) = nearest(log);
    let far = (1.0 - polynomial::<FMA, 6>(log - n, POWER) * exp2i(i)).copysign(x);
    if t >= 1.0 { far } else { near }
}

/// log₂ x for finite x > 0 that is exact in an `f32`, to about 12 digits.
#[inline(always)]
fn log2_wide(x: f64) -> f64 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const SCALE: f64 = 2.0 * std::f64::consts::LOG2_E;
    let bits = x.to_bits();
    let e = bits.wrapping_sub(SQRT_HALF).cast_signed() >> 52;
    let m = f64::from_bits(bits.wrapping_sub((e << 52).cast_unsigned()));
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    // 2·atanh s by its Taylor series: z < 0.0295.
    let mut p = 1.0 / 13.0;
    for n in [11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = p * z + 1.0 / n;
    }
    e as i32 as f64 + SCALE * s * p
}

/// 2ˣ for |x| ≤ 300, to about 9 digits.
#[inline(always)]
fn exp2_wide(x: f64) -> f64 {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = x + ROUND;
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    let r = (x - (shifted - ROUND)) * std::f64::consts::LN_2;
    // eʳ by its Taylor series: |r| ≤ ½ ln 2.
    let mut p = 1.0;
    for n in [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        p = p * (r * (1.0 / n)) + 1.0;
    }
    p * f64::from_bits(n.wrapping_add(1023) << 52)
}

/// The power as of C's `pow`, in double precision inside.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let exponent = f64::from(y) * log2_wide(f64::from(x.abs()));
    let z = exp2_wide(exponent.clamp(-300.0, 300.0)) as f32;
    let end = x == 0.0 || x.abs() == f32::INFINITY;
    let z = if end && ((x == 0.0) == (y < 0.0)) { f32::INFINITY } else { z };
    let z = if end && ((x == 0.0) != (y < 0.0)) { 0.0 } else { z };
    let z = if x.abs() == 1.0 { 1.0 } else { z };
    // Beyond 2²³ every float is whole, and beyond 2²⁴ even.
    let (near, k) = nearest(y.clamp(-4_194_303.0, 4_194_303.0));
    let small = y.abs() < 4_194_303.0;
    let large = y.abs().clamp(0.0, 16_777_216.0) as i32;
    let whole = if small { near == y } else { y.abs() >= 8_388_608.0 || large as f32 == y.abs() };
    let odd = whole && (if small { k & 1 } else { large & 1 }) != 0;
    let z = if odd { z.copysign(x) } else { z };
    let z = if x < 0.0 && !end && !whole { f32::NAN } else { z };
    let z = if x.is_nan() || y.is_nan() { f32::NAN } else { z };
    if x == 1.0 || y == 0.0 { 1.0 } else { z }
}

/// 2^⌊log₂|x|⌋; 0 below the least normal number, NaN at NaN and ±∞.
#[inline(always)]
pub(crate) fn floor_pow2(x: f32) -> f32 {
    const EXPONENT: u32 = 0x7f80_0000;
    let power = x.to_bits() & EXPONENT;
    f32::from_bits(if power == EXPONENT { f32::NAN.to_bits() } else { power })
}

/// The sign of x as −1, 0 or 1; NaN stays NaN.
#[inline(always)]
pub(crate) fn sign(x: f32) -> f32 {
    let y = if x > 0.0 { 1.0 } else { x };
    if x < 0.0 { -1.0 } else { y }
}

/// The lesser of both; NaN if either is NaN.
#[inline(always)]
pub(crate) fn min(x: f32, y: f32) -> f32 {
    let z = if y < x { y } else { x };
    if y.is_nan() { y } else { z }
}

/// The greater of both; NaN if either is NaN.
#[inline(always)]
pub(crate) fn max(x: f32, y: f32) -> f32 {
    let z = if y > x { y } else { x };
    if y.is_nan() { y } else { z }
}

/// 1/√x, which at 0 is an infinity of the sign of 0.
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// Rounds to the nearest `f16`, half to even.
#[inline(always)]
pub(crate) fn round_f16(x: f32) -> f32 {
    let bits = x.to_bits();
    let a = bits & 0x7fff_ffff;
    let normal = (a.wrapping_add(0xfff + ((a >> 13) & 1))) & 0xffff_e000;
    // The addition rounds to units of 2⁻²⁴, those of the last place of 0.5..1.
    let tiny = ((f32::from_bits(a) + 0.5) - 0.5).to_bits();
    let r = if a < 0x3880_0000 { tiny } else { normal };
    let r = if a >= 0x477f_f000 { 0x7f80_0000 } else { r };
    let r = if a > 0x7f80_0000 { a } else { r };
    f32::from_bits(r | (bits & 0x8000_0000))
}

/// xʸ modulo 2³². A negative exponent truncates 1 / xⁿ, with 0 for x = 0.
#[inline(always)]
pub(crate) fn pow_i32(x: i32, y: i32) -> i32 {
    if y >= 0 {
        return x.wrapping_pow(y.cast_unsigned());
    }
    match x {
        1 => 1,
        -1 => 1 - 2 * (y & 1),
        _ => 0,
    }
}
