//! Programs: compiled once, run with other data by many tasks, found again by structure.

mod common;

use std::borrow::Cow;
use std::sync::Arc;

use onetrip::{
    BufferId, DType, DataError, Device, Error, GpuCommandBatch, Input, MistakeKind, PlanError,
    Program, ReadError, Resident, Shape, ValueKey,
};

/// Numbers in (−1, 1) that differ from seed to seed.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + seed * 101 + 11) % 1009) as f32 / 505.0 - 1.0).collect()
}

/// relu(x·w + b) of 5 rows; w is bound.
fn layer(device: &Device, w: &Resident<f32>) -> (GpuCommandBatch, BufferId<f32>, BufferId<f32>) {
    let batch = GpuCommandBatch::new(device);
    let x = batch.input::<f32>("x", [5, 24]);
    let w = batch.bind(w);
    let bias = batch.upload(&numbers(3, 10));
    let y = x.linear(w, bias).relu().named("y").id();
    let x = x.id();
    (batch, x, y)
}

/// The result of [`layer`], in `f64`.
fn by_hand(x: &[f32], w: &[f32]) -> Vec<f64> {
    let bias = numbers(3, 10);
    let value = |row: usize, column: usize| {
        let products = (0..24).map(|k| f64::from(x[row * 24 + k]) * f64::from(w[k * 10 + column]));
        (products.sum::<f64>() + f64::from(bias[column])).max(0.0)
    };
    (0..50).map(|at| value(at / 10, at % 10)).collect()
}

