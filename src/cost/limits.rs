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

    /// The form in which kernels read and write elements of type `dtype` in memory.
    pub fn stored(&self, dtype: DType) -> StoredType {
        match dtype {
            DType::F16 if self.f16 => StoredType::F16,
            DType::F32 | DType::F16 => StoredType::F32,
            DType::I32 => StoredType::I32,
            DType::Bool if !self.wide_bool => StoredType::Byte,
            DType::U32 | DType::Bool => StoredType::U32,
        }
    }
}

/// The form of an element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredType {
    F32,
    F16,
    I32,
    U32,
    /// A truth value of the host.
    Byte,
}

impl StoredType {
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 => 2,
            Self::Byte => 1,
        }
    }

    /// The name of the type in WGSL, whose least type has 16 bits.
    pub fn wgsl(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::U32 | Self::Byte => "u32",
        }
    }
}
