//! The description of a device, and the sides that it was opened with.

use std::fmt;

/// The sides that a device was opened with. The cores also take the place of a GPU that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) enum OpenedSides {
    Cpu,
    Gpu,
    Both,
}

/// The description of a device. [`RunStats::backend`](crate::RunStats::backend) is the side of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The adapter's name, or `cpu`.
    pub name: String,
    /// The graphics API, or `host`.
    pub api: String,
    /// The driver and its version, where there is one.
    pub driver: String,
    /// True if a GPU adapter is emulated on the host's cores.
    pub software: bool,
    /// Threads that compute on the host.
    pub threads: usize,
    /// The reason why [`Device::auto`](crate::Device::auto) found no GPU to use, where it fell back to the host's cores.
    pub fallback: Option<String>,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.name, self.api)?;
        if !self.driver.is_empty() {
            write!(f, ", {}", self.driver)?;
        }
        if self.software {
            f.write_str(", software")?;
        }
        write!(f, ", {} host threads)", self.threads)
    }
}
