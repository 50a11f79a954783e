//! Expressions as WGSL: one `let` a node, and the helper functions that they call.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use smallvec::SmallVec;

use super::{Binary, Const, Expr, ExprNode, Failure, Ref, Unary};
use crate::base::dtype::Ty;

/// The functions behind the primitives that WGSL lacks or does not define as we need them.
pub(crate) const MATH: &str = concat!(
    include_str!("../../shaders/math/special.wgsl"),
    include_str!("../../shaders/math/functions.wgsl"),
    include_str!("../../shaders/math/rounding.wgsl"),
);

/// The names of an expression's leaves in the surrounding text.
pub(crate) struct LeafTexts<'a> {
    /// The value of operand `n`.
    pub load: &'a dyn Fn(u16) -> String,
    /// The value of the step's scalar `n`, given its type.
    pub scalar: &'a dyn Fn(u16, Ty) -> String,
    /// The kernel form's own result.
    pub acc: &'a str,
}

/// Statements that compute `roots`, the text of each root, and the helpers that are called.
pub(crate) struct Printed {
    pub statements: String,
    pub roots: Vec<String>,
    pub helpers: BTreeSet<&'static str>,
}

/// The WGSL name of a lane type.
pub(crate) fn type_name(ty: Ty) -> &'static str {
    match ty {
        Ty::F32 => "f32",
        Ty::I32 => "i32",
        Ty::U32 => "u32",
        Ty::Bool => "bool",
    }
}

/// Prints what `roots` need, in a function that has `live` (whether its results will be used) where they can fail.
/// Elements of whole operands come from functions `fetch` and the operand's number. Names count the printed nodes, so
/// that equal expressions give equal text, with any other nodes in their arena.
pub(crate) fn print(expr: &Expr, roots: &[Ref], leaves: &LeafTexts<'_>) -> Printed {
    let mut names = vec![String::new(); expr.len()];
    let mut statements = String::new();
    let mut helpers = BTreeSet::new();
    let mut count = 0;
    for r in expr.reachable(roots) {
        let ty = expr.ty(r);
        let name = |r: Ref| names[r.index()].as_str();
        let value = match expr.node(r) {
            ExprNode::Load(operand) => Err((leaves.load)(operand)),
            ExprNode::Acc => Err(leaves.acc.to_string()),
            ExprNode::Scalar(index) => Ok(Code::text((leaves.scalar)(index, ty))),
            ExprNode::Const(value) => Ok(literal(value, &format!("bits{count}"), &mut statements)),
            ExprNode::Unary(op, x) => Ok(unary(op, ty, name(x))),
            ExprNode::Binary(op, x, y) => {
                let code = binary(op, expr.ty(x), name(x), name(y));
                Ok(match cancelled(expr, r) {
                    None => code,
                    Some(term) => Code::call("p_cancelled", &[&code.text, name(term)]),
                })
            }
            ExprNode::Select(c, a, b) => Ok(select(expr, [c, a, b], name)),
            ExprNode::Cast(to, x) => Ok(cast(expr.ty(x), to, name(x))),
            ExprNode::Fetch(operand, at) => {
                Ok(Code::text(format!("fetch{operand}(u32({}))", name(at))))
            }
            ExprNode::Check(_, Failure { holds, site, at }) => {
                let (holds, site, at) = (name(holds), name(site), name(at));
                statements += &format!("if live & {holds} {{\n    fail({site}, u32({at}));\n}}\n");
                Err(holds.to_string())
            }
        };
        names[r.index()] = match value {
            Err(leaf) => leaf,
            Ok(code) => {
                let name = format!("e{count}");
                count += 1;
                statements += &format!("let {name} = {};\n", code.text);
                helpers.extend(code.helper);
                name
            }
        };
    }
    let roots = roots.iter().map(|r| names[r.index()].clone()).collect();
    Printed { statements, roots, helpers }
}

/// An expression of WGSL and the helper that it calls.
struct Code {
    text: String,
    helper: Option<&'static str>,
}

impl Code {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), helper: None }
    }

    fn call(helper: &'static str, arguments: &[&str]) -> Self {
        Self { text: format!("{helper}({})", arguments.join(", ")), helper: Some(helper) }
    }
}

/// A literal, exact. WGSL has none for infinities and NaN, and rejects constant expressions that
/// make them: their bits go through a variable, which `statements` gets.
fn literal(value: Const, variable: &str, statements: &mut String) -> Code {
    let bits = value.bits;
    Code::text(match value.ty {
        Ty::F32 => {
            let float = f32::from_bits(bits);
            if float.is_finite() {
                format!("{float:e}f")
            } else {
                *statements += &format!("var {variable} = {bits:#010x}u;\n");
                format!("bitcast<f32>({variable})")
            }
        }
        Ty::I32 => format!("i32({})", bits.cast_signed()),
        Ty::U32 => format!("{bits}u"),
        Ty::Bool => (bits != 0).to_string(),
    })
}

