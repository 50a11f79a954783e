//! The state that a reduction carries from element to element, as WGSL.

use crate::base::dtype::Ty;
use crate::codegen::kernel::template::{fill, holes, shader};
use crate::expr::wgsl::type_name;
use crate::ops::Combine;

/// The WGSL of one way to combine.
pub(super) struct CombineState {
    /// The type `State` and the functions `identity`, `merge` and `accept`, which merges an element that
    /// comes after those of a state.
    pub text: String,
    pub helpers: &'static [&'static str],
    /// The fields of `State`, as texts behind its name: one without a name where it is a number.
    fields: &'static [&'static str],
    /// The type of the fields.
    ty: Ty,
    kind: Combine,
}

impl CombineState {
    /// The state for combining values of the lane type `ty`.
    pub fn new(kind: Combine, ty: Ty) -> Self {
        let float = ty == Ty::F32;
        let name = type_name(ty);
        let (helpers, text): (&'static [&str], String) = match kind {
            Combine::Sum => (&[], number(ty, &format!("{name}(0)"), "a + b")),
            Combine::Prod => (&[], number(ty, &format!("{name}(1)"), "a * b")),
            Combine::Max if float => (&["p_max", "p_inf"], number(ty, least(ty), "p_max(a, b)")),
            Combine::Max => (&[], number(ty, least(ty), "max(a, b)")),
            Combine::Min if float => (&["p_min", "p_inf"], number(ty, greatest(ty), "p_min(a, b)")),
            Combine::Min => (&[], number(ty, greatest(ty), "min(a, b)")),
            Combine::ArgMax | Combine::ArgMin => {
                let directed = if kind == Combine::ArgMax { "k" } else { "~k" };
                (if float { &["p_is_nan"] } else { &[] }, position(ty, directed))
            }
            Combine::LogSumExp => {
                (&["p_max", "p_exp_nonpositive", "p_log", "p_inf"], LOG_SUM_EXP.to_string())
            }
        };
        let (fields, ty): (&[&str], Ty) = match kind {
            Combine::Sum | Combine::Prod | Combine::Max | Combine::Min => (&[""], ty),
            Combine::ArgMax | Combine::ArgMin => (&[".key", ".position"], Ty::U32),
            Combine::LogSumExp => (&[".greatest", ".sum"], ty),
        };
        Self { text, helpers, fields, ty, kind }
    }

    /// The result of the reduction.
    pub fn finish(&self, state: &str) -> String {
        match self.kind {
            Combine::Sum | Combine::Prod | Combine::Max | Combine::Min => state.to_string(),
            Combine::ArgMax | Combine::ArgMin => format!("{state}.position"),
            Combine::LogSumExp => format!("{state}.greatest + p_log({state}.sum)"),
        }
    }

    /// The state that the thread `step` threads on in the subgroup has in `state`.
    pub fn shuffled(&self, state: &str) -> String {
        let field = |name| format!("subgroupShuffleXor({state}{name}, step)");
        Self::of_fields(&self.fields.iter().map(field).collect::<Vec<_>>())
    }

    /// The state as 32-bit words.
    pub fn pack(&self, state: &str) -> Vec<String> {
        let word = |field| match self.kind {
            Combine::ArgMax | Combine::ArgMin => format!("{state}{field}"),
            _ => format!("bitcast<u32>({state}{field})"),
        };
        self.fields.iter().map(word).collect()
    }

    /// The state from its words.
    pub fn unpack(&self, words: &[String]) -> String {
        let field = |word: &String| match self.kind {
            Combine::ArgMax | Combine::ArgMin => word.clone(),
            _ => format!("bitcast<{}>({word})", type_name(self.ty)),
        };
        Self::of_fields(&words.iter().map(field).collect::<Vec<_>>())
    }

    fn of_fields(fields: &[String]) -> String {
        let all = fields.join(", ");
        if fields.len() == 1 { all } else { format!("State({all})") }
    }
}

/// The value that no other is less than.
fn least(ty: Ty) -> &'static str {
    match ty {
        Ty::F32 => "-p_inf()",
        Ty::I32 => "i32(-2147483648)",
        Ty::U32 | Ty::Bool => "0u",
    }
}

/// The value that no other is greater than.
fn greatest(ty: Ty) -> &'static str {
    match ty {
        Ty::F32 => "p_inf()",
        Ty::I32 => "2147483647i",
        Ty::U32 | Ty::Bool => "4294967295u",
    }
}

fn number(ty: Ty, identity: &str, merge: &str) -> String {
    fill(shader!("fold/combine_number.wgsl"), &holes! { ty: type_name(ty), identity, merge })
}

/// Values are compared as integers in the same order, in which −0 is 0 and NaN past all others.
/// The identity has a position past all others, so that it loses to every element.
fn position(ty: Ty, directed: &str) -> String {
    let key = match ty {
        Ty::F32 => format!(
            "let bits = bitcast<u32>(x);\n\
             let whole = select(bits, 0u, bits == 0x80000000u);\n\
             let k = whole ^ (bitcast<u32>(bitcast<i32>(whole) >> 31u) | 0x80000000u);\n\
             return select({directed}, 0xffffffffu, p_is_nan(x));"
        ),
        Ty::I32 => format!("let k = bitcast<u32>(x) ^ 0x80000000u;\nreturn {directed};"),
        Ty::U32 | Ty::Bool => format!("let k = x;\nreturn {directed};"),
    };
    // No float has the key 0.
    let later = if ty == Ty::F32 { "k > a.key" } else { "k > a.key || a.position == 4294967295u" };
    fill(shader!("fold/combine_position.wgsl"), &holes! { ty: type_name(ty), key, later })
}

const LOG_SUM_EXP: &str = concat!(
    shader!("fold/log_sum_exp.wgsl"),
    "
fn accept(a: State, x: f32, i: u32) -> State {
    return merge(a, State(x, 1f));
}
"
);
