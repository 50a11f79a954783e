//! The copies and bind groups of one run.

use smallvec::SmallVec;

use crate::exec::gpu::driver::WgpuHandle;

/// A copy, perhaps of no bytes. Each buffer comes with the byte to start at.
pub(crate) struct BufferCopy {
    pub from: (WgpuHandle<wgpu::Buffer>, u64),
    pub to: (WgpuHandle<wgpu::Buffer>, u64),
    pub bytes: u64,
}

impl BufferCopy {
    pub fn record(&self, encoder: &mut wgpu::CommandEncoder) {
        let Self { from: (from, from_start), to: (to, to_start), bytes } = self;
        if *bytes > 0 {
            encoder.copy_buffer_to_buffer(from, *from_start, to, *to_start, *bytes);
        }
    }
}

/// The copies and bind groups of one run. With the kernels of the run, they are all that its commands are made of.
pub(crate) struct CommandList {
    /// One for each dispatch.
    pub groups: Vec<WgpuHandle<wgpu::BindGroup>>,
    pub up: Vec<BufferCopy>,
    pub down: Vec<BufferCopy>,
    /// The buffer of failures, which the run clears first.
    pub failures: Option<WgpuHandle<wgpu::Buffer>>,
    /// The ids of all blocks that the commands name. Runs of the same kernels with equal blocks have equal commands.
    pub blocks: SmallVec<[u64; 16]>,
}

impl CommandList {
    /// Returns whether the commands name one of `blocks`.
    pub fn names_one_of(&self, blocks: &[u64]) -> bool {
        self.blocks.iter().any(|id| blocks.contains(id))
    }
}
