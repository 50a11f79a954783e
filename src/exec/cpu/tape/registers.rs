//! The registers of machines.

use std::cell::Cell;
use std::mem;

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

use super::TILE;

/// A register, or a part of one. Vectors that straddle two cache lines take twice as long, hence the alignment.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Block(pub(super) [u32; TILE]);

/// Registers of a machine, which the next machine of the thread reuses.
pub(crate) struct RegisterBank(pub(super) Vec<Block>);

thread_local! {
    /// Idle banks of the thread. Allocating registers and zeroing them takes as long as a small run.
    static IDLE_BANKS: Cell<Vec<Vec<Block>>> = const { Cell::new(Vec::new()) };
}

impl RegisterBank {
    /// Most idle banks of a thread.
    const IDLE: usize = 3;
    /// Most blocks of an idle bank.
    pub const SIZE: usize = 64;

    /// Returns at least `count` blocks, of any content.
    pub fn of(count: usize) -> Self {
        // A thread that ends has no idle banks.
        let idle = IDLE_BANKS.try_with(|idle| {
            let mut banks = idle.take();
            let bank = banks.pop();
            idle.set(banks);
            bank
        });
        let mut registers = idle.ok().flatten().unwrap_or_default();
        if registers.len() < count {
            registers.resize(count, Block::zeroed());
        }
        Self(registers)
    }

    /// Returns two areas of `count` lanes each, of any content.
    pub fn areas(&mut self, count: usize) -> [&mut [u32]; 2] {
        let blocks = count.div_ceil(TILE);
        if self.0.len() < 2 * blocks {
            self.0.resize(2 * blocks, Block::zeroed());
        }
        let (first, second) = self.0[..2 * blocks].split_at_mut(blocks);
        [first, second].map(|area| &mut cast_slice_mut(area)[..count])
    }
}

impl Drop for RegisterBank {
    fn drop(&mut self) {
        let registers = mem::take(&mut self.0);
        if registers.len() > Self::SIZE {
            return;
        }
        // A thread that ends has no idle banks.
        let _ = IDLE_BANKS.try_with(|idle| {
            let mut banks = idle.take();
            if banks.len() < Self::IDLE {
                banks.push(registers);
            }
            idle.set(banks);
        });
    }
}

/// All registers, or all but one.
#[derive(Clone, Copy)]
pub(super) struct Registers<'a> {
    low: &'a [Block],
    /// The registers after the one that is left out.
    high: &'a [Block],
    /// Blocks of a register.
    blocks: usize,
}

impl<'a> Registers<'a> {
    pub fn all(all: &'a [Block], blocks: usize) -> Self {
        Self { low: all, high: &[], blocks }
    }

    /// Splits the lanes of register `index` off from the other registers.
    pub fn around(all: &'a mut [Block], blocks: usize, index: u16) -> (Self, &'a mut [u32]) {
        let (low, rest) = all.split_at_mut(usize::from(index) * blocks);
        let (own, high) = rest.split_at_mut(blocks);
        (Self { low, high, blocks }, cast_slice_mut(own))
    }

    #[inline]
    pub fn lanes(self, index: u16) -> &'a [u32] {
        let Self { low, high, blocks } = self;
        let first = usize::from(index) * blocks;
        let own = match first.checked_sub(low.len()) {
            None => &low[first..first + blocks],
            Some(after) => &high[after - blocks..after],
        };
        cast_slice(own)
    }
}
