//! Bad input: each mistake is an error that says where it was made, what is wrong and what to do.

mod attention;
#[path = "../common/mod.rs"]
mod common;
mod data;
mod device;
mod layers;
mod operations;

use onetrip::{
    BufferId, Device, Element, Error, GpuCommandBatch, Mistake, ReadError, Shape, Tensor,
};

const HAND_OVER: &str = "use `keep` and `bind` to hand data from batch to batch";

/// Records on a fresh batch and expects one mistake, `want`, in the line of the case where the method that it
/// names is called.
#[track_caller]
fn refused<T: Element>(want: &str, record: impl FnOnce(&GpuCommandBatch) -> Tensor<'_, T>) {
    refused_call(want, |batch| {
        record(batch);
    });
}

/// As [`refused`], for methods that return no tensor.
#[track_caller]
fn refused_call(want: &str, record: impl FnOnce(&GpuCommandBatch)) {
    let case = std::panic::Location::caller();
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    let error = batch.check_recorded().expect_err(want);
    let Error::Record(mistakes) = &error else { panic!("{error:?}") };
    let [mistake] = mistakes.list() else { panic!("{} mistakes: {error}", mistakes.list().len()) };

    let line = mistake.place.line();
    let text = without_other_place(&error.to_string());
    let (told, operands) = text.split_once("; the operand").unwrap_or((&text, ""));
    assert_eq!(told, format!("{}:{line}: {want}", case.file()));
    assert_eq!(operands.is_empty(), mistake.operands.is_empty(), "{text}");
    let within = case.line()..case.line() + 8;
    assert!(within.contains(&line), "line {line} is not in the case at line {}", case.line());
    let source = std::fs::read_to_string(case.file()).expect("the file of the case");
    let text = source.lines().nth(line as usize - 1).expect("a line of the case");
    let called = format!("b.{}", mistake.op);
    assert!(text.contains(&called), "line {line} does not call `{}`: {text}", mistake.op);
}

/// The text without the place of the other batch, which [`foreign`] makes.
fn without_other_place(text: &str) -> String {
    let other = "this id belongs to another batch";
    let Some((before, after)) = text.split_once(&format!("{other}, made at {}:", file!())) else {
        return text.to_owned();
    };
    format!("{before}{other}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The message for a part of a layer that has another shape than the others ask for.
fn misshaped(part: &str, given: &str, wanted: &str) -> String {
    format!(
        "{part} of shape {given}, where the other shapes ask for {wanted}; change this shape, or the others"
    )
}

fn zeros(b: &GpuCommandBatch, shape: impl Into<Shape>) -> Tensor<'_, f32> {
    b.full(shape, 0.0)
}

fn foreign<T: Element>() -> BufferId<T> {
    GpuCommandBatch::new(&Device::cpu()).full([2], T::default()).id()
}

#[test]
fn the_place_is_the_callers() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let (x, w) = (b.full([64, 784], 0.0), b.full([512, 256], 0.0).named("weights"));
    let (made, line) = (line!() - 1, line!() + 1);
    b.matmul(x, w);
    let want = format!(
        "tests/mistakes/main.rs:{line}: matmul: inner dimensions differ: x [64, 784] · w [512, 256]; the last axis of x must equal the last but one of w; \
         the operands: full (at tests/mistakes/main.rs:{made}), full \"weights\" (at tests/mistakes/main.rs:{made})"
    );
    assert_eq!(b.check_recorded().unwrap_err().to_string(), want);
    assert_eq!(b.explain().unwrap_err().to_string(), want);

    // A number has no method of its own, and a resident is named as such.
    let device = Device::cpu();
    let b = GpuCommandBatch::new(&device);
    let (weights, made) = (device.resident(&[1.0_f32; 6], [2, 3]).unwrap(), line!());
    let x = b.full([4, 5], 1.0);
    b.matmul(x, &weights);
    b.matmul(&weights, 2.0);
    b.concat([x, x], 5);
    b.einsum("ij->k", &[x]);
    b.one_hot::<f32, i32>(b.upload(&[1_i32]), 1 << 31);
    let Error::Record(mistakes) = b.check_recorded().unwrap_err() else { panic!("five mistakes") };
    let [product, number, joined, summed, classes] = mistakes.list() else { panic!("{mistakes}") };
    let ops = |mistake: &Mistake| mistake.operands.iter().map(|of| of.op).collect::<Vec<_>>();
    assert_eq!(ops(product), ["full", "resident"]);
    assert_eq!(ops(number), ["resident", "number"]);
    assert_eq!(ops(joined), ["full", "full"]);
    assert_eq!((ops(summed), ops(classes)), (vec!["full"], vec!["upload"]));
    assert_eq!(number.operands[0].place.line(), made);
}

