//! The innermost loops of products of `f32`, compiled for the instructions of each kind of processor.

use std::sync::LazyLock;

use super::kernel_operands::{DotProducts, PanelProduct, StripProduct};
#[cfg(target_arch = "x86_64")]
use super::tiles;

/// The functions for one set of instructions.
pub(super) struct Kernel {
    /// Columns of a panel.
    pub columns: usize,
    panels: unsafe fn(&PanelProduct<'_>, *mut f32, usize, bool),
    dots: unsafe fn(&DotProducts<'_>, *mut f32, usize, bool),
    strips: unsafe fn(&StripProduct<'_>, *mut f32, usize),
}

impl Kernel {
    /// The kernel for the instructions of this processor, if there is one.
    pub fn native() -> Option<&'static Self> {
        static NATIVE: LazyLock<Option<&'static Kernel>> = LazyLock::new(|| {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                if is_x86_feature_detected!("avx512f") {
                    return Some(&avx512::KERNEL);
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    return Some(&avx2::KERNEL);
                }
            }
            None
        });
        *NATIVE
    }

    /// Computes the sums of `product`, and adds them to those at `out` if `more`.
    ///
    /// # Safety
    /// At `out`, as many rows and columns as the product has can be written by this call alone, rows `stride` elements
    /// apart. If `more`, they hold numbers.
    pub unsafe fn panels(
        &self,
        product: &PanelProduct<'_>,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) {
        let [rows, columns, depth] = product.size;
        product.x.check(rows, depth);
        assert!(product.w.len() >= columns.next_multiple_of(self.columns) * depth);
        // SAFETY: the processor has the instructions (`native`). All elements of the operands exist, as asserted, and
        // the rest is as the caller promises.
        unsafe { (self.panels)(product, out, stride, more) }
    }

    /// As [`panels`](Self::panels), for columns that are contiguous.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn dots(&self, product: &DotProducts<'_>, out: *mut f32, stride: usize, more: bool) {
        let [rows, columns, depth] = product.size;
        product.x.check(rows, depth);
        product.w.check(columns, depth);
        // SAFETY: as in `panels`.
        unsafe { (self.dots)(product, out, stride, more) }
    }

    /// Adds the sums of `product`, whose operands both have contiguous rows, to those at `out`.
    ///
    /// # Safety
    /// As in [`panels`](Self::panels). The sums at `out` hold numbers.
    pub unsafe fn strips(&self, product: &StripProduct<'_>, out: *mut f32, stride: usize) {
        let [rows, columns, depth] = product.size;
        product.x.check(rows, depth);
        product.w.check(depth, columns);
        // SAFETY: as in `panels`.
        unsafe { (self.strips)(product, out, stride) }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! kernel {
    ($name:ident, $lanes:ident, $vectors:literal, $features:literal) => {
        mod $name {
            use std::arch::x86_64::$lanes;

            use super::{DotProducts, Kernel, PanelProduct, StripProduct};
            use crate::exec::cpu::forms::matmul::lanes::Lanes;

            pub(super) static KERNEL: Kernel =
                Kernel { columns: $vectors * $lanes::LEN, panels, dots, strips };

            #[target_feature(enable = $features)]
            unsafe fn panels(product: &PanelProduct<'_>, out: *mut f32, stride: usize, more: bool) {
                // SAFETY: as the caller promises.
                unsafe { super::tiles::panels::<$lanes, $vectors>(product, out, stride, more) }
            }

            #[target_feature(enable = $features)]
            unsafe fn dots(product: &DotProducts<'_>, out: *mut f32, stride: usize, more: bool) {
                // SAFETY: as the caller promises.
                unsafe { super::tiles::dots::<$lanes>(product, out, stride, more) }
            }

            #[target_feature(enable = $features)]
            unsafe fn strips(product: &StripProduct<'_>, out: *mut f32, stride: usize) {
                // SAFETY: as the caller promises.
                unsafe { super::tiles::strips::<$lanes>(product, out, stride) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel!(avx512, __m512, 3, "avx512f");
#[cfg(target_arch = "x86_64")]
kernel!(avx2, __m256, 2, "avx2,fma");
