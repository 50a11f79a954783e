//! Writing to disk in the background.

use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::base::process::caught;
use crate::base::process::is_forked_child;
use crate::base::sync::{Arc, Condvar, Mutex};

/// Hands files to the one thread of the process that writes them, one after the other. Dropping it waits until everything
/// that it was given is written.
#[derive(Default)]
pub(crate) struct DiskWriter(Arc<UnfinishedWrites>);

/// The work of one writer that is not done.
#[derive(Default)]
struct UnfinishedWrites {
    tasks: Mutex<usize>,
    done: Condvar,
}

type Task = Box<dyn FnOnce() + Send>;

impl DiskWriter {
    /// Has `write` called on the thread; calls it here if there is none, as in a child of `fork`.
    ///
    /// `write` must not drop the last handle of a writer: that would wait for itself.
    pub fn spawn(&self, write: impl FnOnce() + Send + 'static) {
        *self.0.tasks.lock() += 1;
        let counted = Counted(Arc::clone(&self.0));
        let task: Task = Box::new(move || {
            // Others have their files written by this thread too.
            let _ = caught(write);
            drop(counted);
        });
        match thread() {
            Some(thread) if !is_forked_child() => drop(thread.send(task)),
            _ => task(),
        }
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        let mut tasks = self.0.tasks.lock();
        // In a child of `fork` no thread has the tasks of the parent.
        while *tasks > 0 && !is_forked_child() {
            tasks = self.0.done.wait(tasks);
        }
    }
}

/// A task that counts as not done until this is dropped.
struct Counted(Arc<UnfinishedWrites>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.tasks.lock() -= 1;
        self.0.done.notify_all();
    }
}

/// The thread that writes, which starts with the first file; `None` if it cannot be started.
fn thread() -> Option<&'static Sender<Task>> {
    static THREAD: OnceLock<Option<Sender<Task>>> = OnceLock::new();
    let start = || {
        let (sender, tasks) = mpsc::channel::<Task>();
        let run = move || tasks.into_iter().for_each(|task| task());
        thread::Builder::new().name("onetrip-disk".into()).spawn(run).ok()?;
        Some(sender)
    };
    THREAD.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn dropping_a_writer_waits_for_its_files_even_if_one_panics() {
        let written = Arc::new(AtomicU32::new(0));
        for round in 1..4 {
            let writer = DiskWriter::default();
            for at in 0..5 {
                let written = Arc::clone(&written);
                writer.spawn(move || {
                    assert_ne!(at, 2, "as it should");
                    thread::sleep(Duration::from_millis(1));
                    written.fetch_add(1, Ordering::Relaxed);
                });
            }
            drop(writer);
            assert_eq!(written.load(Ordering::Relaxed), 4 * round);
        }
    }
}