#[test]
fn tensors_print_their_type_and_place() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let (x, line) = (zeros(&b, [2, 3]), line!());
    let rows = b.reshape(x, [3, 2]).named("rows");
    let want =
        format!("Tensor(f32[3, 2] reshape \"rows\" (at tests/mistakes/main.rs:{}))", line + 1);
    assert_eq!(format!("{rows:?}"), want);
    assert!(format!("{:?}", x.id()).starts_with("BufferId<f32>("));
}

#[test]
fn ids_of_another_batch() {
    let rule =
        "this id belongs to another batch; use `keep` and `bind` to hand data from batch to batch";
    refused(&format!("relu: {rule}"), |b| b.relu(foreign::<f32>()));
    refused(&format!("add: {rule}"), |b| b.add(zeros(b, [2]), foreign()));
    refused(&format!("cast: {rule}"), |b| b.cast::<f32, i32>(foreign()));
    refused(&format!("select: {rule}"), |b| {
        let x = zeros(b, [2]);
        b.select(foreign(), x, x)
    });
    refused(&format!("matmul: {rule}"), |b| b.matmul(foreign(), zeros(b, [2])));
    refused(&format!("sum: {rule}"), |b| b.sum(foreign::<i32>(), 7));
    refused(&format!("log_softmax: {rule}"), |b| b.log_softmax(foreign::<f32>(), 7));
    refused(&format!("reshape: {rule}"), |b| b.reshape(foreign::<f32>(), [9, 9]));
    refused(&format!("slice: {rule}"), |b| b.slice(foreign::<f32>(), [(0..2, 1)]));
    refused(&format!("pad: {rule}"), |b| b.pad(foreign::<f32>(), [], 0.0));
    refused(&format!("concat: {rule}"), |b| b.concat([zeros(b, [2]).id(), foreign()], 0));
    refused(&format!("concat: {rule}"), |b| b.concat([foreign(), zeros(b, [2]).id()], 0));
    refused(&format!("dot: {rule}"), |b| b.dot(zeros(b, [2]), foreign()));
    let rule = "this id belongs to another batch; call this on the batch that made it";
    refused_call(&format!("download: {rule}"), |b| b.download(foreign::<f32>()));
    refused_call(&format!("name: {rule}"), |b| b.name(foreign::<f32>(), "x"));
    refused_call(&format!("keep: {rule}"), |b| {
        b.keep(foreign::<f32>());
    });

    let b = GpuCommandBatch::new(&Device::cpu());
    assert_eq!(b.shape(foreign::<f32>()), None);
}

#[test]
fn an_id_of_another_batch_says_where_it_was_made_though_it_is_gone() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let (there, line) = (GpuCommandBatch::new(&Device::cpu()), line!());
    let id = there.upload(&[1.0_f32, 2.0]).id();
    drop(there);
    b.relu(id);
    b.download(id);
    let (at, made) = (format!("{}:", file!()), format!("made at {}:{line}", file!()));
    let want = format!(
        "{at}{}: relu: this id belongs to another batch, {made}; {HAND_OVER}\n\
         {at}{}: download: this id belongs to another batch, {made}; call this on the batch that made it",
        line + 3,
        line + 4,
    );
    assert_eq!(b.check_recorded().unwrap_err().to_string(), want);
}

