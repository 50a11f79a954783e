//! Runs that were encoded before anybody asked for them.

use super::*;

/// Words of which three values are too large to be held for a run that may come.
const LARGE: usize = 2_200_000;

/// A program that reads a resident and keeps its result, with what its runs take.
struct Resident {
    plan: Arc<Plan>,
    kernels: Arc<Kernels>,
    len: usize,
}

impl Resident {
    /// `3x + 10` of `len` words, through a slot.
    fn new(gpu: &Gpu, len: usize) -> Self {
        let mut plan = Builder::new();
        let x = plan.value(DType::U32, len, Home::Resident(0));
        let h = plan.result(DType::U32, len, 4);
        let y = plan.value(DType::U32, len, Home::Kept(0));
        plan.0.keeps.push(y);
        let dispatches = vec![map(h, x, "x * p", 3, len), map(y, h, "x + p", 10, len)];
        Self { plan: Arc::new(plan.0), kernels: gpu.compile_here(dispatches).unwrap(), len }
    }

    /// Words that count up from `start`.
    fn input(&self, gpu: &Gpu, start: u32) -> Arc<DeviceBuffer> {
        let data: Vec<u32> = (start..start + self.len as u32).collect();
        gpu.resident(DType::U32, bytemuck::cast_slice(&data)).unwrap()
    }

    async fn run(&self, gpu: &Gpu, input: &Arc<DeviceBuffer>) -> GpuRun {
        let job = Job {
            plan: Arc::clone(&self.plan),
            kernels: Arc::clone(&self.kernels),
            uploads: Vec::new(),
            residents: vec![Arc::clone(input)],
            permit: Permit::default(),
            timeline: Timeline::default(),
        };
        soon(gpu.run(job)).await.unwrap()
    }

    /// The result of four runs, in place of each other: from the third on they are encoded ahead.
    async fn run_often(&self, gpu: &Gpu, input: &Arc<DeviceBuffer>) -> Arc<DeviceBuffer> {
        let mut result = None;
        for _ in 0..4 {
            result = Some(Arc::clone(&self.run(gpu, input).await.kept[0]));
        }
        result.unwrap()
    }

    /// Whether `kept` is what a run makes of words that count up from `start`.
    async fn is_of(&self, gpu: &Gpu, kept: &Arc<DeviceBuffer>, start: u32) -> bool {
        let read = gpu.read_resident(kept).await.unwrap().to_vec::<u32>();
        (start..).zip(&read).all(|(x, &y)| y == x * 3 + 10) && read.len() == self.len
    }
}

#[tokio::test]
async fn runs_encoded_ahead_leave_earlier_results_alone() {
    let gpu = gpu_or_return!();
    for len in [999, LARGE] {
        let program = Resident::new(&gpu, len);
        let inputs = [program.input(&gpu, 0), program.input(&gpu, 5000)];
        // The first run brings the parameters; the next two change what is bound, then it stays.
        let order = [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0];
        let mut kept = Vec::new();
        for which in order {
            let run = program.run(&gpu, &inputs[which]).await;
            assert_eq!((run.counts.submits, run.counts.dispatches), (1, 2));
            kept.push(Arc::clone(&run.kept[0]));
        }
        for (which, kept) in order.into_iter().zip(&kept) {
            assert!(program.is_of(&gpu, kept, [0, 5000][which]).await);
        }
    }
}

#[tokio::test]
async fn what_was_encoded_ahead_goes_with_its_program() {
    let gpu = gpu_or_return!();
    let before = gpu.0.pool.counts().live_bytes;
    for _ in 0..40 {
        let program = Resident::new(&gpu, 999);
        let input = program.input(&gpu, 7);
        for _ in 0..3 {
            let run = program.run(&gpu, &input).await;
            assert!(program.is_of(&gpu, &run.kept[0], 7).await);
        }
        assert_eq!(gpu.0.ahead.count(), 1, "one run is encoded ahead");
    }
    assert_eq!(gpu.0.ahead.count(), 0);
    until(|| gpu.0.pool.counts().live_bytes == before).await;
}

