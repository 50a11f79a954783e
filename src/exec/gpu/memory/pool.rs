//! Buffers that are used again and again: to create a buffer takes longer than a small dispatch, and a new one is cleared
//! first.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::base::sync::{Mutex, MutexGuard};
use crate::error::DeviceError;
use crate::exec::gpu::driver::{
    self, Calls, DriverOwned, GuardedDevice, Health, Mapped, WgpuHandle,
};
use crate::exec::memory::MemoryCounts;

/// Memory that may lie idle under any load.
const IDLE_FLOOR: u64 = 256 << 20;

/// The purpose of a buffer, which fixes its usages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Values on the device.
    Storage,
    /// Parameters of dispatches.
    Params,
    /// Host to device; mapped while it lies in the pool.
    Staging,
    /// Device to host; not mapped while it lies in the pool.
    Readback,
}

impl Kind {
    fn usage(self) -> wgpu::BufferUsages {
        use wgpu::BufferUsages as U;
        match self {
            Self::Storage => U::STORAGE | U::COPY_SRC | U::COPY_DST,
            Self::Params => U::UNIFORM | U::COPY_DST,
            Self::Staging => U::MAP_WRITE | U::COPY_SRC,
            Self::Readback => U::MAP_READ | U::COPY_DST,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Storage => "onetrip storage",
            Self::Params => "onetrip params",
            Self::Staging => "onetrip staging",
            Self::Readback => "onetrip readback",
        }
    }
}

/// Blocks that can stand in for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    pub kind: Kind,
    /// In bytes; one of a few sizes.
    pub size: u64,
}

/// A buffer with an id that no other has.
#[derive(Clone)]
pub(crate) struct Block {
    pub buffer: WgpuHandle<wgpu::Buffer>,
    pub id: u64,
    kind: Kind,
}

impl Block {
    pub fn class(&self) -> Class {
        Class { kind: self.kind, size: self.buffer.size() }
    }
}

/// A block on loan from the pool, to which it returns when dropped.
///
/// A block that only the device uses may return as soon as its commands are submitted: the next user's commands run after
/// them, in the order of the queue. A block that the host maps may not.
pub(crate) struct Lease {
    block: Block,
    pool: Arc<BufferPool>,
    /// True if the block may be lent again; else it is freed.
    reusable: AtomicBool,
    /// True if the block was returned with others, before this is dropped.
    is_returned: bool,
}

impl Lease {
    /// Returns whether the device of the block is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.pool.health.is_lost()
    }

    /// The right to use the block while it is mapped, unless its device is lost.
    pub fn map(&self) -> Option<Mapped> {
        self.pool.health.map()
    }

    /// Returns `leases`, which are of one pool, under one lock.
    pub fn return_all(mut leases: Vec<Self>) {
        let Some(first) = leases.first() else { return };
        Arc::clone(&first.pool).take_back(&leases);
        leases.iter_mut().for_each(|lease| lease.is_returned = true);
    }

    /// Sets whether the block may be lent again after this; else it is freed.
    pub fn set_reusable(&self, reusable: bool) {
        self.reusable.store(reusable, Ordering::Relaxed);
    }
}

impl Deref for Lease {
    type Target = Block;
    fn deref(&self) -> &Block {
        &self.block
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_returned {
            self.pool.take_back(std::slice::from_ref(self));
        }
    }
}

pub(crate) fn leased_bytes<'a>(leases: impl Iterator<Item = &'a Lease>) -> u64 {
    leases.map(|lease| lease.buffer.size()).sum()
}

/// The buffers of one device that are not in use.
pub(crate) struct BufferPool {
    health: Arc<Health>,
    /// The id of the next new block.
    next: AtomicU64,
    stock: DriverOwned<Mutex<Stock>>,
}

/// The idle blocks, and the counts of idle and lent ones.
#[derive(Default)]
struct Stock {
    /// Idle blocks by id. The block with the least id is lent first, so that a run gets the blocks that it had before:
    /// bind groups of these exist.
    idle: HashMap<Class, BTreeMap<u64, Idle>>,
    /// The number of blocks that came back so far.
    clock: u64,
    idle_bytes: u64,
    lent_bytes: u64,
    most_lent: u64,
    /// The most bytes that were lent or idle at once.
    peak_bytes: u64,
    hits: u64,
    misses: u64,
    /// The clock at the last [`BufferPool::sweep`].
    swept: u64,
    /// Blocks freed since the last [`BufferPool::freed`].
    freed: Vec<u64>,
}

/// A block that came back.
struct Idle {
    block: Block,
    /// The clock at that time.
    since: u64,
}

impl BufferPool {
    pub fn new(health: Arc<Health>) -> Arc<Self> {
        let stock = DriverOwned::new(Mutex::default());
        Arc::new(Self { health, next: AtomicU64::new(0), stock })
    }

    pub fn is_of(&self, lease: &Lease) -> bool {
        std::ptr::eq(self, Arc::as_ptr(&lease.pool))
    }

    /// Returns whether a block of `class` lies idle.
    pub fn has(&self, class: Class) -> bool {
        self.stock.lock().idle.get(&class).is_some_and(|blocks| !blocks.is_empty())
    }

