//! Shared work of threads: items in rounds, and numbers that all of a few neighbours need.

use crate::codegen::kernel::template::indent;

/// The rounds in which `threads` take `items`, of which `thread` is the text of a thread's first, with what holds for
/// those that have one in it, if not all do.
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
