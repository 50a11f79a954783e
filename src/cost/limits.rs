//! The limits of bindings and dispatches of a device, as plain data.

use crate::base::dtype::DType;

/// The limits of bindings and dispatches of a device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    pub adapter: String,
    pub binding_bytes: u64,
    pub storage_buffers: usize,
    /// Workgroups along one dimension of a dispatch.
    pub groups: u32,
    pub workgroup_bytes: u32,
    /// Threads of the largest workgroup, 256 or more.
    pub threads: u32,
    /// True if kernels can hold `f16` in memory. Where not, it is stored in 32 bits, rounded.
    pub f16: bool,
    /// The possible sizes of a subgroup, if kernels may use subgroup operations.
    pub subgroups: Option<Subgroups>,
    /// Matrix units that multiply `f16` and add in `f32`, if kernels may use them.
    pub units: Option<MatrixUnits>,
    /// True if kernels may compute in 64-bit integers.
    pub int64: bool,
    /// True if truth values take a 32-bit word, as they do on a GPU, or a byte.
    pub wide_bool: bool,
}

/// The sizes of subgroups, powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subgroups {
    pub least: u32,
    pub most: u32,
}

/// Cooperative matrices: a subgroup of `subgroup` threads holds squares of `side × side`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MatrixUnits {
    pub side: u32,
    pub subgroup: u32,
}

impl Limits {
    /// The host's: nothing binds but the memory. Steps keep to as many operands as on a GPU by
    /// default, so that a plan is the same on both.
    pub fn cpu() -> Self {
        Self {
            adapter: "cpu".into(),
            binding_bytes: u64::MAX,
            storage_buffers: 8,
            groups: 65_535,
            workgroup_bytes: 16_384,
            threads: 256,
            f16: true,
            subgroups: None,
            units: None,
            int64: false,
            wide_bool: false,
        }
    }

    /// The limits that WebGPU guarantees: the least of any GPU.
    #[cfg(test)]
    pub fn webgpu() -> Self {
        Self {
            adapter: "webgpu defaults".into(),
            binding_bytes: 128 << 20,
            f16: false,
            wide_bool: true,
            ..Self::cpu()
        }
    }

    /// Bytes of one stored element.
    pub fn stored(&self, dtype: DType) -> u64 {
        match dtype {
            DType::F16 if self.f16 => 2,
            DType::Bool if !self.wide_bool => 1,
            _ => 4,
        }
    }
}
