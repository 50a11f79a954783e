//! Hand-written kernels in hand-built plans, on whatever adapter there is.

/// The adapter, or the end of the test where there is none.
macro_rules! gpu_or_return {
    () => {{
        let Some(gpu) = gpu().await else { return };
        gpu
    }};
}

mod coalesce;
mod disk;
mod failures;
mod losses;
mod next_run;
mod runs;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::base::dtype::DType;
use crate::base::shape::Shape;
use crate::base::test_device::found;
use crate::base::trace::Timeline;
use crate::codegen::{Binding, BufferRef, Dispatch};
use crate::cost::Backend;
use crate::error::Error;
use crate::exec::budget::Permit;
use crate::exec::gpu::memory::{Class, Kind, Lease};
use crate::exec::gpu::submit::buffer_request::BufferRequest;
use crate::exec::gpu::submit::commands::EncodedRun;
use crate::exec::gpu::submit::submission_future::SubmittedRun;
use crate::exec::threads;
use crate::graph::NodeId;
use crate::plan::{Home, Plan, Value, ValueId};

async fn gpu() -> Option<Gpu> {
    let choice = AdapterChoice::best(None, true);
    found(Gpu::open(&choice, None, ()).await)
}

struct Builder(Plan);

impl Builder {
    fn new() -> Self {
        Self(Plan::empty(Backend::Gpu))
    }

    fn value(&mut self, dtype: DType, len: usize, home: Home) -> ValueId {
        let node = NodeId::default();
        self.0.values.push(Value {
            node,
            op: "test",
            place: crate::base::place::Place::caller(),
            dtype,
            shape: Shape::from(len),
            channels_last: false,
            home,
        });
        ValueId(self.0.values.len() as u32 - 1)
    }

    fn slot(&mut self, bytes: usize) -> usize {
        self.0.slots.push(bytes as u64);
        self.0.slots.len() - 1
    }

    /// An upload with a slot of `stored` bytes an element.
    fn upload(&mut self, dtype: DType, len: usize, input: u32, stored: usize) -> ValueId {
        let slot = Some(self.slot((len * stored).next_multiple_of(4)));
        self.value(dtype, len, Home::Upload { input, slot })
    }

    /// A plan of an upload and a downloaded result, both in slots of `stored` bytes an element.
    fn of_one(dtype: DType, len: usize, stored: usize) -> (Self, ValueId, ValueId) {
        let mut plan = Self::new();
        let x = plan.upload(dtype, len, 0, stored);
        let y = plan.result(dtype, len, stored);
        plan.0.downloads.push(y);
        (plan, x, y)
    }

    fn result(&mut self, dtype: DType, len: usize, stored: usize) -> ValueId {
        let slot = self.slot((len * stored).next_multiple_of(4));
        self.value(dtype, len, Home::Slot(slot))
    }
}

/// `out[i] = ` an expression of `x` = `in[i]` and the parameter `p`, over `len` words.
fn map(out: ValueId, input: ValueId, expr: &str, p: u32, len: usize) -> Dispatch {
    let wgsl = format!(
        "@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
        @group(0) @binding(1) var<storage, read_write> out: array<u32>;
        @group(0) @binding(2) var<storage, read> in: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            let i = id.x;
            if i >= params[0].x {{ return; }}
            let p = params[0].y;
            let x = in[i];
            out[i] = {expr};
        }}"
    );
    Dispatch {
        label: format!("map {expr}"),
        wgsl,
        custom: None,
        buffers: vec![
            Binding { buffer: BufferRef::Value(out), writes: true },
            Binding { buffer: BufferRef::Value(input), writes: false },
        ],
        params: vec![len as u32, p, 0, 0],
        groups: [len.div_ceil(64) as u32, 1, 1],
    }
}

/// `x`, where no element may be above `p`.
fn checked_map(out: ValueId, input: ValueId, p: u32, len: usize) -> Dispatch {
    let mut dispatch = map(out, input, "check(x, p, i)", p, len);
    dispatch.wgsl += "
        @group(0) @binding(3) var<storage, read_write> failures: array<atomic<u32>>;
        fn check(x: u32, p: u32, i: u32) -> u32 {
            if x > p { atomicMax(&failures[0], ~i); }
            return x;
        }";
    dispatch.buffers.push(Binding { buffer: BufferRef::Failures, writes: true });
    dispatch
}

fn host<T: bytemuck::NoUninit>(values: &[T]) -> HostData {
    Arc::new(bytemuck::cast_slice::<T, u8>(values).to_vec())
}

/// A plan and its kernels.
type Program = (Arc<Plan>, Arc<Kernels>);

fn inputs_of((plan, kernels): &Program, uploads: Vec<HostData>) -> GpuRunInputs {
    GpuRunInputs {
        plan: Arc::clone(plan),
        kernels: Arc::clone(kernels),
        uploads,
        residents: Vec::new(),
        permit: Permit::default(),
        timeline: Timeline::default(),
    }
}

fn inputs(
    gpu: &Gpu,
    plan: Builder,
    dispatches: Vec<Dispatch>,
    uploads: Vec<HostData>,
) -> GpuRunInputs {
    inputs_of(&(Arc::new(plan.0), gpu.compile_here(dispatches).unwrap()), uploads)
}

/// `x + p` over `len` words.
fn adder(gpu: &Gpu, len: usize, p: u32) -> Program {
    let (plan, x, y) = Builder::of_one(DType::U32, len, 4);
    let kernels = gpu.compile_here(vec![map(y, x, "x + p", p, len)]).unwrap();
    (Arc::new(plan.0), kernels)
}

fn adder_inputs(program: &Program, data: &[u32]) -> GpuRunInputs {
    inputs_of(program, vec![host(data)])
}

impl Engine {
    /// Submits a run from this thread, which may allocate.
    fn start_here(self: &Arc<Self>, inputs: &GpuRunInputs) -> Result<SubmittedRun, Error> {
        let (encoded, results) = self.encode_here(inputs)?;
        self.submit(inputs, encoded, results)
    }

    /// Encodes a run on this thread, which may allocate.
    fn encode_here(
        &self,
        inputs: &GpuRunInputs,
    ) -> Result<(Option<EncodedRun>, GpuRunResults), Error> {
        let request = BufferRequest::new(&self.memory, &self.device.limits, inputs)?;
        let idle = request.lease_idle(&self.memory);
        self.device.guarded(|| self.encode(inputs, request.lease(&self.memory, inputs, idle)?))
    }
}

/// Awaits `future` as a thread that has nothing else to do: other tests that open or compile may keep it waiting.
async fn here<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| threads::waiting(|| future.as_mut().poll(context))).await
}

/// Waits for another thread.
async fn until(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain");
}

/// Fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("hangs")
}
