//! Kernels of the user's own.

use std::fmt;
use std::sync::Arc;

/// A kernel in WGSL. Of its group 0 the bindings are the inputs, in order, and then the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CustomKernel {
    pub source: Arc<str>,
    pub entry: Arc<str>,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// The computation on the CPU: one of the [functions](CpuFunction) that its batch has.
    pub function: Option<u32>,
}

impl CustomKernel {
    /// True if no function computes it on the CPU.
    pub fn needs_gpu(&self) -> bool {
        self.function.is_none()
    }
}

/// Storage buffers that every device binds to one kernel.
pub(crate) const MOST_BINDINGS: usize = 8;

/// The inputs that this leaves room for beside the result.
pub(crate) const MOST_INPUTS: &str = if MOST_BINDINGS == 8 {
    "at most 7 (`concat` joins several)"
} else {
    panic!("the text has the number of inputs")
};

type Call = dyn Fn(&[&[u8]], &mut [u8]) + Send + Sync;

/// A function of the user's from the bytes of the inputs to those of the result, which are 0 before. Graphs and plans, which
/// serve many batches, know it by its position among those of a batch; the run brings it.
#[derive(Clone)]
pub(crate) struct CpuFunction(Arc<Call>);

impl CpuFunction {
    pub fn new(call: impl Fn(&[&[u8]], &mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub fn call(&self, inputs: &[&[u8]], result: &mut [u8]) {
        (self.0)(inputs, result);
    }
}

impl fmt::Debug for CpuFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}
