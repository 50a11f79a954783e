//! One primitive over a slice of lanes: loops that are compiled for several instruction sets and
//! chosen at run time. Lanes are 32-bit words; truth values are 0 and 1.

use bytemuck::{cast_slice, cast_slice_mut};
use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use super::math;
use crate::base::dtype::Ty;
use crate::expr::{Binary, Unary};

/// Computes `out[i] = $f(x[i], …)`. It is a macro, since a closure would not be compiled for the instruction set of the
/// function around it.
macro_rules! each {
    ($out:expr, |$a:ident| $f:expr) => {
        for (out, &$a) in $out.iter_mut().zip($a) {
            *out = $f;
        }
    };
    ($out:expr, |$a:ident, $b:ident| $f:expr) => {
        for ((out, &$a), &$b) in $out.iter_mut().zip($a).zip($b) {
            *out = $f;
        }
    };
}

/// Computes `out = op(x)` for lanes of type `ty`.
pub(crate) fn unary(op: Unary, ty: Ty, x: &[u32], out: &mut [u32]) {
    match ty {
        Ty::F32 if op == Unary::Exp => exp(cast_slice(x), cast_slice_mut(out)),
        Ty::F32 => unary_f32(op, cast_slice(x), cast_slice_mut(out)),
        Ty::I32 => unary_i32(op, cast_slice(x), cast_slice_mut(out)),
        Ty::U32 | Ty::Bool => unary_u32(op, x, out),
    }
}

/// Computes `out = op(x, y)` for arguments of type `ty`.
pub(crate) fn binary(op: Binary, ty: Ty, x: &[u32], y: &[u32], out: &mut [u32]) {
    match (ty, op.is_comparison()) {
        (Ty::F32, false) => binary_f32(op, cast_slice(x), cast_slice(y), cast_slice_mut(out)),
        (Ty::F32, true) => compare_f32(op, cast_slice(x), cast_slice(y), out),
        (Ty::I32, false) => binary_i32(op, cast_slice(x), cast_slice(y), cast_slice_mut(out)),
        (Ty::I32, true) => compare_i32(op, cast_slice(x), cast_slice(y), out),
        (Ty::U32 | Ty::Bool, false) => binary_u32(op, x, y, out),
        (Ty::U32 | Ty::Bool, true) => compare_u32(op, x, y, out),
    }
}

