//! Operators, operands of every kind, nested calls, and several users of one batch.

use std::sync::Arc;

use crate::error::{Error, MistakeKind, ReadError};
use crate::{Device, GpuCommandBatch, Tensor};

#[tokio::test]
async fn operators_take_tensors_ids_and_numbers_on_either_side() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let (x, n) = (batch.upload(&[3.0_f32, -4.0]), batch.upload(&[7_i32, -8]));
    let t = batch.upload(&[true, false]);
    let floats: [(Tensor<'_, f32>, [f32; 2]); 9] = [
        (1.0 - x, [-2.0, 5.0]),
        (2.0 / x + 1.0, [2.0 / 3.0 + 1.0, 0.5]),
        (7.0 % x, [1.0, 3.0]),
        (x * x.id() + x.id() * x, [18.0, 32.0]),
        (x.id() - 2.0 * x, [-3.0, 4.0]),
        (-x, [-3.0, 4.0]),
        (batch.max(0.0, batch.add(x.id(), 0.5)), [3.5, 0.0]),
        (batch.select(t, x, 9.0), [3.0, 9.0]),
        (x.gt(0.0).select(x, -1.0), [3.0, -1.0]),
    ];
    let (integers, truths) = ([n * 2 + 1, 100 / n, n % 3], [!t, t | true, false | t, t & n.lt(0)]);
    batch.outputs((&floats.map(|(y, _)| y), &integers, truths));
    batch.execute().await.unwrap();
    for (y, want) in floats {
        assert_eq!(batch.read(y).await.unwrap(), want, "{y:?}");
    }
    for (y, want) in integers.into_iter().zip([[15, -15], [14, -12], [1, -2]]) {
        assert_eq!(batch.read(y.id()).await.unwrap(), want);
    }
    let want = [[false, true], [true, true], [true, false], [false, false]];
    for (y, want) in truths.into_iter().zip(want) {
        assert_eq!(batch.read(y).await.unwrap(), want);
    }
}

#[tokio::test]
async fn numbers_in_formulas_take_no_kernel_and_no_memory() {
    let run = |record: for<'b> fn(Tensor<'b, f32>, Tensor<'b, f32>) -> Tensor<'b, f32>| async move {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let (x, y) = (batch.upload(&[3.0_f32; 1000]), batch.upload(&[4.0_f32; 1000]));
        let length = record(x, y);
        assert_eq!(batch.explain().unwrap().kernels().len(), 1);
        batch.execute().await.unwrap();
        (batch.read(length).await.unwrap(), batch.stats())
    };
    let (plain, of_tensors) = run(|x, y| (x * x + y * y).sqrt()).await;
    let (scaled, of_numbers) = run(|x, y| 0.5 * (x * x + y * y * 1.0).sqrt() - 0.25).await;
    assert_eq!((plain[999], scaled[999]), (5.0, 2.25));
    assert_eq!((of_numbers.dispatches, of_numbers.bytes_up), (1, of_tensors.bytes_up));
    assert_eq!(of_numbers.peak_bytes, of_tensors.peak_bytes);
}

#[test]
fn mistakes_name_the_line_of_the_operator_or_call() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let (x, y) = (batch.upload(&[1.0_f32; 2]), batch.upload(&[1.0_f32; 3]));
    let before = line!();
    let wrong = batch.relu(
        x * 2.0 + y, // The line of the operator.
    );
    let _ = batch.sum(
        batch.huber_loss(wrong, x, 1.0, crate::LossReduction::Mean), // Silent.
        0,
    );
    let _ = batch.exp(x.mse_loss(y, crate::LossReduction::Sum));
    let Err(Error::Record(mistakes)) = batch.check_recorded() else { panic!("mistakes") };
    let found: Vec<_> = mistakes.list().iter().map(|m| (m.op, m.place.line() - before)).collect();
    assert_eq!(found, [("add", 2), ("mse_loss", 8)]);
}

