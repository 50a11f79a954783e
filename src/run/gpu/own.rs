//! What can be said of a kernel of the user's own before a device compiles it.

use std::error::Error;

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, ScalarKind, Span, StorageAccess, TypeInner, VectorSize};

use crate::caught::caught;
use crate::dtype::DType;
use crate::ops::OwnKernel;

/// What is wrong with a kernel, and the line of its source, counted from 1, where one is to blame.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub line: Option<u32>,
    pub what: String,
}

/// Checks that a kernel is valid WGSL, and that it binds arrays of the types of the inputs, and of that of the result.
pub(crate) fn check(kernel: &OwnKernel, inputs: &[DType], result: DType) -> Result<(), Wrong> {
    let OwnKernel { source, entry, .. } = kernel;
    let checked = caught(|| {
        let module = valid(source)?;
        let computes = |point: &naga::EntryPoint| {
            *point.name == **entry && point.stage == naga::ShaderStage::Compute
        };
        if !module.entry_points.iter().any(computes) {
            let what = format!("there is no `@compute` function `{entry}`");
            return Err(Wrong { line: None, what });
        }
        Bindings { source, module: &module, inputs, result }.check()
    });
    checked.unwrap_or_else(|what| Err(Wrong { line: None, what }))
}

/// The module, if some device might take it.
fn valid(source: &str) -> Result<naga::Module, Wrong> {
    let module = naga::front::wgsl::parse_str(source).map_err(|error| {
        let line = error.location(source).map(|at| at.line_number);
        Wrong { line, what: error.message().to_owned() }
    })?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    match validator.validate(&module) {
        Ok(_) => Ok(module),
        Err(error) => {
            let line = error.location(source).map(|at| at.line_number);
            Err(Wrong { line, what: chain(error.as_inner()) })
        }
    }
}

/// What an error says, with what was behind it.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The module's variables beside what is bound to them.
struct Bindings<'a> {
    source: &'a str,
    module: &'a naga::Module,
    inputs: &'a [DType],
    result: DType,
}

impl Bindings<'_> {
    fn check(&self) -> Result<(), Wrong> {
        let mut has_result = false;
        for (handle, variable) in self.module.global_variables.iter() {
            let Some(binding) = variable.binding else { continue };
            let span = self.module.global_variables.get_span(handle);
            let at = binding.binding as usize;
            if binding.group != 0 || at > self.inputs.len() {
                return Err(self.wrong(
                    span,
                    &format!(
                        "nothing is bound to {at} of group {}: of group 0, inputs are bound from 0 on, and then the result to {}",
                        binding.group,
                        self.inputs.len()
                    ),
                ));
            }
            self.check_one(variable, span, at)?;
            has_result |= at == self.inputs.len();
        }
        if has_result {
            return Ok(());
        }
        let at = self.inputs.len();
        let what =
            format!("it declares no `var<storage, read_write>` for the result, binding {at}");
        Err(Wrong { line: None, what })
    }

    fn check_one(
        &self,
        variable: &naga::GlobalVariable,
        span: Span,
        at: usize,
    ) -> Result<(), Wrong> {
        let input = self.inputs.get(at);
        let (dtype, access) = match input {
            Some(&dtype) => (dtype, "read"),
            None => (self.result, "read_write"),
        };
        let writes = match variable.space {
            AddressSpace::Storage { access } => Some(access.contains(StorageAccess::STORE)),
            _ => None,
        };
        if writes == Some(input.is_none()) && self.holds(variable, dtype) {
            return Ok(());
        }
        let what = match input {
            Some(_) => format!("input {at}"),
            None => "the result".to_owned(),
        };
        Err(self.wrong(
            span,
            &format!(
                "binding {at} is {what}: it must be `var<storage, {access}>` with an array of {dtype}, or of its atomics or \
                 vectors of 2 or 4"
            ),
        ))
    }

    /// Whether the variable is an array of elements `dtype`, without gaps.
    fn holds(&self, variable: &naga::GlobalVariable, dtype: DType) -> bool {
        let types = &self.module.types;
        let TypeInner::Array { base, .. } = types[variable.ty].inner else { return false };
        let scalar = match types[base].inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => scalar,
            TypeInner::Vector { size: VectorSize::Bi | VectorSize::Quad, scalar } => scalar,
            _ => return false,
        };
        let kind = match dtype {
            DType::F32 => ScalarKind::Float,
            DType::I32 => ScalarKind::Sint,
            DType::U32 => ScalarKind::Uint,
            DType::F16 | DType::Bool => return false,
        };
        scalar == naga::Scalar { kind, width: 4 }
    }

    fn wrong(&self, span: Span, what: &str) -> Wrong {
        let line = span.is_defined().then(|| span.location(self.source).line_number);
        Wrong { line, what: what.to_owned() }
    }
}
