//! Words that several messages share: lists of names, axes and masks.

use std::fmt;

use super::fitting::cure_of_left;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::base::units::count;

/// The shape of a mask of keys for `scores`: of their leading dimensions without the heads, and the keys.
fn keys_mask(scores: &Shape) -> Shape {
    let dims = scores.dims();
    let leading = dims.len().saturating_sub(3).max(usize::from(dims.len() > 2));
    dims[..leading].iter().chain(dims.last()).copied().collect()
}

/// The message for a mask, of keys or not, that does not fit `scores`.
pub(super) fn misfit_of_mask(mask: &Shape, scores: &Shape, is_of_keys: bool) -> String {
    let of_keys = keys_mask(scores);
    if is_of_keys {
        let fix = match mask.rank() > of_keys.rank() {
            true => {
                "; `AttentionMask::keep` takes one that differs from head to head or from query to query"
            }
            false => "",
        };
        return format!(
            "mask of keys {mask} does not fit the scores {scores}; make it {of_keys}{fix}"
        );
    }
    let misfit = format!("mask {mask} does not broadcast to the scores {scores}");
    if *mask != of_keys {
        return format!("{misfit}; make it {scores}, with sizes of 1 where it repeats");
    }
    let (leading, keys) = mask.dims().split_at(mask.rank() - 1);
    let ones = std::iter::repeat_n(&1, scores.rank() - mask.rank());
    let wide: Shape = leading.iter().chain(ones).chain(keys).copied().collect();
    format!(
        "{misfit}; for a mask of keys use `AttentionMask::keys(&batch, mask)` or make it {wide}"
    )
}

/// The axis of w over which a product x · w sums.
pub(super) fn inner_axis(w: &Shape) -> &'static str {
    if w.rank() == 1 { "the one" } else { "the last but one" }
}

/// The cure for a product x · w of unequal inner dimensions, where one of them fits in another form.
pub(super) fn transposed_fits(x: &Shape, w: &Shape) -> String {
    let fits = w.rank() > 1 && x.dims().last() == w.dims().last();
    if !fits {
        return cure_of_left(x, w);
    }
    "; transposed, w fits: `w.transpose()`, of a resident `batch.bind(&w).transpose()`, or \
     `Weights::resident_transposed` for [outputs, inputs] \
     as in files of PyTorch"
        .into()
}

/// The cure for a reshape to another number of elements: shapes that differ from the asked one in one size, and fit.
pub(super) fn shapes_that_fit(from: &Shape, to: &Shape) -> String {
    let fitting = (0..to.rank()).filter_map(|axis| {
        let mut dims = to.dims().to_vec();
        dims[axis] = 1;
        let others = Shape::from(&dims[..]).elements();
        let size = from.elements().checked_div(others)?;
        dims[axis] = size;
        (size * others == from.elements()).then(|| Shape::from(&dims[..]).to_string())
    });
    let fitting: Vec<String> = fitting.collect();
    match fitting.is_empty() {
        true => "`slice` or `pad` it first".into(),
        false => format!("{} would fit", fitting.join(" or ")),
    }
}

/// The cure for a tensor of a file whose elements are not read as the type asked for.
pub(super) fn type_to_ask_for(found: &str) -> &'static str {
    match found {
        "f64" | "other" => {
            "convert it when the file is written: by `tensor.float()` in PyTorch, by `astype(\"float32\")` in NumPy"
        }
        "f16" | "bf16" | "f32" => "ask for f32 and `cast` the tensor, or convert it in the file",
        "bool" => "ask for bool and `cast` the tensor, or convert it in the file",
        _ => "ask for i32 or u32 and `cast` the tensor, or convert it in the file",
    }
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

/// A number of rows in words.
pub(super) fn rows(count: usize) -> String {
    format!("{count} {}", if count == 1 { "row" } else { "rows" })
}

/// A number of elements in words.
pub(super) fn elements(count: usize) -> String {
    format!("{count} {}", if count == 1 { "element" } else { "elements" })
}

/// The axes of rows of inputs, each with its shape; the first of them where they are many.
pub(super) fn rows_along(inputs: &[(impl fmt::Display, Shape, usize)]) -> String {
    const SHOWN: usize = 3;
    let axis =
        |(input, shape, axis): &(_, _, _)| format!("axis {axis} of {input} of shape {shape}");
    let shown: Vec<String> = inputs.iter().take(SHOWN).map(axis).collect();
    let more = if inputs.len() > SHOWN { " and of others" } else { "" };
    shown.join(" and ") + more
}

/// The cure for `given` elements that are no whole number of rows.
pub(super) fn whole_rows(row: &Shape, given: usize) -> String {
    let row = row.elements();
    let fewer = given - given.checked_rem(row).unwrap_or(given);
    let more = fewer.saturating_add(row);
    if fewer == 0 { format!("give {more}") } else { format!("give {fewer} or {more}") }
}

