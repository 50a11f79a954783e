//! A child process of `fork` has none of its parent's threads: runs that need them fail there, and none waits for ever,
//! whenever the fork comes.
//!
//! Without the test harness, whose threads a child of `fork` would not have either.

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::future::Future;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use onetrip::{Device, DeviceError, Error, GpuCommandBatch, Result, Tensor};

    /// The time that a child may take.
    const PATIENCE: Duration = Duration::from_secs(60);

    pub fn main() {
        let device = Device::cpu();
        let small = wait(device.eval(|b| sum(b, 10))).expect("a small run in the parent");
        let large = wait(device.eval(|b| sum(b, 1 << 22))).expect("a large run in the parent");
        assert_eq!((small, large), (vec![10.0], vec![(1 << 22) as f32]));
        assert_eq!(in_child(|| is_forked(&wait(device.eval(|b| sum(b, 1 << 22))))), Some(0));
        assert_eq!(in_child(|| is_forked(&wait(device.calibrate()))), Some(0));
        let opened_anew = || is_forked(&wait(Device::cpu().eval(|b| sum(b, 1 << 22))));
        assert_eq!(in_child(opened_anew), Some(0));
        let is_done = || wait(device.eval(|b| sum(b, 10))).is_ok_and(|sum| sum == [10.0]);
        assert_eq!(in_child(is_done), Some(0), "a small run needs no other thread");
        let again = wait(device.eval(|b| sum(b, 1 << 22))).expect("the parent goes on");
        assert_eq!(again, [(1 << 22) as f32]);
        forks_at_any_time(&device);
    }

    /// A fork may come while other threads record, plan, run and read. Its child has their locks as they were.
    fn forks_at_any_time(device: &Device) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for elements in [10, 1 << 12, 1 << 21] {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let done =
                            wait(device.eval(|b| sum(b, elements))).expect("a run beside forks");
                        assert_eq!(done, [elements as f32]);
                    }
                });
            }
            let mut random = 1_u64;
            for round in 0..300 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                thread::sleep(Duration::from_micros(random >> 54));
                let elements = [10, 1 << 12, 1 << 22][round % 3];
                let is_right = || match wait(device.eval(|b| sum(b, elements))) {
                    Ok(sum) => sum == [elements as f32],
                    refused => is_forked(&refused),
                };
                assert_eq!(in_child(is_right), Some(0), "fork {round}, {elements} elements");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    fn sum(batch: &GpuCommandBatch, elements: usize) -> Tensor<'_, f32> {
        batch.upload_shaped(vec![1.0_f32; elements], elements).sum(0)
    }

    fn is_forked<T>(result: &Result<T>) -> bool {
        matches!(result, Err(Error::Device(DeviceError::Forked)))
    }

    /// The exit code of a child that makes `check`: 0 if that holds. `None` for a child that hangs or crashes.
    fn in_child(check: impl FnOnce() -> bool) -> Option<i32> {
        // SAFETY: this process computes on other threads, which hold no lock while it is idle; the child runs `check`
        // and ends without the destructors of its parent.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a process");
        if child == 0 {
            let code = i32::from(!check());
            // SAFETY: no code runs after it.
            unsafe { libc::_exit(code) };
        }
        let start = Instant::now();
        let mut status = 0;
        loop {
            // SAFETY: `status` is this function's own, and `child` is a child that nobody else waits for.
            if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
                return libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            }
            if start.elapsed() > PATIENCE {
                // SAFETY: `child` was not waited for yet, so its id is its own.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
