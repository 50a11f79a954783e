//! Data that does not fit, and results that are not there.

use onetrip::{
    AttentionMask, ClassLoss, DataError, Device, Error, GpuCommandBatch, Input, LstmState,
    Placement, PlanError, ReadError,
};

use crate::{common, foreign, refused, zeros};

#[test]
fn data_that_does_not_fill_its_shape() {
    refused(
        "upload_shaped: 5 elements do not fill shape [2, 3], which has 6; give that many, or another shape",
        |b| b.upload_shaped(&[0.0_f32; 5], [2, 3]),
    );
    refused(
        "upload_shaped: 1 elements do not fill shape [0, 7], which has 0; give that many, or another shape",
        |b| b.upload_shaped(&[true], [0, 7]),
    );
    refused(
        "upload_shaped: 0 elements do not fill shape [], which has 1; give that many, or another shape",
        |b| b.upload_shaped::<i32>(&[], []),
    );
}

#[test]
fn data_that_the_host_has_no_memory_for() {
    refused(
        "upload_with: the host has no memory left for f32[1073741824, 65536]; free residents, or split the batch",
        |b| {
            b.upload_with([1 << 30, 1 << 16], |_: &mut [f32]| {
                unreachable!("there is nothing to fill")
            })
        },
    );
}

#[tokio::test]
async fn reading_what_is_not_there() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&[1.0_f32, -2.0]);
        let line = line!() + 1;
        let h = b.neg(x);
        let y = b.exp(h);
        let not_executed = |op, line| {
            format!(
                "{op} (at tests/mistakes/data.rs:{line}) has no result: nothing was executed since the last \
                 change to the batch; call `execute` before it is read"
            )
        };
        let of_exp = not_executed("exp", line + 1);
        assert_eq!(b.read(y).await.unwrap_err().to_string(), of_exp);

        b.execute().await.unwrap();
        assert_eq!(b.read(y).await.unwrap().len(), 2);
        let error = b.read(h).await.unwrap_err();
        let want = format!(
            "neg (at tests/mistakes/data.rs:{line}) was not downloaded; call `download(id)` on it before \
             `execute` or `compile`"
        );
        assert_eq!(error.to_string(), want);

        let error = b.read(foreign::<f32>()).await.unwrap_err();
        let Error::Read(ReadError::Foreign { id_of, ref id_made_at, batch, .. }) = error else {
            panic!("{error}")
        };
        assert!(format!("{b:?}").starts_with(&format!("GpuCommandBatch({batch}, ")));
        let made = line - 3;
        let there = id_made_at.as_ref().expect("a batch made just now");
        let want = format!(
            "this id belongs to batch {id_of}, made at {there}, not to batch {batch}, made at tests/mistakes/data.rs:{made}; \
             read it from \
             the batch that made it, or a program compiled from that one"
        );
        assert_eq!(error.to_string(), want);

        // More was recorded: what was read before belongs to another graph.
        let (z, line) = (b.abs(y), line!());
        let of_abs = not_executed("abs", line);
        assert_eq!(b.read(y).await.unwrap_err().to_string(), of_exp);
        assert_eq!(b.read(z).await.unwrap_err().to_string(), of_abs);
        b.execute().await.unwrap();
        assert_eq!(b.read(z).await.unwrap().len(), 2);

        // The data was replaced.
        b.write(x, &[0.0, 0.0]).unwrap();
        assert_eq!(b.read(z).await.unwrap_err().to_string(), of_abs);
    }
}

