//! Closing devices on a thread of its own, and not while the process ends.

use std::any::Any;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use crate::caught::caught;

/// How long the end of the process waits for a device that is being closed: some drivers take forever.
const PATIENCE: Duration = Duration::from_secs(2);

type Handle = Arc<dyn Any + Send + Sync>;

/// Drops the last handle of a device, or of what is a lost one's, on a thread of its own: that takes long, and with some drivers
/// forever. Where no thread can be started, the handle is dropped here.
pub(super) fn close<T: Send + Sync + 'static>(device: Arc<T>) {
    static CLOSER: OnceLock<Option<mpsc::Sender<Handle>>> = OnceLock::new();
    static GATE: Gate = Gate::new();
    let closer = CLOSER.get_or_init(|| {
        let (sender, lost) = mpsc::channel::<Handle>();
        // It stays, since a driver may hang where a thread that used it ends.
        let thread = thread::Builder::new().name("onetrip-close".into());
        thread.spawn(move || close_all(&lost, &GATE)).ok()?;
        at_exit(|| GATE.shut(PATIENCE));
        Some(sender)
    });
    if let Some(closer) = closer {
        let _ = closer.send(device);
    }
}

/// Drops each of `lost` once nobody else holds it, until there can come no more.
fn close_all(lost: &mpsc::Receiver<Handle>, gate: &Gate) {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);
    let mut held: Vec<Handle> = Vec::new();
    while let Ok(first) = lost.recv() {
        held.push(first);
        let mut wait = SHORTEST;
        loop {
            let before = held.len();
            held.extract_if(.., |device| Arc::strong_count(device) == 1)
                .for_each(|device| gate.drop(device));
            if held.is_empty() {
                break;
            }
            wait = if held.len() < before { SHORTEST } else { LONGEST.min(2 * wait) };
            match lost.recv_timeout(wait) {
                Ok(next) => {
                    held.push(next);
                    wait = SHORTEST;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => thread::sleep(wait),
            }
        }
    }
}

/// Between the thread that closes devices and the end of the process: a driver that closes one while it is unloaded
/// may crash.
struct Gate {
    passing: Mutex<Passing>,
    passed: Condvar,
}

#[derive(Default)]
struct Passing {
    /// Whether a device is being closed.
    busy: bool,
    /// Whether no other will be.
    shut: bool,
}

impl Gate {
    const fn new() -> Self {
        let passing = Mutex::new(Passing { busy: false, shut: false });
        Self { passing, passed: Condvar::new() }
    }

    fn passing(&self) -> MutexGuard<'_, Passing> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops `device`, or leaves it to the system once the gate is shut.
    fn drop<T>(&self, device: T) {
        let mut passing = self.passing();
        if passing.shut {
            return mem::forget(device);
        }
        passing.busy = true;
        drop(passing);
        // The thread must outlive what a driver does.
        let _ = caught(|| drop(device));
        self.passing().busy = false;
        self.passed.notify_all();
    }

    /// Lets no further device be dropped, and waits for the one that is.
    fn shut(&self, patience: Duration) {
        let mut passing = self.passing();
        passing.shut = true;
        drop(self.passed.wait_timeout_while(passing, patience, |it| it.busy));
    }
}

/// Has `work` done when the process ends in order, before what was loaded until now is unloaded.
#[cfg(target_os = "linux")]
fn at_exit(work: fn()) {
    static WORK: OnceLock<fn()> = OnceLock::new();
    extern "C" fn run() {
        if let Some(work) = WORK.get() {
            work();
        }
    }
    if WORK.set(work).is_ok() {
        // SAFETY: `run` is a function of the C interface that stays, and does not unwind: a panic in it would abort.
        unsafe { libc::atexit(run) };
    }
}

/// Drivers that crash while they are unloaded were seen on Linux alone.
#[cfg(not(target_os = "linux"))]
fn at_exit(_work: fn()) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says when it is dropped.
    struct Dropped(mpsc::Sender<u8>, u8);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }

    #[test]
    fn a_device_that_is_held_keeps_no_other_open() {
        let (closer, lost) = mpsc::channel::<Handle>();
        let (tell, told) = mpsc::channel();
        let closing = thread::spawn(move || close_all(&lost, &Gate::new()));
        let devices = [0, 1, 2].map(|name| Arc::new(Dropped(tell.clone(), name)));
        for device in &devices {
            closer.send(Arc::clone(device) as Handle).unwrap();
        }
        let [held, second, third] = devices;
        drop(third);
        assert_eq!(told.recv(), Ok(2));
        drop(second);
        assert_eq!(told.recv(), Ok(1));
        drop(held);
        assert_eq!(told.recv(), Ok(0));
        drop(closer);
        closing.join().unwrap();
    }

    /// Takes until it is told to end.
    struct Slow(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }

    #[test]
    fn the_end_waits_for_what_is_being_closed_and_lets_nothing_follow() {
        let gate = Gate::new();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let closing = scope.spawn(|| {
                gate.drop(Slow(begin, ended));
                gate.drop(Dropped(tell, 1));
            });
            begun.recv().unwrap();
            // Its patience has an end.
            gate.shut(Duration::from_millis(1));
            let shutting = scope.spawn(|| gate.shut(Duration::from_secs(60)));
            thread::sleep(Duration::from_millis(5));
            assert!(!shutting.is_finished());
            end.send(()).unwrap();
            shutting.join().unwrap();
            closing.join().unwrap();
        });
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty), "left to the system");
    }
}
