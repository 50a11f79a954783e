//! Words that several messages share: lists of names, axes and masks.

use crate::base::shape::Shape;

/// The shape of a mask of keys for `scores`: of their leading dimensions without the heads, and the keys.
pub(super) fn keys_mask(scores: &Shape) -> Shape {
    let dims = scores.dims();
    let leading = dims.len().saturating_sub(3).max(usize::from(dims.len() > 2));
    dims[..leading].iter().chain(dims.last()).copied().collect()
}

/// The cure for a mask that does not broadcast to `scores`.
pub(super) fn mask_to_give(mask: &Shape, scores: &Shape) -> String {
    if *mask != keys_mask(scores) {
        return format!("make it {scores}, with sizes of 1 where it repeats");
    }
    let (leading, keys) = mask.dims().split_at(mask.rank() - 1);
    let ones = std::iter::repeat_n(&1, scores.rank() - mask.rank());
    let wide: Shape = leading.iter().chain(ones).chain(keys).copied().collect();
    format!("for a mask of keys use `AttentionMask::Keys` or make it {wide}")
}

/// A number of axes in words.
pub(super) fn axes(rank: usize) -> String {
    format!("{rank} {}", if rank == 1 { "axis" } else { "axes" })
}

/// The axes that there are among `rank`.
pub(super) fn range(rank: usize) -> String {
    match rank {
        0 => "`unsqueeze` adds one".into(),
        _ => format!("it may be -{rank} to {}", rank - 1),
    }
}

/// Names in a message, the first of them where they are many.
pub(super) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match (shown.join(", "), names.len().saturating_sub(SHOWN)) {
        (none, _) if none.is_empty() => "there are none".into(),
        (all, 0) => format!("there are {all}"),
        (some, more) => format!("there are {some} and {more} more"),
    }
}

/// The name among `there` that is nearest to `name`, as a question.
pub(super) fn nearest(name: &str, there: &[String]) -> String {
    /// Least similarity that is worth a question, by Jaro and Winkler.
    const LEAST: f64 = 0.7;
    let similarity = |other: &String| (strsim::jaro_winkler(name, other), other.clone());
    let best = there.iter().map(similarity).max_by(|a, b| a.0.total_cmp(&b.0));
    let best = best.filter(|&(similarity, _)| similarity >= LEAST);
    best.map_or_else(String::new, |(_, other)| format!(" (did you mean {other:?}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_asked_for() {
        let names = ["encoder.layer.0.weight", "encoder.layer.0.bias", "x"].map(String::from);
        let question = " (did you mean \"encoder.layer.0.weight\"?)";
        assert_eq!(nearest("encoder.layers.0.weight", &names), question);
        assert_eq!(nearest("zzz", &names), "");
        assert_eq!(nearest("", &names), "");
        assert_eq!(nearest("x", &[]), "");
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..23).map(|at| format!("w{at}")).collect();
        assert_eq!(listed(&[]), "there are none");
        assert_eq!(listed(&names[..2]), "there are \"w0\", \"w1\"");
        assert!(listed(&names).ends_with("\"w19\" and 3 more"), "{}", listed(&names));
    }
}