#[test]
fn writing_what_cannot_be_written() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let line = line!() + 1;
    let x = b.upload_shaped(&[0.0_f32; 6], [2, 3]);
    let y = b.relu(x);
    b.input::<f32>("x", 1); // No name is a cure: a batch is written by id.
    let at = |line| format!("(at tests/mistakes/data.rs:{line})");
    let error = b.write(y, &[0.0; 6]).unwrap_err();
    assert!(matches!(error, Error::Data(DataError::NotAnUpload { is_output: true, .. })));
    let want = format!(
        "only inputs and uploads take data, and relu {} is an output; use the id that `input` or `upload` returned",
        at(line + 1)
    );
    assert_eq!(error.to_string(), want);
    let error = b.write(x, &[0.0; 5]).unwrap_err();
    let fix = "give that many, or make it of another shape";
    let want = format!("upload {} has shape [2, 3] and takes 6 elements, not 5; {fix}", at(line));
    assert_eq!(error.to_string(), want);
    let error = b.write_with(x, |_| panic!("by itself")).unwrap_err();
    let want = format!(
        "upload {}: the function that was to change the data panicked: by itself; write it again",
        at(line)
    );
    assert_eq!(error.to_string(), want);
    let error = b.write(foreign::<f32>(), &[0.0; 2]).unwrap_err();
    let Error::Data(DataError::Foreign { id_of, ref id_made_at, batch, .. }) = error else {
        panic!("{error}")
    };
    let made = line - 2;
    let there = id_made_at.as_ref().expect("a batch made just now");
    let want = format!(
        "this id belongs to batch {id_of}, made at {there}, not to batch {batch}, made at tests/mistakes/data.rs:{made}; \
             give its data to \
         the batch that made it, or a program compiled from that one"
    );
    assert_eq!(error.to_string(), want);
    b.write(x, &[1.0; 6]).unwrap();
    assert!(b.check_recorded().is_ok(), "a refused write leaves the batch as it was");
    let (one, line) = (b.upload(&[1.0_f32]), line!());
    let error = b.write(one, &[0.0; 2]).unwrap_err();
    let want = format!("upload {} has shape [1] and takes 1 element, not 2; {fix}", at(line));
    assert_eq!(error.to_string(), want);
}

#[tokio::test]
async fn residents() {
    for device in common::devices().await {
        let says = |error: Error, line, want: &str| {
            let of = format!("resident (at tests/mistakes/data.rs:{line})");
            assert_eq!(error.to_string(), format!("{of}{want}"));
        };
        let (error, line) = (device.resident(&[0.0_f32; 5], [2, 3]).unwrap_err(), line!());
        let fix = "give that many, or make it of another shape";
        let want = format!(" has shape [2, 3] and takes 6 elements, not 5; {fix}");
        says(error, line, &want);
        let (error, line) = (device.resident(&[0_u32], [1; 9]).unwrap_err(), line!());
        says(error, line, ": 9 dimensions are more than the 8 supported; merge some");
        let (error, line) = (device.resident(&[0_u32; 2], [usize::MAX, 2]).unwrap_err(), line!());
        let want = format!(
            ": shape [{}, 2] has more elements than can be addressed; split it",
            usize::MAX
        );
        says(error, line, &want);

        let (resident, line) = (device.resident(&[0.0_f32; 6], [2, 3]).unwrap(), line!());
        let error = resident.write(&[1.0; 5]).await.unwrap_err();
        let want = format!(" has shape [2, 3] and takes 6 elements, not 5; {fix}");
        says(error, line, &want);
        assert_eq!(resident.read().await.unwrap(), [0.0; 6]);

        let elsewhere = Device::cpu();
        let (stranger, made) = (elsewhere.resident(&[1.0_f32], [1]).unwrap(), line!());
        let b = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        b.bind(&stranger);
        let want = format!(
            "tests/mistakes/data.rs:{line}: bind: resident (at tests/mistakes/data.rs:{made}) lives on one device \
             (cpu), and the batch is of another ({}): each call of `Device::auto()`, `gpu()` or `cpu()` opens a device \
             of its own; clone one `Device` for both, or upload the data to this batch",
            device.info().name
        );
        assert_eq!(b.check_recorded().unwrap_err().to_string(), want);

        let maker = GpuCommandBatch::new(&device);
        let x = maker.upload(&[1.0_f32, 2.0]);
        let y = maker.neg(x);
        let (kept, line) = (maker.keep(y), line!());
        let error = kept.read().await.unwrap_err();
        assert!(matches!(error, Error::Read(ReadError::EmptyResident { .. })));
        let want = format!(
            "resident (at tests/mistakes/data.rs:{line}) is empty: execute the batch that keeps it first"
        );
        assert_eq!(error.to_string(), want);

        let user = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        let k = user.bind(&kept);
        let y = user.neg(k);
        let error = user.execute().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("tests/mistakes/data.rs:{line}:")), "{error}");
        let want = ": the resident bound here is empty: execute the batch that keeps it first";
        assert!(error.ends_with(want), "{error}");

        maker.execute().await.unwrap();
        assert_eq!(kept.read().await.unwrap(), [-1.0, -2.0]);
        user.execute().await.unwrap();
        assert_eq!(user.read(y).await.unwrap(), [1.0, 2.0]);
    }
}