#[test]
fn tensors_of_another_batch_are_foreign() {
    let (one, other) = (GpuCommandBatch::new(&Device::cpu()), GpuCommandBatch::new(&Device::cpu()));
    let (x, y) = (one.upload(&[1.0_f32]), other.upload(&[1.0_f32]));
    let _ = x + y;
    let _ = one.softmax(y, 0);
    one.download(y);
    let Err(Error::Record(mistakes)) = one.check_recorded() else { panic!("mistakes") };
    let found: Vec<_> = mistakes.list().iter().map(|m| (m.op, &m.what)).collect();
    let [("add", add), ("softmax", softmax), ("download", download)] = found[..] else {
        panic!("{found:?}")
    };
    for foreign in [add, softmax] {
        assert!(matches!(foreign, MistakeKind::Foreign(_)), "{foreign}");
    }
    assert!(matches!(download, MistakeKind::Elsewhere(_)), "{download}");
    other.check_recorded().unwrap();
}

#[tokio::test]
async fn a_batch_goes_on_between_runs_without_a_copy_of_what_it_recorded() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1.0_f32, -2.0]);
    let y = x.relu();
    batch.execute().await.unwrap();
    assert_eq!(Arc::strong_count(&batch.recorded()), 2, "the batch's, and the one that is counted");
    batch.name(y, "y");
    assert_eq!(batch.read(y).await.unwrap(), [1.0, 0.0], "a name changes no results");
    let z = y + 1.0;
    let stale = batch.read(y).await.unwrap_err();
    assert!(matches!(stale, Error::Read(ReadError::NotExecuted(_))), "{stale}");
    batch.execute().await.unwrap();
    assert_eq!(batch.read(z).await.unwrap(), [2.0, 1.0]);
    batch.write(x, vec![5.0, 6.0]).unwrap();
    assert!(batch.read(z).await.is_err());
    let (one, other) = tokio::join!(batch.execute(), batch.execute());
    one.and(other).unwrap();
    assert_eq!(batch.read(z).await.unwrap(), [6.0, 7.0]);
    assert_eq!(batch.stats().plan_time, std::time::Duration::ZERO, "data alone was changed");
}

#[test]
fn threads_record_and_run_in_one_batch() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload(&[1.0_f32; 8]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let batch = &batch;
            scope.spawn(move || {
                for step in 0..25 {
                    let number = (thread * 25 + step) as f32;
                    let y = (x * number).add_scalar(1.0).named(&format!("{number}"));
                    assert_eq!(y.shape().unwrap().dims(), [8]);
                    if step % 10 == 0 {
                        pollster::block_on(batch.execute()).unwrap();
                    }
                }
            });
        }
    });
    batch.check_recorded().unwrap();
    pollster::block_on(batch.execute()).unwrap();
    let program = pollster::block_on(batch.compile()).unwrap();
    let outputs = pollster::block_on(program.run([(x, &[2.0; 8])])).unwrap();
    for number in 0..100 {
        let found = pollster::block_on(outputs.read::<f32>(&*format!("{number}"))).unwrap();
        assert_eq!(found, [2.0 * number as f32 + 1.0; 8]);
    }
}

#[test]
fn futures_of_a_batch_are_send_while_tensors_live() {
    fn send<F: Future + Send>(future: F) -> F::Output {
        pollster::block_on(future)
    }
    let batch = GpuCommandBatch::new(&Device::cpu());
    send(async {
        let y = batch.upload(&[1.0_f32]) * 2.0;
        batch.execute().await.unwrap();
        let z = y + 1.0;
        batch.execute().await.unwrap();
        assert_eq!(batch.read(z).await.unwrap(), [3.0]);
    });
    let device = Device::cpu();
    let doubled = send(device.eval(|b| b.upload(&[2.0_f32]) * 2.0));
    assert_eq!(doubled.unwrap(), [4.0]);
}
