//! Words of messages that a file has no tensor of a name.

use super::wording::{LEAST, first_of, quoted, similarity};

/// The end of the message: the nearest tensors, and the prefix under which there is one of the name.
pub(super) fn other_tensors(name: &str, there: &[String]) -> String {
    let ends_there = |prefix: &&str| !name.is_empty() && prefix.ends_with(SEPARATORS);
    let mut prefixes = there.iter().filter_map(|other| other.strip_suffix(name).filter(ends_there));
    let prefix = match (prefixes.next(), prefixes.next()) {
        (Some(prefix), None) => {
            format!("; read it through `Weights::prefix({})`", quoted(prefix))
        }
        _ => String::new(),
    };
    nearest_tensors(name, there) + &prefix
}

/// The marks between the parts of a name: layers, and the tensor of a layer.
const SEPARATORS: [char; 2] = ['.', '/'];

/// The end of a message that there is no tensor `name`: the one that may be meant, and a few of those `there`, the
/// nearest first. They are under the longest prefix of the name that some of them have.
pub(super) fn nearest_tensors(name: &str, there: &[String]) -> String {
    const SHOWN: usize = 5;
    if there.is_empty() {
        return ", and there are none".into();
    }
    let prefixes = name.match_indices(SEPARATORS).map(|(at, _)| &name[..=at]);
    let is_there = |prefix: &&str| there.iter().any(|other| other.starts_with(prefix));
    let prefix = prefixes.take_while(is_there).last().unwrap_or_default();
    let mut all: Vec<(f64, &String)> =
        there.iter().map(|other| (similarity(name, other), other)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let meant = all.iter().find(|&&(similarity, other)| may_be_meant(name, other, similarity));
    let meant =
        meant.map_or_else(String::new, |(_, other)| format!(" (did you mean {}?)", quoted(other)));
    all.retain(|(_, other)| other.starts_with(prefix));
    let names: Vec<&String> = all.into_iter().map(|(_, other)| other).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    let under =
        if prefix.is_empty() { String::new() } else { format!("under {} ", quoted(prefix)) };
    format!("{meant}, but {under}there {verb} {}", first_of(&names, SHOWN))
}

/// True if each part of `name` is like that of `other`, and all digits are the same. The name of an LSTM does not mean a GRU,
/// however like their tensors are. Nor does a layer mean another one.
fn may_be_meant(name: &str, other: &str, of_all: f64) -> bool {
    /// Least similarity of names of different numbers of parts.
    const LEAST_OF_ALL: f64 = 0.9;
    let digits = |name: &str| -> Vec<u8> { name.bytes().filter(u8::is_ascii_digit).collect() };
    if digits(name) != digits(other) {
        return false;
    }
    let parts = |name: &str| name.split(SEPARATORS).count();
    if parts(name) != parts(other) {
        return of_all >= LEAST_OF_ALL;
    }
    let mut pairs = name.split(SEPARATORS).zip(other.split(SEPARATORS));
    pairs.all(|(part, other)| part == other || similarity(part, other) >= LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_tensors_of_the_same_layer_are_told() {
        let gru = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        let gru = gru.map(|tensor| format!("encoder.gru.{tensor}"));
        let others = (0..40).map(|at| format!("head.{at}.weight"));
        let there: Vec<String> = gru.into_iter().chain(others).collect();
        let told = |name: &str| nearest_tensors(name, &there);
        let all = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"];
        let all = all.map(|tensor| format!("\"encoder.gru.{tensor}\"")).join(", ");
        // Another kind of layer is listed, and not asked for.
        assert_eq!(
            told("encoder.lstm.weight_ih_l0"),
            format!(", but under \"encoder.\" there are {all}")
        );
        let question = " (did you mean \"encoder.gru.weight_ih_l0\"?)";
        assert_eq!(
            told("encoder.gru.weigth_ih_l0"),
            format!("{question}, but under \"encoder.gru.\" there are {all}")
        );
        // A prefix that is not there, but for a letter or a separator.
        for name in
            ["encoders.gru.weight_ih_l0", "Encoder/GRU/weight_ih_l0", "encodergru.weight_ih_l0"]
        {
            let text = told(name);
            assert!(text.starts_with(&format!("{question}, but there are \"enc")), "{text}");
            assert!(text.ends_with(" and 39 more"), "{text}");
        }
        // Another layer, within a part and beside another number of parts.
        let text = told("encoder.gru.weight_ih_l2");
        assert!(text.starts_with(", but under \"encoder.gru.\" there are"), "{text}");
        let text = told("head.41.0.weight");
        assert!(!text.contains("did you mean"), "{text}");
        let text = told("head.40.weight");
        let list = ", but under \"head.\" there are \"head.";
        assert!(text.starts_with(list) && text.ends_with(" and 35 more"), "{text}");
        assert_eq!(nearest_tensors("x", &[]), ", and there are none");
        let one = ["fc.weight".to_owned()];
        assert_eq!(nearest_tensors("", &one), ", but there is \"fc.weight\"");
        assert_eq!(
            other_tensors("weight", &one),
            ", but there is \"fc.weight\"; read it through `Weights::prefix(\"fc.\")`"
        );
    }
}
