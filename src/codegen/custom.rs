//! Kernels of the user's own: the result is filled with zeros, then the kernel runs as it was written.

use super::kernel::template::{holes, shader};
use super::kernel::{KernelBuilder, THREADS};
use super::{Binding, BufferRef, CustomModule, Dispatch};
use crate::expr::wgsl::type_name;
use crate::plan::{CustomForm, OperandSource};

pub(super) fn lower<'a>(
    form: &CustomForm,
    kernel: impl Fn() -> KernelBuilder<'a>,
) -> Vec<Dispatch> {
    let mut dispatches = vec![zeros(kernel())];
    if form.runs {
        dispatches.push(kernel_of(form, &kernel()));
    }
    dispatches
}

fn zeros(mut kernel: KernelBuilder<'_>) -> Dispatch {
    kernel.bind_outputs(|_| false);
    let output = &kernel.step.outputs[0];
    let elements = output.view.shape().elements();
    let zero = format!("{}()", type_name(output.dtype.lane()));
    let holes = holes! { elements: kernel.size(elements), threads: THREADS, zero };
    kernel.dispatch(shader!("zeros.wgsl"), &holes, " (zeros)", elements.div_ceil(THREADS))
}

fn kernel_of(form: &CustomForm, kernel: &KernelBuilder<'_>) -> Dispatch {
    let step = kernel.step;
    let inputs = form.inputs.iter().map(|&input| step.operands[usize::from(input)].source);
    let inputs = inputs.filter_map(OperandSource::value).map(|value| (value, false));
    let outputs = step.outputs.iter().map(|output| (output.value, true));
    let binding = |(value, writes)| Binding { buffer: BufferRef::Value(value), writes };
    Dispatch {
        label: step.label(),
        wgsl: form.kernel.source.to_string(),
        custom: Some(CustomModule {
            entry: form.kernel.entry.to_string(),
            place: step.place.clone(),
        }),
        buffers: inputs.chain(outputs).map(binding).collect(),
        params: Vec::new(),
        groups: form.kernel.groups,
    }
}
