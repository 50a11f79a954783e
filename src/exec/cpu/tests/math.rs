//! Tests of the scalar functions against `f64`, over all magnitudes and special values.

use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;

use crate::base::dtype::Ty;
use crate::exec::cpu::tape::math::*;
use crate::exec::cpu::tape::{lanes, wide};
use crate::expr::reference::{LaneValue, binary, unary};
use crate::expr::{Binary, Unary};
use crate::ops::Elementwise;

/// Fails unless `got` is within the tolerance of `op` of `want`.
fn close(op: Elementwise, x: &[f32], got: f32, want: f64) {
    let def = op.def();
    let rounded = want as f32;
    if rounded.is_nan() || rounded.is_infinite() || got.is_nan() {
        let near_overflow = want.abs() > f64::from(f32::MAX) * 0.999_999;
        let same = got == rounded || (got.is_nan() && rounded.is_nan());
        assert!(same || near_overflow, "{} {x:?}: {got} for {want}", def.name);
        return;
    }
    let ulp = f64::from(rounded.abs().max(f32::MIN_POSITIVE)) * 2f64.powi(-23);
    let allowed = def.tolerance.ulp * ulp + def.tolerance.abs + 2e-45;
    let error = (f64::from(got) - want).abs();
    assert!(error <= allowed, "{} {x:?}: {got} for {want}", def.name);
}

/// Floats of all sizes and kinds.
fn samples() -> Vec<f32> {
    let mut samples: Vec<f32> = (0..=u16::MAX)
        .map(|high| {
            f32::from_bits(u32::from(high) << 16 | u32::from(high).wrapping_mul(40_503) & 0xffff)
        })
        .collect();
    for i in -20_000i16..20_000 {
        samples.push(f32::from(i) * 0.01);
        samples.push(f32::from(i) * 1e-4);
    }
    samples.extend([0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 88.722_84]);
    samples
}

#[test]
fn functions_of_one_argument_keep_their_tolerances_everywhere() {
    type Case = (Elementwise, Unary, fn(f32) -> f32, f32);
    let all = f32::INFINITY;
    let cases: [Case; 19] = [
        (Elementwise::Exp, Unary::Exp, exp::<true>, all),
        (Elementwise::Exp, Unary::Exp, exp::<false>, all),
        (Elementwise::Expm1, Unary::Expm1, expm1::<true>, all),
        (Elementwise::Expm1, Unary::Expm1, expm1::<false>, all),
        (Elementwise::Log, Unary::Log, log::<true>, all),
        (Elementwise::Log, Unary::Log, log::<false>, all),
        (Elementwise::Log1p, Unary::Log1p, log1p::<true>, all),
        (Elementwise::Log1p, Unary::Log1p, log1p::<false>, all),
        (Elementwise::Sin, Unary::Sin, sin::<true>, 1e5),
        (Elementwise::Sin, Unary::Sin, sin::<false>, 1e5),
        (Elementwise::Cos, Unary::Cos, cos::<true>, 1e5),
        (Elementwise::Cos, Unary::Cos, cos::<false>, 1e5),
        (Elementwise::Tanh, Unary::Tanh, tanh::<true>, all),
        (Elementwise::Tanh, Unary::Tanh, tanh::<false>, all),
        (Elementwise::Erf, Unary::Erf, erf::<true>, all),
        (Elementwise::Erf, Unary::Erf, erf::<false>, all),
        (Elementwise::Rsqrt, Unary::Rsqrt, rsqrt, all),
        (Elementwise::Sign, Unary::Sign, sign, all),
        (Elementwise::Round, Unary::Round, f32::round_ties_even, all),
    ];
    for (op, primitive, f, limit) in cases {
        for x in samples() {
            if x.abs() <= limit || x.abs() == all || x.is_nan() {
                let want = unary(primitive, LaneValue::F(f64::from(x))).number();
                close(op, &[x], f(x), want);
            }
        }
    }
    assert!(sin::<true>(1e30).abs() <= 1.0 && cos::<false>(-3e38).abs() <= 1.0);
}

