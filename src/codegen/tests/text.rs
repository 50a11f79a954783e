//! Generated text: valid by naga, and stable.

use naga::valid::{Capabilities, ValidationFlags, Validator};

use super::case::Case;
use crate::codegen::Dispatch;
use crate::cost::Limits;

/// Panics unless every dispatch of `case` is valid WGSL with the bindings of the dispatch.
pub(super) fn validate(case: &Case, limits: &Limits) -> Vec<Dispatch> {
    let dispatches = case.lower(limits);
    for dispatch in &dispatches {
        validate_text(&dispatch.wgsl);
        assert!(!dispatch.wgsl.contains("{{"), "{}", dispatch.wgsl);
        assert!(!dispatch.params.is_empty() && dispatch.params.len().is_multiple_of(4));
        assert!(dispatch.groups.iter().all(|&side| side > 0), "{:?}", dispatch.groups);
        assert!(dispatch.wgsl.contains("enable f16;") <= limits.f16);
        let declared = dispatch.wgsl.matches("@group(0)").count();
        assert_eq!(declared, dispatch.buffers.len() + 1);
        for (index, a) in dispatch.buffers.iter().enumerate() {
            assert!(dispatch.buffers[..index].iter().all(|b| b.buffer != a.buffer));
        }
    }
    dispatches
}

pub(super) fn validate_text(text: &str) {
    let module = naga::front::wgsl::parse_str(text)
        .unwrap_or_else(|error| panic!("{}\n{text}", error.emit_to_string(text)));
    let capabilities = Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_INT64
        | Capabilities::SUBGROUP
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::COOPERATIVE_MATRIX;
    let result = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    if let Err(error) = result {
        panic!("{}\n{text}", error.emit_to_string(text));
    }
}

/// Bytes of workgroup memory that a module takes.
pub(super) fn workgroup_bytes(text: &str) -> u32 {
    let module = naga::front::wgsl::parse_str(text).unwrap();
    let variables = module.global_variables.iter();
    let variables = variables.filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
    variables.map(|(_, v)| module.types[v.ty].inner.size(module.to_ctx())).sum()
}
