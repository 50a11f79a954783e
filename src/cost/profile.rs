//! The speed of a device, on both sides, and of the kernels of its matrix products.

use std::fmt;

use super::{Backend, Curve, Learned};
use crate::base::units::{self, bytes, quantity, seconds};
use crate::error::DeviceError;

/// Bytes a second of the memory of the reference card, which stands in for kernels that were not measured.
pub(crate) const REFERENCE_BANDWIDTH: f64 = 4e12;
/// Seconds of a kernel launch on it.
pub(crate) const REFERENCE_DISPATCH: f64 = 4e-6;

/// The speed of a device on both of its sides, by which placement and fusion decide.
///
/// It is measured by [`Device::calibrate`](crate::Device::calibrate), kept on disk, shown by
/// [`Device::profile`](crate::Device::profile), and may be given by hand with
/// [`DeviceBuilder::with_profile`](crate::DeviceBuilder::with_profile). Before it is measured, typical figures stand in.
///
/// ```
/// use onetrip::{Backend, Curve, Device, DeviceProfile};
///
/// let mut profile = DeviceProfile::typical(8);
/// profile.gpu.upload = Curve::flat(25e9); // bytes a second
/// assert_eq!(profile.side(Backend::Cpu).threads, 8);
/// assert!(profile.learned.is_empty());
/// let device = Device::builder().with_profile(profile).cpu()?;
/// assert_eq!(device.profile().gpu.upload.last(), 25e9);
/// # Ok::<_, onetrip::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceProfile {
    /// True if the figures were measured, rather than typical ones. A profile given by hand keeps its own value.
    pub measured: bool,
    /// The host's cores.
    pub cpu: SideProfile,
    /// The GPU; typical figures where there is none.
    pub gpu: SideProfile,
    /// Cores of the GPU that work on tiles of a matrix product at the same time.
    pub cores: u32,
    /// Rates of the kernels of matrix products on the GPU. Calibration measures scalar tiles alone. For other
    /// kernels, the rates of a large card are scaled by the measured ones.
    pub tiles: Vec<TileRate>,
    /// The trials of graphs whose predictions are near a tie, each with its faster route.
    #[cfg_attr(feature = "serde", serde(default))]
    pub learned: Learned,
}

/// The speed of one side. Sizes and rates are in bytes, or in flops as the cost model counts them: a
/// transcendental function is worth 10 to 30.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SideProfile {
    /// Threads of the host that compute; 0 for a hardware GPU. A GPU on these threads waits while the host packs uploads.
    pub threads: u32,
    /// Seconds of a run that does nothing: submit and wait.
    pub round_trip: f64,
    /// Seconds of each kernel launched.
    pub dispatch: f64,
    /// From host memory to where kernels read, by bytes.
    pub upload: Curve,
    /// Results to host memory, by bytes.
    pub download: Curve,
    /// Reads and writes of kernels, by bytes: small amounts lie in caches.
    pub memory: Curve,
    /// Cheap elementwise arithmetic, by flops.
    pub arithmetic: Curve,
    /// Transcendental functions, by flops.
    pub transcendental: Curve,
    /// Reductions without the work before them, by flops.
    pub reduce: Curve,
    /// Softmax and norms without the work before and after them, by flops.
    pub row: Curve,
    /// Matrix products, by flops.
    pub product: Curve,
    /// Products with few rows, by flops.
    pub thin_product: Curve,
}

impl DeviceProfile {
    /// Typical figures of a hardware GPU and `threads` cores, until they are measured.
    #[must_use]
    pub fn typical(threads: usize) -> Self {
        Self {
            measured: false,
            cpu: SideProfile::cpu(threads),
            gpu: SideProfile::gpu(),
            cores: 128,
            tiles: Vec::new(),
            learned: Learned::default(),
        }
    }

    /// As [`typical`](Self::typical), with a software adapter in place of a hardware GPU.
    pub(crate) fn typical_with_software(threads: usize) -> Self {
        Self { gpu: SideProfile::software_gpu(threads), ..Self::typical(threads) }
    }

    /// The profile of one side.
    #[must_use]
    pub fn side(&self, backend: Backend) -> &SideProfile {
        match backend {
            Backend::Cpu => &self.cpu,
            Backend::Gpu => &self.gpu,
        }
    }

