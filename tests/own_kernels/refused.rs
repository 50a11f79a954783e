//! Kernels and operands that recording refuses.

use onetrip::{Device, Error, GpuCommandBatch, MistakeKind, Tensor, Wgsl};

use super::{COUNTS, common, counts, in_one_group};

/// The only mistake of a batch, without its place.
fn mistake(record: impl FnOnce(&GpuCommandBatch)) -> MistakeKind {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    match batch.check_recorded() {
        Err(Error::Record(mistakes)) => {
            let [mistake] = mistakes.list() else { panic!("{mistakes}") };
            assert_eq!((mistake.op, mistake.place.file()), ("wgsl", file!()));
            mistake.what.clone()
        }
        other => panic!("{other:?}"),
    }
}

/// The message for a source with one input of `f32` and a result of `f32`.
#[cfg(feature = "gpu")]
fn refused(source: &str) -> String {
    let what = mistake(|batch| {
        let x = batch.upload(&[1.0_f32]);
        batch.wgsl::<f32>(in_one_group(source).input(x), 1);
    });
    assert!(matches!(what, MistakeKind::Kernel { .. }), "{what}");
    what.to_string()
}

#[cfg(feature = "gpu")]
#[test]
fn sources_that_are_not_valid_are_refused_by_their_line() {
    let head = "@group(0) @binding(0) var<storage, read> x: array<f32>;\n\
                @group(0) @binding(1) var<storage, read_write> y: array<f32>;\n";
    let main = "@compute @workgroup_size(1) fn main() { y[0] = x[0]; }\n";
    for (source, wanted) in [
        (format!("{head}fn main() {{ y[0] = ; }}"), "line 3 of the kernel: expected expression"),
        (
            format!("{head}{}", main.replace("x[0]", "z[0]")),
            "line 3 of the kernel: no definition in scope for identifier: `z`",
        ),
        (format!("{head}{}", main.replace("x[0]", "1u")), "line 3 of the kernel: "),
        (
            format!("{head}{}", main.replace("main", "other")),
            "there is no `@compute` function `main`: there is `other`; `Wgsl::entry_point` says",
        ),
        (
            format!("{head}fn main() {{ }}"),
            "there is no `@compute` function `main`: the module has",
        ),
        (
            format!("{head}{}", main.replace("size(1)", "size(65536)")),
            "`@workgroup_size` of `main` is out of range; give 1 or more along each axis, at most 64 along z",
        ),
        (
            format!("{head}@fragment fn main(x: f32) -> f32 {{ return x; }}"),
            "`main` is no `@compute` function, and a kernel has no others; take it out",
        ),
        (
            format!(
                "{head}{}",
                main.replace("x[0]", &format!("{}1.0{}", "(".repeat(5000), ")".repeat(5000)))
            ),
            "its parentheses or blocks nest deeper than the parser follows; give parts names by `let`",
        ),
        (String::new(), "there is no `@compute` function `main`: the module has none"),
        (
            format!("{head}override n: u32;\n{}", main.replace("size(1)", "size(n)")),
            "line 3 of the kernel: the override `n` has no value; write one in the source",
        ),
        (
            format!("{head}{main}")
                .replace("array<f32>;\n@group(0) @binding(1)", "array<i32>;\n@group(0) @binding(1)")
                .replace("= x[0]", "= f32(x[0])"),
            "line 1 of the kernel: binding 0 is input 0: it must be `var<storage, read>` with an array of f32",
        ),
        (
            format!("{head}{main}")
                .replace("y: array<f32>", "y: array<vec3<f32>>")
                .replace("y[0]", "y[0].x"),
            "line 2 of the kernel: binding 1 is the result: it must be `var<storage, read_write>`",
        ),
        (
            format!("{head}{main}").replace("read> x", "read_write> x"),
            "line 1 of the kernel: binding 0 is input 0",
        ),
        (
            format!("{head}{main}").replace("binding(1)", "binding(2)"),
            "line 2 of the kernel: nothing is bound to 2 of group 0",
        ),
        (
            format!("{head}{main}").replace("binding(1)", "binding(0)"),
            "line 2 of the kernel: binding 0 is declared twice; number variables from 0 on",
        ),
        (
            format!("{head}{}", main.replace("y[0] = x[0]", "x[0] = 1.0")),
            "line 3 of the kernel: it stores to what may only be read; an input is `var<storage, read>`",
        ),
        (
            format!("{head}{main}").replace("group(0) @binding(0)", "group(1) @binding(0)"),
            "line 1 of the kernel: nothing is bound to 0 of group 1",
        ),
        (
            format!("{head}{main}")
                .replace("<storage, read>", "<uniform>")
                .replace("x: array<f32>", "x: vec4<f32>"),
            "line 1 of the kernel: binding 0 is input 0",
        ),
        (
            format!("{head}{main}")
                .replace("<storage, read>", "<uniform>")
                .replace("x: array<f32>", "x: array<f32, 4>"),
            "line 1 of the kernel: binding 0 is input 0: it must be `var<storage, read>` with an array of f32",
        ),
        (
            format!("{head}@group(0) @binding(2) var<storage, read> z: array<f32>;\n{main}"),
            "the kernel was given 1 input, so binding 1 is the result; the source has 3 bindings: is an `input` missing?",
        ),
        (
            "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
             @compute @workgroup_size(1) fn main() { y[0] = 1.0; }"
                .into(),
            "the kernel was given 1 input, so binding 1 is the result; the source writes its last binding, 0: is an `input` too many?",
        ),
        (
            "@compute @workgroup_size(1) fn main() { }".into(),
            "it declares no `var<storage, read_write>` for the result, binding 1",
        ),
        ("\u{0}§{{{{".into(), "line 1 of the kernel: "),
        (
            format!("{head}{main}")
                .replace("= x[0]", &format!("= x[0]{}", " + x[1]".repeat(50_000))),
            "line 3 of the kernel: an expression chains too many operators; give parts of it names",
        ),
        (
            format!("{head}{main}").replace(
                "y[0]",
                &format!("{} else {{ }} y[0]", "if x[0] < 1.0 { } else ".repeat(50_000)),
            ),
            "line 3 of the kernel: an `if` has more than 200 branches; take a `switch`",
        ),
    ] {
        let message = refused(&source);
        assert!(message.starts_with(wanted), "{message}\nfor\n{source}");
    }
}

