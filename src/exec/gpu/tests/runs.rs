//! Results, counts and kept values of runs.

use crate::base::sync::Mutex;

use half::f16;

use super::*;
use crate::exec::gpu::compile::has_room_for_params;

#[tokio::test]
async fn one_upload_one_submit_one_download() {
    let gpu = gpu_or_return!();
    let data: Vec<u32> = (0..1001).map(|i| i * 7919).collect();
    let program = adder(&gpu, data.len(), 5);
    let run = gpu.run(adder_inputs(&program, &data)).await.unwrap();
    assert_eq!(run.read::<u32>(0), data.iter().map(|x| x + 5).collect::<Vec<_>>());
    let counts = run.counts;
    assert_eq!((counts.uploads, counts.submits, counts.downloads, counts.dispatches), (1, 1, 1, 1));
    assert_eq!((counts.bytes_up, counts.bytes_down), (16 + 4004, 4004), "parameters and data");
    drop(run);
    let run = gpu.run(adder_inputs(&program, &data)).await.unwrap();
    assert_eq!(run.counts.bytes_up, 4004, "the parameters are there already");
    assert_eq!((run.counts.pool_misses, run.counts.bind_group_hits), (0, 1));
}

#[tokio::test]
async fn dispatches_chain_through_slots_and_share_one_compiled_text() {
    let gpu = gpu_or_return!();
    let data: Vec<u32> = (0..777).rev().collect();
    let mut plan = Builder::new();
    let x = plan.upload(DType::U32, 777, 0, 4);
    let h = plan.result(DType::U32, 777, 4);
    let y = plan.result(DType::U32, 777, 4);
    // In the memory of `x`, which is read no more.
    let z = plan.value(DType::U32, 777, Home::Slot(0));
    plan.0.downloads = vec![z, y, z];
    let dispatches =
        vec![map(h, x, "x * p", 3, 777), map(y, h, "x + p", 10, 777), map(z, y, "x * p", 2, 777)];
    let inputs = inputs(&gpu, plan, dispatches, vec![host(&data)]);
    assert_eq!((inputs.kernels.compiled, inputs.kernels.hits), (2, 0));
    let run = gpu.run(inputs).await.unwrap();
    let y: Vec<u32> = data.iter().map(|x| x * 3 + 10).collect();
    let z: Vec<u32> = y.iter().map(|y| y * 2).collect();
    assert_eq!((run.read::<u32>(0), run.read::<u32>(1), run.read::<u32>(2)), (z.clone(), y, z));
    assert_eq!((run.counts.submits, run.counts.dispatches), (1, 3));
}

#[tokio::test]
async fn pipelines_are_compiled_once() {
    let gpu = gpu_or_return!();
    let (_, first) = adder(&gpu, 100, 1);
    let (_, second) = adder(&gpu, 999, 2);
    assert_eq!((first.compiled, first.hits), (1, 0));
    assert_eq!((second.compiled, second.hits), (0, 1), "sizes are data");
}

#[tokio::test]
async fn a_pipeline_that_many_need_at_once_is_compiled_once() {
    let gpu = gpu_or_return!();
    let dispatch = map(ValueId(0), ValueId(1), "x * 17u + p", 0, 1);
    let compiled: u32 = std::thread::scope(|scope| {
        let compile = || gpu.compile_here(vec![dispatch.clone(); 2]).unwrap();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(compile)).collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.inspect(|kernels| assert_eq!(kernels.compiled + kernels.hits, 1))
            .map(|it| it.compiled)
            .sum()
    });
    assert_eq!(compiled, 1);
    // If one fails, the others fail too: nobody waits forever.
    let bad = map(ValueId(0), ValueId(1), "x + nothing", 0, 1);
    std::thread::scope(|scope| {
        let compile = || gpu.compile_here(vec![bad.clone()]).err();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(compile)).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_some()));
    });
}

