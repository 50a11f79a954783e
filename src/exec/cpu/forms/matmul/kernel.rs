//! The innermost loops of products of `f32`: tiles of results whose sums stay in registers, over packed panels.

/// The tile and the functions of one set of instructions.
pub(super) struct Kernel {
    /// Rows of a tile, and of a panel of the left operand.
    pub rows: usize,
    /// Columns of a tile, and of a panel of the right operand.
    pub columns: usize,
    /// Most rows of the right operand that are multiplied at a time: a panel of as many stays in the first-level cache.
    pub depth: usize,
    multiply: unsafe fn(&PanelBlock<'_>, *mut f32, usize, bool),
    gather: unsafe fn(&mut [f32], &[f32], &[isize], &[LineRun], usize),
}

/// Panels of both operands along the same part of k.
pub(super) struct PanelBlock<'a> {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// Panels of [`Kernel::rows`], of which the last may have fewer: for each k the elements of its rows.
    pub x: &'a [f32],
    pub w: WidePanels<'a>,
}

/// Panels of [`Kernel::columns`], in which the elements of one k are contiguous.
#[derive(Clone, Copy)]
pub(super) struct WidePanels<'a> {
    pub data: &'a [f32],
    /// Elements from one k to the next.
    pub step: usize,
    /// Elements from one panel to the next.
    pub panel: usize,
}

/// Neighbouring lines of an operand at equal distances in memory: columns of the right one, rows of the left one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRun {
    /// First line, counted in a panel.
    pub to: usize,
    /// Position of its element.
    pub from: isize,
    pub len: usize,
}

impl Kernel {
    /// The kernel for the instructions of this processor.
    pub fn native() -> &'static Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
            {
                return &avx512::KERNEL;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return &avx2::KERNEL;
            }
        }
        &base::KERNEL
    }

    /// Computes the sums of `block`, and adds them to those at `out` if `more`.
    ///
    /// # Safety
    /// At `out`, as many rows and columns as the block has can be written by this call alone, rows `stride` elements
    /// apart. If `more`, they hold numbers.
    pub unsafe fn multiply(
        &self,
        block: &PanelBlock<'_>,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) {
        // SAFETY: the processor has the instructions (`native`), and the rest is as the caller promises.
        unsafe { (self.multiply)(block, out, stride, more) }
    }

    /// Copies elements to a panel of [`columns`](Self::columns) lines. Line `run.to + i` of each `offset` gets the
    /// element at `offset + run.from + i * stride`. Lines in no run get any number.
    pub fn gather(
        &self,
        panel: &mut [f32],
        data: &[f32],
        offsets: &[isize],
        runs: &[LineRun],
        stride: usize,
    ) {
        // SAFETY: the processor has the instructions (`native`).
        unsafe { (self.gather)(panel, data, offsets, runs, stride) }
    }
}

