//! Data on its way to the device and back: every way in and out carries the same bits, at every size.

mod common;

use std::fmt::Debug;

use onetrip::{Device, Element, Error, GpuCommandBatch, ReadError, Resident, f16};

/// Nothing, one, odd numbers, and enough that threads share the copying (8 MiB and more of `f32`).
const SIZES: [usize; 6] = [0, 1, 7, 1001, 1 << 20, (5 << 20) + 5];

/// Bits that arithmetic would not keep, among others.
fn floats(n: usize) -> Vec<f32> {
    let odd = [0x7fc0_1234, 0xff80_0001, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 1];
    let bits =
        |at: usize| odd.get(at % 101).copied().unwrap_or((at as u32).wrapping_mul(2_654_435_761));
    (0..n).map(|at| f32::from_bits(bits(at))).collect()
}

/// Everything but NaN, which a device that holds `f16` in 32 bits may give another payload.
fn halves(n: usize) -> Vec<f16> {
    let half = |at: usize| f16::from_bits((at as u16).wrapping_mul(40_503));
    let plain = |half: f16| if half.is_nan() { f16::NEG_ZERO } else { half };
    (0..n).map(|at| plain(half(at))).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Every way in, then every way out; `same` compares.
async fn there_and_back<T: Element>(
    device: &Device,
    data: &[T],
    same: impl Fn(&[T], &[T]) -> bool,
) -> onetrip::Result<()> {
    let n = data.len();
    let b = GpuCommandBatch::new(device);
    let copied = b.upload(data);
    let given = b.upload_shaped(data.to_vec(), n);
    let written = b.upload_with(n, |out: &mut [T]| {
        assert!(out.iter().all(|value| *value == T::default()), "the slice starts as zeros");
        out.copy_from_slice(data);
    });
    // Kept, so that they travel to the device even with no kernel to read them.
    let kept = [copied, given, written].map(|id| b.keep(id));
    b.execute().await?;
    let resident = device.resident(data, n)?;
    for resident in kept.iter().chain([&resident]) {
        all_ways_out(device, resident, data, &same).await?;
    }
    Ok(())
}

async fn all_ways_out<T: Element>(
    device: &Device,
    resident: &Resident<T>,
    data: &[T],
    same: impl Fn(&[T], &[T]) -> bool,
) -> onetrip::Result<()> {
    let n = data.len();
    let mut out = vec![T::default(); n];
    assert!(same(&resident.read().await?, data));
    assert!(same(&resident.read_view().await?, data));
    resident.read_into(&mut out).await?;
    assert!(same(&out, data));
    let b = GpuCommandBatch::new(device);
    let x = b.bind(resident);
    b.execute().await?;
    assert!(same(&b.read(x).await?, data));
    assert!(same(&b.read_view(x)?, data));
    out.fill(T::default());
    b.read_into(x, &mut out).await?;
    assert!(same(&out, data));
    Ok(())
}

#[tokio::test]
async fn floats_keep_every_bit() {
    for device in common::devices().await {
        for n in SIZES {
            there_and_back(&device, &floats(n), |a, b| bits(a) == bits(b)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn other_types_come_back() {
    for device in common::devices().await {
        for n in SIZES {
            let flags: Vec<bool> = (0..n).map(|at| at % 3 == 1 || at % 7 == 0).collect();
            there_and_back(&device, &flags, |a, b| a == b).await.unwrap();
            let signed = |a: &[f16], b: &[f16]| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
            };
            there_and_back(&device, &halves(n), signed).await.unwrap();
            let integers: Vec<i32> =
                (0..n as i32).map(|at| at.wrapping_mul(-1_640_531_527)).collect();
            there_and_back(&device, &integers, |a, b| a == b).await.unwrap();
        }
    }
}

#[tokio::test]
async fn every_way_to_write_replaces_the_data() {
    for device in common::devices().await {
        for n in [0, 1, 999, (2 << 20) + 3] {
            let b = GpuCommandBatch::new(&device);
            let x = b.upload(&vec![9u32; n]);
            let y = b.add_scalar(x, 1);
            let data: Vec<u32> = (0..n as u32).collect();
            let check = async |b: &GpuCommandBatch, plus: u32| {
                b.execute().await.unwrap();
                let want: Vec<u32> = data.iter().map(|x| x + plus).collect();
                assert!(b.read(y).await.unwrap() == want, "{n} and {plus}");
            };
            b.write(x, &data).unwrap();
            check(&b, 1).await;
            b.write_with(x, |x| x.iter_mut().for_each(|x| *x += 1)).unwrap();
            check(&b, 2).await;
            b.write(x, data.iter().map(|x| x + 2).collect::<Vec<_>>()).unwrap();
            check(&b, 3).await;
        }
    }
}

#[tokio::test]
async fn views_outlive_runs_batches_and_devices() {
    for device in common::devices().await {
        let n = 100_003;
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&vec![0.5f32; n]);
        let (y, z) = (b.add_scalar(x, 1.0), b.neg(x));
        let mut views = Vec::new();
        for round in 0..6 {
            b.write(x, &vec![round as f32; n]).unwrap();
            b.execute().await.unwrap();
            views.push((round as f32, b.read_view(y).unwrap(), b.read_view(z).unwrap()));
            // A view of an earlier run goes while later runs use the memory.
            if round == 3 {
                views.remove(1);
            }
        }
        drop((b, device));
        assert_eq!(views.len(), 5);
        for (round, y, z) in &views {
            assert!(
                y.iter().all(|&y| y == round + 1.0) && z.iter().all(|&z| z == -round),
                "{round}"
            );
        }
    }
}

/// A view is not changed by a later write.
#[tokio::test]
async fn a_view_of_an_upload_keeps_its_data() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&[1u32, 2, 3]);
        b.execute().await.unwrap();
        let view = b.read_view(x).unwrap();
        b.write_with(x, |x| x[1] = 7).unwrap();
        let after = b.read(x).await;
        assert!(matches!(after, Err(Error::Read(ReadError::NotExecuted(_)))), "{after:?}");
        b.execute().await.unwrap();
        let second = b.read_view(x).unwrap();
        b.write(x, &[4, 5, 6]).unwrap();
        b.execute().await.unwrap();
        assert_eq!((&*view, &*second), (&[1, 2, 3][..], &[1, 7, 3][..]));
        assert_eq!(b.read(x).await.unwrap(), [4, 5, 6]);
    }
}