#[tokio::test]
async fn runs_go_on_while_a_driver_takes_long() {
    let gpu = gpu_or_return!();
    let adder = adder(&gpu, 100, 3);
    let data: Vec<u32> = (0..100).collect();
    let sum: Vec<u32> = data.iter().map(|x| x + 3).collect();
    for _ in 0..3 {
        assert_eq!(gpu.run(adder_inputs(&adder, &data)).await.unwrap().read::<u32>(0), sum);
    }
    let resident = gpu.resident(DType::U32, bytemuck::cast_slice(&data)).unwrap();
    let long = long();
    for _ in 0..3 {
        let run = soon(gpu.run(adder_inputs(&adder, &data))).await.unwrap();
        assert_eq!(run.read::<u32>(0), sum);
    }
    assert_eq!(soon(gpu.read_resident(&resident)).await.unwrap().to_vec::<u32>(), data);
    drop(long);
}

#[tokio::test]
async fn whoever_compiles_knows_whether_memory_must_be_allocated() {
    let gpu = gpu_or_return!();
    let (_, kernels) = adder(&gpu, 100, 1);
    let dispatches = kernels.dispatches.clone();
    let has_room = |dispatches: &[_]| has_room_for_params(&gpu.device, &gpu.memory, dispatches);
    assert!(gpu.compiler.knows(&dispatches));
    assert!(!has_room(&dispatches), "the kernels have the one block there is");
    drop(kernels);
    assert!(has_room(&dispatches));
    assert!(has_room(&[]), "without parameters there is nothing to allocate");
    let again = gpu.compile(dispatches.clone(), ()).await.unwrap();
    assert!(!has_room(&dispatches));
    let beside = gpu.compile(dispatches, ()).await.unwrap();
    assert_eq!((again.compiled, beside.compiled), (0, 0));
}

#[tokio::test]
async fn truth_values_are_words_on_the_device() {
    let gpu = gpu_or_return!();
    let data: Vec<bool> = (0..517).map(|i| i % 3 == 0).collect();
    let (mut plan, x, y) = Builder::of_one(DType::Bool, 517, 4);
    let count = plan.result(DType::U32, 517, 4);
    plan.0.downloads.push(count);
    let dispatches = vec![map(y, x, "1u - x", 0, 517), map(count, x, "x * p", 9, 517)];
    let run = gpu.run(inputs(&gpu, plan, dispatches, vec![host(&data)])).await.unwrap();
    assert_eq!(run.read::<bool>(0), data.iter().map(|x| !x).collect::<Vec<_>>());
    assert_eq!(run.read::<u32>(1), data.iter().map(|&x| u32::from(x) * 9).collect::<Vec<_>>());
}

#[tokio::test]
async fn halves_are_words_where_kernels_cannot_hold_them() {
    let choice = AdapterChoice::best(None, true);
    let opened = Gpu::open_with(&choice, wgpu::Features::empty(), None).await;
    let Some(gpu) = found(opened) else { return };
    assert!(!gpu.limits().f16);
    let data: Vec<f16> = (0..333).map(|i| f16::from_f32(i as f32 * 0.37 - 60.0)).collect();
    let (mut plan, x, y) = Builder::of_one(DType::F16, 333, 4);
    plan.0.downloads.push(x);
    let double = map(y, x, "bitcast<u32>(bitcast<f32>(x) * 2.0)", 0, 333);
    let run = gpu.run(inputs(&gpu, plan, vec![double], vec![host(&data)])).await.unwrap();
    let want: Vec<_> = data.iter().map(|x| f16::from_f32(x.to_f32() * 2.0)).collect();
    assert_eq!(run.read::<f16>(0), want);
    assert_eq!(run.read::<f16>(1), data);
}

