//! Buffers that are used again and again: a buffer's creation costs more than a small dispatch, and
//! a fresh one is cleared first.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::base::sync::{Mutex, MutexGuard};
use crate::error::DeviceError;
use crate::exec::gpu::driver::health::{Health, Mapped, Scope};
use crate::exec::gpu::driver::reaper::{close, drop_here};
use crate::exec::memory::MemoryCounts;

/// Memory that may lie idle whatever the load.
const IDLE_FLOOR: u64 = 256 << 20;

/// What a buffer is for, which fixes its usages.
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

/// Blocks of which one serves as well as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    pub kind: Kind,
    /// In bytes, as [`size_class`](super::sizes::size_class) gives it.
    pub size: u64,
}

/// A buffer with a name that is never given twice.
#[derive(Clone)]
pub(crate) struct Block {
    pub buffer: wgpu::Buffer,
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
/// A block that only the device uses may return as soon as its commands are submitted: the next
/// user's commands run after them, in the order of the queue. A block that the host maps may not.
pub(crate) struct Lease {
    block: Block,
    pool: Arc<Pool>,
    /// Whether the block may return; else it is freed.
    reusable: AtomicBool,
    /// Whether the loan has begun and was not given up: else somebody else may have the block.
    is_lent: AtomicBool,
}

impl Lease {
    /// Whether the device of the block is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.pool.health.is_lost()
    }

    /// The right to use the block where it is mapped, unless its device is lost.
    pub fn map(&self) -> Option<Mapped> {
        self.pool.health.map()
    }

    /// Whether the block is on loan, and not [given up](Self::give_up).
    pub fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Relaxed)
    }

    /// Ends the loan, so that others may have the block until it is [claimed](Pool::claim).
    pub fn give_up(&self) {
        if self.is_lent() {
            self.pool.take_back(std::iter::once(self));
        }
    }

    /// As [`give_up`](Self::give_up), for all of `loans` that are of the first one's pool: others wait for it once, not for
    /// each.
    pub fn give_up_all<'a>(loans: impl Iterator<Item = &'a Self>) {
        let mut loans = loans.filter(|loan| loan.is_lent()).peekable();
        if let Some(&first) = loans.peek() {
            first.pool.take_back(loans.filter(|loan| first.pool.is_of(loan)));
        }
    }

    /// A loan of the same block that has yet to be [claimed](Pool::claim), once this one has ended.
    pub fn next(&self) -> Self {
        let (block, pool) = (self.block.clone(), Arc::clone(&self.pool));
        Self { block, pool, reusable: AtomicBool::new(true), is_lent: AtomicBool::new(false) }
    }

    /// Whether the block may return after this loan; else it is freed.
    pub fn set_reusable(&self, reusable: bool) {
        self.reusable.store(reusable, Ordering::Relaxed);
    }

    /// Ends the loan.
    pub fn settle(self, reusable: bool) {
        self.set_reusable(reusable);
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
        self.give_up();
    }
}

/// The bytes of `leases`.
pub(crate) fn bytes<'a>(leases: impl Iterator<Item = &'a Lease>) -> u64 {
    leases.map(|lease| lease.buffer.size()).sum()
}

/// How many blocks of each class something takes.
pub(crate) type Needs = HashMap<Class, usize>;

/// What `leases` took.
pub(crate) fn needs<'a>(leases: impl Iterator<Item = &'a Lease>) -> Needs {
    let mut needs = Needs::new();
    for lease in leases {
        *needs.entry(lease.class()).or_default() += 1;
    }
    needs
}

/// The buffers of one device that are not in use.
pub(crate) struct Pool {
    health: Arc<Health>,
    /// The id of the next new block.
    next: AtomicU64,
    stock: Mutex<Stock>,
}

/// What lies idle, and the counts of that and of what is lent.
#[derive(Default)]
struct Stock {
    /// By id. The least is lent first, so that a run gets the blocks that it had before, for which there are bind
    /// groups.
    idle: HashMap<Class, BTreeMap<u64, Idle>>,
    /// How many blocks came back so far.
    clock: u64,
    idle_bytes: u64,
    lent_bytes: u64,
    most_lent: u64,
    /// The most bytes that were lent or idle at once.
    peak_bytes: u64,
    hits: u64,
    misses: u64,
    /// The clock at the last [`Pool::sweep`].
    swept: u64,
    /// Blocks freed since the last [`Pool::freed`].
    freed: Vec<u64>,
}

/// A block that came back.
struct Idle {
    block: Block,
    /// The clock at that time.
    since: u64,
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop_here(std::mem::take(self.stock.get_mut()));
    }
}

impl Pool {
    pub fn new(health: Arc<Health>) -> Arc<Self> {
        Arc::new(Self { health, next: AtomicU64::new(0), stock: Mutex::default() })
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock()
    }

