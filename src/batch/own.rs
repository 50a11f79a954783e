//! Kernels of the user's own, in WGSL.

use std::fmt;
use std::sync::Arc;

use super::{BufferId, GpuCommandBatch, Tensor};
use crate::base::dtype::{DType, Element};
use crate::base::shape::{MAX_RANK, Shape};
use crate::base::units::count;
use crate::error::MistakeKind;
use crate::exec::gpu::check_own;
use crate::graph::NodeId;
use crate::ops::{
    CpuFunction, Elements, MOST_BINDINGS, MOST_INPUTS, Op, OwnKernel, Type, check_size,
};
use crate::record::{Recorded, Recorder, Refusal, UntypedId};

/// A kernel of the caller's own for [`GpuCommandBatch::wgsl`], with its inputs.
///
/// The source is a whole module in WGSL. In bind group 0, bindings 0, 1, … are the inputs in the order of
/// [`input`](Self::input), declared `var<storage, read>`. The next binding is the result, declared `var<storage,
/// read_write>`. Each is an array of `f32`, `i32` or `u32`, of vectors of 2 or 4 of these, or of atomics. Elements lie
/// in row-major order, and `arrayLength` counts them. The elements of an array of vectors must be a whole number of
/// vectors. An array of a fixed size may be shorter than the value bound to it, not longer.
#[derive(Clone, Debug)]
#[must_use]
pub struct Wgsl {
    source: Arc<str>,
    entry: Arc<str>,
    /// `None` until they are set.
    groups: Option<[u32; 3]>,
    inputs: Vec<UntypedId>,
    /// The function for the CPU, with the element type that it writes.
    function: Option<(DType, CpuFunction)>,
}

impl Wgsl {
    /// Creates a kernel from a module, with entry point `main` and no inputs. Call [`groups`](Self::groups) to set the
    /// number of workgroups.
    pub fn new(source: &str) -> Self {
        let (source, entry) = (source.into(), "main".into());
        Self { source, entry, groups: None, inputs: Vec::new(), function: None }
    }

    /// Sets the entry point.
    pub fn entry_point(mut self, name: &str) -> Self {
        self.entry = name.into();
        self
    }

    /// Adds an input. A view, such as the result of [`transpose`](GpuCommandBatch::transpose), is stored contiguously
    /// first.
    pub fn input<T: Element>(mut self, id: impl Into<BufferId<T>>) -> Self {
        self.inputs.push(id.into().value());
        self
    }

    /// Sets the number of workgroups along x, y and z. The source sets the threads of a workgroup. A thread for each of
    /// n elements takes ⌈n / 64⌉ workgroups of `@workgroup_size(64)`.
    pub fn groups(mut self, groups: [u32; 3]) -> Self {
        self.groups = Some(groups);
        self
    }

    /// The function that runs on the CPU call in place of the kernel: from the inputs to the elements of the result,
    /// which are 0 before. It must do the same as the source does. Runs call it from any thread. It may make runs
    /// itself, but must not wait for those of other threads: all that compute might wait like it. If it panics, the run
    /// fails with [`DeviceError::Panicked`](crate::DeviceError::Panicked).
    pub fn on_cpu<T, F>(mut self, function: F) -> Self
    where
        T: Element,
        F: Fn(&CpuInputs<'_>, &mut [T]) + Send + Sync + 'static,
    {
        let call = move |inputs: &[Elements<'_>], result: &mut [u8]| {
            if let Some(result) = T::in_place_mut(result) {
                function(&CpuInputs(inputs), result);
            }
        };
        self.function = Some((T::DTYPE, CpuFunction::new(call)));
        self
    }

    /// The kernel as an operation with its inputs, and the type of its result.
    fn checked(
        &self,
        recorder: &Recorder,
        dtype: DType,
        shape: Shape,
    ) -> Result<(OwnKernel, Vec<NodeId>, Type), Refusal> {
        let Recorded { graph, functions, .. } = &**recorder.recorded();
        let Self { source, entry, groups, inputs, function } = self;
        if shape.rank() > MAX_RANK {
            return Err(MistakeKind::Rank(shape.rank()).into());
        }
        check_size(&shape)?;
        let groups = groups.ok_or_else(|| MistakeKind::Parameter {
            what: "the number of workgroups",
            must: "said by `Wgsl::groups`",
            given: "left open".into(),
        })?;
        if inputs.len() >= MOST_BINDINGS {
            let (what, must) = ("the number of inputs", MOST_INPUTS);
            let given = inputs.len().to_string();
            return Err(MistakeKind::Parameter { what, must, given }.into());
        }
        let nodes = inputs.iter().map(|&input| recorder.check(input));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        if nodes.iter().any(|&node| matches!(graph[node].op, Op::Invalid)) {
            return Err(Refusal::Silent);
        }
        let result = Type { dtype, shape };
        let types: Vec<&Type> = nodes.iter().map(|&node| &graph[node].ty).collect();
        let takes = |dtype: DType| !matches!(dtype, DType::F16 | DType::Bool);
        if let Some(ty) = types.iter().chain([&&result]).find(|ty| !takes(ty.dtype)) {
            return Err(MistakeKind::DType(ty.dtype).into());
        }
        if let Some((given, _)) = function.as_ref().filter(|(given, _)| *given != dtype) {
            return Err(MistakeKind::Parameter {
                what: "what the function of `Wgsl::on_cpu` writes",
                must: "of the result's element type",
                given: format!("{given} for {dtype}"),
            }
            .into());
        }
        let (source, entry) = (Arc::clone(source), Arc::clone(entry));
        let function = function.as_ref().map(|_| functions.len() as u32);
        let kernel = OwnKernel { source, entry, groups, function };
        check_own(&kernel, &types, &result)?;
        Ok((kernel, nodes, result))
    }
}

/// The inputs of a kernel where it runs [on the CPU](Wgsl::on_cpu).
pub struct CpuInputs<'a>(&'a [Elements<'a>]);

impl<'a> CpuInputs<'a> {
    /// The elements of an input, in row-major order.
    ///
    /// # Panics
    /// If there is no such input, or its elements are not `T`s; the run then fails as after any panic of the function.
    #[must_use]
    pub fn get<T: Element>(&self, at: usize) -> &'a [T] {
        let Some(input) = self.0.get(at) else {
            let inputs = count(self.0.len() as u64, "input");
            panic!("the kernel has no input {at}: it has {inputs}, from 0 on")
        };
        let elements = (input.dtype == T::DTYPE).then(|| T::in_place(input.bytes)).flatten();
        elements.unwrap_or_else(|| {
            panic!("input {at} of the kernel has elements of {}, not {}", input.dtype, T::DTYPE)
        })
    }
}

impl fmt::Debug for CpuInputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuInputs({})", self.0.len())
    }
}

