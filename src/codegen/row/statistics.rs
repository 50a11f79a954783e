//! The formulas of the kinds of row operations, as WGSL: from elements in registers in a few passes, or
//! from elements that are read twice, by statistics that merge.

use crate::codegen::kernel::template::shader;
use crate::ops::RowKind;

/// One number of a row: a fold over its elements, then a formula of the fold.
pub(crate) struct RowPass {
    /// The name of the number.
    pub name: &'static str,
    pub fold: PassFold,
    /// The value that each element `x` takes before it is folded, and keeps.
    pub before: Option<fn(x: &str) -> String>,
    /// The term that is folded for the element `x`.
    pub term: fn(x: &str) -> String,
    /// The number, from the fold.
    pub value: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PassFold {
    Max,
    Sum,
    /// Sums of squares, scaled up and scaled down, as `p_squares` makes them.
    Squares,
}

impl PassFold {
    pub fn identity(self) -> &'static str {
        match self {
            Self::Max => "-p_inf()",
            Self::Sum => "0f",
            Self::Squares => "vec2<f32>()",
        }
    }

    /// The WGSL type of the folded value.
    pub fn ty(self) -> &'static str {
        match self {
            Self::Max | Self::Sum => "f32",
            Self::Squares => "vec2<f32>",
        }
    }

    pub fn merge(self, a: &str, b: &str) -> String {
        match self {
            Self::Max => format!("p_max({a}, {b})"),
            Self::Sum | Self::Squares => format!("{a} + {b}"),
        }
    }
}

/// The passes of a kind, and the normalised element from their results.
pub(crate) fn passes(
    kind: RowKind,
    len: &str,
    epsilon: &str,
) -> (Vec<RowPass>, fn(x: &str) -> String) {
    let plain = |name, fold, value: &str| RowPass {
        name,
        fold,
        before: None,
        term: str::to_string,
        value: value.to_string(),
    };
    let squares = |value| RowPass {
        name: "scale",
        fold: PassFold::Squares,
        before: None,
        term: |x| format!("p_squares({x})"),
        value,
    };
    match kind {
        RowKind::Softmax => {
            let before: Option<fn(&str) -> String> =
                Some(|x| format!("p_exp_nonpositive({x} - greatest)"));
            let value = "p_if_finite(1f / fold, greatest)";
            let inverse = RowPass { before, ..plain("inverse", PassFold::Sum, value) };
            (vec![plain("greatest", PassFold::Max, "fold"), inverse], |x| format!("{x} * inverse"))
        }
        RowKind::LogSoftmax => {
            let term: fn(&str) -> String = |x| format!("p_exp_nonpositive({x} - greatest)");
            let value = "p_if_finite(p_log(fold), greatest)";
            let total = RowPass { term, ..plain("total", PassFold::Sum, value) };
            (vec![plain("greatest", PassFold::Max, "fold"), total], |x| {
                format!("{x} - greatest - total")
            })
        }
        RowKind::LayerNorm => {
            let quotient = format!("p_quotient(fold, {len})");
            let mean = plain("mean", PassFold::Sum, &quotient);
            // The rounding error of the mean counts where elements differ by little more than that.
            let before: Option<fn(&str) -> String> = Some(|x| format!("{x} - mean"));
            let rest = RowPass { before, ..plain("rest", PassFold::Sum, &quotient) };
            let scale = RowPass {
                name: "scale",
                fold: PassFold::Sum,
                before: Some(|x| format!("{x} - rest")),
                term: |x| format!("{x} * {x}"),
                value: format!("p_rsqrt(fold / {len} + {epsilon})"),
            };
            (vec![mean, rest, scale], |x| format!("{x} * scale"))
        }
        RowKind::RmsNorm => {
            (vec![squares(format!("p_rms_scale(fold, {len}, {epsilon})"))], scaled_twice)
        }
        RowKind::L2Normalize => {
            (vec![squares(format!("p_norm_scale(fold, {epsilon})"))], scaled_twice)
        }
    }
}