#[tokio::test]
async fn a_tensor_larger_than_the_adapter_can_bind() {
    let Some(device) = common::gpu().await else { return };
    let b = GpuCommandBatch::new(&device);
    let line = line!() + 1;
    b.full([1 << 31], true).download();
    let error = b.execute().await.unwrap_err();
    let (place, limit) = match &error {
        Error::Plan(PlanError::TooLarge { place, limit, .. }) => (place.clone(), *limit),
        other => panic!("{other:?}"),
    };
    assert!(place.starts_with(&format!("tests/mistakes/data.rs:{line}")), "{place}");
    let want = format!(
        "{place}: full makes bool[2147483648] of 8589934592 bytes, and {} binds at most {limit}; split it, or \
         run on `Device::cpu()`",
        device.info().name
    );
    assert_eq!(error.to_string(), want);

    // On the host a truth value is a byte, and nothing binds but the memory.
    let elements = limit as usize / 4 + 1;
    if elements > 1 << 27 {
        println!("skipped on the CPU: {} binds {limit} bytes", device.info().name);
        return;
    }
    let one_too_many = device.eval(|b| b.full([elements], true)).await;
    assert!(matches!(one_too_many, Err(Error::Plan(PlanError::TooLarge { .. }))));
    let result = Device::cpu().eval(|b| b.full([elements], true)).await.unwrap();
    assert!(result.len() == elements && result.iter().all(|&truth| truth));
    // Fused values are never stored: this fits on any device.
    let sum = device.eval(|b| {
        let ones = b.full([elements], true).cast::<u32>();
        b.sum(ones, ..)
    });
    assert_eq!(sum.await.unwrap(), [elements as u32]);
}

#[test]
fn names_that_are_taken() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let line = line!() + 1;
    b.input::<f32>("x", 1);
    let y = b.input::<f32>("x", 1);
    b.name(y, "y");
    b.name(y, "x");
    b.name(y, "y"); // Its own name.
    let rule = "has this name already; give each value a name of its own";
    let taken = |op, at| {
        let file = "tests/mistakes/data.rs";
        format!("{file}:{at}: {op}: input \"x\" (at {file}:{line}) {rule}")
    };
    let want = [taken("input", line + 1), taken("name", line + 3)].join("\n");
    assert_eq!(b.check_recorded().unwrap_err().to_string(), want);
}

/// The message for a batch on a side that its device does not use says how to have that side.
#[tokio::test]
async fn sides_that_are_not_there() {
    let mut devices = common::devices().await.into_iter();
    let mut refusal = |placement| {
        let b = GpuCommandBatch::new(&devices.next()?);
        zeros(&b, 1);
        b.set_placement(placement);
        Some(b.explain().unwrap_err().to_string())
    };
    let start =
        |side| format!("the batch is placed on the {side}, which its device does not use; ");
    let fix = "open it with `Device::auto()` or `Device::gpu()`, or choose another placement";
    assert_eq!(refusal(Placement::Gpu), Some(start("gpu") + fix));
    let fix = "open it with `Device::auto()`, or choose another placement";
    let Some(error) = refusal(Placement::Cpu) else { return };
    assert_eq!(error, start("cpu") + fix);
}

