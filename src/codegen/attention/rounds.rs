//! Statements that all attention kernels share: items in rounds of threads, numbers of a few neighbours, hidden keys.

use super::collapsed::CollapsedAttention;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::indent;

/// The rounds in which `threads` take `items`; `thread` is the text of a thread's first item. A round in which not all
/// threads have an item comes with the condition for those that have one.
pub(super) fn rounds(
    items: usize,
    threads: usize,
    thread: &str,
) -> impl Iterator<Item = (usize, Option<String>)> {
    (0..items.div_ceil(threads)).map(move |round| {
        let whole = (round + 1) * threads <= items;
        (round, (!whole).then(|| format!("{thread} + {}u < {items}u", round * threads)))
    })
}

/// `text` where `guard` holds, if there is one.
pub(super) fn guarded(text: String, guard: Option<&str>) -> String {
    match guard {
        None => text,
        Some(guard) => format!("if {guard} {{\n{}}}\n", indent(&text)),
    }
}

/// Statements that combine `name` over `lanes` neighbouring threads, for all of them: `take` is the one that takes the
/// number of another thread.
pub(super) fn shuffled(name: &str, lanes: usize, take: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for power in 0..lanes.ilog2() {
        let other = format!("subgroupShuffleXor({name}, {}u)", 1 << power);
        text += &format!("{}\n", take(&other));
    }
    text
}

/// Texts that tell what is hidden from rows of a tile of keys, the first of which is `key` in the kernel.
pub(super) struct Hidden {
    /// Keys of a tile, and whether those of all tiles are there.
    step: usize,
    whole: bool,
    /// The parameter by which the last key that a row sees is ahead of it, if rows see only the keys before them.
    causal: Option<String>,
}

impl Hidden {
    pub fn new(attention: &CollapsedAttention<'_>, kernel: &mut KernelBuilder<'_>) -> Self {
        let step = attention.form.schedule.keys;
        let whole = attention.form.keys.is_multiple_of(step);
        if !whole || attention.form.causal.is_some() {
            kernel.needs("p_inf");
        }
        let causal = attention.form.causal.map(|offset| kernel.param(offset));
        Self { step, whole, causal }
    }

    /// `statements` where some key is hidden from `first_row` or a row after it.
    pub fn guard(&self, first_row: &str, statements: &str) -> String {
        let step = self.step;
        let past = (!self.whole).then(|| format!("key + {step}u > end_key"));
        let ahead = self
            .causal
            .as_ref()
            .map(|offset| format!("i32(key + {}u) > i32({first_row} + {offset})", step - 1));
        let some: Vec<String> = past.into_iter().chain(ahead).collect();
        match &some[..] {
            [] => String::new(),
            some => format!("if {} {{\n{}}}\n", some.join(" || "), indent(statements)),
        }
    }

    /// The last key that `row` sees, or −1.
    pub fn last(&self, row: &str) -> String {
        match &self.causal {
            None => "i32(end_key) - 1".to_string(),
            Some(offset) => format!("min(i32(end_key) - 1, i32({row} + {offset}))"),
        }
    }
}