    /// Fails on numbers that are no times or rates.
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        let broken = |what: String| Err(DeviceError::Profile { what });
        for (side, profile) in [("cpu", &self.cpu), ("gpu", &self.gpu)] {
            if let Some(figure) = profile.unsound() {
                return broken(format!("{side}.{figure}"));
            }
        }
        if self.cores == 0 {
            return broken("cores".into());
        }
        if !self.learned.is_sound() {
            return broken("learned".into());
        }
        match self.tiles.iter().find(|tile| !tile.is_sound()) {
            Some(tile) => broken(format!("the rates of {tile}")),
            None => Ok(()),
        }
    }
}

impl SideProfile {
    /// A tenth of the reference card's throughput, and its latency.
    fn gpu() -> Self {
        Self {
            threads: 0,
            round_trip: 100e-6,
            dispatch: REFERENCE_DISPATCH,
            upload: Curve::flat(10e9),
            download: Curve::flat(6e9),
            memory: Curve::flat(REFERENCE_BANDWIDTH / 10.0),
            arithmetic: Curve::flat(4e12),
            transcendental: Curve::flat(4e12),
            reduce: Curve::flat(4e12),
            row: Curve::flat(4e12),
            product: Curve::flat(3e12),
            thin_product: Curve::flat(3e12),
        }
    }

    /// Figures of Mesa's lavapipe 22.3 on two cores of an EPYC (Zen 4); rates of kernels are for each thread. Upload and
    /// round trip are those of a hardware GPU.
    fn software_gpu(threads: usize) -> Self {
        let flat = |rate: f64| Curve::flat(rate * threads as f64);
        Self {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            dispatch: 100e-6,
            download: Curve::flat(10e9),
            memory: flat(3.5e9),
            arithmetic: flat(3.5e9),
            transcendental: flat(3.5e9),
            reduce: flat(0.2e9),
            row: flat(2.5e9),
            product: flat(3e9),
            thin_product: flat(0.15e9),
            ..Self::gpu()
        }
    }

    /// Nothing is moved: uploads and results are read where they lie.
    fn cpu(threads: usize) -> Self {
        let many = threads as f64;
        let flat = |rate: f64| Curve::flat(rate * many);
        Self {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            round_trip: 1e-6,
            dispatch: 0.5e-6,
            upload: Curve::default(),
            download: Curve::default(),
            memory: Curve::flat(8e9 * many.min(8.0)),
            arithmetic: flat(4e9),
            transcendental: flat(4e9),
            reduce: flat(4e9),
            row: flat(4e9),
            product: flat(40e9),
            thin_product: flat(40e9),
        }
    }

    /// The curves with their names and the unit of their sizes.
    fn curves(&self) -> [(&'static str, &Curve, Unit); 9] {
        [
            ("upload", &self.upload, Unit::Bytes),
            ("download", &self.download, Unit::Bytes),
            ("memory", &self.memory, Unit::Bytes),
            ("arithmetic", &self.arithmetic, Unit::Flops),
            ("transcendental", &self.transcendental, Unit::Flops),
            ("reduce", &self.reduce, Unit::Flops),
            ("row", &self.row, Unit::Flops),
            ("product", &self.product, Unit::Flops),
            ("thin product", &self.thin_product, Unit::Flops),
        ]
    }

    #[cfg(test)]
    pub(crate) fn curves_mut(&mut self) -> [&mut Curve; 9] {
        [
            &mut self.upload,
            &mut self.download,
            &mut self.memory,
            &mut self.arithmetic,
            &mut self.transcendental,
            &mut self.reduce,
            &mut self.row,
            &mut self.product,
            &mut self.thin_product,
        ]
    }

    /// The name of a figure that is no time or rate.
    fn unsound(&self) -> Option<&'static str> {
        let time = |s: f64| s.is_finite() && s >= 0.0;
        if !time(self.round_trip) {
            return Some("round_trip");
        }
        if !time(self.dispatch) {
            return Some("dispatch");
        }
        self.curves().into_iter().find(|(_, curve, _)| !curve.is_sound()).map(|(name, ..)| name)
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Flops,
}

impl Unit {
    fn size(self, n: f64) -> String {
        match self {
            Self::Bytes => bytes(n as u64),
            Self::Flops => quantity(n as u64),
        }
    }

