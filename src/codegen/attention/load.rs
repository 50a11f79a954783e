//! The functions that read four neighbours of an attention's operands.

use super::collapsed::CollapsedAttention;
use crate::base::dtype::DType;
use crate::codegen::kernel::lanes::{self, Loaded};
use crate::codegen::kernel::template::indent;
use crate::codegen::kernel::{KernelBuilder, KernelFunction};
use crate::expr::Ref;
use crate::plan::{AttentionForm, StepOperand};

/// An operand as matrices of `rows` by `columns`, read in fours along its rows.
struct MatrixOperand {
    name: &'static str,
    root: Ref,
    rows: usize,
    columns: usize,
    /// True if fours begin past the last column, where zeros are read.
    ragged: bool,
}

impl CollapsedAttention<'_> {
    /// `load_q`, `load_k`, `load_v` and `load_mask`, each of a row and the first of four columns.
    pub fn loads(
        &self,
        kernel: &mut KernelBuilder<'_>,
        names: &[String],
        parameters: &str,
    ) -> String {
        let &AttentionForm { queries, keys, width, out, schedule, .. } = self.form;
        let chunk = schedule.chunk();
        let side = |name, root, [rows, columns]: [usize; 2], unit: usize| {
            let ragged = !columns.is_multiple_of(unit);
            MatrixOperand { name, root, rows, columns, ragged }
        };
        let mut sides = vec![
            side("q", self.form.q, [queries, width], chunk),
            side("k", self.form.k, [keys, width], chunk),
            side("v", self.form.v, [keys, out], schedule.columns),
        ];
        let mask = |root| side("mask", root, [queries, keys], schedule.keys);
        sides.extend(self.form.mask.map(mask));
        sides.iter().map(|side| self.load(kernel, side, names, parameters)).collect()
    }

    /// The operand that the keys or the values `root` are, if they fill all tiles of `columns` and are stored as
    /// halves, each four of which is aligned.
    pub fn plain(&self, kernel: &KernelBuilder<'_>, root: Ref, columns: usize) -> Option<usize> {
        let operand = kernel.step.expr.loaded(root)?;
        let StepOperand { dtype, ref view, .. } = kernel.step.operands[operand];
        let whole = view.dims.ends_with(&[self.form.keys, columns])
            && self.form.keys.is_multiple_of(self.form.schedule.keys);
        let stored = dtype == DType::F16 && kernel.limits.f16;
        (whole && stored && kernel.is_read_in_fours(operand)).then_some(operand)
    }

    fn load(
        &self,
        kernel: &mut KernelBuilder<'_>,
        side: &MatrixOperand,
        names: &[String],
        parameters: &str,
    ) -> String {
        let (rows, columns) = (kernel.size(side.rows), kernel.size(side.columns));
        let mut text = side.outside(&rows, &columns);
        text += &format!("let inner_row = min(row, {rows} - 1u);\n");
        // Four neighbours from a multiple of four on are inside or outside together.
        let cut = !side.columns.is_multiple_of(4);
        if cut {
            let four = lanes::FOUR;
            text += &format!("let inside = min({four}, vec4<u32>({columns} - 1u - column));\n");
        }
        let function = kernel.function(&format!("prologue_{}", side.name), &[side.root], None);
        let loaded = self.operands(kernel, &function, names, cut);
        let calls = loaded.calls(&function, "").join(", ");
        text += &loaded.text;
        let value = format!("vec4<f32>({calls})");
        let value = if cut {
            format!("select(vec4<f32>(), {value}, inside == {})", lanes::FOUR)
        } else {
            value
        };
        let body = indent(&format!("{text}return {value};"));
        format!(
            "{}\nfn load_{}(row: u32, column: u32{parameters}) -> vec4<f32> {{\n{body}}}\n",
            function.text, side.name
        )
    }

    /// The operands of `function`, loaded. With `cut`, fours may reach past the last column.
    fn operands(
        &self,
        kernel: &mut KernelBuilder<'_>,
        function: &KernelFunction,
        names: &[String],
        cut: bool,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        let place = ["inner_row".to_string(), "column".to_string()];
        for &operand in &function.operands {
            let view = &kernel.step.operands[operand].view;
            let strides = &view.strides[view.strides.len() - 2..];
            let at = kernel.index(self.results.maps.base(operand, names), strides, &place);
            if cut && strides[1] != 0 {
                let start = format!("start{operand}");
                loaded.text += &format!("let {start} = {at};\n");
                loaded.load_inside(kernel, operand, &start, strides[1]);
            } else {
                loaded.load(kernel, operand, &at, strides[1]);
            }
        }
        loaded
    }
}

impl MatrixOperand {
    /// Statements that return zeros where there are no elements. Past the last row, values are zeros, and others those of
    /// the last.
    fn outside(&self, rows: &str, columns: &str) -> String {
        let past_rows = (self.name == "v").then(|| format!("row >= {rows}"));
        let past_columns = self.ragged.then(|| format!("column >= {columns}"));
        let past: Vec<String> = past_rows.into_iter().chain(past_columns).collect();
        if past.is_empty() {
            return String::new();
        }
        format!("if {} {{\n    return vec4<f32>();\n}}\n", past.join(" || "))
    }
}