/// `a` where `c` holds, else `b`. Drivers take a choice between two floats by their order for a minimum or maximum, which
/// is another number where one of them is NaN: there the order is not asked.
fn select<'a>(expr: &Expr, [c, a, b]: [Ref; 3], name: impl Fn(Ref) -> &'a str) -> Code {
    let (order, holds_of_nan) = match expr.node(c) {
        ExprNode::Unary(Unary::Not, order) => (expr.node(order), true),
        order => (order, false),
    };
    let chosen = |x: Ref, y: Ref| expr.ty(a) == Ty::F32 && (a, b) == (x, y);
    let [c, a, b] = [c, a, b].map(&name);
    match order {
        ExprNode::Binary(Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge, x, y)
            if chosen(x, y) || chosen(y, x) =>
        {
            let (x, y) = (name(x), name(y));
            let text = match holds_of_nan {
                true => format!("select({b}, {a}, {c} | p_unordered({x}, {y}))"),
                false => format!("select({b}, {a}, {c} & !p_unordered({x}, {y}))"),
            };
            Code { text, helper: Some("p_unordered") }
        }
        _ => Code::text(format!("select({b}, {a}, {c})")),
    }
}

/// A term of the sum `r` that it has with both signs. Drivers let the two cancel, which is no number where the term is
/// none, or infinite.
fn cancelled(expr: &Expr, r: Ref) -> Option<Ref> {
    let sums = matches!(expr.node(r), ExprNode::Binary(Binary::Add | Binary::Sub, ..));
    if !sums || expr.ty(r) != Ty::F32 {
        return None;
    }
    let mut terms = SmallVec::new();
    collect_terms(expr, (r, Sign::Plus), TERMS_DEEP, &mut terms);
    let twice = |&&(term, sign): &&(Ref, Sign)| {
        let number = matches!(expr.node(term), ExprNode::Const(_));
        let opposite =
            |&(other, its): &(Ref, Sign)| its == sign.turned() && are_equal(expr, term, other);
        !number && terms.iter().any(opposite)
    };
    terms.iter().find(twice).map(|&(term, _)| term)
}

/// Returns whether two values are one, or the same sum or product with its operands in another order.
fn are_equal(expr: &Expr, x: Ref, y: Ref) -> bool {
    let commuted = match (expr.node(x), expr.node(y)) {
        (ExprNode::Binary(op, a, b), ExprNode::Binary(other, c, d)) => {
            let commutes = matches!(op, Binary::Add | Binary::Mul | Binary::Min | Binary::Max);
            commutes && op == other && (a, b) == (d, c)
        }
        _ => false,
    };
    x == y || commuted
}

/// The depth to which drivers were seen to search a sum for terms that cancel.
const TERMS_DEEP: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

