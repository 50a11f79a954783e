//! Data that an operation cannot work with: `execute` names the operation and the first element, and nothing of the run
//! is handed out.

mod common;

use common::devices;
use onetrip::{
    ClassLoss, DataError, Device, Element, Error, Fault, FaultKind, GpuCommandBatch, ReadError,
    RunError, Tensor,
};

/// Runs what `record` recorded, and expects a fault with this message after the place.
async fn faults<T: Element>(
    device: &Device,
    want: &str,
    record: impl Fn(&GpuCommandBatch) -> Tensor<'_, T>,
) -> Fault {
    let batch = GpuCommandBatch::new(device);
    record(&batch);
    let error = batch.execute().await.expect_err(want);
    let Error::Fault(fault) = error else { panic!("{want}: {error}") };
    assert!(fault.place.file().ends_with("faults.rs"), "{fault}");
    let place = format!("{}:{}: ", fault.place.file(), fault.place.line());
    let text = fault.to_string();
    let text = text.split("; the indices come from ").next().expect("a message");
    assert_eq!(text, place + want, "on {}", device.info().name);
    fault
}

/// Runs what `record` recorded, and expects no fault.
async fn works(device: &Device, record: impl Fn(&GpuCommandBatch) -> Tensor<'_, i32>) -> Vec<i32> {
    let batch = GpuCommandBatch::new(device);
    let id = record(&batch);
    batch.download(id);
    batch.execute().await.unwrap_or_else(|error| panic!("{}: {error}", device.info().name));
    batch.read(id).await.expect("a download")
}

fn table(b: &GpuCommandBatch) -> Tensor<'_, i32> {
    let data: Vec<i32> = (0..40).collect();
    b.upload_shaped(&data, [10, 4])
}

#[tokio::test]
async fn indices_out_of_range_of_both_signs() {
    for device in devices().await {
        let want = "gather: index 10 at [2] is out of range for axis 0 of size 10";
        let fault =
            faults(&device, want, |b| table(b).gather(b.upload(&[0_i32, 9, 10, -1]), 0)).await;
        let FaultKind::Index { index: Some(10), axis: 0, size: 10, lookup: Some(lookup), .. } =
            fault.what.clone()
        else {
            panic!("{fault}")
        };
        let of = &lookup.table;
        assert_eq!((of.op, lookup.shape.dims()), ("upload", &[10, 4][..]));
        let indices = &lookup.indices;
        assert_eq!((indices.op, indices.place.line()), ("upload", fault.place.line()));
        let said = format!(
            "; the table is upload (at tests/faults.rs:{}), of shape [10, 4]",
            of.place.line()
        );
        assert!(fault.to_string().ends_with(&said), "{fault}");
        assert_eq!(fault.at, [2]);
        faults(&device, "gather: index -1 at [1, 0] is out of range for axis 1 of size 4", |b| {
            table(b).gather(b.upload_shaped(&[0_i32, 3, -1, 4], [2, 2]), -1)
        })
        .await;
        let want = "embedding: index 4294967295 at [0] is out of range for axis 0 of size 10";
        faults(&device, want, |b| table(b).embedding(b.upload(&[u32::MAX, 11]))).await;
        let want = "take_along_axis: index 4 at [1, 2] is out of range for axis 1 of size 4";
        faults(&device, want, |b| {
            let x = table(b);
            let mut i = [0_i32; 30];
            (i[5], i[6]) = (4, i32::MIN);
            let i = b.upload_shaped(&i, [10, 3]);
            b.take_along_axis(x, i, 1)
        })
        .await;
        // An axis of no elements has no index in range.
        faults(&device, "gather: index 0 at [0] is out of range for axis 0 of size 0", |b| {
            b.upload::<f32>(&[]).gather(b.upload(&[0_u32, 0, 0, 0, 0]), 0)
        })
        .await;
    }
}

/// The indices have the name of what they were made of, and the table the rows of the run, not of its padded chunk.
#[tokio::test]
async fn indices_and_tables_of_runs_with_rows_are_named() {
    for device in devices().await {
        let batch = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        let x = batch.input::<f32>("x", [4, 5]).exp().named("powers");
        let ids = batch.input::<u32>("ids", 4);
        x.take_along_axis(ids.unsqueeze(1), 1).named("y");
        let program = batch.compile().await.expect("a program");
        let given = (("x", &[0.5_f32; 25]), ("ids", &[0_u32, 4, 1, 9, 2]));
        let error = program.run_rows(given).await.expect_err("9 is out of range").to_string();
        let at = |line| format!("(at {}:{line})", file!());
        let want = format!(
            "{}:{}: take_along_axis: index 9 at [3, 0] is out of range for axis 1 of size 5; the indices \
             come from input \"ids\" {}; the table is exp \"powers\" {}, of shape [5, 5]",
            file!(),
            line + 2,
            at(line + 1),
            at(line)
        );
        assert_eq!(error, want, "{}", device.info().name);
    }
}

