//! What threads share and wait for each other with, where they hand memory over. `tests/loom` compiles such code with
//! loom's in place of these, and runs it in every order of its threads' steps.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(crate) use std::{hint, thread};