impl Sign {
    fn turned(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
}

/// `r`, and what it is a sum of.
fn collect_terms(
    expr: &Expr,
    (r, sign): (Ref, Sign),
    deep: usize,
    terms: &mut SmallVec<[(Ref, Sign); 8]>,
) {
    terms.push((r, sign));
    let parts = match expr.node(r) {
        ExprNode::Binary(Binary::Add, x, y) => [Some((x, sign)), Some((y, sign))],
        ExprNode::Binary(Binary::Sub, x, y) => [Some((x, sign)), Some((y, sign.turned()))],
        ExprNode::Unary(Unary::Neg, x) => [Some((x, sign.turned())), None],
        _ => [None; 2],
    };
    for part in parts.into_iter().flatten().filter(|_| deep > 0) {
        collect_terms(expr, part, deep - 1, terms);
    }
}

fn unary(op: Unary, ty: Ty, x: &str) -> Code {
    let integer = matches!(ty, Ty::I32 | Ty::U32);
    match op {
        Unary::Neg if ty == Ty::U32 => Code::text(format!("0u - {x}")),
        Unary::Neg => Code::text(format!("-{x}")),
        Unary::Not => Code::text(format!("!{x}")),
        Unary::Abs => Code::text(format!("abs({x})")),
        Unary::Sign if ty == Ty::U32 => Code::text(format!("min({x}, 1u)")),
        Unary::Sign if ty == Ty::I32 => Code::text(format!("sign({x})")),
        Unary::Floor | Unary::Ceil | Unary::Round if integer => Code::text(x),
        Unary::Floor => Code::text(format!("floor({x})")),
        Unary::Ceil => Code::text(format!("ceil({x})")),
        Unary::Round => Code::text(format!("round({x})")),
        Unary::Sign => Code::call("p_sign", &[x]),
        Unary::Recip => Code::call("p_recip", &[x]),
        Unary::Sqrt => Code::call("p_sqrt", &[x]),
        Unary::Rsqrt => Code::call("p_rsqrt", &[x]),
        Unary::Exp => Code::call("p_exp", &[x]),
        Unary::Log => Code::call("p_log", &[x]),
        Unary::Log1p => Code::call("p_log1p", &[x]),
        Unary::Expm1 => Code::call("p_expm1", &[x]),
        Unary::Sin => Code::call("p_sin", &[x]),
        Unary::Cos => Code::call("p_cos", &[x]),
        Unary::Tanh => Code::call("p_tanh", &[x]),
        Unary::Erf => Code::call("p_erf", &[x]),
        Unary::FloorPow2 => Code::call("p_floor_pow2", &[x]),
        Unary::RoundF16 => Code::call("p_round_f16", &[x]),
    }
}

fn binary(op: Binary, ty: Ty, x: &str, y: &str) -> Code {
    let infix = |symbol: &str| Code::text(format!("{x} {symbol} {y}"));
    let call = |f32, i32, u32| {
        let helper = match ty {
            Ty::F32 => f32,
            Ty::I32 => i32,
            Ty::U32 | Ty::Bool => u32,
        };
        Code::call(helper, &[x, y])
    };
    match op {
        Binary::Add => infix("+"),
        Binary::Sub => infix("-"),
        Binary::Mul => infix("*"),
        Binary::Div => call("p_div", "p_div_i32", "p_div_u32"),
        Binary::Min if ty == Ty::F32 => Code::call("p_min", &[x, y]),
        Binary::Max if ty == Ty::F32 => Code::call("p_max", &[x, y]),
        Binary::Min => Code::text(format!("min({x}, {y})")),
        Binary::Max => Code::text(format!("max({x}, {y})")),
        Binary::Pow => call("p_pow", "p_pow_i32", "p_pow_u32"),
        Binary::Rem => call("p_rem", "p_rem_i32", "p_rem_u32"),
        Binary::Eq => infix("=="),
        // naga writes `!=` as an ordered comparison, which is false for NaN.
        Binary::Ne if ty == Ty::F32 => Code::text(format!("!({x} == {y})")),
        Binary::Ne => infix("!="),
        Binary::Lt => infix("<"),
        Binary::Le => infix("<="),
        Binary::Gt => infix(">"),
        Binary::Ge => infix(">="),
        Binary::And => infix("&"),
        Binary::Or => infix("|"),
        Binary::MulHigh => Code::call("p_mul_high", &[x, y]),
        Binary::Xor => infix("^"),
        Binary::Shr => infix(">>"),
    }
}

fn cast(from: Ty, to: Ty, x: &str) -> Code {
    match (from, to) {
        (Ty::F32, Ty::I32) => Code::call("p_f32_to_i32", &[x]),
        (Ty::F32, Ty::U32) => Code::call("p_f32_to_u32", &[x]),
        (Ty::F32, Ty::Bool) => Code::text(format!("!({x} == 0f)")),
        (Ty::I32 | Ty::U32, Ty::Bool) => Code::text(format!("{x} != {}(0)", type_name(from))),
        (Ty::Bool, Ty::F32 | Ty::I32 | Ty::U32) => {
            Code::text(format!("select({0}(0), {0}(1), {x})", type_name(to)))
        }
        (Ty::I32 | Ty::U32, _) if from != to => Code::text(format!("{}({x})", type_name(to))),
        _ => Code::text(x),
    }
}

/// A function of [`MATH`].
struct Function {
    name: &'static str,
    text: &'static str,
    calls: Vec<&'static str>,
}

static FUNCTIONS: LazyLock<Vec<Function>> = LazyLock::new(|| functions(MATH));

/// Cuts the text into its functions: each begins with `fn ` and ends with `}` in the first column.
fn functions(text: &'static str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut rest = text;
    while let Some(start) = find_line(rest, "fn ") {
        let body = &rest[start..];
        let end = body.find("\n}").map_or(body.len(), |end| end + 2);
        let name = body[3..].split('(').next().unwrap_or_default();
        functions.push(Function { name, text: &body[..end], calls: Vec::new() });
        rest = &body[end..];
    }
    let names: Vec<&'static str> = functions.iter().map(|f| f.name).collect();
    for function in &mut functions {
        let words = function.text[3 + function.name.len()..]
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        function.calls = words.filter_map(|w| names.iter().copied().find(|&n| n == w)).collect();
    }
    functions
}

/// The position of the first line that starts with `start`.
fn find_line(text: &str, start: &str) -> Option<usize> {
    if text.starts_with(start) {
        return Some(0);
    }
    text.match_indices('\n').map(|(at, _)| at + 1).find(|&at| text[at..].starts_with(start))
}

/// Helpers in 64-bit integers, in place of those of the same name.
const MATH_64: &str = "fn p_mul_high(x: u32, y: u32) -> u32 {
    return u32((u64(x) * u64(y)) >> 32u);
}";

/// The text of the helpers in `names` and of all that they call, with 64-bit integers where that is shorter and `int64`
/// says that there are any.
pub(crate) fn helpers(names: &BTreeSet<&'static str>, int64: bool) -> String {
    let mut needed = BTreeSet::new();
    let mut open: Vec<&str> = names.iter().copied().collect();
    while let Some(name) = open.pop() {
        if needed.insert(name)
            && let Some(function) = FUNCTIONS.iter().find(|f| f.name == name)
        {
            open.extend(&function.calls);
        }
    }
    let wide = if int64 { functions(MATH_64) } else { Vec::new() };
    let text =
        |f: &Function| wide.iter().find(|wide| wide.name == f.name).map_or(f.text, |f| f.text);
    let texts = FUNCTIONS.iter().filter(|f| needed.contains(f.name)).map(text);
    texts.collect::<Vec<_>>().join("\n\n")
}