/// A name between quotes. Of a long one, its beginning and its end stand for all: names often differ at their end.
pub(crate) fn quoted(name: &str) -> String {
    const HEAD: usize = 40;
    const TAIL: usize = 23;
    let letters = name.chars().count();
    if letters <= HEAD + 1 + TAIL {
        return format!("{name:?}");
    }
    let head = name.chars().take(HEAD).chain(['…']);
    let short: String = head.chain(name.chars().skip(letters - TAIL)).collect();
    format!("{short:?}")
}

/// The end of a message that nothing has the name: the nearest of the names that there are, and the first of them where
/// they are many.
pub(super) fn others(name: &str, there: &[String]) -> String {
    if there.is_empty() {
        return ", and there are none".into();
    }
    let verb = if there.len() == 1 { "is" } else { "are" };
    format!("{}, but there {verb} {}", nearest(name, there), listed(there))
}

/// As [`others`], for results of a program by name: one of the values `not_downloaded` may be meant.
pub(super) fn other_results(name: &str, there: &[String], not_downloaded: &[String]) -> String {
    let similarity = |of: Option<(f64, &String)>| of.map_or(0.0, |(similarity, _)| similarity);
    let (result, other) = (most_similar(name, there), most_similar(name, not_downloaded));
    match other {
        Some((_, value)) if similarity(other) > similarity(result) => {
            let value = quoted(value);
            let list = if there.is_empty() {
                String::new()
            } else {
                format!("; results are {}", listed(there))
            };
            format!(
                " (did you mean {value}?); {value} was recorded and is not downloaded: record `download` on it and \
                 compile again{list}"
            )
        }
        _ => format!("{}; `name` gives names", others(name, there)),
    }
}

/// The end of a message that asks for an id: the names that do as well.
pub(super) fn or_a_name(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!(", or a name: {}", listed(there)) }
}

/// The place of an element in a message; nothing for a scalar.
pub(super) fn point(coordinates: &[usize]) -> String {
    if coordinates.is_empty() { String::new() } else { format!(" at {coordinates:?}") }
}

/// The request for one of the inputs that there are.
pub(super) fn name_an_input(names: &[String]) -> String {
    match names {
        [] => "use the id of an input, since no input has a name".into(),
        names => format!("name an input: {}", listed(names)),
    }
}

/// Names between quotes, the first of them where they are many.
fn listed(names: &[String]) -> String {
    first_of(names, 20)
}

/// The first `shown` names between quotes, and the number of the others.
pub(crate) fn first_of(names: &[impl AsRef<str>], shown: usize) -> String {
    let list: Vec<String> = names.iter().take(shown).map(|name| quoted(name.as_ref())).collect();
    let more = match names.len().saturating_sub(shown) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    list.join(", ") + &more
}

/// The end of a message for `given` elements of a value of `op` of another `shape`: a program runs an input of other rows.
pub(super) fn other_rows(op: &str, shape: &Shape, given: usize) -> String {
    let [_, row @ ..] = shape.dims() else { return String::new() };
    let row: usize = row.iter().product();
    if op != "input" || given == 0 || row == 0 || !given.is_multiple_of(row) {
        return String::new();
    }
    format!(
        ", or call `run_rows`, which takes {} unless an operation mixes them",
        rows(given / row)
    )
}

/// The message for inputs without data, of which it names some.
pub(super) fn not_given(inputs: &[impl ToString]) -> String {
    const SHOWN: usize = 5;
    if let [input] = inputs {
        let input = input.to_string();
        return format!(
            "{input} has no data; give it to the run, or `write` it before the batch is executed or compiled"
        );
    }
    let mut names: Vec<String> = inputs.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = inputs.len().saturating_sub(SHOWN);
    names.extend((more > 0).then(|| count(more as u64, "other input")));
    let last = names.pop().unwrap_or_default();
    format!(
        "{} and {last} have no data; give them to the run, or `write` them before the batch is executed or compiled",
        names.join(", ")
    )
}

/// The beginning of the message for an id of another batch, with the place where that batch was made, if it is known.
pub(super) fn of_another_batch(made_at: Option<&Place>) -> String {
    format!("this id belongs to {}", made("another batch", made_at))
}

/// The message for an id of one batch that is given to another. Each has its number, and the place where it was made, if
/// that is known. A loaded program has no such place. `cure` ends before the name of the right batch.
pub(super) fn foreign(
    [id_of, batch]: [u64; 2],
    [id_made_at, made_at]: [Option<&Place>; 2],
    cure: &str,
) -> String {
    if id_of == batch {
        let program = made_at.map(|place| format!(" of the batch made at {place}"));
        return format!(
            "the value of this id was recorded after the program{} was compiled; compile it again",
            program.unwrap_or_default()
        );
    }
    let right = made(&format!("batch {id_of}"), id_made_at);
    if made_at.is_none() {
        return format!(
            "this id belongs to {right}, not to this program, which was loaded from a file; give the name of its value instead"
        );
    }
    let asked = made(&format!("batch {batch}"), made_at);
    format!(
        "this id belongs to {right}, not to {asked}; {cure} the batch that made it, or a program compiled from that one"
    )
}

/// A batch with the place where it was made, if that is known.
fn made(batch: &str, made_at: Option<&Place>) -> String {
    made_at.map_or_else(|| batch.to_owned(), |place| format!("{batch}, made at {place}"))
}

