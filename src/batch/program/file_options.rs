//! Options of programs as files.

use std::collections::BTreeMap;

use crate::batch::Weights;
use crate::batch::cpu_kernel::{CpuKernel, CpuTwin};

/// Options of [`Program::save_with`](crate::Program::save_with).
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveOptions {
    /// Leaves out the data of residents that the program binds under a [name](crate::GpuCommandBatch::name) and does
    /// not fill: [`LoadOptions::weights`] brings them, in the layout in which they were bound.
    pub leave_out_weights: bool,
}

/// Options of [`Program::load_with`](crate::Program::load_with).
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Allows kernels of the file's own in WGSL. They cannot leave their arrays, but they may run for ever.
    pub wgsl: bool,
    /// Functions that compute kernels of the file's own on the CPU, where they can then run too. Each has the element types
    /// of its kernel. It is an error if no kernel has an entry point of that name. So are two kernels of different
    /// sources that have it.
    pub on_cpu: CpuKernels,
    /// Tensors that are taken in place of those of the program's file, by name. They have the shape and the layout of
    /// the residents that were bound. A program that is to load PyTorch's own file binds
    /// [`Weights::resident`] and transposes in the graph, which costs a run nothing: what
    /// [`Weights::resident_transposed`] gave is another tensor of the same name. Another shape is an error, but nothing
    /// tells a square weight from its transpose.
    pub weights: Option<Weights>,
}

/// Functions that compute the kernels of a program's file on the CPU, by their [entry points](crate::Wgsl::entry_point):
/// see [`LoadOptions::on_cpu`](crate::LoadOptions::on_cpu).
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{CpuKernels, Device, GpuCommandBatch, LoadOptions, Program, Weights, Wgsl};
///
/// const SOURCE: &str = "
/// @group(0) @binding(0) var<storage, read> x: array<f32>;
/// @group(0) @binding(1) var<storage, read_write> y: array<f32>;
///
/// @compute @workgroup_size(64)
/// fn twice(@builtin(global_invocation_id) id: vec3<u32>) {
///     if id.x < arrayLength(&y) { y[id.x] = 2.0 * x[id.x]; }
/// }";
/// fn twice(x: &[f32], y: &mut [f32]) {
///     y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
/// }
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", 3);
/// let kernel = Wgsl::new(SOURCE).entry_point("twice").input(x).groups([1, 1, 1]).on_cpu(twice);
/// batch.wgsl::<f32>(kernel, 3).named("y");
/// let file = Weights::from_bytes(batch.to_bytes().await?)?;
///
/// let on_cpu = CpuKernels::new().with("twice", twice);
/// let options = LoadOptions { wgsl: true, on_cpu, ..LoadOptions::default() };
/// let program = Program::load_with(&Device::cpu(), &file, options).await?;
/// let outputs = program.run([("x", &[1.0_f32, 2.0, 3.0])]).await?;
/// assert_eq!(outputs.read::<f32>("y").await?, [2.0, 4.0, 6.0]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CpuKernels(pub(crate) BTreeMap<Box<str>, CpuTwin>);

impl CpuKernels {
    /// Creates a set without functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the function for all kernels with this entry point, in place of one that was added before.
    pub fn with<Types>(mut self, entry_point: &str, function: impl CpuKernel<Types>) -> Self {
        self.0.insert(entry_point.into(), function.twin());
        self
    }
}