    /// Whether `lease` is a loan from this pool.
    pub fn is_of(&self, lease: &Lease) -> bool {
        std::ptr::eq(self, Arc::as_ptr(&lease.pool))
    }

    /// Whether all of `needs` lies idle.
    pub fn has(&self, needs: &Needs) -> bool {
        let stock = self.stock();
        let has = |class| stock.idle.get(class).map_or(0, BTreeMap::len);
        needs.iter().all(|(class, &number)| has(class) >= number)
    }

    /// An idle block of each of `classes`, where there is one.
    pub fn reuse(
        self: &Arc<Self>,
        classes: impl Iterator<Item = Class>,
    ) -> SmallVec<[Option<Lease>; 8]> {
        let mut stock = self.stock();
        classes.map(|class| stock.reuse(class).map(|block| self.lent(block))).collect()
    }

    /// Begins those of `loans` that have not begun, if all of their blocks lie idle, and each is asked for once.
    pub fn claim<'a>(&self, loans: impl Iterator<Item = &'a Lease>) -> bool {
        let mut stock = self.stock();
        let mut claimed: SmallVec<[(&Lease, Idle); 8]> = SmallVec::new();
        for loan in loans.filter(|loan| !loan.is_lent()) {
            let blocks = stock.idle.get_mut(&loan.class());
            let Some(found) = blocks.and_then(|blocks| blocks.remove(&loan.id)) else {
                for (loan, found) in claimed {
                    stock.idle.entry(loan.class()).or_default().insert(loan.id, found);
                }
                return false;
            };
            claimed.push((loan, found));
        }
        for (loan, _) in claimed {
            stock.idle_bytes -= loan.buffer.size();
            stock.lend(loan.buffer.size());
            loan.is_lent.store(true, Ordering::Relaxed);
        }
        true
    }

    /// The loan of a block that nobody else has.
    fn lent(self: &Arc<Self>, block: Block) -> Lease {
        let (reusable, is_lent) = (AtomicBool::new(true), AtomicBool::new(true));
        Lease { block, pool: Arc::clone(self), reusable, is_lent }
    }

    /// A new block; one for staging is mapped.
    pub fn create(
        self: &Arc<Self>,
        device: &wgpu::Device,
        Class { kind, size }: Class,
    ) -> Result<Lease, DeviceError> {
        let scope = Scope::open(device, &self.health);
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(kind.label()),
            size,
            usage: kind.usage(),
            mapped_at_creation: kind == Kind::Staging,
        });
        scope.close(|| format!("allocating {size} bytes for {}", kind.label()))?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut stock = self.stock();
        stock.misses += 1;
        stock.lend(size);
        drop(stock);
        Ok(self.lent(Block { buffer, id, kind }))
    }

    /// Ends those of `loans` that have not ended.
    fn take_back<'a>(&self, loans: impl Iterator<Item = &'a Lease>) {
        let is_lost = self.health.is_lost();
        let mut lost = Vec::new();
        let mut stock = self.stock();
        for loan in loans.filter(|loan| loan.is_lent.swap(false, Ordering::Relaxed)) {
            stock.lent_bytes -= loan.buffer.size();
            if is_lost {
                lost.push(loan.block.clone());
            }
            if is_lost || !loan.reusable.load(Ordering::Relaxed) {
                stock.freed.push(loan.id);
            } else {
                stock.keep(loan.block.clone());
            }
        }
        let limit = IDLE_FLOOR.max(2 * stock.most_lent);
        Self::release(stock, u64::MAX, |stock| stock.idle_bytes + stock.lent_bytes > limit);
        if !lost.is_empty() {
            // A driver that opens a device meanwhile may keep this waiting.
            close(Arc::new(lost));
        }
    }

    /// Frees the blocks that came back first while there are `too_many`, of those that did by the time `until`: once the
    /// pool is not held any more, since to free may take a driver long.
    fn release(mut stock: MutexGuard<'_, Stock>, until: u64, too_many: impl Fn(&Stock) -> bool) {
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
        let stock = self.stock();
        MemoryCounts {
            hits: stock.hits,
            misses: stock.misses,
            live_bytes: stock.lent_bytes,
            idle_bytes: stock.idle_bytes,
            peak_bytes: stock.peak_bytes,
        }
    }

    /// Frees what was not lent since the last call.
    pub fn sweep(&self) {
        let mut stock = self.stock();
        let now = stock.clock;
        let swept = std::mem::replace(&mut stock.swept, now);
        Self::release(stock, swept, |_| true);
    }

    /// Frees everything idle.
    pub fn trim(&self) {
        Self::release(self.stock(), u64::MAX, |_| true);
    }

    /// The blocks freed since the last call. Bind groups made of them keep their memory alive.
    pub fn freed(&self) -> Vec<u64> {
        std::mem::take(&mut self.stock().freed)
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

    /// The block that came back first, if that was by the time `until`, to be freed.
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