/// A run that is awaited where it is launched allocates nothing, so that another one must for the run after it.
#[tokio::test]
async fn runs_are_encoded_ahead_where_memory_for_one_lay_idle() {
    let gpu = gpu_or_return!();
    let [before, program] = [(); 2].map(|()| Resident::new(&gpu, 999));
    let input = before.input(&gpu, 7);
    drop(before.run(&gpu, &input).await);
    drop(before);
    assert_eq!(gpu.0.ahead.count(), 0);
    for _ in 0..4 {
        let run = program.run(&gpu, &input).await;
        assert!(program.is_of(&gpu, &run.kept[0], 7).await);
    }
    assert_eq!(gpu.0.ahead.count(), 1);
    let mut result = None;
    for round in 0..20 {
        let run = program.run(&gpu, &input).await;
        result = Some(Arc::clone(&run.kept[0]));
        let ahead = &program.kernels.ahead;
        // A result more is kept from the first of these rounds on, for which memory comes once.
        let settles = round < 4;
        assert!(settles || ahead.is_ready() && !ahead.is_short(), "round {round} is elsewhere");
        assert!(settles || run.counts.pool_misses == 0, "round {round} allocates");
    }
    assert!(program.is_of(&gpu, &result.unwrap(), 7).await);
}

/// Whoever keeps each result in place of the one before has room for two, and that is enough.
#[tokio::test]
async fn large_runs_are_encoded_ahead_for_memory_that_comes_back() {
    let gpu = gpu_or_return!();
    let program = Resident::new(&gpu, LARGE);
    let input = program.input(&gpu, 3);
    let (mut result, mut peak) = (None, 0);
    for round in 0..7 {
        let hits = gpu.memory().hits;
        let run = program.run(&gpu, &input).await;
        result = Some(Arc::clone(&run.kept[0]));
        let memory = gpu.memory();
        match round {
            // The first two runs allocate, and the third is encoded anew.
            0..2 => peak = memory.peak_bytes,
            2 => {}
            _ => {
                let pool = (run.counts.pool_hits, run.counts.pool_misses);
                assert_eq!((pool, run.counts.bind_group_hits), ((2, 0), 2));
                // To encode it anew would take the result's memory from the pool too, and the slot's once more.
                assert_eq!(memory.hits - hits, 1, "round {round} was encoded anew");
            }
        }
        assert_eq!(gpu.0.ahead.count(), usize::from(round > 1), "round {round}");
        assert_eq!(memory.peak_bytes, peak, "no room for a third result");
    }
    assert!(program.is_of(&gpu, &result.unwrap(), 3).await);
}

/// Each time it happens a run was encoded in vain, and after the second time none is any more.
#[tokio::test]
async fn what_others_took_meanwhile_is_theirs() {
    let gpu = gpu_or_return!();
    let program = Resident::new(&gpu, LARGE);
    let input = program.input(&gpu, 3);
    let mut result = program.run_often(&gpu, &input).await;
    let mut others = Vec::new();
    for runs_ahead in [1, 0, 0] {
        // Where the slot was, and the result before the last.
        (0..2).for_each(|_| others.push(program.input(&gpu, others.len() as u32)));
        let run = program.run(&gpu, &input).await;
        assert_eq!(gpu.0.ahead.count(), runs_ahead);
        for (start, other) in (0..).zip(&others) {
            let other = gpu.read_resident(other).await.unwrap().to_vec::<u32>();
            assert!((start..).zip(other).all(|(want, got)| want == got));
        }
        for kept in [&run.kept[0], &result] {
            assert!(program.is_of(&gpu, kept, 3).await);
        }
        result = Arc::clone(&run.kept[0]);
    }
}

#[tokio::test]
async fn idle_memory_is_freed_though_a_run_was_encoded_for_it() {
    let gpu = gpu_or_return!();
    let program = Resident::new(&gpu, LARGE);
    let input = program.input(&gpu, 3);
    let result = program.run_often(&gpu, &input).await;
    assert_eq!(gpu.0.ahead.count(), 1);
    gpu.trim();
    assert_eq!((gpu.0.ahead.count(), gpu.memory().idle_bytes), (0, 0));
    assert!(program.is_of(&gpu, &result, 3).await);
    let run = program.run(&gpu, &input).await;
    assert!(program.is_of(&gpu, &run.kept[0], 3).await);
}