    fn rate(self, per_second: f64) -> String {
        let unit = match self {
            Self::Bytes => "B",
            Self::Flops => "FLOP",
        };
        units::rate(per_second, unit)
    }
}

impl fmt::Display for SideProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.threads > 0 {
            write!(f, "{} threads, ", self.threads)?;
        }
        write!(f, "a run {}, ", seconds(self.round_trip))?;
        writeln!(f, "each kernel {}", seconds(self.dispatch))?;
        for (name, curve, unit) in self.curves() {
            write!(f, "  {name:14}")?;
            match curve.points() {
                [] => f.write_str(" nothing to do")?,
                [(_, rate)] => write!(f, " {}", unit.rate(*rate))?,
                points => {
                    for (at, (size, rate)) in points.iter().enumerate() {
                        let comma = if at > 0 { "," } else { "" };
                        write!(f, "{comma} {}: {}", unit.size(*size), unit.rate(*rate))?;
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for DeviceProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", if self.measured { "measured" } else { "typical figures" })?;
        write!(f, "cpu: {}", self.cpu)?;
        if self.measured && self.gpu == SideProfile::gpu() {
            writeln!(f, "gpu: none was measured")?;
            return self.learned.fmt(f);
        }
        write!(f, "gpu: {}", self.gpu)?;
        writeln!(f, "matrix products on {} cores", self.cores)?;
        self.tiles.iter().try_for_each(|tile| writeln!(f, "  {tile}"))?;
        self.learned.fmt(f)
    }
}

/// The units that multiply in a [`TileRate`]'s kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TileKind {
    /// Scalar units.
    Scalar,
    /// Matrix units, operands rounded to `f16`.
    Half,
    /// Matrix units, operands as sums of two `f16`.
    Split,
}

/// The speed of a GPU that multiplies in tiles of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TileRate {
    /// The units that multiply.
    pub kind: TileKind,
    /// Rows of the result that a workgroup computes.
    pub bm: u32,
    /// Columns of the result that a workgroup computes.
    pub bn: u32,
    /// Elements along k that it takes at a time.
    pub bk: u32,
    /// Flops a second of one core, with as many workgroups as it holds.
    pub rate: f64,
    /// Seconds that a workgroup takes for `bk` elements along k, alone on a core.
    pub step: f64,
}

impl TileRate {
    pub(super) fn is_sound(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        positive(self.rate) && positive(self.step)
    }
}

impl fmt::Display for TileRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TileKind::Scalar => "scalar",
            TileKind::Half => "half",
            TileKind::Split => "split",
        };
        let Self { bm, bn, bk, .. } = self;
        let (rate, step) = (self.rate / 1e9, self.step * 1e6);
        write!(
            f,
            "{kind} tiles of {bm} × {bn} × {bk}: {rate:.0} GFLOP/s a core, {step:.2} µs a step"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typical_figures_are_sound_and_print() {
        let profile = DeviceProfile::typical(4);
        assert_eq!(profile.check(), Ok(()));
        let text = profile.to_string();
        assert!(text.contains("cpu: 4 threads, a run 1.0 µs"), "{text}");
        assert!(text.contains("memory         400 GB/s"), "{text}");
        let without_gpu = DeviceProfile { measured: true, ..profile };
        let text = without_gpu.to_string();
        assert!(text.ends_with("gpu: none was measured\n") && !text.contains("400"), "{text}");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_profile_of_an_earlier_version_loads_without_its_corrections() {
        let profile = DeviceProfile::typical(4);
        let mut text = serde_json::to_value(&profile).expect("plain data");
        let tried = r#"{"graph": [1, 2, 3, 4], "trial": {"kept": "Gpu", "nanos": [61, 43, 0], "bouts": 2}}"#;
        text["learned"] = serde_json::from_str(&format!(
            r#"{{"corrections": [[[0, 1, 0]], [[0, 0, -2]]], "trials": [{tried}]}}"#
        ))
        .expect("JSON");
        let read: DeviceProfile = serde_json::from_value(text).expect("an earlier profile");
        assert_eq!(read.learned.trials.len(), 1);
        assert!(read.learned.to_string().contains("1 on gpu"), "{}", read.learned);
        assert_eq!(DeviceProfile { learned: Learned::default(), ..read }, profile);
    }

    #[test]
    fn numbers_that_are_no_figures_are_errors_with_a_name() {
        let mut profile = DeviceProfile::typical(4);
        profile.gpu.row = Curve::flat(f64::NAN);
        let error = profile.check().unwrap_err().to_string();
        assert!(error.contains("gpu.row"), "{error}");
        let mut profile = DeviceProfile::typical(4);
        profile.cpu.dispatch = -1.0;
        assert!(profile.check().unwrap_err().to_string().contains("cpu.dispatch"));
        let mut profile = DeviceProfile::typical(4);
        profile.cores = 0;
        assert!(profile.check().is_err());
    }
}