fn assert_close(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((f64::from(*got) - want).abs() < 1e-5, "{got} for {want}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_run_one_program_at_once() {
    for device in common::devices().await {
        let weights = numbers(1, 240);
        let resident = device.resident(&weights, [24, 10]).unwrap();
        let (batch, x, y) = layer(&device, &resident);
        let program = batch.compile().await.unwrap();
        drop((batch, resident));
        let tasks = (0..16).map(|task| {
            let (program, weights) = (program.clone(), weights.clone());
            tokio::spawn(async move {
                for round in 0..20 {
                    let data = numbers(task * 100 + round, 120);
                    let outputs = program.run([(x, &data)]).await.unwrap();
                    assert_close(&outputs.read(y).await.unwrap(), &by_hand(&data, &weights));
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let outputs = program.run([(x, &numbers(0, 120))]).await.unwrap();
        let stats = outputs.stats();
        assert_eq!([stats.pipelines_compiled, stats.submits], [0, 1], "{stats}");
        assert!(stats.plan_time.is_zero() && stats.compile_time.is_zero(), "{stats}");
    }
}

#[tokio::test]
async fn data_for_an_output_is_refused_with_the_names_of_uploads() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", 2);
    let (_, line) = (batch.outputs((x.relu(), x.neg())), line!());
    batch.upload(&[1.0_f32]).named("scale");
    let program = batch.compile().await.unwrap();
    let given = [("output1", &[1.0_f32, 2.0]), ("x", &[1.0, 2.0])];
    let error = program.run(given).await.unwrap_err().to_string();
    let of = format!("neg (at tests/programs.rs:{line}) is an output");
    let fix = "use the id that `input` or `upload` returned, or a name: \"scale\", \"x\"";
    assert_eq!(error, format!("only inputs and uploads take data, and {of}; {fix}"));
}

#[tokio::test]
async fn inputs_are_given_by_id_or_name_borrowed_or_owned() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", 3);
        let mask = batch.input::<bool>("mask", 3);
        let bias = batch.upload(&[10.0_f32, 20.0, 30.0]);
        let y = batch.select(mask, x, bias);
        batch.name(y, "y");
        let program = batch.compile().await.unwrap();
        let (data, truths) = (vec![1.0_f32, 2.0, 3.0], [true, false, true]);
        // Names and data as programs come by them: in a `String`, behind references, shared.
        let (name, part, shared) = (String::from("x"), &data[..], Arc::<[f32]>::from(&data[..]));
        let (boxed, cow) = (Box::<[f32]>::from(part), Cow::Borrowed(part));
        let (key, mask_name, mask_data) = (ValueKey::from(x), String::from("mask"), &truths);
        let all: [Vec<Input<'_>>; 8] = [
            vec![(&name, part).into(), (ValueKey::from("mask"), &truths).into()],
            vec![("x", &part).into(), (mask.id(), &mask_data).into()],
            vec![(x, &shared).into(), ("mask", truths).into()],
            vec![(key, &boxed).into(), (&mask_name, truths.to_vec()).into()],
            vec![("x", &cow).into(), (mask, truths).into()],
            vec![(x, &data).into(), (mask, &truths).into()],
            vec![("x", &data).into(), ("mask", &truths).into()],
            vec![("mask", truths.to_vec()).into(), (x, data.clone()).into()],
        ];
        for inputs in all {
            let outputs = program.run(inputs).await.unwrap();
            assert_eq!(outputs.read(y).await.unwrap(), [1.0, 20.0, 3.0]);
            assert_eq!(outputs.read::<f32>("y").await.unwrap(), [1.0, 20.0, 3.0]);
            assert_eq!(outputs.read::<f32>(&String::from("y")).await.unwrap(), [1.0, 20.0, 3.0]);
            let mut out = [0.0; 3];
            outputs.read_into("y", &mut out).await.unwrap();
            assert_eq!(*outputs.read_view(y).unwrap(), out);
        }
        // Recorded data stands for inputs that are not given, and stays as it was.
        let given: [Input<'_>; 3] =
            [(x, &data).into(), (mask, &[false; 3]).into(), (bias, &[7.0, 8.0, 9.0]).into()];
        let outputs = program.run(given).await.unwrap();
        assert_eq!(outputs.read(y).await.unwrap(), [7.0, 8.0, 9.0]);
        let outputs = program.run(((x, &data), ("mask", vec![false; 3]))).await.unwrap();
        assert_eq!(outputs.read(y).await.unwrap(), [10.0, 20.0, 30.0]);
        let three = ((x, &data), (mask.id(), &truths), Input::from((bias, &[7.0, 8.0, 9.0])));
        let outputs = program.run(three).await.unwrap();
        assert_eq!(outputs.read(y).await.unwrap(), [1.0, 8.0, 3.0]);
        let twice = program.run(((x, &data), ("x", &data))).await.unwrap_err();
        assert!(matches!(twice, Error::Data(DataError::GivenTwice(_))), "{twice}");
        let missing = program.run(()).await.unwrap_err();
        let Error::Data(DataError::NotGiven(inputs)) = &missing else { panic!("{missing}") };
        assert_eq!(inputs.len(), 2);
        assert!(missing.to_string().contains(") have no data; give them to the run"), "{missing}");
    }
}

#[tokio::test]
async fn arrays_are_inputs_by_value_too() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let (x, rate) = (batch.input::<f32>("x", 2), batch.input::<f32>("rate", []));
    let y = x * rate;
    let program = batch.compile().await.unwrap();
    let outputs = program.run((("x", [1.0_f32, -2.0]), (rate, [0.5]))).await.unwrap();
    assert_eq!(outputs.read(y).await.unwrap(), [0.5, -1.0]);
    let outputs = program.run(((x.id(), [3.0, 4.0]), ("rate", [2.0_f32]))).await.unwrap();
    assert_eq!(outputs.read(y).await.unwrap(), [6.0, 8.0]);
}

#[tokio::test]
async fn a_program_lists_its_inputs_and_outputs() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", [2, 3]);
    let bias = batch.upload(&[0.5_f32; 3]).named("bias");
    let best = (x + bias + batch.upload(&[1.0_f32; 3])).named("unread").argmax(1).named("best");
    let kept = best.cast::<i32>().named("kept").keep();
    batch.outputs((best, x.sum(1)));
    let program = batch.compile().await.unwrap();
    let (rows, columns): (Shape, Shape) = ([2].into(), [3].into());
    let inputs: Vec<_> = program.inputs().collect();
    assert_eq!(inputs, [("x", DType::F32, &[2, 3].into()), ("bias", DType::F32, &columns)]);
    let outputs: Vec<_> = program.outputs().collect();
    assert_eq!(outputs, [(Some("best"), DType::U32, &rows), (None, DType::F32, &rows)]);
    let outputs = program.run([(x, [0.0; 6])]).await.unwrap();
    let error = outputs.read::<f32>("nothing").await.unwrap_err().to_string();
    assert!(error.contains("there are \"best\", \"kept\", \"output1\";"), "{error}");
    drop(kept);
}

#[tokio::test]
async fn mistakes_with_inputs_and_outputs_are_told_apart() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let line = line!() + 1;
    let x = batch.input::<f32>("x", [2, 2]);
    let y = batch.relu(x);
    let z = batch.neg(y);
    batch.download(z);
    batch.name(z, "z");
    let program = batch.compile().await.unwrap();
    let foreign = GpuCommandBatch::new(&device).upload(&[1.0_f32; 4]).id();
    let of = |error: Error| match error {
        Error::Data(error) => error,
        error => panic!("{error}"),
    };
    let error = async |input: Input<'_>| of(program.run([input]).await.unwrap_err());
    let says = |error: DataError, want: &str| assert_eq!(error.to_string(), want);
    let the_input = format!("input \"x\" (at tests/programs.rs:{line})");
    let relu = format!("relu (at tests/programs.rs:{})", line + 1);
    let neg = format!("neg \"z\" (at tests/programs.rs:{})", line + 2);
    let short = error((x, &[1.0; 3]).into()).await;
    assert!(matches!(short, DataError::Length { given: 3, .. }));
    let fix = "give that many, or make it of another shape";
    says(short, &format!("{the_input} has shape [2, 2] and takes 4 elements, not 3; {fix}"));
    let three_rows = error((x, &[1.0; 6]).into()).await;
    let rows =
        format!("{fix}, or call `run_rows`, which takes 3 rows unless an operation mixes them");
    says(three_rows, &format!("{the_input} has shape [2, 2] and takes 4 elements, not 6; {rows}"));
    let fix = "use the id that `input` or `upload` returned";
    let rule =
        |what| format!("only inputs and uploads take data, and {what}; {fix}, or a name: \"x\"");
    says(error((y, &[1.0; 4]).into()).await, &rule(format!("{relu} is not one")));
    says(error(("z", &[1.0_f32; 4]).into()).await, &rule(format!("{neg} is an output")));
    let of_another = error((foreign, &[1.0; 4]).into()).await;
    assert!(matches!(of_another, DataError::Foreign { .. }));
    let made = format!(", made at tests/programs.rs:{}; give its data to ", line - 2);
    assert!(of_another.to_string().contains(&made), "{of_another}");
    let fix = "`input` and `name` give names";
    let unknown = format!("no input is called \"w\", but there is \"x\"; {fix}");
    says(error(("w", &[1.0_f32; 4]).into()).await, &unknown);
    let unknown =
        format!("no input is called \"X\" (did you mean \"x\"?), but there is \"x\"; {fix}");
    says(error(("X", &[1.0_f32; 4]).into()).await, &unknown);
    let integers = error(("x", &[1_i32; 4]).into()).await;
    says(integers, &format!("{the_input} takes f32, not i32; give it elements of that type"));
    let twice: [Input<'_>; 2] = [(x, &[1.0; 4]).into(), ("x", &[1.0_f32; 4]).into()];
    let twice = of(program.run(twice).await.unwrap_err());
    assert!(matches!(twice, DataError::GivenTwice(_)));
    says(twice, &format!("{the_input} is given data twice in one run; give it once"));
    let missing = of(program.run(()).await.unwrap_err());
    assert_eq!(of(batch.execute().await.unwrap_err()), missing);
    says(
        missing,
        &format!(
            "{the_input} has no data; give it to the run, or `write` it before the batch is executed or compiled"
        ),
    );

    let outputs = program.run([(x, &[1.0, -2.0, 3.0, -4.0])]).await.unwrap();
    assert_eq!(outputs.read(z).await.unwrap(), [-1.0, 0.0, -3.0, 0.0]);
    let of = |error: Error| match error {
        Error::Read(error) => error,
        error => panic!("{error}"),
    };
    let error = of(outputs.read(y).await.unwrap_err());
    let fix = "call `download(id)` on it before `execute` or `compile`";
    assert_eq!(error.to_string(), format!("{relu} was not downloaded; {fix}"));
    let error = of(outputs.read(foreign).await.unwrap_err());
    assert!(matches!(error, ReadError::Foreign { .. }));
    let error = of(outputs.read(batch.abs(y)).await.unwrap_err());
    let made = format!("tests/programs.rs:{}", line - 2);
    let want = format!(
        "the value of this id was recorded after the program of the batch made at {made} was compiled; compile it again"
    );
    assert_eq!(error.to_string(), want);
    let error = of(outputs.read::<f32>("w").await.unwrap_err());
    let want = "no result is called \"w\", but there is \"z\"; `name` gives names";
    assert_eq!(error.to_string(), want);
    let error = of(outputs.read::<u32>("z").await.unwrap_err());
    let want = format!("{neg} has elements of type f32, not u32; read it as f32");
    assert_eq!(error.to_string(), want);
    let error = of(outputs.kept(z).unwrap_err());
    let want = format!("{neg} was not kept; call `keep(id)` on it before `compile`");
    assert_eq!(error.to_string(), want);

    batch.write(x, &[1.0; 4]).unwrap();
    batch.execute().await.unwrap();
    batch.input::<f32>("z", 3);
    let Err(Error::Record(mistakes)) = batch.compile().await else { panic!("a name given twice") };
    assert!(matches!(&mistakes.list()[0].what, MistakeKind::NameTaken(of) if of.op == "neg"));
}

#[tokio::test]
async fn each_run_keeps_its_own() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", 3);
        let y = batch.scale(x, 2.0);
        let last = batch.keep(y);
        let program = batch.compile().await.unwrap();
        let first = program.run([(x, &[1.0, 2.0, 3.0])]).await.unwrap();
        let second = program.run([(x, &[4.0, 5.0, 6.0])]).await.unwrap();
        assert_eq!(first.kept(y).unwrap().read().await.unwrap(), [2.0, 4.0, 6.0]);
        assert_eq!(second.kept(y).unwrap().read().await.unwrap(), [8.0, 10.0, 12.0]);
        assert_eq!(last.read().await.unwrap(), [8.0, 10.0, 12.0]);
    }
}