#[tokio::test]
async fn a_resident_is_freed_though_a_run_was_encoded_that_binds_it() {
    let gpu = gpu_or_return!();
    // So small that it holds its memory: nothing of that is freed.
    let program = Resident::new(&gpu, 999);
    let input = program.input(&gpu, 3);
    let result = program.run_often(&gpu, &input).await;
    assert_eq!(gpu.0.ahead.count(), 1);
    drop(input);
    gpu.trim();
    assert_eq!(gpu.0.ahead.count(), 0);
    assert!(program.is_of(&gpu, &result, 3).await);
}

/// What a run reads is no room for what the next one makes, or that could not be encoded.
#[tokio::test]
async fn large_runs_that_bind_the_last_result_keep_their_bind_groups() {
    let gpu = gpu_or_return!();
    let mut plan = Builder::new();
    let x = plan.value(DType::U32, LARGE, Home::Resident(0));
    let y = plan.value(DType::U32, LARGE, Home::Kept(0));
    plan.0.keeps.push(y);
    let kernels = gpu.compile_here(vec![map(y, x, "x + p", 10, LARGE)]).unwrap();
    let program = Resident { plan: Arc::new(plan.0), kernels, len: LARGE };
    let mut state = program.input(&gpu, 0);
    let mut hits = Vec::new();
    for _ in 0..8 {
        let run = program.run(&gpu, &state).await;
        hits.push(run.counts.bind_group_hits);
        state = Arc::clone(&run.kept[0]);
        assert_eq!(gpu.0.ahead.count(), 0);
    }
    // Two blocks take turns.
    assert_eq!(hits[4..], [1; 4], "{hits:?}");
    let read = gpu.read_resident(&state).await.unwrap().to_vec::<u32>();
    assert!((80..).zip(&read).all(|(want, &got)| got == want) && read.len() == LARGE);
}

#[tokio::test]
async fn a_run_encoded_ahead_tells_where_it_failed() {
    let gpu = gpu_or_return!();
    let mut plan = Builder::new();
    let x = plan.value(DType::U32, 500, Home::Resident(0));
    let y = plan.value(DType::U32, 500, Home::Kept(0));
    plan.0.keeps.push(y);
    plan.0.sites.push(NodeId::default());
    let program = Resident {
        plan: Arc::new(plan.0),
        kernels: gpu.compile_here(vec![checked_map(y, x, 900, 500)]).unwrap(),
        len: 500,
    };
    // Other inputs are bound twice, which is once too often.
    let starts = [(0, 1), (700, 1), (400, 0), (401, 0)];
    let inputs = starts.map(|(start, _)| program.input(&gpu, start));
    for ((start, runs_ahead), input) in starts.into_iter().zip(&inputs) {
        for round in 0..4 {
            let run = program.run(&gpu, input).await;
            let first = (start..start + 500).position(|x| x > 900);
            assert_eq!(run.failed.map(|failed| failed.at as usize), first, "{start}, {round}");
        }
        assert_eq!(gpu.0.ahead.count(), runs_ahead, "{start}");
    }
}

#[tokio::test]
async fn a_block_that_is_asked_for_twice_is_not_claimed() {
    let gpu = gpu_or_return!();
    let lease = |bytes| gpu.0.lease(Kind::Storage, bytes, &mut GpuCounts::default()).unwrap();
    let (one, other) = (lease(1 << 20), lease(1 << 20));
    let loans = [one.next(), other.next(), one.next()];
    let idle = || gpu.memory().idle_bytes;
    let none = idle();
    drop((one, other));
    assert!(!gpu.0.pool.claim(loans.iter()));
    assert_eq!(idle() - none, 2 << 20, "what was found before is idle as it was");
    assert!(gpu.0.pool.claim(loans[..2].iter()));
    assert_eq!(idle(), none);
}