/// A cast gives an input the elements that the source declares.
#[cfg(feature = "gpu")]
#[test]
fn inputs_of_other_elements_are_to_be_cast() {
    let source = "@group(0) @binding(0) var<storage, read> x: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() { y[0] = x[0].x; }";
    let what = mistake(|batch| {
        let x = batch.upload(&[1_i32, 2]);
        batch.wgsl::<f32>(in_one_group(source).input(x), 1);
    });
    let want = "line 1 of the kernel: binding 0 is input 0: it must be `var<storage, read>` with an array of i32, or of \
                its atomics or vectors of 2 or 4; or cast the input to f32: `.cast::<f32>()`; the line is \"@group(0) \
                @binding(0) var<storage, read> x: array<vec2<f32>>;\"";
    assert_eq!(what.to_string(), want);
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1_i32, 2]).cast::<f32>();
    batch.wgsl::<f32>(in_one_group(source).input(x), 1);
    assert!(batch.check_recorded().is_ok());
}

/// Sizes tell the elements of the result that a kernel would not reach, and those beyond an input that it would.
#[cfg(feature = "gpu")]
#[test]
fn arrays_must_fit_what_is_bound_to_them() {
    let said = |x: &str, y: &str, inputs: usize, results: usize| {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let source = format!(
            "@group(0) @binding(0) var<storage, read> x: {x};
             @group(0) @binding(1) var<storage, read_write> y: {y};
             @compute @workgroup_size(1) fn main() {{ y[0] = y[0]; }}"
        );
        let input = batch.upload(&vec![1.0_f32; inputs]);
        batch.wgsl::<f32>(in_one_group(&source).input(input), results);
        batch.check_recorded().map_err(|error| error.to_string())
    };
    let (any, pairs, fours) = ("array<f32>", "array<vec2<f32>>", "array<vec4<f32>>");
    let (hundred, two_fours) = ("array<f32, 100>", "array<vec4<f32>, 2>");
    for (x, y, inputs, results) in [
        (any, any, 1, 7),
        (pairs, fours, 6, 8),
        (fours, pairs, 0, 2),
        (hundred, hundred, 100, 101),
        (two_fours, two_fours, 8, 9),
        (hundred, two_fours, 0, 0),
    ] {
        assert_eq!(said(x, y, inputs, results), Ok(()), "{x}, {y}");
    }
    let result = "line 2 of the kernel: binding 1 is the result, which has";
    let input = "line 1 of the kernel: binding 0 is input 0, which has";
    for (x, y, inputs, results, wanted) in [
        (
            any,
            fours,
            7,
            7,
            format!("{result} 7 elements: they are no whole number of vectors of 4"),
        ),
        (
            any,
            fours,
            3,
            3,
            format!("{result} 3 elements: they are no whole number of vectors of 4"),
        ),
        (pairs, any, 5, 1, format!("{input} 5 elements: they are no whole number of vectors of 2")),
        (hundred, any, 50, 1, format!("{input} 50 elements: an array of 100 is larger")),
        (any, hundred, 1, 99, format!("{result} 99 elements: an array of 100 is larger")),
        (two_fours, any, 7, 1, format!("{input} 7 elements: an array of 8 is larger")),
    ] {
        let error = said(x, y, inputs, results).unwrap_err();
        assert!(error.contains(&wanted), "{error}\nfor {x}, {y}");
    }
}