/// Products that read views of what each run brings: a block of a matrix, as it lies or transposed, and rows that a
/// product of several is folded to.
#[tokio::test]
async fn products_multiply_what_each_run_is_given() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", [2, 7, 9]);
    let w = batch.input::<f32>("w", [9, 5]);
    let all = batch.matmul(x, w);
    let first = batch.slice(x, [(1..2, 1), (2..6, 1), (0..9, 1)]).reshape([4, 9]);
    let block = batch.matmul(first, w);
    let turned = batch.transpose(w);
    let first = batch.transpose(first);
    let turned = batch.matmul(turned, first);
    [all, block, turned].into_iter().for_each(|y| batch.download(y));
    let program = batch.compile().await.unwrap();
    for run in 0..3 {
        let (given, weights) = (numbers(run, 126), numbers(run + 5, 45));
        let outputs = program.run([(x, &given), (w, &weights)]).await.unwrap();
        let row = |row: usize| {
            let given = &given;
            let weights = &weights;
            move |column: usize| -> f64 {
                let terms = (0..9)
                    .map(|k| f64::from(given[row * 9 + k]) * f64::from(weights[k * 5 + column]));
                terms.sum()
            }
        };
        let want = |rows: std::ops::Range<usize>| -> Vec<f64> {
            rows.flat_map(|at| (0..5).map(row(at))).collect()
        };
        assert_close(&outputs.read(all).await.unwrap(), &want(0..14));
        assert_close(&outputs.read(block).await.unwrap(), &want(9..13));
        let across: Vec<f64> =
            (0..5).flat_map(|c| (9..13).map(move |at| (at, c))).map(|(at, c)| row(at)(c)).collect();
        assert_close(&outputs.read(turned).await.unwrap(), &across);
    }
}

