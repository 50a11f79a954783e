//! Copies of columns to panels.

use super::operands::Rows;
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::square::{SIDE, transposed};

/// As the kernel's `transpose`, for panels of `wide` columns, a multiple of the vector's length.
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn transpose<V: SimdVector>(
    [columns, depth]: [usize; 2],
    from: Rows<'_>,
    scale: f32,
    wide: usize,
    out: *mut f32,
) {
    // SAFETY: the processor has the instructions, as the caller promises.
    let [scale, zero] = unsafe { [V::splat(scale), V::splat(0.0)] };
    for column in (0..columns).step_by(V::LEN) {
        let count = V::LEN.min(columns - column);
        let panel = out.wrapping_add(column / wide * wide * depth + column % wide);
        for k in (0..depth).step_by(V::LEN) {
            let rows = V::LEN.min(depth - k);
            let mut square = [zero; SIDE];
            for (at, vector) in square.iter_mut().enumerate().take(count) {
                let from = from.row(column + at).wrapping_add(k);
                // SAFETY: as the caller promises, the elements exist.
                *vector = unsafe { V::load_first(from, rows) };
            }
            // SAFETY: the processor has the instructions, as the caller promises.
            square = unsafe { transposed(square) };
            for (at, vector) in square.into_iter().enumerate().take(rows) {
                let to = panel.wrapping_add((k + at) * wide);
                // SAFETY: as the caller promises, the panels have all rows.
                unsafe { vector.mul(scale).store(to) };
            }
        }
    }
}
