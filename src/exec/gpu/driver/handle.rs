//! Objects of wgpu that are proven `Send` and `Sync` once.
//!
//! The compiler of a user's crate proves for each task that all types inside a program, a batch or a result are `Send`
//! and `Sync`. Through the types of wgpu and its parts that proof is longer than the compiler's recursion limit.

use std::ops::Deref;

/// An object of wgpu. A proof that a [`Handle`] is `Send` or `Sync` ends here.
pub(crate) struct Handle<T>(T);

/// The objects whose handles the crate keeps: each is `Send` and `Sync`, or its implementation would not compile.
pub(crate) trait Proven: Send + Sync {}

impl Proven for wgpu::Device {}
impl Proven for wgpu::Queue {}
impl Proven for wgpu::Buffer {}
impl Proven for wgpu::BindGroup {}
impl Proven for wgpu::BindGroupLayout {}
impl Proven for wgpu::PipelineLayout {}
impl Proven for wgpu::ComputePipeline {}
impl Proven for wgpu::QuerySet {}
impl Proven for wgpu::PipelineCache {}
impl Proven for wgpu::BufferView {}
impl Proven for wgpu::BufferViewMut {}
impl Proven for wgpu::CommandBuffer {}

// SAFETY: a handle is its object, and a `Proven` object is `Send`.
unsafe impl<T: Proven> Send for Handle<T> {}
// SAFETY: a handle is its object, and a `Proven` object is `Sync`.
unsafe impl<T: Proven> Sync for Handle<T> {}

impl<T> From<T> for Handle<T> {
    fn from(object: T) -> Self {
        Self(object)
    }
}

impl<T> Deref for Handle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
