//! Published rules of thumb for the side that computes: by transfer against arithmetic, and by size alone.
//!
//! They are here to be compared with, and for those who want them: [`Placement::Auto`](crate::Placement) reckons with
//! figures measured on the machine instead. All of them count on data that lies in host memory and must come back.
//!
//! *Arithmetic* and *transfer* are the rules' own figures: flops over 20 TFLOP/s, bytes over 32 GB/s. The times of 16
//! cores are measured (`BENCHMARKS.md`).
//!
//! | rule and case | arithmetic | transfer | it says | the GPU in all | 16 cores | so it is |
//! |---|--:|--:|---|--:|--:|---|
//! | [5 ×](BackendSelector::select_backend), sum of two vectors of 1e7 | 0.0005 ms | 3.75 ms | SIMD, as 0.0005 < 5 · 3.75 | 3.75 ms | 0.8 ms (120 MB at 150 GB/s) | right |
//! | 5 ×, product 1024³ | 0.107 ms | 0.393 ms | SIMD, as 0.107 < 1.97 | 0.50 ms | 0.85 ms | wrong |
//! | 5 ×, product 4096³ | 6.9 ms | 6.3 ms | SIMD, as 6.9 < 31.5 | 13.2 ms | 47 ms (2.9 TFLOP/s, as at 2048³) | wrong |
//! | [high](BackendSelector::select_with_moe), product 1024³: 1 048 576 results | 0.107 ms | 0.393 ms | GPU | 0.50 ms | 0.85 ms | right |
//! | high, product 101³: 10 201 results | 0.0001 ms | 0.004 ms | GPU | 0.06 ms, all of it the round trip | 0.02 ms (128³) | wrong |
//! | medium, sum of 500 000 numbers | 0.00003 ms | 0.063 ms | GPU | 0.12 ms | 0.023 ms | wrong; right for data that lies on the GPU and is large |
//! | low, sum of two vectors of 1e7 | 0.0005 ms | 3.75 ms | SIMD | 3.75 ms | 0.8 ms | right |
//! | low, sixteen `tanh` of 1e7 | 0.1 ms | 2.5 ms | SIMD | 2.6 ms | 7.7 ms (16 · 0.48) | wrong, as for data that lies on the GPU |
//!
//! The formula of the 5 × rule says GPU for square products from n = 18 751 on: 2n³ / 20e12 > 5 · 12n² / 32e9 means n >
//! 18 750. Its published example says GPU for 1024³, against the formula, and by the figures in the table it is the
//! example that is right: a ratio of 5 asks that the transfer be a sixth of the time, not that the GPU be faster.
//!
//! The 5 × rule is that of Gregg and Hazelwood (2011), with the bandwidth of PCIe 4 (32 GB/s) and a card of 20 TFLOP/s.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::error::DeviceError;

/// The backend that a rule chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// One thread, element by element.
    Scalar,
    /// The host's vector units.
    Simd,
    /// The GPU.
    Gpu,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "scalar",
            Self::Simd => "simd",
            Self::Gpu => "gpu",
        })
    }
}

/// The arithmetic of an operation for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpComplexity {
    /// Elementwise operations.
    Low,
    /// Reductions.
    Medium,
    /// Matrix products and convolutions.
    High,
}

/// Chooses by published rules. All comparisons are strict: a value equal to a threshold stays below it.
///
/// ```
/// use onetrip::selector::{Choice, BackendSelector, OpComplexity};
///
/// let selector = BackendSelector::new();
/// assert_eq!(selector.select_for_matmul(1024, 1024, 1024), Choice::Simd);
/// assert_eq!(selector.select_for_matmul(18_749, 18_749, 18_749), Choice::Simd);
/// assert_eq!(selector.select_for_matmul(18_751, 18_751, 18_751), Choice::Gpu);
/// assert_eq!(selector.select_with_moe(OpComplexity::High, 1024 * 1024), Choice::Gpu);
/// assert!(selector.with_pcie_bandwidth(-1.0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendSelector {
    pcie_bandwidth: f64,
    gpu_flops: f64,
    min_dispatch_ratio: f64,
}