#[tokio::test]
async fn an_odd_number_of_halves_is_padded() {
    let gpu = gpu_or_return!();
    if !gpu.limits().f16 {
        return;
    }
    let data: Vec<f16> = (0..7).map(|i| f16::from_f32(i as f32)).collect();
    let (mut plan, x, y) = Builder::of_one(DType::F16, 7, 2);
    plan.0.downloads.push(x);
    let copy = map(y, x, "x", 0, 4);
    let run = gpu.run(inputs(&gpu, plan, vec![copy], vec![host(&data)])).await.unwrap();
    assert_eq!((run.read::<f16>(0), run.read::<f16>(1)), (data.clone(), data));
}

#[tokio::test]
async fn nothing_to_do_is_not_submitted_and_empty_values_read_as_such() {
    let gpu = gpu_or_return!();
    let mut plan = Builder::new();
    let x = plan.upload(DType::F32, 0, 0, 4);
    plan.0.downloads.push(x);
    let run = gpu.run(inputs(&gpu, plan, Vec::new(), vec![host::<f32>(&[])])).await.unwrap();
    assert_eq!(run.read::<f32>(0), [0.0f32; 0]);
    assert_eq!((run.counts.uploads, run.counts.submits, run.counts.downloads), (0, 0, 0));

    let mut plan = Builder::new();
    let x = plan.upload(DType::U32, 3, 0, 4);
    let none = plan.upload(DType::U32, 0, 1, 4);
    let y = plan.result(DType::U32, 3, 4);
    let echo = plan.value(DType::U32, 3, Home::Upload { input: 0, slot: None });
    plan.0.downloads = vec![none, y, none, echo];
    let copy = map(y, x, "x", 0, 3);
    let run =
        gpu.run(inputs(&gpu, plan, vec![copy], vec![host(&[1, 2, 3]), host::<u32>(&[])])).await;
    let run = run.unwrap();
    let read: Vec<_> = (0..run.len()).map(|index| run.read::<u32>(index)).collect();
    assert_eq!(read, [vec![], vec![1, 2, 3], vec![], vec![1, 2, 3]]);
}

#[tokio::test]
async fn large_values_are_copied_in_parts() {
    let gpu = gpu_or_return!();
    let len = 9_000_001;
    let data: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let flags: Vec<bool> = data.iter().map(|x| x % 5 < 2).collect();
    let mut plan = Builder::new();
    let flag = plan.upload(DType::Bool, len, 1, 4);
    let x = plan.upload(DType::U32, len, 0, 4);
    plan.0.downloads = vec![flag, x];
    let uploads = vec![host(&data), host(&flags)];
    let run = gpu.run(inputs(&gpu, plan, Vec::new(), uploads)).await.unwrap();
    assert!(run.read::<bool>(0) == flags && run.read::<u32>(1) == data);
}

/// Data that records the threads that read it.
struct Watched(Vec<u8>, Mutex<Vec<std::thread::ThreadId>>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        self.1.lock().push(std::thread::current().id());
        &self.0
    }
}

#[tokio::test]
async fn large_uploads_and_those_of_first_runs_are_packed_off_the_awaiting_thread() {
    let gpu = gpu_or_return!();
    let awaiting = std::thread::current().id();
    for (len, is_large) in [(1000, false), (2 << 20, true)] {
        let data = Arc::new(Watched(vec![7; len * 4], Mutex::default()));
        let mut plan = Builder::new();
        let x = plan.upload(DType::U32, len, 0, 4);
        plan.0.downloads.push(x);
        plan.0.bytes_up = len as u64 * 4;
        let program = inputs(&gpu, plan, Vec::new(), Vec::new());
        for round in 0..2 {
            let uploads = vec![Arc::clone(&data) as HostData];
            let run =
                soon(here(gpu.run(GpuRunInputs { uploads, ..program.clone() }))).await.unwrap();
            assert!(run.read::<u32>(0) == vec![0x0707_0707; len]);
            let readers = std::mem::take(&mut *data.1.lock());
            // The first run allocates.
            let is_elsewhere = is_large || round == 0;
            assert!(!readers.is_empty(), "{len} {round}");
            assert!(readers.iter().all(|&id| (id != awaiting) == is_elsewhere), "{len} {round}");
        }
    }
}