#[test]
fn one_mistake_is_one_line() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let (x, y, made) = (b.full([2], 0.0), b.full([3], 0.0), line!());
    let first = line!() + 1;
    let wrong = b.add(x, y);
    // Everything that follows from it is silent, whatever else would be wrong with it.
    let reduced = b.argmax(wrong, 9);
    let moved = b.reshape(wrong, [77]);
    let padded = b.pad(wrong, [(0, 0); 5], 0.0);
    let joined = b.concat(&[x, wrong, y], 0);
    let normal = b.matmul(wrong, moved).softmax(4);
    b.dot(wrong, y);
    let condition = b.full([], true);
    b.select(condition, wrong, padded);
    b.download(joined);
    b.keep(normal);
    assert_eq!(b.shape(wrong), None);
    assert_eq!(b.shape(reduced), None);
    let second = line!() + 1;
    b.squeeze(y, 0);

    let error = b.check_recorded().unwrap_err();
    let lines: Vec<String> = error.to_string().lines().map(Into::into).collect();
    assert_eq!(
        lines,
        [
            format!(
                "tests/mistakes/main.rs:{first}: add: shapes [2] and [3] do not broadcast: aligned at the last \
                 dimension, sizes must be equal or 1; `unsqueeze` adds a size of 1; the operands: full (at \
                 tests/mistakes/main.rs:{made}), full (at tests/mistakes/main.rs:{made})"
            ),
            format!(
                "tests/mistakes/main.rs:{second}: squeeze: axis 0 of [3] has size 3, and only a size of 1 can be squeezed; `slice` takes one element, `reshape` merges axes; \
                 the operand: full (at tests/mistakes/main.rs:{made})"
            ),
        ]
    );
    let Error::Record(mistakes) = error else { panic!("{error:?}") };
    assert_eq!(mistakes.list()[1].op, "squeeze");
    assert_eq!(mistakes.list()[0].place.line(), first);
}

#[test]
fn mistakes_of_a_loop_are_counted() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let (x, y) = (zeros(&b, [2]), zeros(&b, [3]));
    for _ in 0..1000 {
        b.add(x, y);
    }
    for size in 3..103 {
        b.reshape(x, [size]);
    }
    b.squeeze(y, 0);
    let error = b.check_recorded().unwrap_err();
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("`unsqueeze` adds a size of 1; the operands: full (at "), "{text}");
    assert!(lines[0].ends_with(" (made 1000 times)"), "{text}");
    assert!(lines[1].contains("reshape: cannot reshape [2] (2 elements) to [3]"), "{text}");
    assert!(lines[6].contains(": squeeze: "), "{text}");
    assert_eq!(lines[7..], ["and 95 more mistakes, listed by `Mistakes::list`"], "{text}");
    let Error::Record(mistakes) = error else { panic!("{error:?}") };
    assert_eq!(mistakes.list().len(), 1101);
}

#[tokio::test]
async fn mistakes_come_from_execute_too() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let (x, line) = (b.upload(&[1.0_f32]), line!());
    let y = b.reshape(x, [2]);
    let unread = b.read(y).await.unwrap_err();
    let mistake = b.execute().await.unwrap_err();
    assert!(matches!(mistake, Error::Record(_)));
    assert_eq!(unread.to_string(), mistake.to_string());
    let error = b.read(x).await.unwrap_err();
    assert!(matches!(error, Error::Read(ReadError::Failed { .. })));
    let want = format!(
        "upload (at tests/mistakes/main.rs:{line}) has no result, since `execute` failed: {mistake}"
    );
    assert_eq!(error.to_string(), want);
    // Until the batch is changed, or run again.
    b.write(x, &[2.0]).unwrap();
    assert!(matches!(b.read(x).await, Err(Error::Record(_))));
    let device = Device::cpu();
    let result = device.eval(|b| b.reshape(b.upload(&[1, 2]), [3]));
    let message = result.await.unwrap_err().to_string();
    assert!(message.contains("reshape: cannot reshape [2] (2 elements) to [3]"), "{message}");
}

#[tokio::test]
async fn an_empty_batch() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let line = line!() - 1;
    let want = format!(
        "tests/mistakes/main.rs:{line}: the batch made here is empty; record an operation or an upload before it is \
         executed, compiled or saved"
    );
    assert_eq!(b.compile().await.unwrap_err().to_string(), want);
    assert_eq!(b.execute().await.unwrap_err().to_string(), want);
    assert_eq!(b.explain().unwrap_err().to_string(), want);
    #[cfg(feature = "safetensors")]
    assert_eq!(b.to_bytes().await.unwrap_err().to_string(), want);
    assert_eq!(b.shaders().unwrap_err().to_string(), want);
}