#[test]
fn what_a_kernel_cannot_take_is_a_mistake() {
    let what = mistake(|batch| {
        let x = batch.upload(&[true]);
        batch.wgsl::<u32>(counts_of(x), 1);
    });
    assert_eq!(
        what.to_string(),
        "an input must be of f32, i32 or u32, not bool as input 0 (counted from 0); `cast::<u32>()` it first"
    );
    let what = mistake(|batch| {
        let x = batch.upload(&[1_u32]);
        batch.wgsl::<onetrip::f16>(in_one_group(COUNTS).entry_point("count").input(x), 1);
    });
    let fix = "make the result `f32`, and `cast::<f16>()` it";
    let rule = "the result must be of f32, i32 or u32, not";
    assert_eq!(what.to_string(), format!("{rule} f16; {fix}"));
    let what = mistake(|batch| {
        let x = batch.upload(&[1_u32]);
        batch.wgsl::<bool>(in_one_group(COUNTS).entry_point("count").input(x), 1);
    });
    let fix = "make the result `u32`, and `cast::<bool>()` it";
    assert_eq!(what.to_string(), format!("{rule} bool; {fix}"));
    let what = mistake(|batch| {
        let (x, half) = (batch.upload(&[1_u32]), batch.full(1, onetrip::f16::ONE));
        batch.wgsl::<u32>(in_one_group(COUNTS).input(x).input(half), 1);
    });
    assert_eq!(
        what.to_string(),
        "an input must be of f32, i32 or u32, not f16 as input 1 (counted from 0); `cast::<f32>()` it first"
    );
    let what = mistake(|batch| {
        let x = batch.upload(&[1_i32]);
        let kernel = (0..8).fold(in_one_group(""), |kernel, _| kernel.input(x));
        batch.wgsl::<i32>(kernel, 1);
    });
    assert_eq!(
        what.to_string(),
        "the number of inputs must be at most 7 (`concat` joins several), not 8"
    );
    let what = mistake(|batch| {
        let x = batch.upload(&[1_u32]);
        batch.wgsl::<u32>(Wgsl::new(COUNTS).entry_point("count").input(x), 1);
    });
    let must = "the number of workgroups must be said by `Wgsl::groups`, not left open";
    assert_eq!(what.to_string(), must);
    let what = mistake(|batch| {
        let x = GpuCommandBatch::new(&Device::cpu()).upload(&[1_u32]).id();
        batch.wgsl::<u32>(counts(x, 1), 1);
    });
    assert!(matches!(what, MistakeKind::Foreign(Some(_))), "{what}");
    let what = mistake(|batch| {
        let x = batch.upload(&[1_u32]);
        batch.wgsl::<u32>(counts(x, 1), [usize::MAX, 2]);
    });
    assert!(matches!(what, MistakeKind::TooLarge(_)), "{what}");
    let what = mistake(|batch| {
        let x = batch.upload(&[1_u32]);
        batch.wgsl::<u32>(counts(x, 1), vec![1; 20]);
    });
    assert!(matches!(what, MistakeKind::Rank(20)), "{what}");
}

