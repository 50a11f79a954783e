//! The functions of loaded values that expressions become.

use super::builder::KernelBuilder;
use super::params::scalar_text;
use super::template::indent;
use crate::base::dtype::Ty;
use crate::expr::Ref;
use crate::expr::wgsl::{self, LeafTexts, Printed, type_name};

/// A generated function of loaded values.
pub(in crate::codegen) struct KernelFunction {
    pub text: String,
    name: String,
    takes_acc: bool,
    takes_live: bool,
    /// The operands that it takes, in order.
    pub operands: Vec<usize>,
    /// The text after the call's result that gets each root.
    pub results: Vec<String>,
}

impl KernelFunction {
    /// A call, given the text of each operand's value.
    pub fn call(&self, acc: &str, operand: impl Fn(usize) -> String) -> String {
        self.call_if("true", acc, operand)
    }

    /// As [`call`](Self::call); failures count only where `live` holds.
    pub fn call_if(&self, live: &str, acc: &str, operand: impl Fn(usize) -> String) -> String {
        self.called(live, acc, &operand)
    }

    /// See [`call_if`](Self::call_if). This is compiled once.
    fn called(&self, live: &str, acc: &str, operand: &dyn Fn(usize) -> String) -> String {
        let live = self.takes_live.then(|| live.to_string());
        let acc = self.takes_acc.then(|| acc.to_string());
        let operands = self.operands.iter().map(|&o| operand(o));
        let arguments: Vec<String> = live.into_iter().chain(acc).chain(operands).collect();
        format!("{}({})", self.name, arguments.join(", "))
    }
}

impl KernelBuilder<'_> {
    /// A function `name` of the operands that `roots` read (and of `acc`, where its type is given).
    pub fn function(&mut self, name: &str, roots: &[Ref], acc: Option<Ty>) -> KernelFunction {
        let step = self.step;
        let operands = self.operands_of(roots);
        let Printed { statements, roots: values, helpers } = {
            let params = std::cell::RefCell::new(&mut self.params);
            let scalar = |index: u16, ty: Ty| {
                let mut params = params.borrow_mut();
                params.push(step.scalars[usize::from(index)].lane_bits());
                scalar_text(params.len() - 1, ty)
            };
            let load = |operand: u16| format!("x{operand}");
            wgsl::print(&step.expr, roots, &LeafTexts { load: &load, scalar: &scalar, acc: "acc" })
        };
        self.helpers.extend(helpers);
        self.whole.extend(step.expr.whole_operands(roots));
        let takes_live = step.expr.can_fail(roots);
        let live = takes_live.then(|| "live: bool".to_string());
        let acc = acc.map(|ty| format!("acc: {}", type_name(ty)));
        let takes_acc = acc.is_some();
        let loads = operands.iter().map(|&o| {
            let ty = type_name(step.operands[o].dtype.lane());
            format!("x{o}: {ty}")
        });
        let arguments = live.into_iter().chain(acc).chain(loads).collect::<Vec<_>>().join(", ");
        let types: Vec<&str> = roots.iter().map(|&r| type_name(step.expr.ty(r))).collect();
        let (structure, result, value, results) = signature(&types, &values);
        let body = indent(&format!("{statements}return {value};"));
        let text = format!("{structure}fn {name}({arguments}) -> {result} {{\n{body}}}\n");
        let name = name.to_string();
        KernelFunction { text, name, takes_acc, takes_live, operands, results }
    }
}

/// The declaration that a function of these result types needs: a structure for more than one, the type that it
/// returns, the returned expression, and the access to each result.
fn signature(types: &[&str], values: &[String]) -> (String, String, String, Vec<String>) {
    if let (&[ty], [value]) = (types, values) {
        return (String::new(), ty.to_string(), value.clone(), vec![String::new()]);
    }
    let fields: String =
        types.iter().enumerate().map(|(i, ty)| format!("    r{i}: {ty},\n")).collect();
    let structure = format!("struct Results {{\n{fields}}}\n\n");
    let value = format!("Results({})", values.join(", "));
    let results = (0..types.len()).map(|i| format!(".r{i}")).collect();
    (structure, "Results".to_string(), value, results)
}