/// Lengths of padded sequences, for which the last real step is looked up.
#[tokio::test]
async fn indices_that_integers_are_computed_to_are_told() {
    for device in devices().await {
        let batch = GpuCommandBatch::new(&device);
        let hidden = batch.full([3, 7, 2], 0.5_f32);
        let lengths = batch.input::<i32>("lengths", 3);
        let line = line!() + 1;
        let ends = lengths - 1;
        hidden.take_along_axis(ends.unsqueeze(-1).unsqueeze(-1), 1).squeeze(1).named("last");
        let program = batch.compile().await.expect("a program");
        let fails = async |lengths: [i32; 3]| {
            program.run(("lengths", lengths)).await.expect_err("out of range").to_string()
        };
        let cure = format!(
            "; the indices come from sub (at {}:{line}) (check the data that they are computed from, or `clip` them); ",
            file!()
        );
        for (lengths, want) in [([1, 7, 0], "-1 at [2, 0, 0]"), ([7, 8, 9], "7 at [1, 0, 0]")] {
            let error = fails(lengths).await;
            let want = format!(": index {want} is out of range for axis 1 of size 7{cure}");
            assert!(error.contains(&want), "{error}");
        }
    }
}

#[tokio::test]
async fn computed_indices_and_classes_are_those_of_the_run() {
    for device in devices().await {
        let told =
            |index: &str| format!("gather: {index} at [1] is out of range for axis 0 of size 10");
        // Operands that repeat, conditions, and integers that wrap.
        faults(&device, &told("index 4294967295"), |b| {
            let i = b.upload(&[5_u32, 1]) - b.full(1, 2_u32);
            table(b).gather(b.select(b.upload(&[false, true]), i, 0_u32), 0)
        })
        .await;
        // Floats, which sides round in their ways, and values that are read too often.
        faults(&device, &told("an index"), |b| {
            table(b).gather(b.upload(&[0.0_f32, 10.0]).cast::<i32>(), 0)
        })
        .await;
        faults(&device, &told("an index"), |b| {
            let roots = b.upload(&[0, 100]).cast::<f32>().sqrt();
            table(b).gather(roots.cast::<i32>(), 0)
        })
        .await;
        faults(&device, &told("an index"), |b| {
            let doubled = (0..40).fold(b.upload(&[0, 10]), |i, _| i.max(i));
            table(b).gather(doubled, 0)
        })
        .await;
        faults(
            &device,
            "one_hot: class 7 at [1] is none of 0..7; check the classes, or `clip` them",
            |b| b.one_hot::<f32, _>(b.upload(&[5, 6]) + 1, 7),
        )
        .await;
    }
}

/// Two values of one method and place, of which each has the rows along another axis.
#[tokio::test]
async fn tables_of_one_origin_have_their_own_rows() {
    for device in devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", [4, 6]);
        let ids = batch.input::<u32>("ids", 4);
        let [_, columns] = [x, x.transpose()].map(|x| x.exp());
        columns.take_along_axis(ids.unsqueeze(0), 0).named("y");
        let program = batch.compile().await.expect("a program");
        let given = (("x", &[0.5_f32; 30]), ("ids", &[0_u32, 4, 1, 9, 2]));
        let error = program.run_rows(given).await.expect_err("9 is out of range").to_string();
        assert!(
            error.contains(": index 9 at [0, 3] is out of range for axis 0 of size 6; "),
            "{error}"
        );
        assert!(error.ends_with(", of shape [6, 5]"), "{error}");
    }
}

#[tokio::test]
async fn a_resident_that_is_a_table_has_its_own_name_and_place() {
    for device in devices().await {
        let (table, line) = (device.resident(&[0.5_f32; 40], [10, 4]).expect("room"), line!());
        let place = format!("(at {}:{line}), of shape [10, 4]", file!());
        let want = "embedding: index 11 at [0] is out of range for axis 0 of size 10";
        let fault = faults(&device, want, |b| b.embedding(&table, b.upload(&[11_u32]))).await;
        let said = format!("; the table is resident {place}");
        assert!(fault.to_string().ends_with(&said), "{fault}");
        let fault =
            faults(&device, want, |b| b.bind(&table).named("words").embedding(b.upload(&[11_u32])))
                .await;
        let said = format!("; the table is resident \"words\" {place}");
        assert!(fault.to_string().ends_with(&said), "{fault}");
    }
}

