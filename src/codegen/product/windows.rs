//! A right operand of windows: k and n run over several axes each, as in a convolution, and no copy is made of it.

use crate::base::dtype::Ty;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes::{LANES, Loaded};
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{CollapsedAxes, Spread, Step};

/// The axes of k and of n, with the strides of each operand along them.
pub(super) struct OperandWindows {
    operands: Vec<usize>,
    k: CollapsedAxes,
    n: CollapsedAxes,
}

impl OperandWindows {
    /// The maps of `operands`, which read the right operand, behind the `batch` first axes.
    pub fn new(step: &Step, spread: &Spread, operands: Vec<usize>, batch: usize) -> Self {
        let collapsed = |dims: &[usize], from: usize| {
            let strides = |&o: &usize| &step.operands[o].view.strides[from..from + dims.len()];
            CollapsedAxes::collapse(dims, &operands.iter().map(strides).collect::<Vec<_>>())
        };
        let k = collapsed(&spread.k, batch);
        let n = collapsed(&spread.n, batch + spread.k.len());
        Self { operands, k, n }
    }

    /// True if four neighbours from a multiple of four on are neighbours along one axis.
    fn in_fours(&self) -> bool {
        self.n.dims[self.n.rank() - 1].is_multiple_of(4)
    }

    /// The type of the positions of four neighbours: that of the first, or all.
    fn position_type(&self) -> &'static str {
        if self.in_fours() { "u32" } else { "vec4<u32>" }
    }

    /// Statements that find where four neighbours along n, from `{prefix}_outer` on, begin in each operand.
    pub fn start(&self, kernel: &mut KernelBuilder<'_>, prefix: &str, bases: &[&str]) -> String {
        let ty = self.position_type();
        let (mut text, place) = if self.in_fours() {
            (String::new(), format!("{prefix}_outer"))
        } else {
            let last = kernel.size(self.n.len().saturating_sub(1));
            let place = format!("{prefix}_lanes");
            let lanes = format!("vec4<u32>({prefix}_outer) + vec4<u32>(0u, 1u, 2u, 3u)");
            (format!("let {place} = min({lanes}, vec4<u32>({last}));\n"), place)
        };
        let (found, coordinates) = kernel.coordinates(&format!("{prefix}_n"), &place, &self.n.dims);
        text += &found;
        for (map, operand) in self.operands.iter().enumerate() {
            let base = format!("{ty}({})", bases[map]);
            let at = kernel.index(&base, &self.n.strides[map], &coordinates);
            text += &format!("let {prefix}_at{operand} = {at};\n");
        }
        text
    }

    /// Statements that take `k` apart. Sizes are in the text but for the outermost, since divisions by numbers that
    /// are known are multiplications.
    fn coordinates(&self) -> (String, Vec<String>) {
        let rank = self.k.rank();
        let (mut text, mut rest) = (String::new(), "k".to_string());
        let mut names = vec![String::new(); rank];
        for axis in (1..rank).rev() {
            let dim = self.k.dims[axis];
            names[axis] = format!("k{axis}");
            text += &format!("let k{axis} = {rest} % {dim}u;\n");
            text += &format!("let rest{axis} = {rest} / {dim}u;\n");
            rest = format!("rest{axis}");
        }
        names[0] = rest;
        (text, names)
    }

    /// The function that reads four neighbours of the operand `root` along n at `k`; at the `end` of k, zeros past it.
    pub fn load(
        &self,
        kernel: &mut KernelBuilder<'_>,
        root: Ref,
        ty: Ty,
        end: Option<usize>,
    ) -> String {
        let prologue = kernel.function("prologue_w", &[root], None);
        let (mut text, ty) = (String::new(), type_name(ty));
        if let Some(end) = end {
            let length = kernel.size(end);
            text += &format!("if k >= {length} {{\n    return vec4<{ty}>();\n}}\n");
        }
        let (apart, coordinates) = self.coordinates();
        text += &apart;
        let mut loaded = Loaded::default();
        for (map, &operand) in self.operands.iter().enumerate() {
            let position = format!("position{operand}");
            let at = kernel.index(&position, &self.k.strides[map], &coordinates);
            if self.in_fours() {
                loaded.load(kernel, operand, &at, self.n.strides[map][self.n.rank() - 1]);
            } else {
                loaded.text += &format!("let at{operand} = {at};\n");
                loaded.each(kernel, operand, |_, k| format!("at{operand}.{}", LANES[k]));
            }
        }
        let calls = loaded.calls(&prologue, "").join(", ");
        text += &loaded.text;
        let (function, name) =
            if end.is_some() { (String::new(), "load_w_end") } else { (prologue.text, "load_w") };
        let position = self.position_type();
        let positions: String =
            self.operands.iter().map(|o| format!(", position{o}: {position}")).collect();
        format!(
            "{function}\nfn {name}(outer: u32, k: u32{positions}) -> vec4<{ty}> {{\n{text}\
             return vec4<{ty}>({calls});\n}}\n"
        )
    }
}