/// No workgroups would compute nothing. Over no elements they are enough.
#[test]
fn kernels_without_workgroups_are_refused() {
    let kernel = |b: &GpuCommandBatch, len: usize, groups| {
        Wgsl::new(COUNTS).entry_point("count").input(b.upload(&vec![0_u32; len])).groups(groups)
    };
    for groups in [[10 / 64, 1, 1], [1, 0, 1], [1, 1, 0]] {
        let what = mistake(|batch| {
            batch.wgsl::<u32>(kernel(batch, 10, groups), 1);
        });
        let want = format!(
            "the number of workgroups must be at least 1 along each axis, not {groups:?}; n elements take \
             `n.div_ceil(64)` of 64 threads"
        );
        assert_eq!(what.to_string(), want);
    }
    for (len, results) in [(0, 1), (1, 0), (0, 0)] {
        let batch = GpuCommandBatch::new(&Device::cpu());
        batch.wgsl::<u32>(kernel(&batch, len, [0, 1, 1]), results);
        assert!(batch.check_recorded().is_ok(), "{len} {results}");
    }
}

/// The check is of recording, on every device, though a GPU never calls the function.
#[tokio::test]
async fn functions_of_other_types_than_the_kernels_are_mistakes() {
    for device in common::devices().await {
        let said = |x: &GpuCommandBatch, kernel: Wgsl| {
            x.wgsl::<u32>(kernel, 1);
            x.check_recorded().map_err(|error| error.to_string())
        };
        let rule = "the function of `Wgsl::on_cpu` must be of the element types of the inputs, in order, and of the \
                    result, not";
        let refused = |given: &str, record: &dyn Fn(Wgsl) -> Wgsl| {
            let batch = GpuCommandBatch::new(&device);
            let kernel = in_one_group(COUNTS).entry_point("count").input(batch.upload(&[1_u32]));
            let error = said(&batch, record(kernel)).expect_err(given);
            let kernel = "where the kernel has (u32) to u32";
            let inputs = given.split(')').next().expect("inputs").matches("32").count();
            let hint = ["too many", "", "missing"][inputs];
            let hint = match hint {
                "" => String::new(),
                hint => format!(" (is an `input` {hint}?)"),
            };
            assert!(error.ends_with(&format!("{rule} {given}, {kernel}{hint}")), "{error}");
        };
        refused("(u32) to i32", &|kernel| kernel.on_cpu(|_: &[u32], _: &mut [i32]| {}));
        refused("(f32) to u32", &|kernel| kernel.on_cpu(|_: &[f32], _: &mut [u32]| {}));
        refused("() to u32", &|kernel| kernel.on_cpu(|_: &mut [u32]| {}));
        refused("(u32, u32) to u32", &|kernel| {
            kernel.on_cpu(|_: &[u32], _: &[u32], _: &mut [u32]| {})
        });
        let batch = GpuCommandBatch::new(&device);
        let kernel = counts(batch.upload(&[0_u32]), 1);
        assert_eq!(said(&batch, kernel), Ok(()));
    }
}

fn counts_of(x: Tensor<bool>) -> Wgsl {
    in_one_group(COUNTS).entry_point("count").input(x)
}
