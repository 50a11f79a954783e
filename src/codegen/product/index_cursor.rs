//! Positions in the operands of a product that move along k.

use super::Product;
use super::reading::{Reading, Side, axes};
use super::windows::Windows;
use crate::codegen::kernel::Kernel;

/// A walk over one side along k: a position in each operand that is read, moved on by additions alone, since
/// multiplying it out for each read takes longer than the read.
pub(super) struct Walk<'p> {
    side: Side,
    /// The finder of the positions of the right operand, if it is one of windows, whose steps along k are no additions.
    windows: Option<&'p Windows>,
    /// The last place across k that may be read, if some are outside.
    last: Option<usize>,
    operands: Vec<Stepping>,
}

struct Stepping {
    operand: usize,
    /// The start of the batch in it.
    base: String,
    outer_stride: i64,
    k_stride: i64,
}

impl Walk<'_> {
    /// Statements that start at `outer` and `k`, in variables that start with `prefix`.
    pub fn start(&self, kernel: &mut Kernel<'_>, prefix: &str, outer: &str, k: &str) -> String {
        let outer = match self.last {
            Some(last) => format!("min({outer}, {})", kernel.size(last)),
            None => outer.to_string(),
        };
        let mut text = format!("let {prefix}_outer = {outer};\n");
        if let Some(windows) = self.windows {
            let bases: Vec<&str> = self.operands.iter().map(|o| o.base.as_str()).collect();
            return text + &windows.start(kernel, prefix, &bases);
        }
        let coordinates = [format!("{prefix}_outer"), format!("({k})")];
        for Stepping { operand, base, outer_stride, k_stride } in &self.operands {
            let at = kernel.index(base, &[*outer_stride, *k_stride], &coordinates);
            text += &format!("var {prefix}_at{operand} = {at};\n");
        }
        text
    }

    /// The call that reads what is at `k`, `ahead` of where the walk is; at the end of k, zeros past it.
    pub fn read(
        &self,
        kernel: &mut Kernel<'_>,
        prefix: &str,
        k: &str,
        ahead: usize,
        end: bool,
    ) -> String {
        let end = if end { "_end" } else { "" };
        let mut text = format!("{}{end}({prefix}_outer, {k}", self.side.load());
        for Stepping { operand, k_stride, .. } in &self.operands {
            let offset = k_stride * ahead as i64;
            let at = kernel.index(&format!("{prefix}_at{operand}"), &[offset], &["1u".into()]);
            text += &format!(", {at}");
        }
        text + ")"
    }

    /// Statements that move on by `step` along k.
    pub fn advance(&self, kernel: &mut Kernel<'_>, prefix: &str, step: usize) -> String {
        let mut text = String::new();
        for Stepping { operand, k_stride, .. } in self.operands.iter().filter(|o| o.k_stride != 0) {
            let step = kernel.param(k_stride * step as i64);
            text += &format!("{prefix}_at{operand} += {step};\n");
        }
        text
    }
}

impl Product {
    pub fn walk(&self, kernel: &Kernel<'_>, reading: &Reading, names: &[String]) -> Walk<'_> {
        let side = reading.side;
        let windows = self.windows.as_ref().filter(|_| side == Side::W);
        let operands = kernel.operands_of(&[self.prologue(side)]).into_iter();
        let stepping = |operand: usize| {
            let view = &kernel.step.operands[operand].view;
            let base = self.results.maps.base(operand, names).to_string();
            let (outer_stride, k_stride) = match windows {
                Some(_) => (0, 0),
                None => axes(side, view).map(|axis| view.strides[axis]).into(),
            };
            Stepping { operand, base, outer_stride, k_stride }
        };
        let [size, _] = self.sizes(side);
        let read_at_once = match reading {
            Reading { along_k: true, .. } => 1,
            Reading { halves: true, .. } => 8,
            _ if size.is_multiple_of(4) => 4,
            _ => 1,
        };
        let last = reading.ragged.then(|| size - read_at_once);
        Walk { side, windows, last, operands: operands.map(stepping).collect() }
    }
}
