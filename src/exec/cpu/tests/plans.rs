//! Tests of plans of several steps: slots that are used again, results that share memory, the pool.

use std::slice;
use std::sync::Arc;

use smallvec::smallvec;

use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::View;
use crate::base::trace::Timeline;
use crate::cost::Backend;
use crate::error::{DeviceError, Error};
use crate::exec::HostBuffer;
use crate::exec::HostPool;
use crate::exec::cpu::run::run;
use crate::exec::cpu::{CpuProgram, CpuRun, RunData};
use crate::expr::{Builder, E};
use crate::graph::NodeId;
use crate::plan::{
    Cost, Form, Home, OperandSource, Plan, Space, Step, StepOp, StepOperand, StepOutput, Value,
    ValueId,
};

const LEN: usize = 1000;

fn given<'a>(uploads: &'a [Arc<HostBuffer>], residents: &'a [Arc<HostBuffer>]) -> RunData<'a> {
    RunData { uploads, residents, ..RunData::default() }
}

fn value(home: Home) -> Value {
    Value {
        node: NodeId::default(),
        op: "test",
        place: Place::caller(),
        dtype: DType::F32,
        shape: LEN.into(),
        channels_last: false,
        home,
    }
}

/// Makes a step that computes `to = f(from)` for each element.
fn step(from: u32, to: u32, f: fn(E<'_>) -> E<'_>) -> Step {
    let b = Builder::default();
    let view = View::contiguous(&LEN.into());
    let root = f(b.load(0, DType::F32.lane())).r();
    let source = OperandSource::Value(ValueId(from));
    let operand = StepOperand {
        source,
        dtype: DType::F32,
        space: Space::Main,
        view: view.clone(),
        clamp: false,
    };
    Step {
        ops: vec![StepOp { node: NodeId::default(), name: "test" }],
        place: Place::caller(),
        form: Form::map(&[LEN]),
        expr: b.finish(),
        operands: vec![operand],
        scalars: Vec::new(),
        outputs: smallvec![StepOutput { value: ValueId(to), dtype: DType::F32, root, view }],
        lookups: Vec::new(),
        borders: Vec::new(),
        joins: Vec::new(),
        scratch: None,
        cost: Cost::default(),
    }
}

/// Makes a plan of x → 2x → 2x + 1 → (2x + 1)² in two slots. The negative of the last value is kept. The upload and the
/// resident are downloaded as they are.
fn plan() -> Plan {
    Plan {
        values: vec![
            value(Home::Upload { input: 0, slot: None }),
            value(Home::Slot(0)),
            value(Home::Slot(1)),
            value(Home::Slot(0)),
            value(Home::Kept(0)),
            value(Home::Resident(0)),
        ],
        steps: vec![
            step(0, 1, |x| x * 2.0),
            step(1, 2, |x| x + 1.0),
            step(2, 3, |x| x * x),
            step(3, 4, |x| -x),
        ],
        slots: vec![4 * LEN as u64; 2],
        downloads: vec![ValueId(3), ValueId(0), ValueId(5)],
        keeps: vec![ValueId(4)],
        ..Plan::empty(Backend::Cpu)
    }
}

#[test]
fn slots_are_used_again_and_results_outlive_the_run() {
    let program = CpuProgram::new(Arc::new(plan()));
    let pool = HostPool::default();
    let resident = Arc::new(HostBuffer::from_slice(&[7.0f32; LEN]));
    let mut earlier: Option<(CpuRun, Vec<f32>)> = None;
    for seed in 0..3u16 {
        let data: Vec<f32> = (0..LEN).map(|i| (i + usize::from(seed)) as f32).collect();
        let upload = Arc::new(HostBuffer::from_slice(&data));
        let ran = run(
            &program,
            given(slice::from_ref(&upload), slice::from_ref(&resident)),
            &pool,
            &Timeline::default(),
            &|| true,
        );
        let ran = ran.expect("a run that is wanted");
        let want: Vec<f32> = data.iter().map(|x| (2.0 * x + 1.0).powi(2)).collect();
        assert_eq!(ran.dispatches, 4);
        assert_eq!(ran.downloads[0].as_slice::<f32>(), Some(&want[..]));
        let negative: Vec<f32> = want.iter().map(|x| -x).collect();
        assert_eq!(ran.keeps[0].as_slice::<f32>(), Some(&negative[..]));
        assert!(Arc::ptr_eq(&ran.downloads[1], &upload));
        assert!(Arc::ptr_eq(&ran.downloads[2], &resident));
        // The first run makes three buffers and gives two of them out; the second finds the third,
        // and the last all three, since the first run's results are dropped by then.
        assert_eq!(ran.pool_hits, [0, 1, 3][usize::from(seed)]);
        if let Some((first, wanted)) = earlier.take() {
            assert_eq!(first.downloads[0].as_slice::<f32>(), Some(&wanted[..]), "is untouched");
        } else {
            earlier = Some((ran, want));
        }
    }
}

#[test]
fn memory_that_the_host_has_not_is_an_error() {
    let mut plan = plan();
    plan.values[4].shape = (1_usize << 46).into();
    let pool = HostPool::default();
    let upload = Arc::new(HostBuffer::from_slice(&[1.0f32; LEN]));
    let uploads = [Arc::clone(&upload), upload];
    let program = CpuProgram::new(Arc::new(plan));
    let ran =
        run(&program, given(&uploads[..1], &uploads[1..]), &pool, &Timeline::default(), &|| true);
    let error = ran.unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError::OutOfMemory { .. })), "{error}");
    assert_eq!(pool.counts().idle_bytes, 8 * LEN as u64, "both slots are free");
}