#[tokio::test]
async fn a_table_that_another_batch_kept_has_the_name_of_its_value() {
    let device = Device::cpu();
    let first = GpuCommandBatch::new(&device);
    let kept = first.upload(&[1.0_f32, 2.0]).exp().named("powers").keep();
    first.execute().await.expect("a run");
    let want = "gather: index 2 at [0] is out of range for axis 0 of size 2";
    let fault = faults(&device, want, |b| b.gather(&kept, b.upload(&[2_u32]), 0)).await;
    assert!(fault.to_string().contains("; the table is resident \"powers\" (at "), "{fault}");
}

#[tokio::test]
async fn integers_divided_by_zero() {
    for device in devices().await {
        faults(
            &device,
            "div: division by zero at [1, 0]; `select` can replace such divisors",
            |b| {
                let x = b.upload_shaped(&[1_i32, 0, 3, 4, 5, 6], [3, 2]);
                let y = b.upload_shaped(&[1_i32, 0, 2], [3, 1]);
                b.div(x, y)
            },
        )
        .await;
        faults(
            &device,
            "rem: division by zero at [4098]; `select` can replace such divisors",
            |b| {
                let x = b.arange(0_u32, 5000, 1);
                let y =
                    b.upload(&(0..5000).map(|i| 4098_u32.saturating_sub(i)).collect::<Vec<_>>());
                x % y * 3
            },
        )
        .await;
        faults(&device, "div: division by zero at []; `select` can replace such divisors", |b| {
            b.full([], 7_i32) / b.full([], 0)
        })
        .await;
        let kept = works(&device, |b| {
            let x = b.upload(&[i32::MIN, 7, -7]);
            let y = b.upload(&[-1, 2, 2]);
            b.div(x, y)
        });
        assert_eq!(kept.await, [i32::MIN, 3, -3]);
        let by_constant = works(&device, |b| b.div(b.upload(&[9, 7, -7]), b.full([3], 2)));
        assert_eq!(by_constant.await, [4, 3, -3]);
    }
}

#[tokio::test]
async fn places_out_of_range() {
    for device in devices().await {
        let want = "scatter_add: index 4 at [1] is out of range for axis 1 of size 4";
        faults(&device, want, |b| {
            table(b).scatter_add(b.upload(&[0_i32, 4]), b.full([10, 2], 1), 1)
        })
        .await;
        faults(&device, "scatter: index -1 at [2] is out of range for axis 0 of size 10", |b| {
            table(b).scatter(b.upload(&[0_i32, 4, -1]), b.full([3, 4], 1), 0)
        })
        .await;
    }
}

#[tokio::test]
async fn classes_that_there_are_not() {
    for device in devices().await {
        let fault = faults(&device, "cross_entropy: class 3 at [2] is none of 0..3; `ClassLoss::ignore` leaves out one class", |b| {
            let (x, classes) = (b.full([4, 3], 1.0_f32), b.upload(&[0_i32, 2, 3, -1]));
            b.cross_entropy(x, classes, ClassLoss::default())
        })
        .await;
        assert_eq!(fault.what, FaultKind::Class { class: Some(3), classes: 3 });
        faults(&device, "cross_entropy: class -1 at [3] is none of 0..3; `ClassLoss::ignore` leaves out one class", |b| {
            let (x, classes) = (b.full([4, 3], 1.0_f32), b.upload(&[0_i32, 2, -100, -1]));
            b.cross_entropy(x, classes, ClassLoss { ignore: Some(-100), ..ClassLoss::default() })
        })
        .await;
        faults(&device, "nll_loss: class 4294967295 at [1] is none of 0..3; `ClassLoss::ignore` leaves out one class", |b| {
            let (x, classes) = (b.full([4, 3], 1.0_f32), b.upload(&[0_u32, u32::MAX, 0, 5]));
            let weight = Some(b.full([3], 1.0).id());
            b.nll_loss(x, classes, ClassLoss { weight, smoothing: 0.1, ..ClassLoss::default() })
        })
        .await;
        faults(
            &device,
            "accuracy: class 4 at [1, 0] is none of 0..4; `accuracy_with` leaves out one class",
            |b| b.full([2, 4, 2], 0.0_f32).accuracy(b.upload_shaped(&[0, 1, 4, 2], [2, 2]), 1),
        )
        .await;
        faults(
            &device,
            "one_hot: class -1 at [1] is none of 0..7; check the classes, or `clip` them",
            |b| b.one_hot::<f32, _>(b.upload(&[6, -1]), 7),
        )
        .await;
        // Numbers outside of a histogram are data, and so are ignored classes.
        let counts = works(&device, |b| b.upload(&[0, -1, 2, 9, 2]).histogram(3).cast());
        assert_eq!(counts.await, [1, 0, 2]);
    }
}