#[tokio::test]
async fn a_program_of_an_empty_resident_waits_for_none() {
    let device = Device::cpu();
    let first = GpuCommandBatch::new(&device);
    let x = first.upload(&[1.0_f32, 2.0]);
    let kept = first.keep(x);
    let second = GpuCommandBatch::new(&device);
    let x = second.bind(&kept);
    second.neg(x);
    let error = second.compile().await.unwrap_err();
    assert!(matches!(error, Error::Plan(PlanError::EmptyResident { .. })), "{error}");
    first.execute().await.unwrap();
    second.compile().await.unwrap();
}

#[tokio::test]
async fn batches_of_equal_structure_are_planned_once() {
    for device in common::devices().await {
        let record = |seed: usize, rows: usize| {
            let batch = GpuCommandBatch::new(&device);
            let x = batch.upload_shaped(&numbers(seed, rows * 24), [rows, 24]);
            let y = x.softmax(-1).sum(0).id();
            (batch, y)
        };
        let (first, y) = record(1, 7);
        first.execute().await.unwrap();
        assert_eq!(first.stats().plan_hits, 0);
        let alone = first.read(y).await.unwrap();
        for seed in [2, 3, 1] {
            let (again, y) = record(seed, 7);
            again.execute().await.unwrap();
            let stats = again.stats();
            assert_eq!([stats.plan_hits, stats.pipelines_compiled], [1, 0], "{stats}");
            assert!(stats.plan_time.is_zero() && stats.compile_time.is_zero(), "{stats}");
            let same = again.read(y).await.unwrap() == alone;
            assert_eq!(same, seed == 1, "a plan of its own, data of its own");
        }
        let (other, _) = record(1, 8);
        other.execute().await.unwrap();
        assert_eq!(other.stats().plan_hits, 0, "another shape");
    }
}