#[tokio::test]
async fn a_long_view_prints_its_first_elements_and_their_number() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let (long, short) = (batch.upload(vec![7_u32; 100_000]), batch.upload(&[1.5_f32, -0.0]));
    batch.execute().await.unwrap();
    let printed = format!("{:?}", batch.read_view(long).unwrap());
    assert!(printed.len() < 200 && printed.ends_with("7, ..] (100000 elements)"), "{printed}");
    assert_eq!(format!("{:?}", batch.read_view(short).unwrap()), "[1.5, -0.0]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn views_come_and_go_while_other_batches_run() {
    for device in common::devices().await {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8u32 {
            let device = device.clone();
            tasks.spawn(async move {
                let mut held = None;
                for round in 0..10 {
                    let n = 5_000 + task as usize * 100_000;
                    let b = GpuCommandBatch::new(&device);
                    let y = b.upload_with(n, |x| x.fill(task * 100 + round)).add_scalar(1);
                    b.execute().await.unwrap();
                    let view = b.read_view(y).unwrap();
                    drop(b);
                    tokio::task::yield_now().await;
                    let check = |view: &[u32], round: u32| {
                        assert!(view.iter().all(|&y| y == task * 100 + round + 1));
                    };
                    check(&view, round);
                    if let Some(held) = held.replace(view) {
                        check(&held, round - 1);
                    }
                }
            });
        }
        while let Some(joined) = tasks.join_next().await {
            joined.unwrap();
        }
    }
}

/// The counters do not depend on how the data came and went.
#[tokio::test]
async fn all_ways_count_alike() {
    for device in common::devices().await {
        let n = (1 << 20) + 1;
        let b = GpuCommandBatch::new(&device);
        let x = b.upload_with(n, |x: &mut [f32]| x.fill(2.0));
        let y = b.square(x);
        b.execute().await.unwrap();
        for round in 0..4 {
            let view = b.read_view(y).unwrap();
            assert_eq!(view.len(), n);
            drop(view);
            match round {
                0 => b.write(x, &vec![1.0; n]).unwrap(),
                1 => b.write(x, vec![1.0; n]).unwrap(),
                _ => b.write_with(x, |x| x.fill(3.0)).unwrap(),
            }
            b.execute().await.unwrap();
            let stats = b.stats();
            assert_eq!((stats.uploads, stats.submits, stats.downloads), (1, 1, 1), "{round}");
            assert_eq!((stats.bytes_up, stats.bytes_down), (4 * n as u64, 4 * n as u64), "{round}");
            assert_eq!(stats.pool_misses, 0, "a dropped view's memory is used again: {round}");
        }
    }
}

fn is<T: Debug>(result: onetrip::Result<T>, want: &str) {
    assert_eq!(result.expect_err("an error").to_string(), want);
}

