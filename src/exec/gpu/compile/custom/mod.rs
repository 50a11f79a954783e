//! Checks of a custom kernel that need no device.

mod depth;

use std::error::Error;
use std::sync::{Arc, LazyLock};

use naga::compact::{KeepUnused, compact};
use naga::valid::{
    Capabilities, EntryPointError, FunctionError, ValidationError, ValidationFlags, Validator,
};
use naga::{
    AddressSpace, ArraySize, ScalarKind, ShaderStage, StorageAccess, TypeInner, VectorSize,
};

use crate::base::dtype::DType;
use crate::base::lru::Lru;
use crate::base::process::caught;
use crate::base::sync::Mutex;
use crate::error::{MistakeKind, quoted};
use crate::ops::{CustomKernel, Type};

/// Checks that a kernel is valid WGSL, and that it binds arrays for the inputs and for the result, of their element
/// types and sizes.
pub(crate) fn check(
    kernel: &CustomKernel,
    inputs: &[&Type],
    result: &Type,
) -> Result<(), MistakeKind> {
    check_bindings(kernel, inputs, result).map_err(|mistake| with_text(mistake, &kernel.source))
}

/// The mistake with the text of its line of `source`.
fn with_text(mistake: MistakeKind, source: &str) -> MistakeKind {
    let MistakeKind::Kernel { line: Some(line), what } = mistake else { return mistake };
    let text = source.lines().nth(line as usize - 1).unwrap_or_default().trim();
    MistakeKind::Kernel { line: Some(line), what: format!("{what}; the line is {}", quoted(text)) }
}

fn check_bindings(
    kernel: &CustomKernel,
    inputs: &[&Type],
    result: &Type,
) -> Result<(), MistakeKind> {
    let CustomKernel { source, entry, .. } = kernel;
    let module = known(source);
    let module = module.as_ref().as_ref().map_err(MistakeKind::clone)?;
    // A variable that nothing can be bound to is often the reason for which the whole is not valid.
    if module.entries.is_ok() {
        module.entry(entry)?.check()?;
    }
    if let (Err(_), Some((line, binding))) = (&module.entries, module.bound_again()) {
        let what = format!("binding {binding} is declared twice; number variables from 0 on");
        return Err(MistakeKind::Kernel { line, what });
    }
    let at = inputs.len();
    let bound = || module.variables.iter().filter(|variable| variable.group == 0);
    let bindings = bound().count();
    let last = bound().max_by_key(|variable| variable.binding);
    let written = last.filter(|last| last.writes == Some(true)).map(|last| last.binding as usize);
    let miscounted = match written {
        _ if bindings > at + 1 => {
            Some(format!("the source has {bindings} bindings: is an `input` missing?"))
        }
        Some(last) if last < at => {
            Some(format!("the source writes its last binding, {last}: is an `input` too many?"))
        }
        _ => None,
    };
    if let Some(counts) = miscounted {
        let plural = if at == 1 { "" } else { "s" };
        let given =
            format!("the kernel was given {at} input{plural}, so binding {at} is the result");
        return Err(MistakeKind::Kernel { line: None, what: format!("{given}; {counts}") });
    }
    for variable in &module.variables {
        variable
            .check(inputs, result)
            .map_err(|what| MistakeKind::Kernel { line: variable.line, what })?;
    }
    module.entry(entry)?;
    if module.variables.iter().any(|variable| variable.binding as usize == at) {
        return Ok(());
    }
    let what = format!("it declares no `var<storage, read_write>` for the result, binding {at}");
    Err(MistakeKind::Kernel { line: None, what })
}

/// The workgroup of the function `entry` of a valid `source`: its threads along each axis, and the memory that they share.
pub(super) fn workgroup(source: &str, entry: &str) -> ([u32; 3], u64) {
    let module = known(&source.into());
    let entry = module.as_ref().as_ref().ok().and_then(|module| module.entry(entry).ok());
    entry.map_or(([0; 3], 0), |entry| (entry.threads, entry.workgroup_bytes))
}

/// The message of naga's parser for a text that it follows no further.
const INTERNAL: &str = "internal WGSL front end error";
/// Modules kept.
const MODULES: usize = 64;

/// Modules by their sources, invalid ones too.
static KNOWN: LazyLock<Mutex<Lru<Arc<str>, Arc<Parsed>>>> =
    LazyLock::new(|| Mutex::new(Lru::new(MODULES)));

type Parsed = Result<Module, MistakeKind>;

/// The declarations of `source`, parsed if it is new.
fn known(source: &Arc<str>) -> Arc<Parsed> {
    let modules = || KNOWN.lock();
    if let Some(module) = modules().get(source) {
        return Arc::clone(module);
    }
    let parsed = caught(|| Module::parse(source));
    let parsed =
        Arc::new(parsed.unwrap_or_else(|what| Err(MistakeKind::Kernel { line: None, what })));
    let _forgotten = modules().insert(Arc::clone(source), Arc::clone(&parsed));
    parsed
}

