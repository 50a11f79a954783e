//! Kernels of the user's own, in WGSL.

use std::cmp::Ordering;
use std::sync::Arc;

use super::cpu_kernel::{CpuKernel, CpuTwin};
use super::{BufferId, GpuCommandBatch, Resident, Tensor};
use crate::base::dtype::{DType, Element};
use crate::base::shape::{MAX_RANK, Shape};
use crate::error::MistakeKind;
use crate::exec::gpu::check_custom;
use crate::graph::NodeId;
use crate::ops::{CustomKernel, MOST_BINDINGS, MOST_INPUTS, Op, Type, check_size};
use crate::record::{Record, Recorder, Refusal, UntypedId};
use crate::residents::Handle;

/// An input of a kernel: a recorded value, or a resident that the batch binds.
#[derive(Clone, Debug)]
enum InputValue {
    Recorded(UntypedId),
    Resident(Handle),
}

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
    inputs: Vec<InputValue>,
    on_cpu: Option<CpuTwin>,
}

impl Wgsl {
    /// Creates a kernel from a module, with entry point `main` and no inputs. Call [`groups`](Self::groups) to set the
    /// number of workgroups.
    pub fn new(source: &str) -> Self {
        let (source, entry) = (source.into(), "main".into());
        Self { source, entry, groups: None, inputs: Vec::new(), on_cpu: None }
    }

    /// Sets the entry point, if the module has several or one of another name than `main`.
    ///
    /// ```
    /// # use onetrip::Wgsl;
    /// let source = "@compute @workgroup_size(64) fn double() {}";
    /// let kernel = Wgsl::new(source).entry_point("double").groups([1, 1, 1]);
    /// # let _ = kernel;
    /// ```
    pub fn entry_point(mut self, name: &str) -> Self {
        self.entry = name.into();
        self
    }

    /// Adds an input: a tensor, an id or a borrowed resident. There may be seven. A view, such as the result of
    /// [`transpose`](GpuCommandBatch::transpose), is stored contiguously first.
    pub fn input<T: Element>(mut self, value: impl KernelInput<T>) -> Self {
        value.add_to(&mut self);
        self
    }

    /// Sets the number of workgroups along x, y and z, each at least 1 unless an input or the result is empty. The source sets
    /// the threads of a workgroup. Every device that onetrip opens takes 65535 workgroups along each axis, workgroups of 256
    /// threads (64 along z), and 16 KiB of `var<workgroup>`. Some devices take more, and others refuse such a kernel
    /// ([`DeviceError::Kernel`](crate::DeviceError::Kernel)). Elements of the result that no thread writes are 0, so too few
    /// workgroups are no error. [`explain`](GpuCommandBatch::explain) prints the workgroups of a plan for the GPU. A thread
    /// for each of n elements takes ⌈n / 64⌉ workgroups of `@workgroup_size(64)`:
    ///
    /// ```
    /// # use onetrip::Wgsl;
    /// # let source = "@compute @workgroup_size(64) fn main() {}";
    /// let n: u32 = 10;
    /// let kernel = Wgsl::new(source).groups([n.div_ceil(64), 1, 1]);
    /// # let _ = kernel;
    /// ```
    pub fn groups(mut self, groups: [u32; 3]) -> Self {
        self.groups = Some(groups);
        self
    }

    /// The function that runs on the CPU call in place of the kernel. It takes a slice of each input, in order, and the
    /// elements of the result, which are 0 before. It must do the same as the source does. Runs call it from any
    /// thread. It may make runs itself, but must not wait for those of other threads: all computing threads could then
    /// wait. If it panics, the run fails with [`DeviceError::Panicked`](crate::DeviceError::Panicked). A test of both
    /// sides calls [`set_placement`](GpuCommandBatch::set_placement) with [`Placement::Cpu`](crate::Placement::Cpu) and then
    /// with [`Placement::Gpu`](crate::Placement::Gpu). Mesa's software adapter ends each loop of a kernel after 65535 steps.
    pub fn on_cpu<Types>(mut self, function: impl CpuKernel<Types>) -> Self {
        self.on_cpu = Some(function.twin());
        self
    }

    /// The kernel as an operation with its inputs, and the type of its result.
    fn checked(
        &self,
        recorder: &Recorder,
        inputs: &[UntypedId],
        dtype: DType,
        shape: Shape,
    ) -> Result<(CustomKernel, Vec<NodeId>, Type), Refusal> {
        let Record { graph, functions, .. } = &**recorder.recorded();
        let Self { source, entry, groups, on_cpu, .. } = self;
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
        check_dtypes(&types, dtype)?;
        let runs = types.iter().chain([&&result]).all(|ty| ty.shape.elements() > 0);
        if runs && groups.contains(&0) {
            return Err(MistakeKind::Parameter {
                what: "the number of workgroups",
                must: "at least 1 along each axis",
                given: format!("{groups:?}; n elements take `n.div_ceil(64)` of 64 threads"),
            }
            .into());
        }
        if let Some(twin) = on_cpu {
            let wanted: Vec<DType> = types.iter().map(|ty| ty.dtype).collect();
            if let Some(misfit) = twin.misfit(&wanted, dtype) {
                let hint = match twin.inputs.len().cmp(&wanted.len()) {
                    Ordering::Greater => " (is an `input` missing?)",
                    Ordering::Less => " (is an `input` too many?)",
                    Ordering::Equal => "",
                };
                return Err(MistakeKind::Parameter {
                    what: "the function of `Wgsl::on_cpu`",
                    must: "of the element types of the inputs, in order, and of the result",
                    given: misfit + hint,
                }
                .into());
            }
        }
        let (source, entry) = (Arc::clone(source), Arc::clone(entry));
        let function = on_cpu.as_ref().map(|_| functions.len() as u32);
        let kernel = CustomKernel { source, entry, groups, function };
        check_custom(&kernel, &types, &result)?;
        Ok((kernel, nodes, result))
    }
}

