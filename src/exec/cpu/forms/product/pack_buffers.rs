//! The memory that a thread copies parts of operands to.

use std::cell::Cell;
use std::mem;

/// A thread's memory for packed parts of operands, which goes to the next work of the thread.
pub(super) struct PackBuffers {
    pub x: Vec<f32>,
    pub w: Vec<f32>,
    pub row_major: Vec<f32>,
}

thread_local! {
    /// Idle memory of the thread. Where each run gets new pages, a product of 256 × 256 matrices takes twice as long.
    static IDLE_BUFFERS: Cell<[Vec<f32>; 3]> = const { Cell::new([const { Vec::new() }; 3]) };
}

impl Default for PackBuffers {
    fn default() -> Self {
        // A thread that ends has no idle memory.
        let [x, w, row_major] = IDLE_BUFFERS.try_with(Cell::take).unwrap_or_default();
        Self { x, w, row_major }
    }
}

impl Drop for PackBuffers {
    fn drop(&mut self) {
        /// Most elements of idle memory, 1 MiB.
        const KEPT: usize = 256 << 10;
        let all = [&mut self.x, &mut self.w, &mut self.row_major].map(mem::take);
        if all.iter().map(Vec::capacity).sum::<usize>() <= KEPT {
            let _ = IDLE_BUFFERS.try_with(|idle| idle.set(all));
        }
    }
}
