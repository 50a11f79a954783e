//! Two primitives in one loop over `f32` lanes, so that the result of the first is never stored. Each rounds as it
//! would alone.

use bytemuck::{cast_slice, cast_slice_mut};
use multiversion::multiversion;

use super::math;
use crate::expr::Binary;

/// The second primitive, of the result `t` of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    /// With a third argument.
    With(Link),
    /// t·t.
    Square,
}

/// A primitive of a result `t` and another argument `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Add,
    Mul,
    /// t − z.
    Sub,
    /// z − t.
    SubFrom,
    /// min(t, z). The order decides which zero is the lesser.
    Min,
    /// min(z, t).
    MinOf,
    Max,
    MaxOf,
}

impl Link {
    /// Returns `op` as a link. `t_is_first` says that `t` is its first argument.
    pub fn of(op: Binary, t_is_first: bool) -> Option<Self> {
        Some(match (op, t_is_first) {
            (Binary::Add, _) => Self::Add,
            (Binary::Mul, _) => Self::Mul,
            (Binary::Sub, true) => Self::Sub,
            (Binary::Sub, false) => Self::SubFrom,
            (Binary::Min, true) => Self::Min,
            (Binary::Min, false) => Self::MinOf,
            (Binary::Max, true) => Self::Max,
            (Binary::Max, false) => Self::MaxOf,
            _ => return None,
        })
    }
}

impl Second {
    /// Returns whether `first` may be the first of a pair.
    pub fn follows(first: Binary) -> bool {
        matches!(first, Binary::Add | Binary::Sub | Binary::Mul | Binary::Min | Binary::Max)
    }

    /// Returns `op` as the second of a pair. `from_first` marks the arguments that are the result of the first.
    pub fn of(op: Binary, from_first: [bool; 2]) -> Option<Self> {
        match (op, from_first) {
            (Binary::Mul, [true, true]) => Some(Self::Square),
            (_, [true, true]) => None,
            (_, [t_is_first, _]) => Link::of(op, t_is_first).map(Self::With),
        }
    }
}

/// Computes `out[i]` = `second` of `first(x[i], y[i])` and `z[i]`. These are macros, since a closure would not be
/// compiled for the instruction set of the function around it.
macro_rules! each {
    ($out:ident, $args:ident, |$t:ident, $z:ident| $second:expr, |$x:ident, $y:ident| $first:expr) => {{
        let [x, y, z] = $args;
        for (((out, &$x), &$y), &$z) in $out.iter_mut().zip(x).zip(y).zip(z) {
            let $t = $first;
            *out = $second;
        }
    }};
}
macro_rules! seconds {
    ($second:ident, $out:ident, $args:ident, |$x:ident, $y:ident| $first:expr) => {
        match $second {
            Second::With(Link::Add) => each!($out, $args, |t, z| t + z, |$x, $y| $first),
            Second::With(Link::Mul) => each!($out, $args, |t, z| t * z, |$x, $y| $first),
            Second::With(Link::Sub) => each!($out, $args, |t, z| t - z, |$x, $y| $first),
            Second::With(Link::SubFrom) => each!($out, $args, |t, z| z - t, |$x, $y| $first),
            Second::With(Link::Min) => each!($out, $args, |t, z| math::min(t, z), |$x, $y| $first),
            Second::With(Link::MinOf) => {
                each!($out, $args, |t, z| math::min(z, t), |$x, $y| $first)
            }
            Second::With(Link::Max) => each!($out, $args, |t, z| math::max(t, z), |$x, $y| $first),
            Second::With(Link::MaxOf) => {
                each!($out, $args, |t, z| math::max(z, t), |$x, $y| $first)
            }
            Second::Square => each!($out, $args, |t, _z| t * t, |$x, $y| $first),
        }
    };
}

/// Runs both primitives over slices of `f32` lanes.
pub(crate) fn run(first: Binary, second: Second, [x, y, z]: [&[u32]; 3], out: &mut [u32]) {
    pairs(first, second, [cast_slice(x), cast_slice(y), cast_slice(z)], cast_slice_mut(out));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn pairs(first: Binary, second: Second, args: [&[f32]; 3], out: &mut [f32]) {
    match first {
        Binary::Add => seconds!(second, out, args, |x, y| x + y),
        Binary::Sub => seconds!(second, out, args, |x, y| x - y),
        Binary::Mul => seconds!(second, out, args, |x, y| x * y),
        Binary::Min => seconds!(second, out, args, |x, y| math::min(x, y)),
        Binary::Max => seconds!(second, out, args, |x, y| math::max(x, y)),
        _ => out.fill(f32::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::Ty;
    use crate::exec::cpu::tape::lanes;

    #[test]
    fn a_pair_is_two_primitives_to_the_bit() {
        const OPS: [Binary; 5] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Min, Binary::Max];
        let special = [0.0, -0.0, 1.0, -1.5, 1e-40, 3.4e38, f32::INFINITY, f32::NAN, 0.1, -7.3];
        let lane = |i: usize| f32::to_bits(special[i % special.len()]);
        let [x, y, z] = [|i| i, |i| i / 10, |i| i / 100]
            .map(|pick: fn(usize) -> usize| (0..1000).map(|i| lane(pick(i))).collect::<Vec<_>>());
        let (mut middle, mut want, mut got) = (vec![0; 1000], vec![0; 1000], vec![7; 1000]);
        for first in OPS {
            assert!(Second::follows(first));
            lanes::binary(first, Ty::F32, &x, &y, &mut middle);
            for second in OPS {
                for from_first in [[true, false], [false, true], [true, true]] {
                    let Some(pair) = Second::of(second, from_first) else { continue };
                    let [a, b] = from_first.map(|from_first| if from_first { &middle } else { &z });
                    lanes::binary(second, Ty::F32, a, b, &mut want);
                    run(first, pair, [&x, &y, &z], &mut got);
                    for i in 0..1000 {
                        let [got, want] = [got[i], want[i]].map(f32::from_bits);
                        let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
                        assert!(same, "{first:?} {pair:?} at {i}: {got} for {want}");
                    }
                }
            }
        }
    }
}