/// An input with elements `T` for a [kernel](Wgsl::input) of the user's own: a [`BufferId`], a [`Tensor`], or a reference
/// to a [`Resident`].
///
/// ```
/// # use onetrip::{Device, GpuCommandBatch, Wgsl};
/// # let device = Device::cpu();
/// let scale = device.resident(&[2.0_f32], 1)?;
/// let batch = GpuCommandBatch::new(&device);
/// let x = batch.upload(&[1.0_f32, 4.0]);
/// let kernel = Wgsl::new("…").input(x).input(&scale);
/// # let _ = kernel;
/// # Ok::<_, onetrip::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of a kernel",
    note = "tensors, ids and borrowed residents are; a number is an input of one element, `batch.full(1, 2.0)`"
)]
pub trait KernelInput<T> {
    #[doc(hidden)]
    fn add_to(self, kernel: &mut Wgsl);
}

macro_rules! kernel_inputs {
    ($($input:ty: |$x:ident| $value:expr;)*) => {$(
        impl<T: Element> KernelInput<T> for $input {
            fn add_to(self, kernel: &mut Wgsl) {
                let $x = self;
                kernel.inputs.push($value);
            }
        }
    )*};
}
kernel_inputs! {
    BufferId<T>: |id| InputValue::Recorded(id.value());
    Tensor<'_, T>: |tensor| InputValue::Recorded(tensor.id().value());
    &Resident<T>: |resident| InputValue::Resident(resident.handle().clone());
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
    ///     |x: &[f32], y: &mut [f32]| {
    ///         for (y, pair) in y.iter_mut().zip(x.windows(2)) {
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
    /// A number that the kernel needs is an input of one element, or part of the source. A program in which the kernel reads
    /// values with rows has no [`rows`](crate::Program::rows). A file of the program holds the source without the function
    /// for the CPU, which [`LoadOptions::on_cpu`](crate::LoadOptions::on_cpu) gives again.
    ///
    /// It is a mistake if the number of workgroups was not said or is 0. So is a function for the CPU that takes other
    /// element types than the inputs and the result have. It is a [`MistakeKind::Kernel`] if the source is not
    /// valid, or if its bindings do not fit the inputs and the result; builds without the feature `gpu` do not look at
    /// the source. A kernel that one device refuses, as for more threads than a workgroup may have there, is an error
    /// of `compile` and of the run ([`DeviceError::Kernel`](crate::DeviceError::Kernel)).
    #[track_caller]
    pub fn wgsl<T: Element>(&self, kernel: Wgsl, shape: impl Into<Shape>) -> Tensor<'_, T> {
        let shape = shape.into();
        self.composed("wgsl", || {
            let inputs = kernel.inputs.iter().map(|input| match input {
                InputValue::Recorded(id) => *id,
                InputValue::Resident(handle) => {
                    let node = self.bound_handle(handle, "wgsl");
                    UntypedId { node, batch_id: self.batch_id }
                }
            });
            let inputs: Vec<UntypedId> = inputs.collect();
            let mut recorder = self.recorder.lock();
            recorder.recording.start();
            let (checked, inputs, ty) = kernel.checked(&recorder, &inputs, T::DTYPE, shape)?;
            recorder.change().functions.extend(kernel.on_cpu.map(|twin| twin.function));
            let node = recorder.push(Op::Custom(Arc::new(checked)), inputs.into(), ty);
            Ok(self.tensor(node))
        })
    }
}

/// Fails unless kernels take inputs and a result of these types.
fn check_dtypes(inputs: &[&Type], result: DType) -> Result<(), MistakeKind> {
    let must = "of f32, i32 or u32";
    // The type that a cast makes of another one, without loss.
    let like = |dtype| if dtype == DType::Bool { DType::U32 } else { DType::F32 };
    for (at, dtype) in inputs.iter().map(|ty| ty.dtype).enumerate() {
        if !dtype.is_word() {
            let cast = format!("`cast::<{}>()` it first", like(dtype));
            let given = format!("{dtype} as input {at} (counted from 0); {cast}");
            return Err(MistakeKind::Parameter { what: "an input", must, given });
        }
    }
    if result.is_word() {
        return Ok(());
    }
    let given =
        format!("{result}; make the result `{}`, and `cast::<{result}>()` it", like(result));
    Err(MistakeKind::Parameter { what: "the result", must, given })
}
