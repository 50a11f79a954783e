//! Runs whose commands were recorded before they came.

use super::*;
use crate::exec::gpu::submit::run_results::GpuRunResults;

/// A program that reads a resident and keeps its result.
struct OnResident(Program);

impl OnResident {
    /// `3x + 10` of `len` words, through a slot.
    fn new(gpu: &Gpu, len: usize) -> Self {
        let mut plan = Builder::new();
        let x = plan.value(DType::U32, len, Home::Resident(0));
        let h = plan.result(DType::U32, len, 4);
        let y = plan.value(DType::U32, len, Home::Kept(0));
        plan.0.keeps.push(y);
        let dispatches = vec![map(h, x, "x * p", 3, len), map(y, h, "x + p", 10, len)];
        Self((Arc::new(plan.0), gpu.compile_here(dispatches).unwrap()))
    }

    async fn run(&self, gpu: &Gpu, input: &Arc<DeviceBuffer>) -> GpuRunResults {
        let residents = vec![Arc::clone(input)];
        soon(gpu.run(GpuRunInputs { residents, ..inputs_of(&self.0, Vec::new()) })).await.unwrap()
    }

    fn recorded_and_wasted(&self) -> (bool, u32) {
        self.0.1.next_run.recorded_and_wasted()
    }
}

/// Words that count up from `start`.
fn input(gpu: &Gpu, len: usize, start: u32) -> Arc<DeviceBuffer> {
    let data: Vec<u32> = (start..start + len as u32).collect();
    gpu.resident(DType::U32, bytemuck::cast_slice(&data)).unwrap()
}

/// Returns whether `kept` is the result for words that count up from `start`.
async fn is_of(gpu: &Gpu, kept: &Arc<DeviceBuffer>, start: u32) -> bool {
    let read = gpu.read_resident(kept).await.unwrap().to_vec::<u32>();
    (start..).zip(&read).all(|(x, &y)| y == x * 3 + 10) && read.len() == kept.elements
}

#[tokio::test]
async fn results_are_those_of_the_run_that_was_asked_for() {
    let gpu = gpu_or_return!();
    for len in [1, 999, 2_200_000] {
        let program = OnResident::new(&gpu, len);
        let inputs = [input(&gpu, len, 0), input(&gpu, len, 5000)];
        let order = [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1];
        let mut all = Vec::new();
        for which in order {
            let run = program.run(&gpu, &inputs[which]).await;
            assert_eq!((run.counts.submits, run.counts.dispatches), (1, 2));
            all.push(Arc::clone(&run.kept[0]));
        }
        for (which, kept) in order.into_iter().zip(&all) {
            assert!(is_of(&gpu, kept, [0, 5000][which]).await);
        }
    }
}

/// Two blocks take turns for the results of whoever holds each until the next one is there.
#[tokio::test]
async fn the_third_run_and_later_ones_are_recorded_before_they_come() {
    let gpu = gpu_or_return!();
    let (program, input) = (OnResident::new(&gpu, 999), input(&gpu, 999, 7));
    let mut held = None;
    for round in 0..9 {
        let run = program.run(&gpu, &input).await;
        assert!(is_of(&gpu, &run.kept[0], 7).await, "{round}");
        // The second follows the first, which brought the parameters.
        let expected = (round >= 2, 0);
        assert_eq!(program.recorded_and_wasted(), expected, "round {round}");
        held = Some(run);
    }
    drop(held);
}

#[tokio::test]
async fn runs_that_move_data_are_recorded_before_they_come() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 333, 5);
    for round in 0..6 {
        let data: Vec<u32> = (0..333).map(|i| i * (round + 1)).collect();
        let run = soon(gpu.run(adder_inputs(&program, &data))).await.unwrap();
        assert_eq!(run.read::<u32>(0), data.iter().map(|x| x + 5).collect::<Vec<_>>());
        assert_eq!(program.1.next_run.recorded_and_wasted(), (round >= 2, 0), "round {round}");
    }
}

#[tokio::test]
async fn runs_that_never_come_are_no_longer_recorded() {
    let gpu = gpu_or_return!();
    let program = OnResident::new(&gpu, 500);
    let mut all = Vec::new();
    for start in 0..9 {
        let input = input(&gpu, 500, start);
        let run = program.run(&gpu, &input).await;
        all.push((run, start, input));
    }
    assert_eq!(program.recorded_and_wasted(), (false, 4));
    for (run, start, _) in &all {
        assert!(is_of(&gpu, &run.kept[0], *start).await);
    }
}

#[tokio::test]
async fn freed_memory_takes_the_recorded_commands_with_it() {
    let gpu = gpu_or_return!();
    let before = gpu.memory.pool.counts().live_bytes;
    let program = OnResident::new(&gpu, 999);
    let input = input(&gpu, 999, 3);
    for _ in 0..4 {
        assert!(is_of(&gpu, &program.run(&gpu, &input).await.kept[0], 3).await);
    }
    assert_eq!(program.recorded_and_wasted(), (true, 0));
    until(|| {
        gpu.memory.free_idle();
        gpu.memory.pool.counts().idle_bytes == 0
    })
    .await;
    assert_eq!(program.recorded_and_wasted(), (false, 0));
    assert!(is_of(&gpu, &program.run(&gpu, &input).await.kept[0], 3).await);
    drop((program, input));
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
}

/// A driver keeps memory for all recorded commands.
#[tokio::test]
async fn the_recorded_runs_of_a_device_are_few() {
    let gpu = gpu_or_return!();
    let input = input(&gpu, 10, 3);
    let programs: Vec<_> = (0..40).map(|_| OnResident::new(&gpu, 10)).collect();
    for program in &programs {
        for _ in 0..4 {
            assert!(is_of(&gpu, &program.run(&gpu, &input).await.kept[0], 3).await);
        }
    }
    let recorded = programs.iter().filter(|program| program.recorded_and_wasted().0).count();
    assert_eq!(recorded, 16);
}

#[tokio::test]
async fn a_recorded_run_reports_where_it_failed() {
    let gpu = gpu_or_return!();
    let mut plan = Builder::new();
    let x = plan.value(DType::U32, 500, Home::Resident(0));
    let y = plan.value(DType::U32, 500, Home::Kept(0));
    plan.0.keeps.push(y);
    plan.0.sites.push(NodeId::default());
    let kernels = gpu.compile_here(vec![checked_map(y, x, 900, 500)]).unwrap();
    let program = OnResident((Arc::new(plan.0), kernels));
    for start in [0, 700, 400, 401] {
        let input = input(&gpu, 500, start);
        for round in 0..4 {
            let run = program.run(&gpu, &input).await;
            let first = (start..start + 500).position(|x| x > 900);
            assert_eq!(run.failed.map(|failed| failed.at as usize), first, "{start}, {round}");
        }
        assert!(program.recorded_and_wasted().0);
    }
}