pub(crate) fn cast(from: Ty, to: Ty, x: &[u32], out: &mut [u32]) {
    match (from, to) {
        (Ty::F32, Ty::I32) => f32_to_i32(cast_slice(x), cast_slice_mut(out)),
        (Ty::F32, Ty::U32) => f32_to_u32(cast_slice(x), out),
        (Ty::F32, Ty::Bool) => f32_to_bool(cast_slice(x), out),
        (Ty::I32, Ty::F32) => i32_to_f32(cast_slice(x), cast_slice_mut(out)),
        (Ty::U32 | Ty::Bool, Ty::F32) => u32_to_f32(x, cast_slice_mut(out)),
        (Ty::I32 | Ty::U32, Ty::Bool) => u32_to_bool(x, out),
        (Ty::I32 | Ty::U32 | Ty::Bool, Ty::I32 | Ty::U32)
        | (Ty::F32, Ty::F32)
        | (Ty::Bool, Ty::Bool) => out.copy_from_slice(x),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn unary_f32(op: Unary, x: &[f32], out: &mut [f32]) {
    const FMA: bool = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
    match op {
        Unary::Neg => each!(out, |x| -x),
        Unary::Abs => each!(out, |x| x.abs()),
        Unary::Sign => each!(out, |x| math::sign(x)),
        Unary::Recip => each!(out, |x| 1.0 / x),
        Unary::Sqrt => each!(out, |x| x.sqrt()),
        Unary::Rsqrt => each!(out, |x| math::rsqrt(x)),
        Unary::Exp => each!(out, |x| math::exp::<FMA>(x)),
        Unary::Log => each!(out, |x| math::log::<FMA>(x)),
        Unary::Log1p => each!(out, |x| math::log1p::<FMA>(x)),
        Unary::Expm1 => each!(out, |x| math::expm1::<FMA>(x)),
        Unary::Sin => each!(out, |x| math::sin::<FMA>(x)),
        Unary::Cos => each!(out, |x| math::cos::<FMA>(x)),
        Unary::Tanh => each!(out, |x| math::tanh::<FMA>(x)),
        Unary::Erf => each!(out, |x| math::erf::<FMA>(x)),
        Unary::Floor => each!(out, |x| x.floor()),
        Unary::Ceil => each!(out, |x| x.ceil()),
        Unary::Round => each!(out, |x| x.round_ties_even()),
        Unary::FloorPow2 => each!(out, |x| math::floor_pow2(x)),
        Unary::Not => each!(out, |x| f32::from(u8::from(x == 0.0))),
        Unary::RoundF16 => each!(out, |x| math::round_f16(x)),
    }
}

fn exp(x: &[f32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if crate::exec::cpu::vectors::has_avx512() {
        // SAFETY: the processor has the instructions.
        return unsafe { crate::exec::cpu::vectors::exponential::exp_avx512(x, out) };
    }
    unary_f32(Unary::Exp, x, out);
}

/// Computes `out` = 1 / (1 + e⁻ˣ) for lanes of `f32`.
pub(crate) fn sigmoid(x: &[u32], out: &mut [u32]) {
    sigmoid_f32(cast_slice(x), cast_slice_mut(out));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn sigmoid_f32(x: &[f32], out: &mut [f32]) {
    const FMA: bool = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
    each!(out, |x| math::sigmoid::<FMA>(x));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn unary_i32(op: Unary, x: &[i32], out: &mut [i32]) {
    match op {
        Unary::Neg => each!(out, |x| x.wrapping_neg()),
        Unary::Abs => each!(out, |x| x.wrapping_abs()),
        Unary::Sign => each!(out, |x| x.signum()),
        Unary::Not => each!(out, |x| !x),
        _ => out.copy_from_slice(x),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn unary_u32(op: Unary, x: &[u32], out: &mut [u32]) {
    match op {
        Unary::Neg => each!(out, |x| x.wrapping_neg()),
        Unary::Sign => each!(out, |x| x.min(1)),
        Unary::Not => each!(out, |x| u32::from(x == 0)),
        _ => out.copy_from_slice(x),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn binary_f32(op: Binary, x: &[f32], y: &[f32], out: &mut [f32]) {
    match op {
        Binary::Add => each!(out, |x, y| x + y),
        Binary::Sub => each!(out, |x, y| x - y),
        Binary::Mul => each!(out, |x, y| x * y),
        Binary::Div => each!(out, |x, y| x / y),
        Binary::Min => each!(out, |x, y| math::min(x, y)),
        Binary::Max => each!(out, |x, y| math::max(x, y)),
        Binary::Pow => each!(out, |x, y| math::pow(x, y)),
        Binary::Rem => each!(out, |x, y| x % y),
        _ => out.fill(f32::NAN),
    }
}

macro_rules! integers {
    ($binary:ident, $t:ty, $pow:expr) => {
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
        fn $binary(op: Binary, x: &[$t], y: &[$t], out: &mut [$t]) {
            match op {
                Binary::Add => each!(out, |x, y| x.wrapping_add(y)),
                Binary::Sub => each!(out, |x, y| x.wrapping_sub(y)),
                Binary::Mul => each!(out, |x, y| x.wrapping_mul(y)),
                Binary::Div => each!(out, |x, y| if y == 0 { 0 } else { x.wrapping_div(y) }),
                Binary::Rem => each!(out, |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) }),
                Binary::Min => each!(out, |x, y| x.min(y)),
                Binary::Max => each!(out, |x, y| x.max(y)),
                Binary::Pow => each!(out, |x, y| $pow(x, y)),
                Binary::And => each!(out, |x, y| x & y),
                Binary::Or => each!(out, |x, y| x | y),
                Binary::Xor => each!(out, |x, y| x ^ y),
                Binary::Shr => each!(out, |x, y| (x as u32).wrapping_shr(y as u32) as $t),
                Binary::MulHigh => {
                    each!(out, |x, y| ((u64::from(x as u32) * u64::from(y as u32)) >> 32) as $t);
                }
                _ => out.fill(0),
            }
        }
    };
}
integers!(binary_i32, i32, math::pow_i32);
integers!(binary_u32, u32, u32::wrapping_pow);

macro_rules! comparisons {
    ($($name:ident $t:ty),*) => {$(
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
        fn $name(op: Binary, x: &[$t], y: &[$t], out: &mut [u32]) {
            match op {
                Binary::Eq => each!(out, |x, y| u32::from(x == y)),
                Binary::Ne => each!(out, |x, y| u32::from(x != y)),
                Binary::Lt => each!(out, |x, y| u32::from(x < y)),
                Binary::Le => each!(out, |x, y| u32::from(x <= y)),
                Binary::Gt => each!(out, |x, y| u32::from(x > y)),
                Binary::Ge => each!(out, |x, y| u32::from(x >= y)),
                _ => out.fill(0),
            }
        }
    )*};
}
comparisons!(compare_f32 f32, compare_i32 i32, compare_u32 u32);

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
pub(crate) fn select(c: &[u32], x: &[u32], y: &[u32], out: &mut [u32]) {
    for (((out, &c), &x), &y) in out.iter_mut().zip(c).zip(x).zip(y) {
        *out = if c != 0 { x } else { y };
    }
}

/// Sets the first `count` lanes of `out` to `values`, each of them `len` times, but the first only as often as is left
/// after `skip` lanes.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
pub(crate) fn spread(values: &[u32], len: usize, skip: usize, count: usize, out: &mut [u32]) {
    const STEP: usize = 16;
    let mut start = 0;
    for (i, &value) in values.iter().enumerate() {
        let end = ((i + 1) * len - skip).min(count);
        for at in (start..end).step_by(STEP) {
            // A vector may pass the end of its stretch. The next stretch overwrites those lanes.
            match out[at..].first_chunk_mut::<STEP>() {
                Some(out) => *out = [value; STEP],
                None => out[at..end].fill(value),
            }
        }
        start = end;
    }
}

macro_rules! casts {
    ($($name:ident |$x:ident: $from:ty| -> $to:ty { $f:expr })*) => {$(
        #[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
        fn $name($x: &[$from], out: &mut [$to]) {
            each!(out, |$x| $f);
        }
    )*};
}
casts! {
    f32_to_i32 |x: f32| -> i32 { x as i32 }
    f32_to_u32 |x: f32| -> u32 { x as u32 }
    f32_to_bool |x: f32| -> u32 { u32::from(x != 0.0) }
    i32_to_f32 |x: i32| -> f32 { x as f32 }
    u32_to_f32 |x: u32| -> f32 { x as f32 }
    u32_to_bool |x: u32| -> u32 { u32::from(x != 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::reference::{self, LaneValue};

    const UNARY: [Unary; 20] = {
        use Unary::*;
        [
            Neg, Abs, Sign, Recip, Sqrt, Rsqrt, Exp, Log, Log1p, Expm1, Sin, Cos, Tanh, Erf, Floor,
            Ceil, Round, FloorPow2, Not, RoundF16,
        ]
    };
    const BINARY: [Binary; 19] = {
        use Binary::*;
        [Add, Sub, Mul, Div, Min, Max, Pow, Rem, Eq, Ne, Lt, Le, Gt, Ge, And, Or, MulHigh, Xor, Shr]
    };

    /// Lanes with every special value of `ty`.
    fn lanes(ty: Ty) -> Vec<u32> {
        match ty {
            Ty::F32 => [0.0, -0.0, 1.0, -2.5, 7.25, 0.3, 100.0, f32::NAN, f32::INFINITY, -1e9]
                .map(f32::to_bits)
                .to_vec(),
            Ty::I32 | Ty::U32 => vec![0, 1, 2, 3, 13, 1 << 31, u32::MAX, u32::MAX - 1, 77, 1 << 16],
            Ty::Bool => vec![0, 1, 1, 0, 1],
        }
    }

    fn same(got: u32, want: LaneValue, what: &str) {
        let got = LaneValue::from_bits(want.ty(), got);
        if let (LaneValue::F(got), LaneValue::F(want)) = (got, want) {
            let want = f64::from(want as f32);
            let near = (got - want).abs() <= want.abs() * 1e-6 + 1e-6;
            assert!(got == want || near || (got.is_nan() && want.is_nan()), "{what}: {got} {want}");
        } else {
            assert_eq!(got, want, "{what}");
        }
    }

    #[test]
    fn values_are_spread_over_stretches_of_any_length() {
        for len in [8_usize, 9, 16, 49, 300] {
            for count in [1, 15, 17, 100, 512] {
                for skip in [0, 1, len - 1] {
                    let values: Vec<u32> = (0..(skip + count).div_ceil(len) as u32).collect();
                    let mut out = vec![u32::MAX; 512];
                    spread(&values, len, skip, count, &mut out);
                    let want = (skip..skip + count).map(|at| (at / len) as u32);
                    assert!(want.eq(out[..count].iter().copied()), "{len} {count} {skip}");
                }
            }
        }
    }

    #[test]
    fn every_primitive_of_every_type_is_its_reference() {
        for ty in [Ty::F32, Ty::I32, Ty::U32, Ty::Bool] {
            let x = lanes(ty);
            let mut out = vec![0xdead_beef; x.len()];
            for op in UNARY {
                if (op == Unary::Not) != (ty == Ty::Bool) {
                    continue;
                }
                unary(op, ty, &x, &mut out);
                for (&x, &got) in x.iter().zip(&out) {
                    if ty == Ty::F32
                        && f32::from_bits(x) == -1e9
                        && [Unary::Sin, Unary::Cos].contains(&op)
                    {
                        continue;
                    }
                    let want = reference::unary(op, LaneValue::from_bits(ty, x));
                    same(got, want, &format!("{op:?} {:?}", LaneValue::from_bits(ty, x)));
                }
            }
            for shift in 0..x.len() {
                let mut y = x.clone();
                y.rotate_left(shift);
                for op in BINARY {
                    let logical = matches!(op, Binary::And | Binary::Or);
                    let arithmetic = !op.is_comparison() && !logical;
                    let bits = matches!(op, Binary::MulHigh | Binary::Xor | Binary::Shr);
                    if (logical && ty != Ty::Bool)
                        || (arithmetic && ty == Ty::Bool)
                        || (bits && ty != Ty::U32)
                    {
                        continue;
                    }
                    binary(op, ty, &x, &y, &mut out);
                    for ((&x, &y), &got) in x.iter().zip(&y).zip(&out) {
                        let (x, y) = (LaneValue::from_bits(ty, x), LaneValue::from_bits(ty, y));
                        same(got, reference::binary(op, x, y), &format!("{op:?} {x:?} {y:?}"));
                    }
                }
            }
            for to in [Ty::F32, Ty::I32, Ty::U32, Ty::Bool] {
                cast(ty, to, &x, &mut out);
                for (&x, &got) in x.iter().zip(&out) {
                    same(
                        got,
                        LaneValue::from_bits(ty, x).cast(to),
                        &format!("{x:x} {ty:?} to {to:?}"),
                    );
                }
            }
        }
    }
}