/// The order recorded decides, then the position: not which kernel ran first, nor which thread.
#[tokio::test]
async fn the_first_fault_is_told() {
    for device in devices().await {
        let n = 100_003;
        let mut i = vec![1_i32; n];
        (i[n - 1], i[70_001], i[90_000]) = (-5, 12, 11);
        let want = "gather: index 12 at [70001] is out of range for axis 0 of size 10";
        for _ in 0..3 {
            faults(&device, want, |b| {
                let (x, late) = (table(b), b.upload(&i));
                let first = b.gather(x, late, 0);
                let y = b.upload(&[0_i32, 1]);
                b.download(y / y);
                first.download()
            })
            .await;
        }
        faults(&device, "div: division by zero at [0]; `select` can replace such divisors", |b| {
            let y = b.upload(&[0_i32, 1]);
            b.div(y, y);
            b.gather(table(b), b.upload(&i), 0)
        })
        .await;
    }
}

/// Operations fused around another neither hide its faults nor make any.
#[tokio::test]
async fn every_element_counts_and_nothing_else() {
    let bad = [3_i32, 10, 2, 1, 0];
    for device in devices().await {
        let want = "gather: index 10 at [1] is out of range for axis 0 of size 10";
        // Left out by a slice, not selected, combined away, or looked up again.
        faults(&device, want, |b| {
            b.gather(table(b), b.upload(&bad), 0).slice([(2..5, 1), (0..4, 1)])
        })
        .await;
        faults(&device, want, |b| {
            let y = b.gather(table(b), b.upload(&bad), 0);
            let c = b.upload_shaped(&[true, false, true, true, true], [5, 1]);
            b.select(c, y, y)
        })
        .await;
        faults(&device, want, |b| b.sum(b.gather(table(b), b.upload(&bad), 0), ..)).await;
        faults(&device, want, |b| {
            b.gather(table(b), b.upload(&bad), 0).gather(b.upload(&[4_u32, 0]), 0)
        })
        .await;
        faults(&device, "gather: index 12 at [1] is out of range for axis 0 of size 10", |b| {
            b.gather(table(b), b.upload(&bad) + 2, 0)
        })
        .await;
        // Not needed by an output; padded and joined, where more points are computed than there are elements.
        works(&device, |b| {
            let x = table(b);
            b.gather(x, b.upload(&bad), 0);
            -x
        })
        .await;
        let padded = works(&device, |b| {
            let (x, y) = (b.upload(&[8_i32, 9, 10]), b.upload(&[4_i32, 3, 2]));
            let z = b.pad(x / y, [(2, 3)], 7);
            b.concat([z, y, z], 0) + 1
        });
        assert_eq!(padded.await, [8, 8, 3, 4, 6, 8, 8, 8, 5, 4, 3, 8, 8, 3, 4, 6, 8, 8, 8]);
        // The threads of the last quad have no element.
        for n in 1..9 {
            let ones = vec![1_i32; n];
            let got = works(&device, |b| b.upload(&ones).div(b.upload(&ones)));
            assert_eq!(got.await, ones);
        }
    }
}

/// With many elements, a thread looks several up before it reports.
#[tokio::test]
async fn the_first_of_many_that_fail_is_told() {
    let mut indices: Vec<u32> = (0..1_100_003).map(|k| k % 40).collect();
    for bad in [1_100_001, 702_049, 700_001, 701_025] {
        indices[bad] = 40;
    }
    for device in devices().await {
        let want = "gather: index 40 at [700001] is out of range for axis 0 of size 40";
        faults(&device, want, |b| b.gather(b.reshape(table(b), [40]), b.upload(&indices), 0)).await;
    }
}

