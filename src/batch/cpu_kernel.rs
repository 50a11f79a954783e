//! Functions that compute kernels of the user's own on the CPU.

use crate::base::dtype::{DType, Element};
use crate::ops::CpuFunction;

/// A function that computes a kernel [on the CPU](crate::Wgsl::on_cpu): of a slice of each input, up to seven, and of the
/// elements of the result, such as `|x: &[f32], ids: &[u32], y: &mut [f32]|`. The compiler finds `Types`, those of the
/// elements.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function for a kernel on the CPU",
    note = "it takes a slice of each input, in order, and the result, such as `|x: &[f32], y: &mut [f32]|`",
    note = "it is called from any thread: what it captures is `Send`, `Sync` and `'static`"
)]
pub trait CpuKernel<Types> {
    /// The function with its element types.
    #[doc(hidden)]
    fn twin(self) -> CpuTwin;
}

/// A function with its element types.
#[derive(Clone, Debug)]
pub struct CpuTwin {
    pub(super) inputs: &'static [DType],
    result: DType,
    pub(crate) function: CpuFunction,
}

impl CpuTwin {
    /// The difference in words, if a kernel with `inputs` and a `result` of these types does not fit.
    pub(crate) fn misfit(&self, inputs: &[DType], result: DType) -> Option<String> {
        let fits = (inputs, result) == (self.inputs, self.result);
        let texts = || [signature(self.inputs, self.result), signature(inputs, result)];
        (!fits).then(texts).map(|[own, kernel]| format!("{own}, where the kernel has {kernel}"))
    }
}

/// The element types of a kernel in words.
fn signature(inputs: &[DType], result: DType) -> String {
    let inputs: Vec<String> = inputs.iter().map(DType::to_string).collect();
    format!("({}) to {result}", inputs.join(", "))
}

macro_rules! kernels {
    ($($input:ident $at:tt),*) => {
        impl<Kernel, Output: Element, $($input: Element),*> CpuKernel<($($input,)* Output,)> for Kernel
        where
            Kernel: Fn($(&[$input],)* &mut [Output]) + Send + Sync + 'static,
        {
            fn twin(self) -> CpuTwin {
                let call = move |_inputs: &[&[u8]], result: &mut [u8]| {
                    // The number and the types of inputs are checked before, so that no slice is empty for lack of them.
                    self(
                        $($input::in_place(_inputs[$at]).unwrap_or_default(),)*
                        Output::in_place_mut(result).unwrap_or_default(),
                    );
                };
                let (inputs, result) = (&[$($input::DTYPE),*], Output::DTYPE);
                CpuTwin { inputs, result, function: CpuFunction::new(call) }
            }
        }
    };
}
kernels!();
tuples!(kernels);