/// The declarations of a module.
struct Module {
    /// The compute functions; the reason if the module is not valid.
    entries: Result<Vec<Entry>, MistakeKind>,
    /// The variables with a binding.
    variables: Vec<Variable>,
}

struct Entry {
    name: String,
    /// Threads of a workgroup along each axis; 0 where overrides say them.
    threads: [u32; 3],
    workgroup_bytes: u64,
    /// The line and the name of an override that it uses and that has no value.
    open: Option<(Option<u32>, String)>,
}

struct Variable {
    line: Option<u32>,
    group: u32,
    binding: u32,
    /// True if the variable may be written; `None` outside of storage.
    writes: Option<bool>,
    /// `None` if it is anything else.
    array: Option<Array>,
}

/// An array without gaps.
struct Array {
    scalar: naga::Scalar,
    /// Lanes of the vectors that it holds, or 1.
    lanes: usize,
    /// `None` if it is as long as the buffer bound to it.
    len: Option<usize>,
}

impl Module {
    /// The module, if some device might take it.
    fn parse(source: &str) -> Result<Self, MistakeKind> {
        depth::check(source)?;
        let module = naga::front::wgsl::parse_str(source).map_err(|error| {
            let line = error.location(source).map(|at| at.line_number);
            let what = match error.message() {
                INTERNAL => {
                    "its parentheses or blocks nest deeper than the parser follows; give parts names by `let`"
                }
                other => other,
            };
            MistakeKind::Kernel { line, what: what.to_owned() }
        })?;
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
        let validated = validator.validate(&module).map_err(|error| {
            let line = error.location(source).map(|at| at.line_number);
            let what = match error.as_inner() {
                ValidationError::EntryPoint {
                    name,
                    source: EntryPointError::OutOfRangeWorkgroupSize,
                    ..
                } => format!(
                    "`@workgroup_size` of `{name}` is out of range; give 1 or more along each axis, at most 64 along z, \
                     and at most 256 threads in all, which devices take"
                ),
                ValidationError::EntryPoint { stage, name, .. } if *stage != ShaderStage::Compute => {
                    format!("`{name}` is no `@compute` function, and a kernel has no others; take it out")
                }
                ValidationError::EntryPoint {
                    source: EntryPointError::Function(FunctionError::InvalidStorePointer(_)),
                    ..
                }
                | ValidationError::Function {
                    source: FunctionError::InvalidStorePointer(_), ..
                } => "it stores to what may only be read; an input is `var<storage, read>`, and the result \
                      `var<storage, read_write>`"
                    .into(),
                error => chain(error),
            };
            MistakeKind::Kernel { line, what }
        });
        let points = || module.entry_points.iter();
        let entries = validated.map(|_| {
            let compute = points().filter(|point| point.stage == ShaderStage::Compute);
            compute.map(|point| Entry::of(&module, point, source)).collect()
        });
        let variables = module.global_variables.iter().filter_map(|(handle, variable)| {
            let span = module.global_variables.get_span(handle);
            Variable::of(&module, variable, line_of(span, source))
        });
        Ok(Self { entries, variables: variables.collect() })
    }

    /// The line and the binding of the first variable with the group and binding of one before it.
    fn bound_again(&self) -> Option<(Option<u32>, u32)> {
        let of = |variable: &Variable| (variable.group, variable.binding);
        let again = |&at: &usize| {
            let [before @ .., own] = &self.variables[..=at] else { return false };
            before.iter().any(|other| of(other) == of(own))
        };
        let at = (0..self.variables.len()).find(again)?;
        Some((self.variables[at].line, self.variables[at].binding))
    }

    fn entry(&self, name: &str) -> Result<&Entry, MistakeKind> {
        let entries = self.entries.as_ref().map_err(MistakeKind::clone)?;
        entries.iter().find(|entry| entry.name == name).ok_or_else(|| {
            let names: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
            let there = match &names[..] {
                [] => "the module has none".to_owned(),
                names => {
                    let names = names.join("`, `");
                    format!("there is `{names}`; `Wgsl::entry_point` says which to take")
                }
            };
            let what = format!("there is no `@compute` function `{name}`: {there}");
            MistakeKind::Kernel { line: None, what }
        })
    }
}

fn line_of(span: naga::Span, source: &str) -> Option<u32> {
    span.is_defined().then(|| span.location(source).line_number)
}

impl Entry {
    /// The function `point`, which `module` has.
    fn of(module: &naga::Module, point: &naga::EntryPoint, source: &str) -> Self {
        let mut used = module.clone();
        used.entry_points.retain(|other| other.name == point.name);
        compact(&mut used, KeepUnused::No);
        let sizes = used
            .global_variables
            .iter()
            .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
            .map(|(_, variable)| used.types[variable.ty].inner.try_size(used.to_ctx()));
        // As WebGPU counts them.
        let bytes = sizes.map(|size| u64::from(size.unwrap_or(u32::MAX)).next_multiple_of(16));
        let open = used.overrides.iter().find(|(_, constant)| constant.init.is_none());
        let open = open.map(|(handle, constant)| {
            let name = constant.name.clone().unwrap_or_default();
            (line_of(used.overrides.get_span(handle), source), name)
        });
        let threads = match point.workgroup_size_overrides {
            Some(_) => [0; 3],
            None => point.workgroup_size,
        };
        Self { name: point.name.clone(), threads, workgroup_bytes: bytes.sum(), open }
    }