macro_rules! kernel {
    ($name:ident, $rows:literal by $columns:literal, $depth:literal, $fused:expr $(, $features:literal)?) => {
        mod $name {
            use super::{Kernel, LineRun, PanelBlock};

            pub(super) static KERNEL: Kernel =
                Kernel { rows: $rows, columns: $columns, depth: $depth, multiply, gather };

            $(#[target_feature(enable = $features)])?
            unsafe fn multiply(block: &PanelBlock<'_>, out: *mut f32, stride: usize, more: bool) {
                // SAFETY: as the caller promises.
                unsafe { super::multiply::<$rows, $columns, { $fused }>(block, (out, stride), more) }
            }

            $(#[target_feature(enable = $features)])?
            fn gather(
                panel: &mut [f32],
                data: &[f32],
                offsets: &[isize],
                runs: &[LineRun],
                stride: usize,
            ) {
                super::gather::<$columns>(panel, data, offsets, runs, stride);
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel!(avx512, 12 by 32, 256, true, "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma");
#[cfg(target_arch = "x86_64")]
kernel!(avx2, 6 by 16, 384, true, "avx2,fma");
#[cfg(target_arch = "aarch64")]
kernel!(base, 6 by 16, 384, true);
#[cfg(not(target_arch = "aarch64"))]
kernel!(base, 4 by 8, 384, cfg!(target_feature = "fma"));

/// As [`Kernel::multiply`], with tiles of `M` × `N`.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn multiply<const M: usize, const N: usize, const FUSED: bool>(
    block: &PanelBlock<'_>,
    (out, stride): (*mut f32, usize),
    more: bool,
) {
    let &PanelBlock { rows, columns, depth, x, w } = block;
    let panels = columns.div_ceil(N);
    let mut panel = 0;
    while panel < panels {
        // The sums of few rows fill the registers with several panels.
        let wide = match (rows, (columns - panel * N) / N) {
            (1, 4..) => 4,
            (1 | 2, 2..) => 2,
            _ => 1,
        };
        let width = (wide * N).min(columns - panel * N);
        let w = WidePanels { data: &w.data[panel * w.panel..], ..w };
        for row in (0..rows).step_by(M) {
            let height = M.min(rows - row);
            let tile = Tile { x: &x[row * depth..][..height * depth], w, height, wide };
            // SAFETY: the tile begins in the block.
            let out = unsafe { out.add(row * stride + panel * N) };
            if width == wide * N {
                // SAFETY: all of the tile lies in the block.
                unsafe { tile.run::<M, N, FUSED>(out, stride, more) };
                continue;
            }
            let mut whole = [[0.0; N]; M];
            // SAFETY: a tile of one panel has at most as many elements as `whole`.
            unsafe { tile.run::<M, N, FUSED>(whole.as_mut_ptr().cast(), N, false) };
            for (r, sums) in whole.iter().enumerate().take(height) {
                // SAFETY: the row of the tile has `width` elements in the block.
                let out = unsafe { std::slice::from_raw_parts_mut(out.add(r * stride), width) };
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = if more { *out + sum } else { *sum };
                }
            }
        }
        panel += wide;
    }
}

/// A tile of the results: one panel of rows times `wide` neighbouring panels of columns.
struct Tile<'a> {
    x: &'a [f32],
    w: WidePanels<'a>,
    height: usize,
    wide: usize,
}

impl Tile<'_> {
    /// Computes the tile, which has at most `M` rows.
    ///
    /// # Safety
    /// At `out`, all of the tile can be written, rows `stride` elements apart. If `more`, it holds numbers.
    #[inline(always)]
    unsafe fn run<const M: usize, const N: usize, const FUSED: bool>(
        self,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            match (self.height, self.wide) {
                (1, 4) => self.sized::<1, 4, N, FUSED>(out, stride, more),
                (1, 2) => self.sized::<1, 2, N, FUSED>(out, stride, more),
                (2, 2) => self.sized::<2, 2, N, FUSED>(out, stride, more),
                (1, _) => self.sized::<1, 1, N, FUSED>(out, stride, more),
                (2, _) => self.sized::<2, 1, N, FUSED>(out, stride, more),
                (3, _) => self.sized::<3, 1, N, FUSED>(out, stride, more),
                (4, _) => self.sized::<4, 1, N, FUSED>(out, stride, more),
                (5, _) if M > 4 => self.sized::<5, 1, N, FUSED>(out, stride, more),
                (6, _) if M > 6 => self.sized::<6, 1, N, FUSED>(out, stride, more),
                (7, _) if M > 6 => self.sized::<7, 1, N, FUSED>(out, stride, more),
                (8, _) if M > 6 => self.sized::<8, 1, N, FUSED>(out, stride, more),
                (9, _) if M > 6 => self.sized::<9, 1, N, FUSED>(out, stride, more),
                (10, _) if M > 6 => self.sized::<10, 1, N, FUSED>(out, stride, more),
                (11, _) if M > 6 => self.sized::<11, 1, N, FUSED>(out, stride, more),
                _ => self.sized::<M, 1, N, FUSED>(out, stride, more),
            }
        }
    }

    /// As [`run`](Self::run), for `M` rows and `P` panels.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn sized<const M: usize, const P: usize, const N: usize, const FUSED: bool>(
        self,
        out: *mut f32,
        stride: usize,
        more: bool,
    ) {
        let (x, w) = (self.x.as_chunks::<M>().0, self.w);
        let end = |depth: usize| (P - 1) * w.panel + (depth - 1) * w.step + N;
        assert!(x.is_empty() || end(x.len()) <= w.data.len());
        let mut sums = [[[0.0_f32; N]; P]; M];
        for (i, x) in x.iter().enumerate() {
            for p in 0..P {
                // SAFETY: N elements lie there, as asserted for the last i and p.
                let w: &[f32; N] =
                    unsafe { &*w.data.as_ptr().add(p * w.panel + i * w.step).cast() };
                for r in 0..M {
                    for c in 0..N {
                        let sum = &mut sums[r][p][c];
                        *sum = if FUSED { x[r].mul_add(w[c], *sum) } else { x[r] * w[c] + *sum };
                    }
                }
            }
        }
        for r in 0..M {
            for p in 0..P {
                // SAFETY: the elements of the tile can be written, as the caller promises.
                let out: &mut [f32; N] = unsafe { &mut *out.add(r * stride + p * N).cast() };
                for c in 0..N {
                    out[c] = if more { out[c] + sums[r][p][c] } else { sums[r][p][c] };
                }
            }
        }
    }
}

