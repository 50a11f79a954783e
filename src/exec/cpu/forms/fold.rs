//! Combinations of the elements of a reduction: lane by lane along a row, or a row of lanes into as many results.

use std::hint::black_box;

use bytemuck::cast_slice;
use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use super::order::{Extremum, KeyOrder};
use crate::exec::cpu::tape::wide;
use crate::exec::cpu::vectors::extremes::ExtremeKernels;
use crate::exec::cpu::vectors::prefetch;

/// Positions whose elements are combined in one pass.
pub(crate) const TOGETHER: usize = 8;

/// An associative combination. Elements have positions, and parts are merged in the order of these.
pub(crate) trait LaneFold: Sync {
    type State: Copy + Send + Sync;

    /// The state before any element.
    fn empty(&self) -> Self::State;
    /// Takes elements of one row, the first of which has position `first`.
    fn row(&self, state: &mut Self::State, lanes: &[u32], first: usize);
    /// Takes the elements at position `index` of as many rows as there are states.
    fn column(&self, states: &mut [Self::State], lanes: &[u32], index: usize);
    /// Takes the elements at [`TOGETHER`] positions, the first of which is `index`. Lanes beyond those of the states are left.
    /// This takes less time than one position after the other, if states stay in registers.
    fn columns(&self, states: &mut [Self::State], lanes: &[&[u32]; TOGETHER], index: usize) {
        for (k, line) in lanes.iter().enumerate() {
            if let Some(next) = lanes.get(k + 1) {
                prefetch::read(&next[..states.len()]);
            }
            self.column(states, &line[..states.len()], index + k);
        }
    }
    /// Merges the state of later elements into `state`.
    fn merge(&self, state: &mut Self::State, later: Self::State);
    /// Converts a final state to a lane.
    fn finish(&self, state: Self::State) -> u32;
}

/// A combination that yields its result so far after each element.
pub(crate) trait Running: LaneFold {
    /// Replaces each element of one row by the result of all elements up to it.
    fn run_row(&self, state: &mut Self::State, lanes: &mut [u32]);
    /// Replaces the next element of each row by the result so far. There are as many rows as states.
    fn run_columns(&self, states: &mut [Self::State], lanes: &mut [u32]);
}

macro_rules! arithmetic {
    ($name:ident, $doc:literal, $lane:ty => $state:ty, $empty:literal, |$a:ident, $b:ident| $op:expr,
        |$fma:ident, $one:ident| $op_of_columns:expr, $finish:expr, $row:ident, $column:ident, $columns:ident, $run:ident) => {
        #[doc = $doc]
        pub(crate) struct $name;

        impl LaneFold for $name {
            type State = $state;
            fn empty(&self) -> $state {
                $empty
            }
            fn row(&self, state: &mut $state, lanes: &[u32], _first: usize) {
                self.merge(state, $row(cast_slice(lanes)));
            }
            fn column(&self, states: &mut [$state], lanes: &[u32], _index: usize) {
                $column(states, cast_slice(lanes));
            }
            fn columns(&self, states: &mut [$state], lanes: &[&[u32]; TOGETHER], _index: usize) {
                $columns(states, lanes);
            }
            fn merge(&self, state: &mut $state, later: $state) {
                let ($a, $b) = (*state, later);
                *state = $op;
            }
            fn finish(&self, state: $state) -> u32 {
                ($finish)(state)
            }
        }

        impl Running for $name {
            fn run_row(&self, state: &mut $state, lanes: &mut [u32]) {
                for lane in lanes {
                    let ($a, $b) = (*state, <$state>::from(bytemuck::cast::<u32, $lane>(*lane)));
                    *state = $op;
                    *lane = ($finish)(*state);
                }
            }
            fn run_columns(&self, states: &mut [$state], lanes: &mut [u32]) {
                $run(states, lanes);
            }
        }

        #[multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
            "x86_64+avx2+fma"
        ))]
        fn $run(states: &mut [$state], lanes: &mut [u32]) {
            for (state, lane) in states.iter_mut().zip(lanes) {
                let ($a, $b) = (*state, <$state>::from(bytemuck::cast::<u32, $lane>(*lane)));
                *state = $op;
                *lane = ($finish)(*state);
            }
        }

        #[multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
            "x86_64+avx2+fma"
        ))]
        fn $row(x: &[$lane]) -> $state {
            wide::fold(
                x,
                $empty,
                |$a: $state, x: $lane| {
                    let $b = <$state>::from(x);
                    $op
                },
                |$a: $state, $b: $state| $op,
            )
        }

        #[multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
            "x86_64+avx2+fma"
        ))]
        fn $column(states: &mut [$state], x: &[$lane]) {
            for (state, &x) in states.iter_mut().zip(x) {
                let ($a, $b) = (*state, <$state>::from(x));
                *state = $op;
            }
        }

        #[multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
            "x86_64+avx2+fma"
        ))]
        fn $columns(states: &mut [$state], lanes: &[&[u32]; TOGETHER]) {
            let $fma = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
            // The compiler would fold a constant one away.
            let $one = black_box(1.0);
            let lanes = lanes.map(|lanes| &lanes[..states.len()]);
            for (at, state) in states.iter_mut().enumerate() {
                *state = lanes.iter().fold(*state, |$a, lanes| {
                    let $b = <$state>::from(bytemuck::cast::<u32, $lane>(lanes[at]));
                    $op_of_columns
                });
            }
        }
    };
}
// Zen 4 adds and converts in one kind of unit, and has another for fused multiply-adds: by one, sums of columns take a
// twentieth less.
arithmetic!(SumF32, "Σx, in double precision.", f32 => f64, 0.0, |a, b| a + b,
    |fma, one| if fma { b.mul_add(one, a) } else { a + b },
    |x: f64| (x as f32).to_bits(), sum_f32, sum_f32_column, sum_f32_columns, sums_f32);
