//! Four neighbours on their way through a thread: loaded, computed and stored, each by a function of its own.

use crate::codegen::kernel::lanes::{self, Held};
use crate::codegen::kernel::template::fill;

/// The statements that load the operands of a quad.
#[derive(Default)]
pub(crate) struct Loads {
    pub functions: String,
    pub text: String,
    /// The fields of what is loaded, and their values.
    pub fields: String,
    pub names: String,
    pub held: Vec<Held>,
}

impl Loads {
    /// Gives what was loaded of `operand` to who computes the quad.
    pub fn hand_over(&mut self, operand: usize, ty: &str) {
        self.hand_over_as(&format!("x{operand}"), ty);
    }

    /// Gives the local `name` to who computes the quad.
    pub fn hand_over_as(&mut self, name: &str, ty: &str) {
        self.fields += &format!("{name}: {ty},\n");
        let comma = if self.names.is_empty() { "" } else { ", " };
        self.names += &format!("{comma}{name}");
    }
}

/// The statements that compute and store a quad.
#[derive(Default)]
pub(crate) struct Done {
    /// Statements that compute the results of the four lanes.
    pub results: String,
    /// The fields of what is computed, and their values.
    pub fields: String,
    pub values: String,
    /// Statements that store them.
    pub stores: String,
}

impl Done {
    /// Gives the `result` of each lane, of the WGSL type `ty`, to who stores `output`.
    pub fn hand_over(&mut self, output: usize, ty: &str, result: &str) {
        let lanes = lanes::LANES.map(|lane| format!("result_{lane}{result}")).join(", ");
        let comma = if self.values.is_empty() { "" } else { ", " };
        self.fields += &format!("y{output}: vec4<{ty}>,\n");
        self.values += &format!("{comma}vec4<{ty}>({lanes})");
    }
}

/// The functions `load`, of the position of a quad and what `parameters` adds, `compute` and `store`, with what they
/// hand each other.
pub(crate) fn functions(parameters: &str, loads: &Loads, done: &Done) -> String {
    let or = |text: &'static str, given: &str| -> String {
        if given.is_empty() { text.to_string() } else { given.to_string() }
    };
    let holes = [
        ("parameters", parameters),
        ("fields", &or("nothing: u32,", &loads.fields)),
        ("loads", &loads.text),
        ("loaded", &or("0u", &loads.names)),
        ("done_fields", &done.fields),
        ("results", &done.results),
        ("done", &done.values),
        ("stores", &done.stores),
    ];
    fill(include_str!("../../../shaders/map_quad.wgsl"), &holes)
}