/// The error of `got` in units in the last place of the `f32` nearest to `want`.
fn ulps(got: f32, want: f64) -> f64 {
    let exponent = want.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (f64::from(got) - want).abs() / (exponent - 23.0).exp2()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// [`sigmoid`] where its error is relative, and an exact result elsewhere.
fn sigmoid_of_most<const FMA: bool>(x: f32) -> f32 {
    if x < -87.0 { logistic(x.into()) as f32 } else { sigmoid::<FMA>(x) }
}

#[test]
fn sigmoid_and_tanh_keep_their_tolerances_and_bounds_everywhere() {
    let same = |got: f32, want: f32| got.to_bits() == want.to_bits();
    for (sigmoid, tanh) in [
        (sigmoid::<true> as fn(f32) -> f32, tanh::<true> as fn(f32) -> f32),
        (sigmoid::<false>, tanh::<false>),
    ] {
        for x in samples() {
            close(Elementwise::Sigmoid, &[x], sigmoid(x), logistic(x.into()));
            assert!(x.is_nan() || (0.0..=1.0).contains(&sigmoid(x)), "{x}");
            assert!(x.is_nan() || (-1.0..=1.0).contains(&tanh(x)), "{x}");
            assert!(x.is_nan() || same(tanh(-x), -tanh(x)), "{x}");
        }
        assert!(sigmoid(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
        assert!(same(sigmoid(f32::INFINITY), 1.0) && same(sigmoid(f32::NEG_INFINITY), 0.0));
        assert!(same(tanh(f32::INFINITY), 1.0) && same(tanh(f32::NEG_INFINITY), -1.0));
        assert!(same(sigmoid(-0.0), 0.5) && same(tanh(-0.0), -0.0) && same(tanh(0.0), 0.0));
    }
}

#[test]
fn functions_keep_the_errors_that_their_documentation_states() {
    type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);
    let cases: [Case; 14] = [
        ("exp", exp::<true>, f64::exp, 1.0),
        ("exp without FMA", exp::<false>, f64::exp, 1.0),
        ("expm1", expm1::<true>, f64::exp_m1, 1.5),
        ("expm1 without FMA", expm1::<false>, f64::exp_m1, 1.5),
        ("log", log::<true>, f64::ln, 1.0),
        ("log without FMA", log::<false>, f64::ln, 1.0),
        ("log1p", log1p::<true>, f64::ln_1p, 1.5),
        ("log1p without FMA", log1p::<false>, f64::ln_1p, 1.5),
        ("tanh", tanh::<true>, f64::tanh, 7.0),
        ("tanh without FMA", tanh::<false>, f64::tanh, 7.0),
        ("sigmoid", sigmoid_of_most::<true>, logistic, 3.0),
        ("sigmoid without FMA", sigmoid_of_most::<false>, logistic, 3.0),
        ("erf", erf::<true>, libm::erf, 1.5),
        ("erf without FMA", erf::<false>, libm::erf, 1.5),
    ];
    // A prime meets all low bits.
    const STEP: usize = 1021;
    for (name, f, exact, stated) in cases {
        let mut worst = (0.0, 0.0);
        for x in (0..=u32::MAX).step_by(STEP).map(f32::from_bits) {
            let (got, want) = (f(x), exact(f64::from(x)));
            // Overflow, NaN and subnormal results have tests of their own.
            let normal = f64::from(f32::MIN_POSITIVE)..=f64::from(f32::MAX);
            if normal.contains(&want.abs()) && ulps(got, want) > worst.0 {
                worst = (ulps(got, want), x);
            }
        }
        assert!(worst.0 <= stated, "{name}: {} ulp at {}", worst.0, worst.1);
        assert!(worst.0 > 0.5 * stated, "{name}: only {} ulp", worst.0);
    }
}

#[test]
fn the_exponential_of_what_is_not_positive_is_that_of_all_to_the_bit() {
    let sign = (-0.0_f32).to_bits();
    let special = [0.0, -0.0, -1e-40, -87.336_55, -103.972_08, -104.0, -1e38, f32::NEG_INFINITY];
    let negative = (sign..=u32::MAX).step_by(1021).map(f32::from_bits);
    for x in special.into_iter().chain(negative) {
        for (got, want) in [
            (exp_nonpositive::<true>(x), exp::<true>(x)),
            (exp_nonpositive::<false>(x), exp::<false>(x)),
        ] {
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && x.is_nan(), "{got} for {x}");
        }
    }
    assert!(exp_nonpositive::<true>(f32::NAN).is_nan());
}

/// Loops for vectors have ways of their own where the processor has fused multiply-add.
#[test]
fn exponentials_of_slices_are_those_of_their_elements_to_the_bit() {
    let same = |x: f32, got: f32, fused: f32, plain: f32| {
        let is = |want: f32| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
        assert!(is(fused) || is(plain), "{x}: {got} for {fused}");
    };
    let all = samples();
    for len in (0..70).chain([all.len()]) {
        let x = &all[all.len() - len..];
        let mut got = vec![7.0; len + 1];
        lanes::unary(Unary::Exp, Ty::F32, cast_slice(x), cast_slice_mut(&mut got[..len]));
        for (&x, &got) in x.iter().zip(&got) {
            same(x, got, exp::<true>(x), exp::<false>(x));
        }
        let greatest = wide::greatest_number(x);
        let sum = wide::written_exps::<true>(x, &mut got[..len], greatest);
        for (&x, &got) in x.iter().zip(&got) {
            let apart = x - greatest;
            let [fused, plain] = [exp_nonpositive::<true>(apart), exp_nonpositive::<false>(apart)];
            same(apart, got, fused, plain);
        }
        assert!(sum.is_nan() || sum >= got[..len].iter().copied().fold(0.0, f32::max).into());
        assert_eq!(got[len], 7.0, "past the end of {len}");
    }
}

#[test]
fn powers_follow_c() {
    let both = [0.0, 1.0, 0.5, 2.0, 3.0, 1e-40, f32::INFINITY, f32::MAX].map(|x| [x, -x]);
    let positive = [1.000_001, 1e30, 0.001, f32::NAN];
    let whole = [4_194_303.0, 8_388_607.0, 16_777_215.0, 16_777_216.0];
    let halves = [4_194_303.5, 8_388_607.5];
    let special = [both.as_flattened(), &positive, &whole, &halves].concat();
    for &x in &special {
        for &y in &special {
            let want = binary(Binary::Pow, LaneValue::F(x.into()), LaneValue::F(y.into())).number();
            close(Elementwise::Pow, &[x, y], pow(x, y), want);
        }
    }
    for i in 1..400u16 {
        for j in 0..400u16 {
            let (x, y) = (f32::from(i) * 0.037, f32::from(j) * 0.2 - 40.0);
            let want = f64::from(x).powf(f64::from(y));
            let got = f64::from(pow(x, y));
            let exact = want as f32;
            assert!(
                got == f64::from(exact) || (got - want).abs() <= want * 1.3e-7 + 2e-45,
                "{x}^{y}: {got} for {want}"
            );
        }
    }
}

#[test]
fn rounding_to_f16_is_that_of_the_half_crate() {
    for x in samples() {
        for x in [x, x * 1e-5, x * 1e-20] {
            let want = f16::from_f32(x).to_f32();
            let got = round_f16(x);
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{x}: {got} for {want}"
            );
        }
    }
}

#[test]
fn shader_primitives_are_valid() {
    let text = crate::expr::wgsl::MATH;
    let module =
        naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{}", e.emit_to_string(text)));
    let mut validator = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::empty(),
    );
    validator.validate(&module).unwrap();
    for name in ["exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "erf", "pow", "round_f16"] {
        let name = format!("p_{name}");
        assert!(module.functions.iter().any(|(_, f)| f.name.as_deref() == Some(&name)), "{name}");
    }
}
