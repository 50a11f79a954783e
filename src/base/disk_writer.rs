//! Work that nobody waits for.

use std::sync::mpsc;
use std::thread;

use crate::base::sync::Mutex;

/// A thread for what nobody waits for, one thing after the other. It starts with the first; whoever drops it waits
/// until all is done.
#[derive(Default)]
pub(crate) struct DiskWriter(Mutex<Option<Worker>>);

type Task = Box<dyn FnOnce() + Send>;

struct Worker {
    sender: mpsc::Sender<Task>,
    thread: thread::JoinHandle<()>,
}

impl DiskWriter {
    /// Has `work` done; forgets it where no thread can be started.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        let mut worker = self.0.lock();
        if worker.is_none() {
            *worker = Worker::open().ok();
        }
        if let Some(worker) = &*worker {
            let _ = worker.sender.send(Box::new(work));
        }
    }
}

impl Worker {
    fn open() -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Task>();
        let run = move || receiver.into_iter().for_each(|work| work());
        let thread = thread::Builder::new().name("onetrip-disk".into()).spawn(run)?;
        Ok(Self { sender, thread })
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        let worker = self.0.get_mut().take();
        if let Some(Worker { sender, thread }) = worker {
            drop(sender);
            let _ = thread.join();
        }
    }
}
