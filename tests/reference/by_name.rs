//! The cases of all operations that can be called by name.

use std::collections::BTreeSet;

use onetrip::{AnyId, Device, GpuCommandBatch, Parameter, ParameterKind, signatures};

use crate::case::{Case, family};
use crate::ops::{self, Id};
use crate::{compare, report, run};

/// The parameters of a case under the names of the reference files.
fn parameters(case: &Case, names: &[(&'static str, ParameterKind)]) -> Vec<Parameter> {
    let parameter = |&(name, kind): &(&str, ParameterKind)| {
        let key = match name {
            "keepDims" => "keep",
            "epsilon" => "eps",
            name => name,
        };
        match kind {
            ParameterKind::Axes | ParameterKind::List => Parameter::List(case.list::<isize>(key)),
            ParameterKind::Number | ParameterKind::Axis | ParameterKind::Flag => {
                Parameter::Number(case.number(key))
            }
        }
    };
    names.iter().map(parameter).collect()
}

#[tokio::test]
async fn each_operation_can_be_called_by_name() {
    let families = ["elementwise", "reduce", "row", "scan", "matmul", "movement", "normalization"];
    let (mut failures, mut seen) = (Vec::new(), BTreeSet::new());
    for case in families.into_iter().flat_map(family) {
        let is_turned = case.flag("transpose_x") || case.flag("transpose_w");
        let Some(signature) = signatures().find(|op| op.info.name == case.op) else { continue };
        if is_turned {
            continue;
        }
        seen.insert(case.op.clone());
        let batch = GpuCommandBatch::new(&Device::cpu());
        let inputs: Vec<Id> = case.inputs.iter().map(|x| ops::upload(&batch, x)).collect();
        let operands: Vec<AnyId> = inputs.into_iter().map(ops::any).collect();
        let given = parameters(&case, &signature.parameters);
        let called = batch.call(&case.op, &operands, &given).expect("it has a signature");
        let id = ops::typed(called);
        ops::download(&batch, id);
        if let Err(what) = run(&batch).await.and(compare(&batch, &case, id).await) {
            failures.push(format!("{}: {what}", case.name));
        }
    }
    report(&failures);
    let without: Vec<_> =
        signatures().map(|op| op.info.name).filter(|&name| !seen.contains(name)).collect();
    assert!(without.is_empty(), "no case calls {without:?}");
}

#[test]
fn wrong_calls_are_mistakes_of_their_operation() {
    let mistake = |name: &str, operands: usize, given: &[Parameter]| {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = AnyId::from(batch.upload(&[1.0_f32, 2.0]));
        let called = batch.call(name, &vec![x; operands], given);
        called.map(|_| batch.check_recorded().map_err(|error| error.to_string()))
    };
    let number = Parameter::Number;
    assert_eq!(mistake("nothing", 1, &[]), None);
    assert_eq!(mistake("relu", 1, &[]), Some(Ok(())));
    let text = |name, operands, given: &[Parameter]| {
        mistake(name, operands, given).expect("an operation").expect_err("a mistake")
    };
    let must = [
        (text("relu", 0, &[]), "relu: number of operands must be 1, not 0"),
        (text("add", 3, &[]), "add: number of operands must be 2, not 3"),
        (text("relu", 1, &[number(1.0)]), "relu: number of parameters must be 0, not 1"),
        (text("clip", 1, &[number(1.0)]), "clip: high must be given, not left out"),
        (text("softmax", 1, &[]), "softmax: axis must be given, not left out"),
        (text("softmax", 1, &[number(0.5)]), "softmax: axis must be a whole number, not 0.5"),
        (
            text("softmax", 1, &[Parameter::List(vec![0])]),
            "softmax: parameter must be a number, not [0]",
        ),
        (text("sum", 1, &[number(3.0)]), "sum: axis 3 "),
        (
            text("reshape", 1, &[Parameter::List(vec![-2])]),
            "reshape: parameter must be a list of sizes",
        ),
        (text("permute", 1, &[number(1.0)]), "permute: parameter must be a list, not 1"),
        (text("and", 2, &[]), "and: "),
        (
            text("layer_norm", 1, &[number(0.0), number(f64::NAN)]),
            "layer_norm: epsilon must be finite",
        ),
    ];
    for (got, wanted) in must {
        assert!(got.contains(file!()) && got.contains(wanted), "{got} should have {wanted}");
    }
    let batch = GpuCommandBatch::new(&Device::cpu());
    let integers = AnyId::from(batch.upload(&[1_i32, 2]));
    batch.call("scale", &[integers], &[number(0.5)]);
    let error = batch.check_recorded().unwrap_err().to_string();
    assert!(
        error.contains("scale: parameter must be one of the values of the elements, not 0.5"),
        "{error}"
    );
}