    /// An idle block of each of `classes`, where there is one.
    pub fn reuse(
        self: &Arc<Self>,
        classes: impl Iterator<Item = Class>,
    ) -> SmallVec<[Option<Lease>; 8]> {
        let mut stock = self.stock.lock();
        classes.map(|class| stock.reuse(class).map(|block| self.lent(block))).collect()
    }

    /// A lease of a block that nobody else has.
    fn lent(self: &Arc<Self>, block: Block) -> Lease {
        let (pool, reusable) = (Arc::clone(self), AtomicBool::new(true));
        Lease { block, pool, reusable, is_returned: false }
    }

    /// A new block; a staging block is mapped.
    pub fn create(
        self: &Arc<Self>,
        device: &GuardedDevice,
        Class { kind, size }: Class,
    ) -> Result<Lease, DeviceError> {
        let descriptor = wgpu::BufferDescriptor {
            label: Some(kind.label()),
            size,
            usage: kind.usage(),
            mapped_at_creation: kind == Kind::Staging,
        };
        let doing = || format!("allocating {size} bytes for {}", kind.label());
        let create = |calls: &Calls<'_>| Ok::<_, DeviceError>(calls.create_buffer(&descriptor));
        let buffer = device.scoped_and_checked(doing, create)?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut stock = self.stock.lock();
        stock.misses += 1;
        stock.lend(size);
        drop(stock);
        Ok(self.lent(Block { buffer: buffer.into(), id, kind }))
    }

    fn take_back(&self, leases: &[Lease]) {
        let is_lost = self.health.is_lost();
        let mut lost = Vec::new();
        let mut stock = self.stock.lock();
        for lease in leases {
            stock.lent_bytes -= lease.buffer.size();
            if is_lost {
                lost.push(lease.block.clone());
            }
            if is_lost || !lease.reusable.load(Ordering::Relaxed) {
                stock.freed.push(lease.id);
            } else {
                stock.keep(lease.block.clone());
            }
        }
        let limit = IDLE_FLOOR.max(2 * stock.most_lent);
        Self::free(stock, u64::MAX, |stock| stock.idle_bytes + stock.lent_bytes > limit);
        if !lost.is_empty() {
            // A driver that opens a device meanwhile may keep this waiting.
            driver::close(Arc::new(lost));
        }
    }

    /// Frees the blocks that came back first while there are `too_many`, but none that came back after the time `until`.
    /// They are dropped once the pool is unlocked: a driver may take long to free them.
    fn free(mut stock: MutexGuard<'_, Stock>, until: u64, too_many: impl Fn(&Stock) -> bool) {
        let mut freed: SmallVec<[Block; 4]> = SmallVec::new();
        while too_many(&stock)
            && let Some(block) = stock.take_oldest(until)
        {
            freed.push(block);
        }
        drop(stock);
        drop(freed);
    }

    pub fn counts(&self) -> MemoryCounts {
        let stock = self.stock.lock();
        MemoryCounts {
            hits: stock.hits,
            misses: stock.misses,
            live_bytes: stock.lent_bytes,
            idle_bytes: stock.idle_bytes,
            peak_bytes: stock.peak_bytes,
        }
    }

    /// Frees the blocks that were not lent since the last call.
    pub fn sweep(&self) {
        let mut stock = self.stock.lock();
        let now = stock.clock;
        let swept = std::mem::replace(&mut stock.swept, now);
        Self::free(stock, swept, |_| true);
    }

    /// Frees all idle blocks.
    pub fn trim(&self) {
        Self::free(self.stock.lock(), u64::MAX, |_| true);
    }

    /// The blocks freed since the last call. Bind groups made of them keep their memory alive.
    pub fn freed(&self) -> Vec<u64> {
        std::mem::take(&mut self.stock.lock().freed)
    }
}

impl Stock {
    fn reuse(&mut self, class: Class) -> Option<Block> {
        let (_, Idle { block, .. }) = self.idle.get_mut(&class)?.pop_first()?;
        self.idle_bytes -= class.size;
        self.hits += 1;
        self.lend(class.size);
        Some(block)
    }

    /// Keeps a block that came back.
    fn keep(&mut self, block: Block) {
        self.clock += 1;
        self.idle_bytes += block.buffer.size();
        let blocks = self.idle.entry(block.class()).or_default();
        blocks.insert(block.id, Idle { block, since: self.clock });
    }

    /// Counts a block that is lent.
    fn lend(&mut self, size: u64) {
        self.lent_bytes += size;
        self.most_lent = self.most_lent.max(self.lent_bytes);
        self.peak_bytes = self.peak_bytes.max(self.lent_bytes + self.idle_bytes);
    }

    /// The block that came back first, to be freed, if that was by the time `until`.
    fn take_oldest(&mut self, until: u64) -> Option<Block> {
        let blocks = self.idle.iter().flat_map(|(&class, blocks)| {
            blocks.iter().map(move |(&id, idle)| (idle.since, class, id))
        });
        let oldest = blocks.min_by_key(|&(since, ..)| since);
        let (_, class, id) = oldest.filter(|&(since, ..)| since <= until)?;
        let Idle { block, .. } = self.idle.get_mut(&class)?.remove(&id)?;
        self.idle_bytes -= class.size;
        self.freed.push(id);
        Some(block)
    }
}
