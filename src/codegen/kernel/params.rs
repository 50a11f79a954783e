//! The words of a kernel's uniform buffer with the text that reads them, and the grid of its workgroups.

use super::builder::KernelBuilder;
use crate::base::dtype::Ty;
use crate::expr::wgsl::type_name;

impl KernelBuilder<'_> {
    /// Text that reads a new parameter with the low 32 bits of `value`.
    pub fn param(&mut self, value: i64) -> String {
        self.params.push(value as u32);
        param_text(self.params.len() - 1)
    }

    pub fn size(&mut self, value: usize) -> String {
        self.param(value as i64)
    }

    /// Text that reads a new parameter of type `f32`.
    pub fn float(&mut self, value: f32) -> String {
        self.params.push(value.to_bits());
        scalar_text(self.params.len() - 1, Ty::F32)
    }

    /// The scalar `index` of the step, as a float.
    pub fn scalar(&mut self, index: u16) -> String {
        self.params.push(self.step.scalars[usize::from(index)].lane_bits());
        scalar_text(self.params.len() - 1, Ty::F32)
    }
}

fn param_text(word: usize) -> String {
    format!("params.v[{}].{}", word / 4, ["x", "y", "z", "w"][word % 4])
}

pub(super) fn scalar_text(word: usize, ty: Ty) -> String {
    let word = param_text(word);
    match ty {
        Ty::U32 => word,
        Ty::Bool => format!("{word} != 0u"),
        Ty::F32 | Ty::I32 => format!("bitcast<{}>({word})", type_name(ty)),
    }
}

/// The parameters of `main` that [`WORKGROUP`] is made of.
pub(super) const GRID: &str =
    "@builtin(workgroup_id) group: vec3<u32>,\n@builtin(num_workgroups) groups: vec3<u32>,";

/// The number of a workgroup, as an expression.
pub(in crate::codegen) const WORKGROUP: &str =
    "(group.z * groups.y + group.y) * groups.x + group.x";

/// A grid of at least `groups` workgroups with no side past `limit`. Kernels number them by
/// [`WORKGROUP`] and leave out those past the end.
pub(super) fn grid(groups: usize, limit: u32) -> [u32; 3] {
    let limit = limit as usize;
    let rows = groups.div_ceil(limit).max(1);
    let x = groups.div_ceil(rows).max(1);
    let y = rows.min(limit);
    [x, y, rows.div_ceil(y)].map(|side| side as u32)
}