/// The element times both numbers of `scale`: their product may be no `f32`.
fn scaled_twice(x: &str) -> String {
    format!("{x} * scale.x * scale.y")
}

const EXPONENTIALS: &str =
    concat!(shader!("fold/log_sum_exp.wgsl"), "\n", shader!("row/exponentials.wgsl"));

/// Statistics of a row's elements.
pub(crate) struct Statistics {
    /// The type `State` and the functions `identity`, `merge`, and `add` and `add4`, which merge one element or
    /// four with a state.
    pub text: &'static str,
    /// Statements that make the numbers which `result` uses of `state`.
    pub numbers: String,
    /// The normalised element of `x`.
    pub result: fn(x: &str) -> String,
    /// The fields of `State`, all `f32`.
    fields: &'static [&'static str],
}

impl Statistics {
    pub fn new(kind: RowKind, len: &str, epsilon: &str) -> Self {
        let scale = |square: &str| format!("let scale = p_rsqrt({square} / {len} + {epsilon});\n");
        let exponentials = |last: &str| {
            format!(
                "let greatest = state.greatest;\n\
                 let sum = p_if_finite(state.sum, greatest);\n{last}"
            )
        };
        match kind {
            RowKind::Softmax => Self {
                text: EXPONENTIALS,
                numbers: exponentials("let inverse = 1f / sum;\n"),
                result: |x| format!("p_exp_nonpositive({x} - greatest) * inverse"),
                fields: &["greatest", "sum"],
            },
            RowKind::LogSoftmax => Self {
                text: EXPONENTIALS,
                numbers: exponentials("let total = p_log(sum);\n"),
                result: |x| format!("{x} - greatest - total"),
                fields: &["greatest", "sum"],
            },
            RowKind::LayerNorm => Self {
                text: shader!("row/moments.wgsl"),
                numbers: format!("let mean = state.mean;\n{}", scale("state.square")),
                result: |x| format!("({x} - mean) * scale"),
                fields: &["count", "mean", "square"],
            },
            RowKind::RmsNorm | RowKind::L2Normalize => {
                let squares = "vec2<f32>(state.near, state.far)";
                Self {
                    text: shader!("row/squares.wgsl"),
                    numbers: if kind == RowKind::RmsNorm {
                        format!("let scale = p_rms_scale({squares}, {len}, {epsilon});\n")
                    } else {
                        format!("let scale = p_norm_scale({squares}, {epsilon});\n")
                    },
                    result: scaled_twice,
                    fields: &["near", "far"],
                }
            }
        }
    }

    /// The state as 32-bit words.
    pub fn pack(&self, state: &str) -> Vec<String> {
        self.fields.iter().map(|field| format!("bitcast<u32>({state}.{field})")).collect()
    }

    /// The state from its words.
    pub fn unpack(&self, words: impl Fn(usize) -> String) -> String {
        let words = (0..self.fields.len()).map(|word| format!("bitcast<f32>({})", words(word)));
        format!("State({})", words.collect::<Vec<_>>().join(", "))
    }
}

/// The helpers that the texts of a kind call.
pub(crate) fn helpers(kind: RowKind) -> &'static [&'static str] {
    match kind {
        RowKind::Softmax => {
            &["p_max", "p_inf", "p_exp_nonpositive", "p_faint", "p_is_nan", "p_if_finite"]
        }
        RowKind::LogSoftmax => {
            &["p_max", "p_inf", "p_exp_nonpositive", "p_faint", "p_is_nan", "p_if_finite", "p_log"]
        }
        RowKind::LayerNorm => &["p_rsqrt", "p_quotient"],
        RowKind::RmsNorm => &["p_squares", "p_rms_scale"],
        RowKind::L2Normalize => &["p_squares", "p_norm_scale"],
    }
}