/// As [`Kernel::gather`], for panels of `N`.
#[inline(always)]
fn gather<const N: usize>(
    panel: &mut [f32],
    data: &[f32],
    offsets: &[isize],
    runs: &[LineRun],
    stride: usize,
) {
    match stride {
        1 => gather_strided::<N, 1>(panel, data, offsets, runs, 1),
        2 => gather_strided::<N, 2>(panel, data, offsets, runs, 2),
        _ => gather_strided::<N, 0>(panel, data, offsets, runs, stride),
    }
}

/// As [`gather`], for a `stride` of `S`, or any where `S` is 0.
#[inline(always)]
fn gather_strided<const N: usize, const S: usize>(
    panel: &mut [f32],
    data: &[f32],
    offsets: &[isize],
    runs: &[LineRun],
    stride: usize,
) {
    assert!(panel.len() == offsets.len() * N && runs.iter().all(|run| run.to + run.len <= N));
    let least = offsets.iter().copied().min().unwrap_or(0);
    let most = offsets.iter().copied().max().unwrap_or(0);
    let is_inside =
        |run: &LineRun| least + run.from >= 0 && (most + run.from) as usize + N * S <= data.len();
    // Copies of N elements have a fixed size. The elements after a run go where the next run or the next k is written
    // later: only the last k has no room for them.
    let fixed = if S > 0 && runs.iter().all(is_inside) { offsets.len().max(1) - 1 } else { 0 };
    for (k, &offset) in offsets[..fixed].iter().enumerate() {
        for run in runs {
            // SAFETY: N strides lie in `data`, as `is_inside` found. `run.to` is less than N and k is not the last,
            // so N elements from there on lie in `panel`.
            unsafe {
                let from = data.as_ptr().offset(offset + run.from);
                let to = panel.as_mut_ptr().add(k * N + run.to);
                let elements: [f32; N] = std::array::from_fn(|i| from.add(i * S).read());
                to.cast::<[f32; N]>().write_unaligned(elements);
            }
        }
    }
    for (k, &offset) in offsets.iter().enumerate().skip(fixed) {
        for run in runs {
            let from = (offset + run.from) as usize;
            for (i, to) in panel[k * N + run.to..][..run.len].iter_mut().enumerate() {
                *to = data[from + i * stride];
            }
        }
    }
}
