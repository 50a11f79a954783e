//! The state that a reduction carries from element to element, as WGSL.

use crate::base::dtype::Ty;
use crate::expr::wgsl::type_name;
use crate::ops::Combine;

/// The WGSL of one way to combine.
pub(super) struct CombineState {
    /// The type `State` and the functions `identity`, `merge` and `accept`, which merges an element that
    /// comes after those of a state.
    pub text: String,
    pub helpers: &'static [&'static str],
    kind: Combine,
    ty: Ty,
}

impl CombineState {
    /// The state for combining values of the lane type `ty`.
    pub fn new(kind: Combine, ty: Ty) -> Self {
        let float = ty == Ty::F32;
        let helpers: &[&str] = match kind {
            Combine::Max if float => &["p_max", "p_inf"],
            Combine::Min if float => &["p_min", "p_inf"],
            Combine::LogSumExp => &["p_max", "p_exp_nonpositive", "p_log", "p_inf"],
            Combine::ArgMax | Combine::ArgMin if float => &["p_is_nan"],
            _ => &[],
        };
        let name = type_name(ty);
        let text = match kind {
            Combine::Sum => simple(name, &format!("{name}(0)"), "a + b"),
            Combine::Prod => simple(name, &format!("{name}(1)"), "a * b"),
            Combine::Max if float => simple(name, least(ty), "p_max(a, b)"),
            Combine::Max => simple(name, least(ty), "max(a, b)"),
            Combine::Min if float => simple(name, greatest(ty), "p_min(a, b)"),
            Combine::Min => simple(name, greatest(ty), "min(a, b)"),
            Combine::ArgMax => position(ty, "k"),
            Combine::ArgMin => position(ty, "~k"),
            Combine::LogSumExp => LOG_SUM_EXP.to_string(),
        };
        Self { text, helpers, kind, ty }
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
        let field = |name: &str| format!("subgroupShuffleXor({state}{name}, step)");
        match self.kind {
            Combine::Sum | Combine::Prod | Combine::Max | Combine::Min => field(""),
            Combine::ArgMax | Combine::ArgMin => {
                format!("State({}, {})", field(".key"), field(".position"))
            }
            Combine::LogSumExp => format!("State({}, {})", field(".greatest"), field(".sum")),
        }
    }

    /// The state as 32-bit words.
    pub fn pack(&self, state: &str) -> Vec<String> {
        let word = |field: &str| format!("bitcast<u32>({state}{field})");
        match self.kind {
            Combine::Sum | Combine::Prod | Combine::Max | Combine::Min => vec![word("")],
            Combine::ArgMax | Combine::ArgMin => {
                vec![format!("{state}.key"), format!("{state}.position")]
            }
            Combine::LogSumExp => vec![word(".greatest"), word(".sum")],
        }
    }

    /// The state from its words.
    pub fn unpack(&self, words: &[String]) -> String {
        let as_value = |word: &String| format!("bitcast<{}>({word})", type_name(self.ty));
        match (self.kind, words) {
            (Combine::ArgMax | Combine::ArgMin, words) => format!("State({})", words.join(", ")),
            (Combine::LogSumExp, words) => {
                format!("State({})", words.iter().map(as_value).collect::<Vec<_>>().join(", "))
            }
            (_, words) => words.iter().map(as_value).collect(),
        }
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

fn simple(ty: &str, identity: &str, merge: &str) -> String {
    format!(
        "alias State = {ty};\n\n\
         fn identity() -> State {{\n    return {identity};\n}}\n\n\
         fn merge(a: State, b: State) -> State {{\n    return {merge};\n}}\n\n\
         fn accept(a: State, b: {ty}, i: u32) -> State {{\n    return {merge};\n}}\n"
    )
}

/// Values are compared as integers in the same order, in which −0 is 0 and NaN past all others.
/// The identity has a position past all others, so that it loses to every element.
fn position(ty: Ty, directed: &str) -> String {
    let name = type_name(ty);
    let key = match ty {
        Ty::F32 => format!(
            "    let bits = bitcast<u32>(x);\n    \
             let whole = select(bits, 0u, bits == 0x80000000u);\n    \
             let k = whole ^ (bitcast<u32>(bitcast<i32>(whole) >> 31u) | 0x80000000u);\n    \
             return select({directed}, 0xffffffffu, p_is_nan(x));\n"
        ),
        Ty::I32 => format!("    let k = bitcast<u32>(x) ^ 0x80000000u;\n    return {directed};\n"),
        Ty::U32 | Ty::Bool => format!("    let k = x;\n    return {directed};\n"),
    };
    // No float has the key 0.
    let later = if ty == Ty::F32 { "k > a.key" } else { "k > a.key || a.position == 4294967295u" };
    format!(
        "struct State {{\n    key: u32,\n    position: u32,\n}}\n\n\
         fn identity() -> State {{\n    return State(0u, 4294967295u);\n}}\n\n\
         fn merge(a: State, b: State) -> State {{\n    \
         if a.key > b.key || (a.key == b.key && a.position < b.position) {{\n        \
         return a;\n    }}\n    return b;\n}}\n\n\
         fn key(x: {name}) -> u32 {{\n{key}}}\n\n\
         fn accept(a: State, x: {name}, i: u32) -> State {{\n    let k = key(x);\n    \
         let better = {later};\n    \
         return State(select(a.key, k, better), select(a.position, i, better));\n}}\n"
    )
}

const LOG_SUM_EXP: &str = concat!(
    include_str!("../../shaders/log_sum_exp.wgsl"),
    "
fn accept(a: State, x: f32, i: u32) -> State {
    return merge(a, State(x, 1f));
}
"
);