arithmetic!(ProdF32, "Πx, in double precision.", f32 => f64, 1.0, |a, b| a * b, |_fma, _one| a * b,
    |x: f64| (x as f32).to_bits(), prod_f32, prod_f32_column, prod_f32_columns, prods_f32);
arithmetic!(SumInt, "Σx modulo 2³², which is the same with and without a sign.", u32 => u32, 0,
    |a, b| a.wrapping_add(b), |_fma, _one| a.wrapping_add(b), |x: u32| x, sum_int, sum_int_column, sum_int_columns, sums_int);
arithmetic!(ProdInt, "Πx modulo 2³².", u32 => u32, 1,
    |a, b| a.wrapping_mul(b), |_fma, _one| a.wrapping_mul(b), |x: u32| x, prod_int, prod_int_column, prod_int_columns, prods_int);

/// The greatest key of some lanes; 0 if there are none.
fn greatest_key(order: KeyOrder, lanes: &[u32]) -> u32 {
    // Comparing floats takes a third of the time, but −0 and 0 are equal then.
    let (kernels, x) = (ExtremeKernels::native(), cast_slice(lanes));
    let wanted = match order.of_floats() {
        Some(Extremum::Greatest) => kernels.greatest(x),
        Some(Extremum::Least) => kernels.least(x),
        None => 0.0,
    };
    if lanes.is_empty() || wanted == 0.0 {
        return greatest_of_keys(order, lanes);
    }
    order.key(wanted.to_bits())
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn greatest_of_keys(order: KeyOrder, lanes: &[u32]) -> u32 {
    wide::fold(lanes, 0, |most: u32, bits| most.max(order.key(bits)), u32::max)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn greatest_key_column(order: KeyOrder, states: &mut [u32], lanes: &[u32]) {
    for (state, &bits) in states.iter_mut().zip(lanes) {
        *state = (*state).max(order.key(bits));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn greatest_key_columns(order: KeyOrder, states: &mut [u32], lanes: &[&[u32]; TOGETHER]) {
    let lanes = lanes.map(|lanes| &lanes[..states.len()]);
    for (at, state) in states.iter_mut().enumerate() {
        *state = lanes.iter().fold(*state, |most, lanes| most.max(order.key(lanes[at])));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn position_columns(order: KeyOrder, states: &mut [u64], lanes: &[u32], index: u32) {
    for (state, &bits) in states.iter_mut().zip(lanes) {
        *state = (*state).max(keyed(order.key(bits), index));
    }
}

/// Returns the position of the first of `lanes` with `key`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn position(order: KeyOrder, lanes: &[u32], key: u32) -> Option<usize> {
    const BLOCK: usize = 128;
    for (i, block) in lanes.chunks(BLOCK).enumerate() {
        // A loop that ends early would not become vector instructions.
        let mut is_there = false;
        for &bits in block {
            is_there |= order.key(bits) == key;
        }
        if is_there {
            let at = block.iter().position(|&bits| order.key(bits) == key)?;
            return Some(i * BLOCK + at);
        }
    }
    None
}

/// Packs a key and its position into one number. The number is greater if the key is, or for equal keys if the position
/// comes first.
#[inline(always)]
fn keyed(key: u32, index: u32) -> u64 {
    u64::from(key) << 32 | u64::from(!index)
}

/// The greatest or least element; NaN if any is NaN.
pub(crate) struct Extreme(pub KeyOrder);

impl LaneFold for Extreme {
    type State = u32;

    fn empty(&self) -> u32 {
        0
    }

    fn row(&self, state: &mut u32, lanes: &[u32], _first: usize) {
        *state = (*state).max(greatest_key(self.0, lanes));
    }

    fn column(&self, states: &mut [u32], lanes: &[u32], _index: usize) {
        greatest_key_column(self.0, states, lanes);
    }

    fn columns(&self, states: &mut [u32], lanes: &[&[u32]; TOGETHER], _index: usize) {
        greatest_key_columns(self.0, states, lanes);
    }

    fn merge(&self, state: &mut u32, later: u32) {
        *state = (*state).max(later);
    }

    fn finish(&self, state: u32) -> u32 {
        self.0.lane(state)
    }
}

impl Running for Extreme {
    fn run_row(&self, state: &mut u32, lanes: &mut [u32]) {
        for lane in lanes {
            *state = (*state).max(self.0.key(*lane));
            *lane = self.0.lane(*state);
        }
    }

    fn run_columns(&self, states: &mut [u32], lanes: &mut [u32]) {
        extremes(self.0, states, lanes);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn extremes(order: KeyOrder, states: &mut [u32], lanes: &mut [u32]) {
    for (state, lane) in states.iter_mut().zip(lanes) {
        *state = (*state).max(order.key(*lane));
        *lane = order.lane(*state);
    }
}

/// The first position of the greatest or least element; the first NaN wins over all.
pub(crate) struct Position(pub KeyOrder);

impl LaneFold for Position {
    /// The greatest [`keyed`] position.
    type State = u64;

    fn empty(&self) -> u64 {
        keyed(0, 0)
    }

    fn row(&self, state: &mut u64, lanes: &[u32], first: usize) {
        let greatest = greatest_key(self.0, lanes);
        if u64::from(greatest) > *state >> 32
            && let Some(at) = position(self.0, lanes, greatest)
        {
            *state = keyed(greatest, (first + at) as u32);
        }
    }

    fn column(&self, states: &mut [u64], lanes: &[u32], index: usize) {
        position_columns(self.0, states, lanes, index as u32);
    }

    fn merge(&self, state: &mut u64, later: u64) {
        *state = (*state).max(later);
    }

    fn finish(&self, state: u64) -> u32 {
        !(state as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::Ty;

    #[test]
    fn zeros_of_rows_differ_by_sign() {
        for (extremum, want) in [(Extremum::Greatest, 0.0_f32), (Extremum::Least, -0.0)] {
            let fold = Extreme(KeyOrder::by_value(Ty::F32, extremum));
            for len in [2, 17, 300] {
                for at in [0, len / 2, len - 1] {
                    for others in [0.0_f32, -0.0] {
                        let mut lanes = vec![others.to_bits(); len];
                        lanes[at] = (-others).to_bits();
                        let mut state = fold.empty();
                        fold.row(&mut state, &lanes, 0);
                        assert_eq!(fold.finish(state), want.to_bits(), "{len} {at} {others}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_of_the_greatest_is_found_in_any_block() {
        let order = KeyOrder::by_number(Ty::F32, Extremum::Greatest);
        for at in [0, 1, 127, 128, 255, 299] {
            for greatest in [7.0, f32::INFINITY, f32::NAN] {
                let mut lanes = vec![(-1.0f32).to_bits(); 300];
                lanes[at] = greatest.to_bits();
                lanes[299] = greatest.to_bits();
                assert_eq!(position(order, &lanes, order.key(greatest.to_bits())), Some(at));
                let mut state = Position(order).empty();
                Position(order).row(&mut state, &lanes, 5);
                assert_eq!(Position(order).finish(state) as usize, at + 5);
            }
        }
        assert_eq!(position(order, &[1, 2, 3], order.key(4)), None);
        assert_eq!(position(order, &[], 0), None);
    }
}