#[tokio::test]
async fn a_plan_found_again_is_explained_with_the_batch_s_own_places() {
    let device = Device::cpu();
    let (first, second) = (GpuCommandBatch::new(&device), GpuCommandBatch::new(&device));
    let x = first.upload(&[1.0_f32, 2.0]);
    first.neg(x);
    first.execute().await.unwrap();
    let (x, line) = (second.upload(&[1.0_f32, 2.0]), line!());
    second.neg(x);
    second.execute().await.unwrap();
    assert_eq!(second.stats().plan_hits, 1);
    let explained = second.explain().unwrap().to_string();
    assert!(explained.contains(&format!("programs.rs:{line}")), "{explained}");
}

#[test]
fn programs_are_shared_and_moved() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn sent<T: Send>(value: T) -> T {
        value
    }
    shared::<Program>();
    let run = |program: Program, x: BufferId<f32>, data: Vec<f32>| {
        drop(sent(async move { program.run([(x, &data)]).await.map(drop) }));
    };
    let _ = run;
}

#[tokio::test]
async fn another_batch_size_compiles_nothing() {
    let Some(device) = common::gpu().await else { return };
    let weights = device.resident(&numbers(1, 240), [24, 10]).unwrap();
    let compiled = async |rows: usize| {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.upload_shaped(&numbers(2, rows * 24), [rows, 24]);
        let w = batch.bind(&weights);
        let total = batch.matmul(x, w).relu().softmax(-1).sum(1);
        batch.execute().await.unwrap();
        let sums = batch.read(total).await.unwrap();
        assert!(sums.len() == rows && sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5));
        let stats = batch.stats();
        assert_eq!(stats.plan_hits, 0, "another shape is another plan");
        (stats.pipelines_compiled, stats.pipeline_hits)
    };
    let (first, _) = compiled(48).await;
    assert!(first > 0);
    for rows in [33, 47, 60, 64] {
        assert_eq!(compiled(rows).await, (0, first), "{rows} rows");
    }
}

#[tokio::test]
async fn one_input_needs_no_list() -> Result<(), Error> {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let ids = batch.input::<i32>("ids", 2);
    let y = ids + 1;
    let program = batch.compile().await?;
    let (data, owned) = ([8, 9], vec![1, 2]);
    assert_eq!(program.run(Input::ids(ids, &[5, 6])).await?.read(y).await?, [6, 7]);
    assert_eq!(program.run((ids, &data)).await?.read(y).await?, [9, 10]);
    assert_eq!(program.run((ids.id(), &data[..])).await?.read(y).await?, [9, 10]);
    assert_eq!(program.run(("ids", owned)).await?.read(y).await?, [2, 3]);
    assert_eq!(program.run(Input::from((ids, [3, 4]))).await?.read(y).await?, [4, 5]);
    // Lists and tuples are told apart from it.
    assert_eq!(program.run([(ids, &data)]).await?.read(y).await?, [9, 10]);
    assert_eq!(program.run(((ids, &data),)).await?.read(y).await?, [9, 10]);
    assert_eq!(program.run_rows(("ids", &[1, 2, 3])).await?.read(y).await?, [2, 3, 4]);
    Ok(())
}

/// The name of a value that was recorded and not downloaded may be meant, if it is nearer than those of results.
#[tokio::test]
async fn a_name_near_that_of_a_value_without_download_says_so() -> Result<(), Error> {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", 2);
    x.exp().named("logits").sum(0).named("total");
    let program = batch.compile().await?;
    let outputs = program.run([(x, &[0.0, 1.0])]).await?;
    for (asked, rest) in [
        (
            "logit",
            " (did you mean \"logits\"?); \"logits\" was recorded and is not downloaded: record `download` on it and \
             compile again; results are \"total\"",
        ),
        ("totals", " (did you mean \"total\"?), but there is \"total\"; `name` gives names"),
        ("zzz", ", but there is \"total\"; `name` gives names"),
    ] {
        let error = outputs.read::<f32>(asked).await.expect_err(asked).to_string();
        assert_eq!(error, format!("no result is called {asked:?}{rest}"));
    }
    Ok(())
}
