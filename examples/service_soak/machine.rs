//! The delays of a heartbeat that come from the machine, its drivers and the runtime alone: as many cores are kept busy
//! by other work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::heart::heartbeat;

/// The time that the process computed, where the system says so.
pub struct Computing {
    wall: Instant,
    seconds: f64,
}

impl Computing {
    pub fn begin() -> Option<Self> {
        Some(Self { wall: Instant::now(), seconds: computed()? })
    }

    /// Returns the load that `runs` runs caused.
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
    /// The number of threads.
    cores: f64,
    /// The time after which a task yields its thread.
    slice: Duration,
}

impl Load {
    /// Prints how a heart beats in a runtime whose tasks make this load for so long: beside nothing else, and, where
    /// there is an adapter of that name, while bare wgpu opens and closes devices on it.
    pub async fn print_heartbeats(self, time: Duration, adapter: &str) {
        self.print_heartbeat(time, None).await;
        // Drivers may hang where threads end after the last instance.
        let descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        let instance = Box::leak(Box::new(wgpu::Instance::new(descriptor)));
        let mut adapters = instance.enumerate_adapters(wgpu::Backends::all()).await.into_iter();
        if let Some(found) = adapters.find(|found| found.get_info().name == adapter) {
            self.print_heartbeat(time, Some(found)).await;
        }
    }

    /// With devices opened and closed `on` an adapter, if any.
    async fn print_heartbeat(self, time: Duration, on: Option<wgpu::Adapter>) {
        let done = Arc::new(AtomicBool::new(false));
        let heart = tokio::spawn(heartbeat(Arc::clone(&done)));
        let tasks = self.begin(&done);
        let opening = on.map(|adapter| begin_opening(adapter, Arc::clone(&done)));
        tokio::time::sleep(time).await;
        done.store(true, Ordering::Relaxed);
        for task in tasks {
            let _ = task.await;
        }
        let beside = match opening {
            None => String::new(),
            Some(opening) => format!(", and {}", opened(opening).await),
        };
        println!(
            "machine: {:.1} cores busy without this crate, {:.0} µs at a time, for {:.1} s{beside}: {}",
            self.cores,
            self.slice.as_secs_f64() * 1e6,
            time.as_secs_f64(),
            heart.await.unwrap_or_default().summary(),
        );
    }

    /// Keeps cores busy until that is `done`.
    fn begin(self, done: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
        let tasks = (0..(self.cores.round() as usize).max(1)).map(|_| {
            let done = Arc::clone(done);
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
        tasks.collect()
    }
}

/// Opens and closes one device after the other until it is `done`, and says how many.
fn begin_opening(adapter: wgpu::Adapter, done: Arc<AtomicBool>) -> oneshot::Receiver<u32> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let descriptor = wgpu::DeviceDescriptor::default();
        let mut devices = 0;
        while !done.load(Ordering::Relaxed)
            && let Ok(opened) = pollster::block_on(adapter.request_device(&descriptor))
        {
            drop(opened);
            devices += 1;
        }
        let _ = sender.send(devices);
    });
    receiver
}

/// A line on the devices that were opened. Drivers may hang where they close one of several.
async fn opened(opening: oneshot::Receiver<u32>) -> String {
    match tokio::time::timeout(Duration::from_secs(5), opening).await {
        Ok(Ok(devices)) => format!("{devices} devices opened and closed by bare wgpu"),
        _ => "bare wgpu that opens and closes devices, which hangs".into(),
    }
}