#[tokio::test]
async fn nothing_of_a_failed_run_is_handed_out() {
    for device in devices().await {
        let batch = GpuCommandBatch::new(&device);
        let (x, i) = (table(&batch), batch.upload(&[1_i32, 2]));
        let y = batch.gather(x, i, 0);
        let resident = batch.keep(-y);
        batch.download(y);
        batch.write(i, &[1, -2]).expect("an upload");
        assert!(matches!(batch.execute().await, Err(Error::Fault(_))));
        assert!(matches!(batch.read(y).await, Err(Error::Read(ReadError::Failed { .. }))));
        assert!(matches!(resident.read().await, Err(Error::Read(ReadError::EmptyResident { .. }))));
        // The device and the batch are sound, and a resident keeps what it was last filled with.
        batch.write(i, &[9, 0]).expect("an upload");
        batch.execute().await.expect("indices in range");
        assert_eq!(batch.read(y).await.unwrap(), [36, 37, 38, 39, 0, 1, 2, 3]);
        batch.write(i, &[10, 0]).expect("an upload");
        assert!(matches!(batch.execute().await, Err(Error::Fault(_))));
        assert_eq!(resident.read().await.unwrap(), [-36, -37, -38, -39, 0, -1, -2, -3]);
    }
}

/// One trip, whether it fails or not, and even with nothing to download but whether it did.
#[tokio::test]
async fn a_run_that_can_fail_is_one_trip() {
    for device in devices().await {
        let batch = GpuCommandBatch::new(&device);
        let (x, i) = (table(&batch), batch.upload(&[1_i32, 2]));
        let y = batch.gather(x, i, 0);
        let kept = batch.keep(y);
        batch.execute().await.expect("indices in range");
        let stats = batch.stats();
        assert_eq!((stats.submits, stats.dispatches), (1, 1), "{stats}");
        assert!(stats.downloads <= 1, "{stats}");
        assert_eq!(kept.read().await.unwrap(), [4, 5, 6, 7, 8, 9, 10, 11]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_belong_to_their_runs() {
    for device in devices().await {
        let tasks = (0..16).map(|task: i32| {
            let device = device.clone();
            tokio::spawn(async move {
                for round in 0..10 {
                    let batch = GpuCommandBatch::new(&device);
                    let fails = (task + round) % 3 == 0;
                    let last = if fails { 10 + task } else { task % 10 };
                    let (x, i) = (table(&batch), batch.upload(&[0, 1, last]));
                    let y = batch.gather(x, i, 0);
                    match batch.execute().await {
                        Ok(()) => {
                            assert!(!fails);
                            assert_eq!(batch.read(y).await.unwrap()[8], 4 * last);
                        }
                        Err(Error::Fault(fault)) => {
                            let FaultKind::Index { index, .. } = fault.what else {
                                panic!("{fault}")
                            };
                            assert_eq!((index, &fault.at[..]), (Some(last.into()), &[2][..]));
                            assert!(fails);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
    }
}

/// Functions of the user may panic: that is an error, and the device goes on.
#[tokio::test]
async fn a_panic_in_what_the_user_gave_is_an_error() {
    for device in devices().await {
        let batch = GpuCommandBatch::new(&device);
        let line = line!() + 1;
        batch.upload_with(3, |_: &mut [f32]| panic!("no data today")).neg();
        let error = batch.execute().await.unwrap_err().to_string();
        let place = format!("tests/faults.rs:{line}: upload_with: ");
        assert_eq!(
            error,
            place
                + "the function that was to write the data panicked: no data today; write it again"
        );

        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload(&[1.0_f32, 2.0]);
        let y = batch.neg(x);
        batch.execute().await.unwrap();
        let error = batch.write_with(x, |_| panic!("nor now")).unwrap_err();
        assert!(matches!(error, Error::Data(DataError::Panicked { .. })), "{error}");
        assert!(batch.read(y).await.is_err(), "what was read of it may have changed");
        let half_changed = batch.execute().await.unwrap_err().to_string();
        assert_eq!(half_changed, error.to_string(), "no run computes with half of a change");
        assert_eq!(batch.compile().await.unwrap_err().to_string(), half_changed);
        batch.write_with(x, |x| x[0] = 5.0).unwrap();
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap()[0], -5.0);
        batch.write_with(x, |_| panic!("once more")).unwrap_err();
        batch.write(x, &[3.0, 4.0]).unwrap();
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), [-3.0, -4.0]);
    }
    let error = Device::cpu().calibrate_with(|_| panic!("not told")).await.unwrap_err();
    assert!(matches!(error, Error::Run(RunError::Panicked(_))), "{error}");
}
