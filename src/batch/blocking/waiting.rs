//! Waiting for a future on a thread that does nothing else.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::base::sync::{Condvar, Mutex};
use crate::exec::threads;

/// The result of `future`, which this thread waits for. Within a task of tokio's, its channels and locks say after a
/// while that nothing is there, until the task gives its thread back. A thread that waits never does that.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(tokio::task::unconstrained(future));
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => signal.wait(),
        }
    }
}

/// As [`wait`], for a run or a compilation that is not to be given up: it may be done on this thread.
pub(super) fn wait_for_run<F: Future>(future: F) -> F::Output {
    threads::waiting(|| wait(future))
}

/// The signal that wakes a thread for one future. `thread::park` is not used: a thread has one park token, and this
/// wait could consume a token meant for the executor that polls this call. The signal is no thread-local either, since
/// the thread may be ending.
#[derive(Default)]
struct Signal {
    is_given: Mutex<bool>,
    given: Condvar,
}

impl Signal {
    fn wait(&self) {
        let mut is_given = self.is_given.lock();
        while !*is_given {
            is_given = self.given.wait(is_given);
        }
        *is_given = false;
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.is_given.lock() = true;
        self.given.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_executor_around_keeps_what_wakes_it() {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            // The token that wakes a thread that parks, as executors do.
            thread::current().unpark();
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let (begin, begun) = mpsc::channel();
            thread::spawn(move || {
                begun.recv().expect("it is polled");
                sender.send(5).expect("it waits");
            });
            let answer = async {
                begin.send(()).expect("a thread that waits");
                receiver.await
            };
            let five = wait(answer);
            thread::park();
            tell.send(five).expect("a test that waits");
        });
        let five = told.recv_timeout(Duration::from_secs(60)).expect("the thread was woken");
        assert_eq!(five, Ok(5));
    }
}