    fn check(&self) -> Result<(), MistakeKind> {
        let Some((line, name)) = &self.open else { return Ok(()) };
        let what = format!("the override `{name}` has no value; write one in the source");
        Err(MistakeKind::Kernel { line: *line, what })
    }
}

/// The text of an error and of its causes.
fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl Variable {
    /// `None` for one that nothing is bound to.
    fn of(
        module: &naga::Module,
        variable: &naga::GlobalVariable,
        line: Option<u32>,
    ) -> Option<Self> {
        let naga::ResourceBinding { group, binding } = variable.binding?;
        let writes = match variable.space {
            AddressSpace::Storage { access } => Some(access.contains(StorageAccess::STORE)),
            _ => None,
        };
        let array = Array::of(&module.types, &module.types[variable.ty].inner);
        Some(Self { line, group, binding, writes, array })
    }

    /// Fails, with the reason, unless an input or the result can be bound to it.
    fn check(&self, inputs: &[&Type], result: &Type) -> Result<(), String> {
        let &Self { group, binding, writes, .. } = self;
        let at = binding as usize;
        if group != 0 || at > inputs.len() {
            return Err(format!(
                "nothing is bound to {at} of group {group}: in group 0, inputs are bindings from 0 on, and the result is binding {}",
                inputs.len()
            ));
        }
        let (ty, access, what) = match inputs.get(at) {
            Some(&input) if at == 0 => (input, "read", "input 0".to_owned()),
            Some(&input) => (input, "read", format!("input {at} (counted from 0)")),
            None => (result, "read_write", "the result".to_owned()),
        };
        let array = self.array.as_ref().filter(|array| array.holds(ty.dtype));
        let Some(array) = array.filter(|_| writes == Some(at == inputs.len())) else {
            let cast = self.array.as_ref().and_then(Array::dtype).filter(|&of| of != ty.dtype);
            let cast = match cast {
                Some(of) if at < inputs.len() => {
                    format!("; or cast the input to {of}: `.cast::<{of}>()`")
                }
                _ => String::new(),
            };
            let atomics = if ty.dtype == DType::F32 { "" } else { "atomics or " };
            return Err(format!(
                "binding {at} is {what}: it must be `var<storage, {access}>` with an array of {}, or of its {atomics}vectors \
                 of 2 or 4{cast}",
                ty.dtype
            ));
        };
        let elements = ty.shape.elements();
        array
            .fits(elements)
            .map_err(|why| format!("binding {at} is {what}, which has {elements} elements: {why}"))
    }
}

impl Array {
    fn of(types: &naga::UniqueArena<naga::Type>, ty: &TypeInner) -> Option<Self> {
        let &TypeInner::Array { base, size, .. } = ty else { return None };
        let (scalar, lanes) = match types[base].inner {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => (scalar, 1),
            TypeInner::Vector { size: VectorSize::Bi, scalar } => (scalar, 2),
            TypeInner::Vector { size: VectorSize::Quad, scalar } => (scalar, 4),
            _ => return None,
        };
        let len = match size {
            ArraySize::Constant(len) => Some(len.get() as usize),
            ArraySize::Dynamic => None,
            ArraySize::Pending(_) => return None,
        };
        Some(Self { scalar, lanes, len })
    }

    /// The type of its elements; `None` for those that no value has.
    fn dtype(&self) -> Option<DType> {
        match self.scalar {
            naga::Scalar { kind: ScalarKind::Float, width: 4 } => Some(DType::F32),
            naga::Scalar { kind: ScalarKind::Sint, width: 4 } => Some(DType::I32),
            naga::Scalar { kind: ScalarKind::Uint, width: 4 } => Some(DType::U32),
            _ => None,
        }
    }

    fn holds(&self, dtype: DType) -> bool {
        self.dtype() == Some(dtype)
    }

    /// Fails, with the reason, unless the array can be bound to `elements` elements and reaches all of them. Without
    /// elements, nothing runs.
    fn fits(&self, elements: usize) -> Result<(), String> {
        let &Self { lanes, len, .. } = self;
        match len {
            None if !elements.is_multiple_of(lanes) => {
                Err(format!("they are no whole number of vectors of {lanes}"))
            }
            Some(len) if elements > 0 && len.saturating_mul(lanes) > elements => {
                Err(format!("an array of {} is larger", len.saturating_mul(lanes)))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_parsed_once() {
        for text in ["@compute @workgroup_size(1) fn main() { }", "no module at all"] {
            let first = known(&text.into());
            let again = known(&text.into());
            assert!(Arc::ptr_eq(&first, &again), "{text}");
        }
    }
}
