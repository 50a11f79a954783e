//! Numbers, places and lists in the words of a page.

use std::path::Path;

use super::data::Stored;
use crate::base::place::Place;
use crate::base::units::bytes;

/// Kernels of a list that are named.
const NAMED: usize = 4;

/// `kernel 3`, `kernels 3, 5`, `kernels 1, 2, 3, 4 and 20 more`, `no kernel`; counted from 1.
pub(super) fn kernels(positions: &[usize]) -> String {
    let named: Vec<String> =
        positions.iter().take(NAMED).map(|position| (position + 1).to_string()).collect();
    match positions.len() {
        0 => "no kernel".to_owned(),
        1 => format!("kernel {}", named[0]),
        all if all <= NAMED => format!("kernels {}", named.join(", ")),
        all => format!("kernels {} and {} more", named.join(", "), all - NAMED),
    }
}

/// A place by the name of its file, without folders.
pub(super) fn short_place(place: &Place) -> String {
    let name = Path::new(place.file()).file_name();
    let name = name.map_or_else(|| place.file().into(), |name| name.to_string_lossy());
    format!("{name}:{}", place.line())
}

/// The text, cut to the width of so many Latin letters.
pub(super) fn fitted(text: &str, letters: usize) -> String {
    // Letters of East Asia are twice as wide.
    let width = |c: char| if c >= '\u{2e80}' { 2 } else { 1 };
    if text.chars().map(width).sum::<usize>() <= letters {
        return text.to_owned();
    }
    let mut left = letters.saturating_sub(1);
    let fits = |c: &char| {
        let fits = width(*c) <= left;
        left = left.saturating_sub(width(*c));
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// The value of this number in words.
pub(super) fn value(number: usize, stored: &Stored) -> String {
    format!("v{number} {} ({})", stored.ty, bytes(stored.bytes))
}

/// A share of 1 as a percentage of CSS.
pub(super) fn percent(share: f64) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    format!("{:.3}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_their_width() {
        assert_eq!(fitted("softmax", 7), "softmax");
        assert_eq!(fitted("softmax", 6), "softm…");
        assert_eq!(fitted("行列の積", 8), "行列の積");
        assert_eq!(fitted("行列の積", 6), "行列…");
        assert_eq!(fitted("", 0), "");
    }

    #[test]
    fn lists_of_kernels_are_bounded() {
        assert_eq!(kernels(&[]), "no kernel");
        assert_eq!(kernels(&[0]), "kernel 1");
        assert_eq!(kernels(&[0, 4]), "kernels 1, 5");
        assert_eq!(kernels(&[0, 1, 2, 3, 4, 5]), "kernels 1, 2, 3, 4 and 2 more");
    }

    #[test]
    fn shares_are_percentages_of_css() {
        assert_eq!(percent(0.5), "50.000%");
        assert_eq!(percent(2.0), "100.000%");
        assert_eq!(percent(f64::NAN), "0.000%");
    }
}