#[tokio::test]
async fn mistakes_are_errors_and_change_nothing() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let other = GpuCommandBatch::new(&device);
        let foreign = other.upload(&[1.0f32]);
        let line = line!() + 1;
        let x = b.upload(&[1.0f32, 2.0]);
        let y = b.neg(x);
        let at = |op, line| format!("{op} (at tests/transfers.rs:{line})");
        let (upload, neg) = (at("upload", line), at("neg", line + 1));
        let mut out = [9.0; 2];
        let not_executed = format!(
            "{neg} has no result: nothing was executed since the last change to the batch; call `execute` before it is read"
        );
        is(b.read_into(y, &mut out).await, &not_executed);
        is(b.read_view(y).map(|_| ()), &not_executed);
        let not_of_it = "this id belongs to batch ";
        let error = b.write_with(foreign, |_| unreachable!()).unwrap_err();
        assert!(error.to_string().starts_with(not_of_it), "{error}");
        let rule = "use the id that `input` or `upload` returned";
        let want = format!("only inputs and uploads take data, and {neg} is an output; {rule}");
        is(b.write_with(y, |_| unreachable!()), &want);
        let fix = "give that many, or make it of another shape";
        let want = format!("{upload} has shape [2] and takes 2 elements, not 3; {fix}");
        is(b.write(x, vec![1.0; 3]), &want);
        b.execute().await.unwrap();
        let short = |what: &str| {
            format!(
                "{what} has 2 elements, and what is to take them has room for 1; give it that many"
            )
        };
        is(b.read_into(y, &mut out[..1]).await, &short(&neg));
        let error = b.read_into(foreign, &mut out).await.unwrap_err();
        assert!(error.to_string().starts_with(not_of_it), "{error}");
        is(b.read_view(x).map(|_| ()), &b.read(x).await.unwrap_err().to_string());
        assert_eq!(out, [9.0; 2]);
        assert_eq!(b.read(y).await.unwrap(), [-1.0, -2.0]);
        let (resident, line) = (device.resident(&[1.0f32, 2.0], 2).unwrap(), line!());
        is(resident.read_into(&mut out[..1]).await, &short(&at("resident", line)));
        let (kept, line) = (b.keep(y), line!());
        let rule = "execute the batch that keeps it first";
        let empty = format!("{} is empty: {rule}", at("resident", line));
        is(kept.read_view().await.map(|_| ()), &empty);
    }
}

#[tokio::test]
async fn a_shape_that_is_a_mistake_is_never_filled() {
    let b = GpuCommandBatch::new(&Device::cpu());
    let _ = b.upload_with([1; 99], |_: &mut [f32]| unreachable!());
    let _ = b.upload_with([usize::MAX, 2], |_: &mut [f32]| unreachable!());
    let _ = b.upload_shaped(vec![1.0f32; 3], [2, 2]);
    let Err(Error::Record(mistakes)) = b.check_recorded() else { panic!("no mistakes") };
    let lines: Vec<String> = mistakes.list().iter().map(ToString::to_string).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("transfers.rs") && line.contains("upload")));
}

/// Moves of a resident from side to side are counted; a run that finds its residents where it reads them moves none.
#[tokio::test]
async fn transfers_of_residents_are_counted() {
    for device in common::devices().await {
        let on_gpu = |up: u64, down: u64, bytes_up: u64, bytes_down: u64| {
            let metrics = device.metrics();
            let counted = [metrics.residents_up, metrics.residents_down];
            let bytes = [metrics.resident_bytes_up, metrics.resident_bytes_down];
            let times = u64::from(device.is_gpu());
            assert_eq!(counted, [up, down].map(|count| count * times));
            assert_eq!(bytes, [bytes_up, bytes_down].map(|count| count * times));
        };
        let state = device.resident(&[1.0_f32; 6], 6).unwrap();
        device.resident::<f32>(&[], 0).unwrap();
        device.resident(&[true; 3], 3).unwrap();
        on_gpu(2, 0, 27, 0);

        let b = GpuCommandBatch::new(&device);
        let y = b.bind(&state).neg();
        let kept = b.keep(y);
        b.execute().await.unwrap();
        b.execute().await.unwrap();
        on_gpu(2, 0, 27, 0);

        assert_eq!(kept.read().await.unwrap(), [-1.0; 6]);
        on_gpu(2, 1, 27, 24);
        kept.keep_host_copy().await.unwrap();
        on_gpu(2, 2, 27, 48);
        assert_eq!(kept.read_view().await.unwrap()[..], [-1.0; 6], "from the copy");
        on_gpu(2, 2, 27, 48);
        b.execute().await.unwrap();
        on_gpu(2, 3, 27, 72);
    }
}
