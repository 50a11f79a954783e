//! Custom kernels. A function of the user computes their result on the host.

use smallvec::SmallVec;

use crate::base::process::caught;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::plan::CustomForm;

/// Calls the user's function to compute the output, which is 0 before.
pub(crate) fn run(
    job: &StepJob<'_>,
    form: &CustomForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let (step, [output]) = (job.step, outputs) else {
        return Err(DeviceError::broken("a kernel of the user's own has one result"));
    };
    output.bytes_mut().fill(0);
    let Some(function) = form.kernel.function.filter(|_| form.runs) else { return Ok(()) };
    let function = job.functions.get(function as usize);
    let function = function.ok_or_else(|| DeviceError::broken("a function was never given"))?;
    let elements = |&input: &u16| {
        let value = step.operands[usize::from(input)].source.value()?;
        let buffer = job.values[value.index()].as_deref()?;
        Some(buffer.bytes())
    };
    let inputs: Option<SmallVec<[&[u8]; 4]>> = form.inputs.iter().map(elements).collect();
    let inputs = inputs.ok_or_else(|| DeviceError::broken("an input was never computed"))?;
    caught(|| function.call(&inputs, output.bytes_mut())).map_err(|message| DeviceError::Panicked {
        place: step.place.to_string(),
        op: "wgsl",
        message,
    })
}
