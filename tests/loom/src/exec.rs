//! The files that are checked, and in place of what they need: `janitor` and `threads`.

#[path = "../../../src/exec/arranged.rs"]
mod arranged;
#[path = "../../../src/exec/budget/mod.rs"]
pub mod budget;
#[path = "../../../src/exec/host.rs"]
mod host;
#[path = "../../../src/exec/memory.rs"]
pub mod memory;
#[path = "../../../src/exec/host_pool/mod.rs"]
pub mod host_pool;
#[path = "threads.rs"]
pub mod threads;
#[path = "../../../src/exec/words.rs"]
mod words;

pub(crate) use host::{HostBuffer, Allocator};

pub mod janitor {
    pub trait Sweep {
        fn sweep(&self);
    }
}
