//! Allocations of runs on the host: small runs seldom, large data as often as the documentation says.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use onetrip::{Device, GpuCommandBatch};

/// Counts what it is asked for.
struct Counting;

/// Bytes from which a request counts as large.
const LARGE: usize = 1 << 20;
/// Large requests of all threads.
static LARGE_REQUESTS: AtomicUsize = AtomicUsize::new(0);
/// The bytes of all requests of all threads.
static BYTES: AtomicUsize = AtomicUsize::new(0);
thread_local!(static REQUESTS: Cell<usize> = const { Cell::new(0) });

impl Counting {
    fn count(layout: Layout) {
        let _ = REQUESTS.try_with(|requests| requests.set(requests.get() + 1));
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        if layout.size() >= LARGE {
            LARGE_REQUESTS.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// SAFETY: the system's allocator does what is asked; only requests are counted, without any of their own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count(layout);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Held by each test: a run beside others may be done by other threads.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The requests of this thread while `work` is done, and its result.
fn requests<R>(work: impl FnOnce() -> R) -> (usize, R) {
    let before = REQUESTS.get();
    let result = work();
    (REQUESTS.get() - before, result)
}

/// The large requests of all threads while `work` is done, and its result.
fn large<R>(work: impl FnOnce() -> R) -> (usize, R) {
    let before = LARGE_REQUESTS.load(Ordering::Relaxed);
    let result = work();
    (LARGE_REQUESTS.load(Ordering::Relaxed) - before, result)
}

/// relu(x·w + b) and a softmax, with residents: three steps or fewer, of a few microseconds.
#[test]
fn a_small_run_asks_for_memory_a_few_times() {
    let _alone = alone();
    let device = Device::cpu();
    let w = device.resident(&[0.5_f32; 24 * 10], [24, 10]).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload_shaped(&[1.0_f32; 5 * 24], [5, 24]);
    let w = batch.bind(&w);
    let bias = batch.upload(&[-1.0_f32; 10]);
    let y = batch.linear(x, w, bias).relu().softmax(-1);
    batch.download(y);
    (0..3).for_each(|_| pollster::block_on(batch.execute()).unwrap());
    let (count, result) = requests(|| pollster::block_on(batch.execute()));
    result.unwrap();
    assert!(count <= 11, "{count} requests");
    assert_eq!(pollster::block_on(batch.read(y)).unwrap(), [0.1; 50]);
}

/// Operands lie on the device, and the result stays there. The requests are the future of the run, and the counter of the
/// shared result. The product itself asks for none.
#[test]
fn a_small_product_asks_for_memory_twice() {
    const SIDE: usize = 64;
    let _alone = alone();
    let device = Device::cpu();
    let x = device.resident(&[1.0_f32; SIDE * SIDE], [SIDE, SIDE]).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let (left, right) = (batch.bind(&x), batch.bind(&x));
    let y = batch.matmul(left, right);
    let kept = batch.keep(y);
    (0..3).for_each(|_| pollster::block_on(batch.execute()).unwrap());
    let (count, result) = requests(|| pollster::block_on(batch.execute()));
    result.unwrap();
    assert!(count <= 2, "{count} requests");
    assert_eq!(pollster::block_on(kept.read()).unwrap(), [SIDE as f32; SIDE * SIDE]);
}

/// Data of 2 MiB, on its way in and out.
#[test]
fn large_data_is_copied_as_often_as_it_must() {
    const LEN: usize = LARGE / 2;
    let _alone = alone();
    let device = Device::cpu();
    let data: Vec<f32> = (0..LEN).map(|at| at as f32).collect();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", LEN);
    let y = batch.scale(x, 2.0);
    batch.download(y);
    let (count, program) = large(|| pollster::block_on(batch.compile()).unwrap());
    // With many cores the program is short: the zeros of its first runs are a third request.
    assert!((2..=3).contains(&count), "the memory of the input and of the result: {count}");
    let run = || pollster::block_on(program.run([(x, &data)])).unwrap();
    let (count, outputs) = large(run);
    assert_eq!(count, 0, "input and result are reserved");
    drop(outputs);
    let (count, outputs) = large(run);
    assert_eq!(count, 0, "input and result are reused");
    let (count, copied) = large(|| pollster::block_on(outputs.read(y)).unwrap());
    assert_eq!(count, 1, "a copy");
    let lies_at = outputs.read_view(y).unwrap().as_ptr();
    let (count, moved) = large(|| pollster::block_on(outputs.into_vec(y)).unwrap());
    assert_eq!((count, moved.as_ptr()), (0, lies_at), "the result itself");
    assert!(moved == copied && moved.iter().zip(&data).all(|(y, x)| *y == 2.0 * x));
    let (count, outputs) = large(run);
    assert_eq!(count, 1, "another result");
    let view = outputs.read_view(y).unwrap();
    let (count, copied) = large(|| pollster::block_on(outputs.into_vec(y)).unwrap());
    assert_eq!(count, 1, "a copy: somebody else looks at the result");
    assert!(copied == moved && view[..] == moved[..]);

    let given = data.clone();
    let lies_at = given.as_ptr();
    let batch = GpuCommandBatch::new(&device);
    let (count, x) = large(|| batch.upload_shaped(given, LEN));
    assert_eq!((count, batch.read_view(x).is_err()), (0, true));
    let (count, result) = large(|| pollster::block_on(batch.execute()));
    result.unwrap();
    assert_eq!(count, 0, "nothing to compute");
    assert_eq!(batch.read_view(x).unwrap().as_ptr(), lies_at, "where the caller's vector lay");
}

/// A program with 4 MiB of weights as a file: little more than the weights, which loading and running do not copy.
#[cfg(feature = "safetensors")]
#[test]
fn weights_of_a_program_are_read_where_the_file_lies() {
    const SIDE: usize = LARGE / 1024;
    let _alone = alone();
    let weights = 4 * SIDE * SIDE;
    let device = Device::cpu();
    let weight: Vec<f32> = (0..SIDE * SIDE).map(|at| (at % 7) as f32).collect();
    let bound = device.resident(&weight, [SIDE, SIDE]).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let mut x = batch.input::<f32>("x", SIDE);
    let bound = batch.bind(&bound).named("weight");
    for _ in 0..40 {
        x = x.scale(0.5).add_scalar(1.0);
    }
    batch.outputs((bound * x).sum(0).named("y"));
    let (data, key) = (vec![1.0_f32; SIDE], "y");
    let program = pollster::block_on(batch.compile()).unwrap();
    let run = |program: &onetrip::Program| {
        let outputs = pollster::block_on(program.run([("x", &data)])).unwrap();
        pollster::block_on(outputs.read::<f32>(key)).unwrap()
    };
    let want = run(&program);
    let file = pollster::block_on(program.to_bytes()).unwrap();
    let more = file.len() - weights;
    assert!(more <= 64 << 10, "{more} bytes besides the weights");

    let before = BYTES.load(Ordering::Relaxed);
    let loaded = pollster::block_on(onetrip::Program::load_bytes(&device, file)).unwrap();
    let got = run(&loaded);
    let asked = BYTES.load(Ordering::Relaxed) - before;
    assert!(asked < weights / 4, "loading and a run ask for {asked} bytes");
    assert_eq!(got, want);
    println!("{more} bytes besides the weights in the file; loading and a run ask for {asked}");

    let path = std::env::temp_dir().join(format!("onetrip-mapped-{}", std::process::id()));
    pollster::block_on(program.save(&path)).unwrap();
    // SAFETY: nobody else knows the file.
    let file = unsafe { onetrip::Weights::map(&path) }.unwrap();
    let before = BYTES.load(Ordering::Relaxed);
    let options = onetrip::LoadOptions::default();
    let loaded = pollster::block_on(onetrip::Program::load_with(&device, &file, options)).unwrap();
    let got = run(&loaded);
    let asked = BYTES.load(Ordering::Relaxed) - before;
    assert!(asked < weights / 4, "loading a mapped file and a run ask for {asked} bytes");
    assert_eq!(got, want);
    let _ = std::fs::remove_file(path);
}
