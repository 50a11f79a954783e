//! Objects of wgpu that are proven `Send` and `Sync` once.
//!
//! The compiler of a user's crate proves for each task that all types inside a program, a batch or a result are `Send`
//! and `Sync`. Through the types of wgpu and its parts that proof is longer than the compiler's recursion limit.

use std::ops::Deref;

/// An object of wgpu. A proof that a [`WgpuHandle`] is `Send` or `Sync` ends here.
pub(crate) struct WgpuHandle<T>(T);

/// The objects whose handles the crate keeps: each is `Send` and `Sync`, or its implementation would not compile.
pub(crate) trait Proven: Send + Sync {}

macro_rules! proven {
    ($($object:ident)*) => { $(impl Proven for wgpu::$object {})* };
}
proven!(Device Queue Buffer BindGroup BindGroupLayout PipelineLayout ComputePipeline QuerySet);
proven!(PipelineCache BufferView CommandBuffer);

// SAFETY: a handle is its object, and a `Proven` object is `Send`.
unsafe impl<T: Proven> Send for WgpuHandle<T> {}
// SAFETY: a handle is its object, and a `Proven` object is `Sync`.
unsafe impl<T: Proven> Sync for WgpuHandle<T> {}

impl<T> From<T> for WgpuHandle<T> {
    fn from(object: T) -> Self {
        Self(object)
    }
}

impl<T> WgpuHandle<T> {
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for WgpuHandle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> Clone for WgpuHandle<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