#[tokio::test]
async fn buffers_are_used_again() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 5000, 1);
    let mut misses = Vec::new();
    for round in 0..50u32 {
        let run = gpu.run(adder_inputs(&program, &[round; 5000])).await.unwrap();
        assert_eq!(run.read::<u32>(0), [round + 1; 5000]);
        misses.push(run.counts.pool_misses);
    }
    assert_eq!(misses[0], 4, "staging, two slots, readback");
    assert_eq!(misses[1..].iter().sum::<u32>(), 0, "{misses:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_runs_at_once() {
    let gpu = gpu_or_return!();
    let program = Arc::new(adder(&gpu, 3000, 7));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..32u32 {
        let (gpu, program) = (gpu.clone(), Arc::clone(&program));
        tasks.spawn(async move {
            for round in 0..20 {
                let data: Vec<u32> = (0..3000).map(|i| i * task + round).collect();
                let run = gpu.run(adder_inputs(&program, &data)).await.unwrap();
                let want: Vec<u32> = data.iter().map(|x| x + 7).collect();
                assert_eq!(run.read::<u32>(0), want, "task {task} round {round}");
            }
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_future_returns_its_buffers() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 100_000, 1);
    // From here on, runs are started in the first poll.
    for _ in 0..2 {
        gpu.run(adder_inputs(&program, &[1; 100_000])).await.unwrap();
    }
    let before = gpu.memory.pool.counts().live_bytes;
    for round in 0..30u32 {
        let mut future = Box::pin(gpu.run(adder_inputs(&program, &[round; 100_000])));
        // Submits it, and perhaps finishes it.
        if round % 3 != 0 {
            let waker = std::task::Waker::noop();
            let _ = future.as_mut().poll(&mut std::task::Context::from_waker(waker));
        }
        drop(future);
    }
    // The poller alone sees the abandoned runs out.
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
    let run = gpu.run(adder_inputs(&program, &[8; 100_000])).await.unwrap();
    assert_eq!(run.read::<u32>(0), [9; 100_000]);
    assert_eq!(run.counts.pool_misses, 0);
}

#[tokio::test]
async fn a_program_that_uploads_only_its_parameters_needs_no_staging_later() {
    let gpu = gpu_or_return!();
    let resident = gpu.resident(DType::U32, bytemuck::cast_slice(&[5u32; 300])).unwrap();
    let mut plan = Builder::new();
    let x = plan.value(DType::U32, 300, Home::Resident(0));
    let y = plan.result(DType::U32, 300, 4);
    plan.0.downloads.push(y);
    let inputs = inputs(&gpu, plan, vec![map(y, x, "x + p", 2, 300)], Vec::new());
    let inputs = GpuRunInputs { residents: vec![resident], ..inputs };
    for round in 0..3 {
        let run = soon(gpu.run(inputs.clone())).await.unwrap();
        assert_eq!(run.read::<u32>(0), [7; 300]);
        let GpuCounts { uploads, pool_hits, pool_misses, .. } = run.counts;
        let brings_params = u32::from(round == 0);
        assert_eq!(uploads, brings_params);
        assert_eq!(pool_hits + pool_misses, 2 + brings_params, "a slot and the readback");
        assert!(round == 0 || pool_misses == 0, "round {round}");
    }
}

#[tokio::test]
async fn kept_values_are_bound_by_later_runs_and_read() {
    let gpu = gpu_or_return!();
    let data: Vec<u32> = (0..999).collect();
    let mut plan = Builder::new();
    let x = plan.upload(DType::U32, 999, 0, 4);
    let y = plan.value(DType::U32, 999, Home::Kept(0));
    plan.0.keeps.push(y);
    let first = inputs(&gpu, plan, vec![map(y, x, "x * p", 4, 999)], vec![host(&data)]);
    let run = soon(gpu.run(first)).await.unwrap();
    assert_eq!((run.counts.submits, run.counts.downloads, run.len()), (1, 0, 0));
    let kept = Arc::clone(&run.kept[0]);
    drop(run);

    let mut plan = Builder::new();
    let x = plan.value(DType::U32, 999, Home::Resident(0));
    let y = plan.result(DType::U32, 999, 4);
    plan.0.downloads = vec![y, x];
    let mut second = inputs(&gpu, plan, vec![map(y, x, "x + p", 1, 999)], Vec::new());
    second.residents.push(Arc::clone(&kept));
    let run = gpu.run(second).await.unwrap();
    let times_4: Vec<u32> = data.iter().map(|x| x * 4).collect();
    assert_eq!(run.read::<u32>(0), times_4.iter().map(|x| x + 1).collect::<Vec<_>>());
    assert_eq!(run.read::<u32>(1), times_4);
    let read = gpu.read_resident(&kept).await.unwrap();
    assert_eq!(read.to_vec::<u32>(), times_4);
}

#[tokio::test]
async fn residents_take_every_type_and_size() {
    let gpu = gpu_or_return!();
    let flags = [true, false, true];
    let flags_there = gpu.resident(DType::Bool, bytemuck::cast_slice(&flags)).unwrap();
    let halves = [f16::from_f32(1.5), f16::NAN, f16::NEG_INFINITY];
    let halves_there = gpu.resident(DType::F16, bytemuck::cast_slice(&halves)).unwrap();
    let nothing_there = gpu.resident(DType::F32, &[]).unwrap();
    let flags_back = soon(gpu.read_resident(&flags_there)).await.unwrap();
    assert_eq!(flags_back.to_vec::<bool>(), flags);
    let back = soon(gpu.read_resident(&halves_there)).await.unwrap().to_vec::<f16>();
    assert_eq!((back[0], back[1].is_nan(), back[2]), (halves[0], true, halves[2]));
    let nothing_back = soon(gpu.read_resident(&nothing_there)).await.unwrap();
    assert_eq!(nothing_back.to_vec::<f32>(), [0.0; 0]);
}

#[tokio::test]
async fn a_resident_comes_over_in_parts_of_any_size() {
    let gpu = gpu_or_return!();
    for len in [0, 1, 7, 8, 9, 1001] {
        let data: Vec<f16> = (0..len).map(|at| f16::from_f32(at as f32)).collect();
        let resident = gpu.resident(DType::F16, bytemuck::cast_slice(&data)).unwrap();
        let resident = Arc::new(resident);
        for stride in [4, 8, 1000, 4096] {
            let mut parts = gpu.read_chunks(&resident, stride);
            let mut read = Vec::new();
            while let Some((start, part)) = soon(parts.next()).await.unwrap() {
                assert_eq!(start, read.len());
                assert!(part.len() == stride || start + part.len() == len, "{len} by {stride}");
                read.extend(part.to_vec::<f16>());
            }
            assert_eq!(read, data, "{len} by {stride}");
        }
    }
}

#[tokio::test]
async fn a_resident_s_memory_is_used_again() {
    let gpu = gpu_or_return!();
    let before = gpu.memory.pool.counts().live_bytes;
    for round in 0..20u32 {
        let resident = gpu.resident(DType::U32, &round.to_ne_bytes()).unwrap();
        let read = gpu.read_resident(&resident).await.unwrap();
        assert_eq!(read.to_vec::<u32>(), [round]);
    }
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
}

#[tokio::test]
async fn idle_memory_is_bounded_and_can_be_freed() {
    let gpu = gpu_or_return!();
    let mut counts = GpuCounts::default();
    for mebibytes in 40..80 {
        gpu.memory.lease(Kind::Storage, mebibytes << 20, &mut counts).unwrap();
    }
    let idle = gpu.memory.pool.counts().idle_bytes;
    assert!((100 << 20..=256 << 20).contains(&idle), "{idle}");
    gpu.memory.free_idle();
    assert_eq!(gpu.memory.pool.counts().idle_bytes, 0);
}
