//! Kernels of the user's own.

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::dtype::DType;

/// A kernel in WGSL. Of its group 0 the bindings are the inputs, in order, and then the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnKernel {
    pub source: Arc<str>,
    pub entry: Arc<str>,
    /// Workgroups along x, y and z.
    pub groups: [u32; 3],
    /// What it computes, for the CPU.
    pub twin: Option<Twin>,
}

/// Storage buffers that every device binds to one kernel.
pub(crate) const MOST_BINDINGS: usize = 8;

/// The inputs that this leaves room for beside the result.
pub(crate) const MOST_INPUTS: &str = "at most 7";

/// An input's elements in row-major order.
#[derive(Clone, Copy)]
pub(crate) struct Elements<'a> {
    pub dtype: DType,
    pub bytes: &'a [u8],
}

type Call = dyn Fn(&[Elements<'_>], &mut [u8]) + Send + Sync;

/// A function of the user's from the inputs to the elements of the result, which are 0 before. Of the same type are the
/// same functions: what one has captured makes no difference.
#[derive(Clone)]
pub(crate) struct Twin {
    pub call: Arc<Call>,
    id: TypeId,
}

impl Twin {
    /// `call`, made of the user's `F`.
    pub fn new<F: 'static>(
        call: impl Fn(&[Elements<'_>], &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { call: Arc::new(call), id: TypeId::of::<F>() }
    }
}

impl PartialEq for Twin {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Twin {}

impl Hash for Twin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Twin")
    }
}
