//! Loops over a block in which every window has its elements at the same distances.

use bytemuck::{cast, cast_slice, cast_slice_mut};
use multiversion::multiversion;

use crate::base::dtype::Ty;
use crate::exec::cpu::forms::order::{Extremum, KeyOrder};
use crate::ops::Combine;

/// Lanes that are computed at a time, so many that their sums in registers do not wait for each other.
pub(super) const WIDTH: usize = 64;
/// Terms that are added up one after the other; longer sums are sums of such sums, which round less.
const TERMS: usize = 64;

/// An element of a window: its distance from the position of the window, and its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub at: usize,
    pub weight: u32,
}

/// The combination of the elements of a window.
#[derive(Clone, Copy)]
pub(super) enum Stencil {
    SumF32,
    SumInt,
    /// Elements are keys while they are combined.
    Extreme(KeyOrder),
}

impl Stencil {
    pub fn new(combine: Combine, ty: Ty) -> Self {
        match (combine, ty) {
            (Combine::Max, _) => Self::Extreme(KeyOrder::by_value(ty, Extremum::Greatest)),
            (Combine::Min, _) => Self::Extreme(KeyOrder::by_value(ty, Extremum::Least)),
            (_, Ty::F32) => Self::SumF32,
            _ => Self::SumInt,
        }
    }

    /// The weight of elements without one.
    pub fn one(self) -> u32 {
        match self {
            Self::SumF32 => 1.0_f32.to_bits(),
            Self::SumInt | Self::Extreme(_) => 1,
        }
    }

    /// Prepares elements.
    pub fn enter(self, lanes: &mut [u32]) {
        if let Self::Extreme(order) = self {
            to_keys(order, lanes);
        }
    }

    /// Turns combined elements to results.
    pub fn leave(self, lanes: &mut [u32]) {
        if let Self::Extreme(order) = self {
            from_keys(order, lanes);
        }
    }

    /// Combines the elements at `taps` from each of the first `len` lanes of `block`. Lanes of `out` after them are
    /// overwritten as well.
    pub fn run(self, block: &[u32], len: usize, taps: &[Tap], out: &mut [u32]) {
        let out = &mut out[..len.next_multiple_of(WIDTH)];
        match self {
            Self::SumF32 => sum_f32(cast_slice(block), taps, cast_slice_mut(out)),
            Self::SumInt => sum_int(block, taps, out),
            Self::Extreme(_) => greatest(block, taps, out),
        }
    }
}

/// The elements from `at` on; a block has room for whole vectors behind it.
#[inline(always)]
fn vector<T>(block: &[T], at: usize) -> &[T; WIDTH] {
    block[at..].first_chunk().expect("buffers are longer than their blocks")
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn sum_f32(block: &[f32], taps: &[Tap], out: &mut [f32]) {
    for (i, out) in out.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        let mut total = [0.0; WIDTH];
        for taps in taps.chunks(TERMS) {
            let mut sum = [0.0; WIDTH];
            for tap in taps {
                let (x, weight) = (vector(block, i * WIDTH + tap.at), cast::<u32, f32>(tap.weight));
                for lane in 0..WIDTH {
                    sum[lane] += x[lane] * weight;
                }
            }
            for lane in 0..WIDTH {
                total[lane] += sum[lane];
            }
        }
        *out = total;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn sum_int(block: &[u32], taps: &[Tap], out: &mut [u32]) {
    for (i, out) in out.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        let mut sum = [0_u32; WIDTH];
        for tap in taps {
            let x = vector(block, i * WIDTH + tap.at);
            for lane in 0..WIDTH {
                sum[lane] = sum[lane].wrapping_add(x[lane].wrapping_mul(tap.weight));
            }
        }
        *out = sum;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn greatest(block: &[u32], taps: &[Tap], out: &mut [u32]) {
    for (i, out) in out.as_chunks_mut::<WIDTH>().0.iter_mut().enumerate() {
        let mut most = [0_u32; WIDTH];
        for tap in taps {
            let x = vector(block, i * WIDTH + tap.at);
            for lane in 0..WIDTH {
                most[lane] = most[lane].max(x[lane]);
            }
        }
        *out = most;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn to_keys(order: KeyOrder, lanes: &mut [u32]) {
    for lane in lanes {
        *lane = order.key(*lane);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn from_keys(order: KeyOrder, lanes: &mut [u32]) {
    for lane in lanes {
        *lane = order.lane(*lane);
    }
}

/// Sets `out` to every `step`th element of `lanes`, from the first on.
pub(super) fn pick(lanes: &[u32], step: usize, out: &mut [u32]) {
    match step {
        1 => out.copy_from_slice(&lanes[..out.len()]),
        2 => pick_half(lanes, out),
        _ => {
            for (out, &lane) in out.iter_mut().zip(lanes.iter().step_by(step)) {
                *out = lane;
            }
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn pick_half(lanes: &[u32], out: &mut [u32]) {
    let pairs = lanes.as_chunks::<2>().0;
    for (out, pair) in out.iter_mut().zip(pairs) {
        *out = pair[0];
    }
    // The last element may lack a neighbour.
    if let (Some(out), Some(&lane)) = (out.get_mut(pairs.len()), lanes.get(2 * pairs.len())) {
        *out = lane;
    }
}