impl Default for BackendSelector {
    fn default() -> Self {
        Self { pcie_bandwidth: 32e9, gpu_flops: 20e12, min_dispatch_ratio: 5.0 }
    }
}

// All numbers are positive, so that equal ones have equal bits.
impl Eq for BackendSelector {}

impl Hash for BackendSelector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let numbers = [self.pcie_bandwidth, self.gpu_flops, self.min_dispatch_ratio];
        numbers.map(f64::to_bits).hash(state);
    }
}

impl BackendSelector {
    /// 32 GB/s, 20 TFLOP/s, and a ratio of 5.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With another bandwidth between host and GPU, in bytes a second.
    ///
    /// # Errors
    /// [`DeviceError::Profile`] unless it is a positive number.
    pub fn with_pcie_bandwidth(self, bandwidth: f64) -> Result<Self, DeviceError> {
        Ok(Self { pcie_bandwidth: positive("the bandwidth", bandwidth)?, ..self })
    }

    /// With another rate of the GPU, in flops a second (in spite of the name, which is the published one).
    ///
    /// # Errors
    /// [`DeviceError::Profile`] unless it is a positive number.
    pub fn with_gpu_gflops(self, flops: f64) -> Result<Self, DeviceError> {
        Ok(Self { gpu_flops: positive("the rate", flops)?, ..self })
    }

    /// With another ratio of arithmetic to transfer from which on the GPU is chosen.
    ///
    /// # Errors
    /// [`DeviceError::Profile`] unless it is a positive number.
    pub fn with_min_dispatch_ratio(self, ratio: f64) -> Result<Self, DeviceError> {
        Ok(Self { min_dispatch_ratio: positive("the ratio", ratio)?, ..self })
    }

    /// The GPU if its arithmetic takes more than `min_dispatch_ratio` times as long as moving `bytes`, else SIMD.
    #[must_use]
    pub fn select_backend(&self, bytes: usize, flops: u64) -> Choice {
        let transfer = bytes as f64 / self.pcie_bandwidth;
        let compute = flops as f64 / self.gpu_flops;
        if compute > self.min_dispatch_ratio * transfer { Choice::Gpu } else { Choice::Simd }
    }

    /// For `[m, k] · [k, n]` of `f32`: 2·m·n·k flops, and all three matrices moved.
    #[must_use]
    pub fn select_for_matmul(&self, m: usize, n: usize, k: usize) -> Choice {
        let area = |a: usize, b: usize| a.saturating_mul(b);
        let elements = area(m, k).saturating_add(area(k, n)).saturating_add(area(m, n));
        let flops = [m, n, k].iter().fold(2_u64, |flops, &side| flops.saturating_mul(side as u64));
        self.select_backend(elements.saturating_mul(4), flops)
    }

    /// For vectors of `n` elements of `f32`, two in and one out, with `ops` flops an element.
    #[must_use]
    pub fn select_for_vector_op(&self, n: usize, ops: u64) -> Choice {
        self.select_backend(n.saturating_mul(12), (n as u64).saturating_mul(ops))
    }

    /// For one cheap operation on `n` elements: SIMD above a million, else scalar.
    #[must_use]
    pub fn select_for_elementwise(&self, n: usize) -> Choice {
        self.select_with_moe(OpComplexity::Low, n)
    }

    /// A choice by complexity and size alone, in the manner of a mixture of experts. Low: SIMD above 1e6, never the GPU.
    /// Medium: SIMD above 1e4, the GPU above 1e5. High: SIMD above 1e3, the GPU above 1e4.
    #[must_use]
    pub fn select_with_moe(&self, complexity: OpComplexity, n: usize) -> Choice {
        let (simd, gpu) = match complexity {
            OpComplexity::Low => (1_000_000, usize::MAX),
            OpComplexity::Medium => (10_000, 100_000),
            OpComplexity::High => (1_000, 10_000),
        };
        match n {
            n if n > gpu => Choice::Gpu,
            n if n > simd => Choice::Simd,
            _ => Choice::Scalar,
        }
    }
}

fn positive(what: &str, x: f64) -> Result<f64, DeviceError> {
    if x.is_finite() && x > 0.0 {
        return Ok(x);
    }
    Err(DeviceError::Profile { what: format!("{what} of a selector, {x}") })
}
