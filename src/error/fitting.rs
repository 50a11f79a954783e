//! Cures for shapes that do not fit one another.

use crate::base::shape::Shape;

/// The cure for shapes that do not broadcast.
pub(super) fn broadcast_cure(a: &Shape, b: &Shape) -> String {
    let along = |vector: &Shape, of: &Shape| {
        let &[size] = vector.dims() else { return None };
        let mut axes = (0..of.rank()).filter(|&axis| of[axis] == size);
        let (Some(axis), None) = (axes.next(), axes.next()) else { return None };
        let ones = std::iter::repeat_n(1, of.rank() - 1 - axis);
        let column: Shape = [size].into_iter().chain(ones).collect();
        Some(format!("`reshape({column})` puts {vector} along axis {axis} of {of}"))
    };
    reordering(a, b)
        .or_else(|| along(a, b))
        .or_else(|| along(b, a))
        .unwrap_or_else(|| "`unsqueeze` adds a size of 1".into())
}

/// The message for a shape `other` that differs from the `first` one off the axis of concatenation.
pub(super) fn misfit_of_parts(first: &Shape, other: &Shape, axis: usize) -> String {
    let cure = reordering(first, other);
    let cure = cure.as_deref().unwrap_or("`slice` or `pad` one of them");
    format!("{other} does not fit {first}: all axes but axis {axis} must be equal; {cure}")
}

/// The cure for shapes whose sizes are the same in another order.
fn reordering(first: &Shape, other: &Shape) -> Option<String> {
    let order = order(other, first)?;
    Some(match order.len() {
        2 => "`transpose` one of them".into(),
        _ => format!("`permute({order:?})` brings {other} into the order of {first}"),
    })
}

/// The axes of `from` in the order of `to`, where both have the same sizes in another order. Axes of one size keep theirs.
fn order(from: &Shape, to: &Shape) -> Option<Vec<usize>> {
    if from == to || from.rank() != to.rank() {
        return None;
    }
    let mut order = Vec::new();
    for &size in to.dims() {
        order.push((0..from.rank()).find(|axis| from[*axis] == size && !order.contains(axis))?);
    }
    Some(order)
}

/// The cure for a product x · w of unequal inner dimensions, where x fits transposed or without sizes of 1.
pub(super) fn cure_of_left(x: &Shape, w: &Shape) -> String {
    let inner = w.dims().get(w.rank().saturating_sub(2));
    if let [.., size, _] = x.dims()
        && Some(size) == inner
    {
        return "; transposed, x fits: `x.transpose()`".into();
    }
    let ones = x.dims().iter().rev().take_while(|&&size| size == 1).count();
    let short = &x.dims()[..x.rank() - ones];
    if ones > 0 && short.last().is_some() && short.last() == inner {
        return format!("; `x.reshape({short:?})` leaves out sizes of 1, and fits");
    }
    String::new()
}

/// The message for filters `w` that see `channels`, and do not fit `x` or the groups.
pub(super) fn misfit_of_filters(x: &Shape, w: &Shape, groups: usize, channels: usize) -> String {
    let cut = if groups == 1 { String::new() } else { format!(" in {groups} groups") };
    let misfit = format!("filters {w}{cut} do not fit {x}");
    if x[1] == channels {
        return format!("{misfit}: the first axis of w must be a multiple of the groups");
    }
    let (layout, to_first) = match x.rank() {
        3 => ("[batch, channels, length]", "[0, 2, 1]"),
        _ => ("[batch, channels, height, width]", "[0, 3, 1, 2]"),
    };
    let cure = match x.dims().last() == Some(&channels) {
        true => format!("; channels-last becomes that by `permute({to_first})`"),
        false => String::new(),
    };
    format!(
        "{misfit}: x is {layout}, and must have {channels} channels for these filters, not {}{cure}",
        x[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_one_size_keep_their_order() {
        let order = |from: &[usize], to: &[usize]| order(&from.into(), &to.into());
        assert_eq!(order(&[2, 5, 4, 3], &[2, 3, 5, 4]), Some(vec![0, 3, 1, 2]));
        assert_eq!(order(&[3, 4, 4, 1], &[3, 1, 4, 4]), Some(vec![0, 3, 1, 2]));
        assert_eq!(order(&[2, 3], &[3, 2]), Some(vec![1, 0]));
        assert_eq!(order(&[2, 2, 3], &[2, 3, 3]), None);
        assert_eq!(order(&[2, 3], &[2, 3]), None);
        assert_eq!(order(&[2, 3], &[2, 3, 1]), None);
    }
}