/// The name among `there` that is nearest to `name`, as a question.
fn nearest(name: &str, there: &[String]) -> String {
    most_similar(name, there)
        .map_or_else(String::new, |(_, other)| format!(" (did you mean {}?)", quoted(other)))
}

/// The name among `there` that is most similar to `name`, with its similarity, if that is worth a question.
fn most_similar<'a>(name: &str, there: &'a [String]) -> Option<(f64, &'a String)> {
    let all = there.iter().map(|other| (similarity(name, other), other));
    let best = all.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|&(similarity, _)| similarity >= LEAST)
}

/// Least similarity that is worth a question.
pub(super) const LEAST: f64 = 0.75;

/// The similarity of two names by Jaro and Winkler, 0 to 1, in any case.
pub(super) fn similarity(name: &str, other: &str) -> f64 {
    /// Longest name that is compared: the time grows as the product of both lengths.
    const LONGEST: usize = 1024;
    if name.len().max(other.len()) > LONGEST {
        return 0.0;
    }
    strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_asked_for() {
        let names = ["encoder.layer.0.weight", "encoder.layer.0.bias", "x"].map(String::from);
        let question = " (did you mean \"encoder.layer.0.weight\"?)";
        assert_eq!(nearest("encoder.layers.0.weight", &names), question);
        assert_eq!(nearest("Encoder.Layer.0.Weight", &names), question);
        assert_eq!(nearest("X", &names), " (did you mean \"x\"?)");
        assert_eq!(nearest("zzz", &names), "");
        assert_eq!(nearest("pixels", &names), "", "one letter in common is not near");
        assert_eq!(nearest("", &names), "");
        assert_eq!(nearest("x", &[]), "");
    }

    #[test]
    fn long_names_are_cut() {
        let name = |letters: usize| "é".repeat(letters);
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted(&name(64)), format!("\"{}\"", name(64)));
        assert_eq!(quoted(&name(65)), format!("\"{}…{}\"", name(40), name(23)));
        let long = format!("{}.weight", "layer.".repeat(20_000));
        let cut = quoted(&long);
        assert!(cut.chars().count() == 66 && cut.ends_with(".weight\""), "{cut}");
        let all = others(&long, &[long.clone(), "x".into()]);
        assert_eq!(all, format!(", but there are {cut}, \"x\""));
    }

    #[test]
    fn ids_of_other_batches_and_of_later_values_are_told_apart() {
        let want = "this id belongs to batch 7, not to this program, which was loaded from a file; give the name of its value instead";
        assert_eq!(foreign([7, 3], [None; 2], "read it from"), want);
        let want =
            "the value of this id was recorded after the program was compiled; compile it again";
        assert_eq!(foreign([3, 3], [None; 2], "read it from"), want);
        let made = Place::given("model.py", 7);
        let there = Place::given("loop.py", 9);
        let text = foreign([7, 3], [Some(&there), Some(&made)], "read it from");
        let want = "batch 7, made at loop.py:9, not to batch 3, made at model.py:7; read it from";
        assert!(text.starts_with(&format!("this id belongs to {want}")), "{text}");
        let text = foreign([3, 3], [None, Some(&made)], "read it from");
        assert!(text.contains("after the program of the batch made at model.py:7 was"), "{text}");
    }

    #[test]
    fn shapes_that_fit_differ_in_one_size() {
        let advice = |from: &[usize], to: &[usize]| shapes_that_fit(&from.into(), &to.into());
        assert_eq!(advice(&[2, 3], &[4, 2]), "[3, 2] would fit");
        assert_eq!(advice(&[4, 6], &[4, 3]), "[8, 3] or [4, 6] would fit");
        assert_eq!(advice(&[0, 3], &[5]), "[0] would fit");
        for (from, to) in [(&[7][..], &[2, 3][..]), (&[6], &[0, 4]), (&[6], &[])] {
            assert_eq!(advice(from, to), "`slice` or `pad` it first", "{from:?} {to:?}");
        }
    }

    #[test]
    fn whole_numbers_of_rows_are_the_nearest() {
        let cure = |row: &[usize], given| whole_rows(&row.into(), given);
        assert_eq!(cure(&[32], 191), "give 160 or 192");
        assert_eq!(cure(&[2, 3], 5), "give 6");
        assert_eq!(cure(&[0], 5), "give 0");
        assert_eq!((rows(0), rows(1), rows(2)), ("0 rows".into(), "1 row".into(), "2 rows".into()));
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..23).map(|at| format!("w{at}")).collect();
        assert_eq!(others("x", &[]), ", and there are none");
        assert_eq!(others("x", &names[..1]), ", but there is \"w0\"");
        assert_eq!(others("x", &names[..2]), ", but there are \"w0\", \"w1\"");
        let all = others("w24", &names);
        assert!(all.starts_with(" (did you mean \"w2\"?), but there are \"w0\""), "{all}");
        assert!(all.ends_with("\"w19\" and 3 more"), "{all}");
    }
}