#[tokio::test]
async fn ids_of_64_bits_out_of_range() {
    let want =
        "upload_ids: the id 2147483648 at [1] is out of the range of i32; give ids that it holds";
    refused(want, |b| b.upload_ids(&[-1, 1 << 31], 2));
    let want = want.replace("[1]", "[1, 0, 2]");
    refused(&want, |b| b.upload_ids(&[-1, 3, 4, 5, 6, 1 << 31], [2, 1, 3]));
    refused(
        "upload_ids: 3 elements do not fill shape [2], which has 2; give that many, or another shape",
        |b| b.upload_ids(&[0; 3], 2),
    );

    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        let (x, y, z) = (b.input::<i32>("x", 2), b.input::<u32>("y", 2), b.input::<f32>("z", 2));
        let sum = x + y.cast::<i32>() + z.cast::<i32>();
        let program = b.compile().await.unwrap();
        let of = |name| format!("input {name:?} (at tests/mistakes/data.rs:{line}) takes");
        let rule = "is out of its range; give ids that it holds";
        let (x, z) = (|| Input::ids(x, &[7, -8]), || Input::from(("z", &[0.0_f32, 0.5])));
        let error = program.run([x(), Input::ids("y", &[3, -1]), z()]).await.unwrap_err();
        let want = format!("{} u32, and the id -1 at [1] {rule}", of("y"));
        assert_eq!(error.to_string(), want);
        let large = [i64::from(i32::MIN), i64::MAX];
        let error = program.run([Input::ids("x", &large), Input::ids(y, &[0; 2]), z()]).await;
        let want = format!("{} i32, and the id {} at [1] {rule}", of("x"), i64::MAX);
        assert_eq!(error.unwrap_err().to_string(), want);
        let error = program.run([Input::ids("z", &[0, 1])]).await.unwrap_err();
        let want = "f32, and ids are for inputs of i32 or u32; give it elements of f32";
        assert_eq!(error.to_string(), format!("{} {want}", of("z")));
        let error = program.run([Input::ids("x", &[0; 3])]).await.unwrap_err();
        assert!(matches!(error, Error::Data(DataError::Length { given: 3, .. })), "{error}");
        let outputs = program.run([x(), Input::ids("y", &[3, 4_000_000_000]), z()]).await.unwrap();
        assert_eq!(outputs.read(sum).await.unwrap(), [10, 4_000_000_000_u32.cast_signed() - 8]);
    }
}

/// The mistake is that of the call which was given the resident.
#[test]
fn residents_as_operands_of_another_device() {
    let stranger = &Device::cpu().resident(&[1.0_f32], [1]).unwrap();
    let refused = |call: &str, record: &dyn Fn(&GpuCommandBatch)| {
        let b = GpuCommandBatch::new(&Device::cpu());
        record(&b);
        let error = b.check_recorded().unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.contains(&format!(": {call}: resident (at tests/mistakes/data.rs:")),
            "{error}"
        );
        assert!(
            error.contains(" lives on one device (cpu), and the batch is of another"),
            "{error}"
        );
    };
    refused("bind", &|b| _ = b.bind(stranger));
    refused("linear", &|b| _ = zeros(b, [2, 1]).linear(zeros(b, [1, 1]), stranger));
    refused("add", &|b| _ = zeros(b, 1) + stranger);
    refused("select", &|b| _ = b.full(1, true).select(zeros(b, 1), stranger));
    refused("concat", &|b| _ = b.concat([stranger], 0));
    refused("einsum", &|b| _ = b.einsum("i->", [stranger]));
    refused("group_norm", &|b| _ = b.group_norm(zeros(b, [2, 1]), 1, stranger, None, 1e-5));
    refused("AttentionMask::add", &|b| _ = AttentionMask::add(b, stranger));
    refused("ClassLoss::weighted", &|b| _ = ClassLoss::weighted(b, stranger));
    refused("LstmState::new", &|b| _ = LstmState::new(b, zeros(b, 1), stranger));
}
