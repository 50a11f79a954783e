//! What the machine and the runtime do to a heartbeat by themselves: with as many cores kept busy, by other work.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest time between two beats, 1 ms apart, beyond that.
pub async fn heartbeat(end: Arc<AtomicBool>) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        longest = longest.max(last.elapsed().saturating_sub(Duration::from_millis(1)));
        last = Instant::now();
    }
    longest
}

/// What the process computed since it was asked for, where the system says so.
pub struct Computing {
    wall: Instant,
    seconds: f64,
}

impl Computing {
    pub fn begin() -> Option<Self> {
        Some(Self { wall: Instant::now(), seconds: computed()? })
    }

    /// How the load was that `runs` runs made.
    pub fn load(&self, runs: u64) -> Option<Load> {
        let seconds = computed()? - self.seconds;
        let slice = Duration::from_secs_f64(seconds / runs.max(1) as f64);
        Some(Load {
            cores: seconds / self.wall.elapsed().as_secs_f64(),
            slice: slice.clamp(Duration::from_micros(5), Duration::from_millis(1)),
        })
    }
}

/// Seconds of all threads of the process: fields 14 and 15 of its line, in hundredths.
fn computed() -> Option<f64> {
    let line = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields = line.rsplit(')').next()?.split_whitespace().skip(11).take(2);
    Some(fields.map_while(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

/// Work that keeps cores busy.
#[derive(Clone, Copy)]
pub struct Load {
    /// How many.
    cores: f64,
    /// How long at a time, after which a task lets others have its thread.
    slice: Duration,
}

/// The heartbeat beside a load.
pub struct Beside {
    load: Load,
    time: Duration,
    longest: Duration,
}

impl Load {
    /// The heartbeat of a runtime whose tasks make this load for so long, each where it is.
    pub async fn heartbeat(self, time: Duration) -> Beside {
        let done = Arc::new(AtomicBool::new(false));
        let heart = tokio::spawn(heartbeat(Arc::clone(&done)));
        let tasks = (0..(self.cores.round() as usize).max(1)).map(|_| {
            let done = Arc::clone(&done);
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    while began.elapsed() < self.slice {
                        std::hint::spin_loop();
                    }
                    tokio::task::yield_now().await;
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        tokio::time::sleep(time).await;
        done.store(true, Ordering::Relaxed);
        for task in tasks {
            let _ = task.await;
        }
        Beside { load: self, time, longest: heart.await.unwrap_or(Duration::MAX) }
    }
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "machine: {:.1} cores busy without this crate, {:.0} µs at a time, for {:.1} s: heartbeat max {:.1} ms",
            self.load.cores,
            self.load.slice.as_secs_f64() * 1e6,
            self.time.as_secs_f64(),
            self.longest.as_secs_f64() * 1e3,
        )
    }
}
