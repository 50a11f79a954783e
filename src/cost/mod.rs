//! Predicted times: what a device does in a second, and what a step asks of it.

mod limits;

pub(crate) use limits::{Limits, MatrixUnits, Subgroups};

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// On the host's cores.
    Cpu,
    /// On a GPU through wgpu.
    Gpu,
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        })
    }
}

/// How fast a side moves bytes and computes, as far as fusion asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Seconds of a kernel launch.
    pub dispatch: f64,
    /// Bytes of memory read or written a second.
    pub bandwidth: f64,
    /// Elementwise flops a second.
    pub flops: f64,
}

impl Rates {
    /// The time of a kernel: what it moves or what it computes, whichever takes longer.
    pub fn seconds(&self, bytes: f64, flops: f64) -> f64 {
        (bytes / self.bandwidth).max(flops / self.flops)
    }
}

/// The speed of one side, as plain data. Seconds, bytes a second, flops a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeviceProfile {
    /// A run's fixed cost: record, submit, wait.
    pub round_trip: f64,
    /// Each kernel's fixed cost.
    pub dispatch: f64,
    /// Host memory to where kernels read it.
    pub upload: f64,
    /// Results to host memory.
    pub download: f64,
    /// Reading and writing by kernels.
    pub bandwidth: f64,
    /// Elementwise arithmetic.
    pub flops: f64,
    /// Matrix products.
    pub matmul_flops: f64,
}

impl DeviceProfile {
    /// Typical figures of a hardware GPU until they are measured: those of the reference card
    /// for latency, a tenth of it for throughput.
    pub fn gpu() -> Self {
        Self {
            round_trip: 100e-6,
            dispatch: 4e-6,
            upload: 10e9,
            download: 6e9,
            bandwidth: 400e9,
            flops: 4e12,
            matmul_flops: 3e12,
        }
    }

    /// Typical figures of `threads` host cores. Nothing is moved: uploads are read where they lie.
    pub fn cpu(threads: usize) -> Self {
        let threads = threads as f64;
        Self {
            round_trip: 1e-6,
            dispatch: 0.5e-6,
            upload: f64::INFINITY,
            download: 10e9,
            bandwidth: 8e9 * threads.min(8.0),
            flops: 4e9 * threads,
            matmul_flops: 40e9 * threads,
        }
    }

    /// What fusion asks.
    pub fn rates(&self) -> Rates {
        Rates { dispatch: self.dispatch, bandwidth: self.bandwidth, flops: self.flops }
    }

    /// The time of one kernel.
    pub fn step(&self, bytes: u64, flops: u64, matmul_flops: u64, dispatches: u64) -> f64 {
        let compute = flops as f64 / self.flops + matmul_flops as f64 / self.matmul_flops;
        self.dispatch * dispatches as f64 + (bytes as f64 / self.bandwidth).max(compute)
    }

    /// The time of a run of these kernels with these transfers.
    pub fn run(&self, steps: f64, up: u64, down: u64) -> f64 {
        self.round_trip + steps + up as f64 / self.upload + down as f64 / self.download
    }
}

/// The speed of both sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profiles {
    pub cpu: DeviceProfile,
    pub gpu: DeviceProfile,
}

impl Profiles {
    pub fn of(&self, backend: Backend) -> &DeviceProfile {
        match backend {
            Backend::Cpu => &self.cpu,
            Backend::Gpu => &self.gpu,
        }
    }
}