/// Kernels of the user's own.
impl GpuCommandBatch {
    /// A kernel of the caller's own, in WGSL, as an operation of this batch with a result of `shape`. Elements that it
    /// does not write are 0. It does not run if an input is empty.
    ///
    /// The kernel cannot leave its arrays: a read beyond an end gives an unspecified value, and a write there is lost
    /// or lands on some element of the same array. It does not fuse; elementwise formulas of [tensors](crate::Tensor)
    /// do.
    ///
    /// The batch runs where the kernel can: on a GPU, or [on the CPU](Wgsl::on_cpu) too if the kernel has a function
    /// for that. Without one it is an error ([`PlanError::GpuOnly`](crate::PlanError::GpuOnly)) where there is no GPU,
    /// or none any more.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Device, GpuCommandBatch, Wgsl};
    ///
    /// /// Each element less the one before.
    /// const DIFFERENCES: &str = "
    /// @group(0) @binding(0) var<storage, read> x: array<f32>;
    /// @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    ///
    /// @compute @workgroup_size(64)
    /// fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///     if id.x < arrayLength(&y) { y[id.x] = x[id.x + 1u] - x[id.x]; }
    /// }";
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, 4.0, 9.0, 16.0]);
    /// let kernel = Wgsl::new(DIFFERENCES).input(x).groups([1, 1, 1]).on_cpu(
    ///     |inputs, y: &mut [f32]| {
    ///         for (y, pair) in y.iter_mut().zip(inputs.get::<f32>(0).windows(2)) {
    ///             *y = pair[1] - pair[0];
    ///         }
    ///     },
    /// );
    /// let y = batch.wgsl::<f32>(kernel, 3);
    /// let doubled = y * 2.0;
    /// batch.execute().await?;
    /// assert_eq!(batch.read(doubled).await?, [6.0, 10.0, 14.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// It is a mistake if the number of workgroups was not said. It is a [`MistakeKind::Kernel`] if the source is not
    /// valid, or if its bindings do not fit the inputs and the result; builds without the feature `gpu` do not look at
    /// the source. A kernel that one device refuses, as for more threads than a workgroup may have there, is an error
    /// of the run ([`DeviceError::Kernel`](crate::DeviceError::Kernel)).
    #[track_caller]
    pub fn wgsl<T: Element>(&self, kernel: Wgsl, shape: impl Into<Shape>) -> Tensor<'_, T> {
        let shape = shape.into();
        self.composed("wgsl", || {
            let mut recorder = self.recorder.lock();
            recorder.recording.start();
            let (own, inputs, ty) = kernel.checked(&recorder, T::DTYPE, shape)?;
            recorder.change().functions.extend(kernel.function.map(|(_, function)| function));
            let node = recorder.push(Op::Own(Arc::new(own)), inputs.into(), ty);
            Ok(self.tensor(node))
        })
    }
}
