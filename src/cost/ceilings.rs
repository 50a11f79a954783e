//! The rates that no hardware reaches, by which calibration refuses impossible figures.

use super::Backend;

/// A GPU that is not published yet may be as many times faster than the fastest of today.
const HEADROOM: f64 = 2.0;

/// Bytes a second of the fastest memory that all kernels of a GPU share: the Infinity Cache of AMD's MI300X (AMD CDNA 3
/// white paper, 2023).
const GPU_BYTES: f64 = 17.2e12;
/// Flops a second of the fastest scalar units of a GPU in `f32`: those of the MI300X (AMD's data sheet, 2023).
const GPU_FLOPS: f64 = 163.4e12;
/// Bytes a second of the fastest link of a host and a GPU, both ways together: NVLink-C2C (NVIDIA Grace Hopper white
/// paper, 2022).
const LINK_BYTES: f64 = 900e9;

/// Cycles a second of the fastest core that is sold (Intel Core i9-14900KS, 2024).
const CORE_CLOCK: f64 = 6.2e9;
/// Bytes a cycle between a core and its first cache: two loads and a store of 64 bytes (AMD, Software Optimization
/// Guide for the Zen 5 Microarchitecture).
const CORE_BYTES: f64 = 192.0;
/// Flops a cycle of a core in `f32`: two fused multiplications and additions of 16 lanes (same guide).
const CORE_FLOPS: f64 = 64.0;

/// The rates that no side of a class exceeds, a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ceilings {
    /// Bytes that kernels read and write.
    pub bytes: f64,
    pub flops: f64,
    /// Bytes between host and device.
    pub link: f64,
}

impl Ceilings {
    /// The ceilings of a side. `threads` are those of the host, which the ceilings of a GPU do not depend on.
    pub fn of(side: Backend, threads: u32) -> Self {
        let cores = f64::from(threads.max(1)) * CORE_CLOCK;
        match side {
            Backend::Cpu => Self {
                bytes: cores * CORE_BYTES,
                flops: cores * CORE_FLOPS,
                link: cores * CORE_BYTES,
            },
            Backend::Gpu => Self {
                bytes: HEADROOM * GPU_BYTES,
                flops: HEADROOM * GPU_FLOPS,
                link: HEADROOM * LINK_BYTES,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_of_today_lies_below() {
        // The second cache of an H200; the products of an MI300X.
        let gpu = Ceilings::of(Backend::Gpu, 0);
        assert!(10e12 < gpu.bytes && 163.4e12 < gpu.flops);
        assert!(81e12 > gpu.bytes, "no memory has that");
        let cpu = Ceilings::of(Backend::Cpu, 2);
        assert!(2.0 * 150e9 < cpu.flops && cpu.flops < 2.0 * 1e12, "{cpu:?}");
        assert_eq!(Ceilings::of(Backend::Cpu, 0), Ceilings::of(Backend::Cpu, 1));
    }
}