#[test]
fn a_result_that_no_step_makes_is_an_error() {
    let data = Arc::new(HostBuffer::from_slice(&[1.0_f32; LEN]));
    let data = slice::from_ref(&data);
    let pool = HostPool::default();
    for kept in [false, true] {
        let mut plan = plan();
        plan.steps.truncate(if kept { 3 } else { 2 });
        plan.downloads.truncate(if kept { 0 } else { 1 });
        let program = CpuProgram::new(Arc::new(plan));
        let ran = run(&program, given(data, data), &pool, &Timeline::default(), &|| true);
        let error = ran.unwrap_err().to_string();
        assert!(error.contains("never computed; please report"), "{error}");
    }
}

#[test]
fn steps_share_a_cache_only_if_they_differ_in_values_and_places_alone() {
    let double: fn(E<'_>) -> E<'_> = |x| x * 2.0;
    let viewed = |len: usize, offset, clamp| {
        let mut viewed = step(0, 2, double);
        let operand = &mut viewed.operands[0];
        operand.view = View { dims: smallvec![len], strides: smallvec![1], offset };
        operand.clamp = clamp;
        viewed
    };
    let mut counted = viewed(LEN, 0, false);
    counted.operands[0].source = OperandSource::Iota;
    let mut counted_later = counted.clone();
    counted_later.operands[0].view.offset = 7;
    let mut halves = step(0, 2, double);
    halves.outputs[0].dtype = DType::F16;
    // Steps, each with the number of the first step that is like it.
    let steps = [
        (step(0, 2, double), 0),
        (step(1, 3, double), 0),
        (viewed(LEN, 5, false), 0),
        (step(4, 2, double), 3),
        (step(0, 2, |x| x * 3.0), 4),
        (viewed(LEN - 1, 0, false), 5),
        (viewed(LEN, 0, true), 6),
        (viewed(LEN, 5, true), 7),
        (viewed(LEN, 5, true), 7),
        (counted, 9),
        (counted_later, 10),
        (halves, 11),
    ];
    let mut plan = plan();
    plan.values[4].home = Home::Resident(0);
    let (steps, likes): (_, Vec<usize>) = steps.into_iter().unzip();
    plan.steps = steps;
    let program = CpuProgram::new(Arc::new(plan));
    let caches: Vec<_> = program.steps().map(|(_, kept)| &kept.cache).collect();
    let first = |cache| caches.iter().position(|&other| Arc::ptr_eq(other, cache));
    let found: Vec<_> = caches.iter().filter_map(|&cache| first(cache)).collect();
    assert_eq!(found, likes);
}

#[test]
fn the_first_run_finds_the_reserved_memory() {
    let plan = plan();
    let pool = HostPool::default();
    for _ in 0..2 {
        pool.reserve(plan.slots.iter().map(|bytes| bytes.div_ceil(4) as usize));
    }
    assert_eq!(pool.counts().idle_bytes, 8 * LEN as u64, "both slots, once");
    let data = Arc::new(HostBuffer::from_slice(&[1.0_f32; LEN]));
    let data = slice::from_ref(&data);
    let program = CpuProgram::new(Arc::new(plan));
    let ran = run(&program, given(data, data), &pool, &Timeline::default(), &|| true).unwrap();
    assert_eq!([ran.pool_hits, ran.pool_misses], [2, 1], "the kept result is allocated");
}

#[test]
fn one_caller_begins_the_runs_on_zeros_of_a_short_program() {
    let begins = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        let program = CpuProgram::new(Arc::new(plan));
        [program.begins_runs_on_zeros(), program.begins_runs_on_zeros()]
    };
    assert_eq!(begins(&|_| ()), [true, false]);
    assert_eq!(begins(&|plan| plan.seconds = 1.0), [false; 2]);
    assert_eq!(begins(&|plan| plan.peak_bytes = 5 << 20), [false; 2]);
}
