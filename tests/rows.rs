//! Programs with any number of rows: per row or reduced as if recorded with them, or an error that names the operation.

mod common;

use std::time::Duration;

use onetrip::bytemuck::cast_slice;
use onetrip::{
    Attention, CellWeights, ClassLoss, Device, Error, GpuCommandBatch, Input, LossReduction,
    Recurrence, Result, RowResult, RowsError, RunError, SearchSide, Tensor, ValueKey, Wgsl,
};

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// Records a network over rows: per row, transposed, with rows merged with another axis, and each reduction.
fn record(batch: &GpuCommandBatch, rows: usize) {
    let x = batch.input::<f32>("x", [rows, 2, 3]);
    let weight = batch.upload_shaped(&numbers(12), [3, 4]);
    let state = batch.full([rows * 2, 4], 0.5_f32);
    let y = (x.reshape([rows * 2, 3]).matmul(weight) + state).tanh();
    let each = y.reshape([rows, 8]).softmax(1);
    batch.outputs((
        y.named("merged"),
        each.transpose().named("columns"),
        each.sum(0).named("sum"),
        each.mean(..).named("mean"),
        x.amax(0).named("max"),
        x.amin([0, 2]).named("min"),
        weight.sum(0).named("constant"),
    ));
}

#[tokio::test]
async fn any_number_of_rows_gives_what_was_recorded_with_it() -> Result<()> {
    for device in common::devices().await {
        any_number_on(&device).await?;
    }
    Ok(())
}

async fn any_number_on(device: &Device) -> Result<()> {
    let batch = GpuCommandBatch::new(device);
    record(&batch, 4);
    let program = batch.compile().await?;
    let results: Vec<_> = program.rows()?.outputs().map(|(_, result)| result).collect();
    let columns = RowResult::PerRow { axis: 1 };
    let merged = RowResult::PerRow { axis: 0 };
    use RowResult::{Constant, Max, Mean, Min, Sum};
    assert_eq!(results, [merged, columns, Sum, Mean, Max, Min, Constant]);
    // Another number of rows compiles other kernels, which takes a software adapter long.
    let many: &[usize] = &[1, 2, 3, 4, 5, 7, 64, 1025, 2500];
    for &rows in if device.is_gpu() { &many[4..6] } else { many } {
        let own = GpuCommandBatch::new(device);
        record(&own, rows);
        let own = own.compile().await?;
        let data = numbers(rows * 6);
        let (got, want) = (program.run_rows([("x", &data)]).await?, own.run([("x", &data)]).await?);
        for name in ["merged", "columns", "sum", "mean", "max", "min", "constant"] {
            assert_eq!(got.shape::<f32>(name)?, want.shape::<f32>(name)?, "{name}, {rows} rows");
            let (got, want) = (got.read::<f32>(name).await?, want.read::<f32>(name).await?);
            for (got, want) in got.iter().zip(&want) {
                let near = (got - want).abs() <= 1e-5 * want.abs().max(1.0);
                assert!(near, "{name}, {rows} rows: {got}, not {want}");
            }
        }
    }
    let none = program.run_rows([("x", &[0.0_f32; 0])]).await.expect_err("amax needs a row");
    assert!(matches!(none, Error::Rows(RowsError::Number { rows: 0, .. })), "{none}");
    Ok(())
}

#[tokio::test]
async fn padding_repeats_a_row_and_shared_bytes_are_cut() -> Result<()> {
    for device in common::devices().await {
        padded_on(&device).await?;
    }
    Ok(())
}

async fn padded_on(device: &Device) -> Result<()> {
    let batch = GpuCommandBatch::new(device);
    let (x, by) = (batch.input::<i32>("x", [4, 3]), batch.input::<i32>("by", [4, 1]));
    batch.outputs((x / by).named("y"));
    let program = batch.compile().await?;
    struct Owner(Vec<i32>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            cast_slice(&self.0)
        }
    }
    for rows in [0_usize, 1, 3, 4, 1500] {
        let x: Vec<i32> = (0..rows as i32 * 3).collect();
        let want: Vec<i32> = x.iter().map(|x| x / 2).collect();
        let x = Input::shared("x", std::sync::Arc::new(Owner(x)));
        let by = vec![2_i64; rows];
        let outputs = program.run_rows([x, Input::ids("by", &by)]).await?;
        assert_eq!(outputs.read::<i32>("y").await?, want);
        if device.is_gpu() && rows > 0 {
            assert_eq!(outputs.stats().submits as usize, rows.div_ceil(1024), "a trip a part");
        }
    }
    // The address of no bytes may be odd.
    let x = Input::shared("x", std::sync::Arc::new(Vec::<u8>::new()));
    let outputs = program.run_rows([x, Input::ids("by", &[])]).await?;
    assert_eq!(outputs.read::<i32>("y").await?, [0; 0]);
    Ok(())
}

/// The text of a kernel of the user's own that copies `x`.
const COPY: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] = x[id.x]; }
}";

/// Each operation has a cure that fits it.
#[tokio::test]
async fn what_mixes_rows_is_named_with_its_place_and_a_cure() -> Result<()> {
    type Record = fn(&GpuCommandBatch);
    let along = "it goes along the axis of rows";
    let other_axis = "give it another axis, name the inputs with rows by `rows_of`";
    let some = "it takes some rows, or takes them in another order";
    let before_run = "do that to another axis or to the data before the run";
    let by_position = "it takes rows by their positions";
    let fixed_table = "give the table as an input without rows (`rows_of` names those with rows)";
    let cases: [(&str, Record, &str, &str); 18] = [
        ("softmax", |b| _ = b.input::<f32>("x", [4, 3]).softmax(0), along, other_axis),
        ("cumsum", |b| _ = b.input::<f32>("x", [4, 3]).cumsum(0), along, other_axis),
        ("flip", |b| _ = b.input::<f32>("x", [4, 3]).flip(0), some, before_run),
        (
            "pad",
            |b| _ = b.input::<f32>("x", [4, 3]).pad([(1, 0), (0, 0)], 0.0),
            "it pads the axis of rows",
            "pad another axis or the data before the run",
        ),
        (
            "concat",
            |b| _ = b.concat([b.full([1, 3], 0.0_f32), b.input("x", [4, 3])], 0),
            "it joins rows with others",
            "join along another axis or before the run",
        ),
        (
            "reshape",
            |b| _ = b.input::<f32>("x", [4, 3]).reshape([2, 6]),
            "it splits the axis of rows",
            "keep that axis whole and reshape the others, name the inputs with rows by `rows_of`",
        ),
        (
            "argmax",
            |b| _ = b.input::<f32>("x", [4, 3]).argmax(0),
            "of reductions over rows, `sum`, `mean`, `amax` and `amin` can be joined",
            "reduce another axis, name the inputs with rows by `rows_of`",
        ),
        (
            "mean",
            |b| {
                let x = b.input::<f32>("x", [4, 3]);
                _ = x - x.mean(0);
            },
            "its result is read beside rows or another reduction",
            "reduce another axis; or make the reduction a program of its own, and its result an input without rows \
             (`rows_of` names those with rows)",
        ),
        (
            "exp",
            |b| _ = b.input::<f32>("x", [4, 3]).mean(0).exp(),
            "it changes a reduction over rows, which then cannot be joined",
            "make the reduction the result, and do this with what the run returns",
        ),
        (
            "gather",
            |b| _ = b.input::<f32>("x", [4, 5, 3]).gather(b.input::<u32>("lengths", 4), 1),
            "it reads each row at the indices of all rows",
            "take those of each row by `take_along_axis`, with indices of as many axes as the table (`unsqueeze` adds them)",
        ),
        (
            "gather",
            |b| _ = b.input::<f32>("x", [4, 3]).gather(b.upload(&[0_u32, 2]), 0),
            some,
            before_run,
        ),
        (
            "take_along_axis",
            |b| {
                let at = b.upload_shaped(&[0_u32, 2, 1], [1, 3]);
                _ = b.input::<f32>("x", [4, 3]).take_along_axis(at, 0);
            },
            some,
            before_run,
        ),
        (
            "add",
            |b| _ = b.input::<f32>("x", [4, 4]) + b.input::<f32>("y", [4, 4]).transpose(),
            "the rows of its operands are along different axes",
            "bring them to one axis by `permute`, name the inputs with rows by `rows_of`",
        ),
        (
            "searchsorted",
            |b| _ = b.input::<f32>("x", 4).searchsorted(b.upload(&[0.5_f32]), SearchSide::Left),
            "it searches among the rows",
            "give what it searches as an input without rows (`rows_of` names those with rows)",
        ),
        (
            "scaled_dot_product_attention",
            |b| {
                let x = b.input::<f32>("x", [4, 3]);
                _ = x.scaled_dot_product_attention(x, x, Attention::default());
            },
            "its keys or their order depend on rows",
            "put the axis of rows before those of heads, queries and keys",
        ),
        (
            "embedding",
            |b| _ = b.input::<f32>("x", [4, 3]).embedding(b.input::<u32>("ids", 4)),
            by_position,
            fixed_table,
        ),
        (
            "take_along_axis",
            |b| _ = b.input::<f32>("x", [4, 3]).take_along_axis(b.input::<u32>("at", [4, 3]), 0),
            by_position,
            fixed_table,
        ),
        (
            "wgsl",
            |b| {
                let kernel = Wgsl::new(COPY).input(b.input::<f32>("x", [4, 3])).groups([1, 1, 1]);
                let copy = |x: &[f32], y: &mut [f32]| y.copy_from_slice(x);
                _ = b.wgsl::<f32>(kernel.on_cpu(copy), [4, 3]);
            },
            "it is a custom kernel, which may read any row",
            "write it as operations on tensors, which are traced",
        ),
    ];
    for (op, record, why, cure) in cases {
        let batch = GpuCommandBatch::new(&Device::cpu());
        record(&batch);
        let error = batch.compile().await?.rows().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{op} (at tests/rows.rs:")), "{error}");
        assert!(error.contains(&format!(") mixes rows: {why}; rows are axis 0 of ")), "{error}");
        let end = format!(": {cure}, or record a program for each number of rows and `run` it");
        assert!(error.ends_with(&end), "{op}: {error}");
    }
    let batch = GpuCommandBatch::new(&Device::cpu());
    let line = line!() + 1;
    let _ = batch.input::<f32>("x", [4, 3]) + batch.arange(0.0_f32, 4.0, 1.0).reshape([4, 1]);
    let error = batch.compile().await?.rows().unwrap_err().to_string();
    let at = format!("(at tests/rows.rs:{line})");
    let want = format!(
        "add {at} reads arange {at} of shape [4], which has a value for each recorded row along axis 0, and no rows; give \
         it as an input with rows (`rows_of` names them), or run the program as it was recorded"
    );
    assert_eq!(error, want);
    Ok(())
}

/// Messages on rows that are not found name the input, its shape, the axis and a fix.
#[tokio::test]
async fn inputs_whose_rows_are_not_found_are_named_with_a_fix() -> Result<()> {
    let input = |name, line: u32| format!("input {name:?} (at tests/rows.rs:{line})");
    let b = GpuCommandBatch::new(&Device::cpu());
    let line = line!() + 1;
    let x = b.input::<f32>("x", [4, 1, 3]);
    let states = b.input::<f32>("states", [2, 4, 3]);
    x.add(states.permute([1, 0, 2]));
    let program = b.compile().await?;
    let error = program.rows().expect_err("two leading sizes").to_string();
    let fix = "record both with the rows in front (`permute` moves them, and recurrent layers take `batch_first`), or leave out the one without rows by `rows_of`";
    let (first, second) = (input("x", line), input("states", line + 1));
    let shape = "of shape [2, 4, 3] has 2 along axis 0";
    assert_eq!(error, format!("{first} has 4 rows, and {second} {shape}; {fix}"));
    // The states are then as long as there are rows, and have none.
    let error = program.rows_of(["x"]).expect_err("states of all rows").to_string();
    let of = format!("add (at tests/rows.rs:{})", line + 2);
    let fix = "give it as an input with rows (`rows_of` names them), or run the program as it was recorded";
    let long =
        "of shape [2, 4, 3], which has a value for each recorded row along axis 1, and no rows";
    assert_eq!(error, format!("{of} reads {second} {long}; {fix}"));

    let b = GpuCommandBatch::new(&Device::cpu());
    let (h, line) = (b.input::<f32>("h", [1, 4, 3]), line!());
    h.relu();
    let error = b.compile().await?.rows().expect_err("one row").to_string();
    let fix = "record the program with 2 or more there to trace them";
    let one =
        format!("{} of shape [1, 4, 3] was recorded with 1 row along axis 0", input("h", line));
    assert_eq!(error, format!("{one}; {fix}"));
    Ok(())
}

/// A GRU of width 5 over inputs of 3, with biases.
fn gru<'b>(x: Tensor<'b, f32>, state: Tensor<'b, f32>, batch_first: bool) -> Tensor<'b, f32> {
    let b = x.batch();
    let matrix = |rows, columns| b.upload_shaped(numbers(rows * columns), [rows, columns]);
    let bias = b.upload(numbers(15));
    let weights = CellWeights::with_bias(b, matrix(15, 3), matrix(15, 5), [bias, bias]);
    x.gru(&[weights], state, Recurrence { batch_first, ..Recurrence::default() }).0
}

/// The value that lacks rows is the state, not what the layer computes of it.
#[tokio::test]
async fn states_of_layers_that_have_no_rows_are_named() -> Result<()> {
    type State = fn(&GpuCommandBatch) -> Tensor<'_, f32>;
    let states: [(&str, State); 2] = [
        ("upload", |b| b.upload_shaped(numbers(20), [1, 4, 5])),
        ("input \"h\"", |b| b.input("h", [1, 4, 5])),
    ];
    for (named, state) in states {
        let b = GpuCommandBatch::new(&Device::cpu());
        gru(b.input("x", [4, 2, 3]), state(&b), true);
        let error = b.compile().await?.rows_of(["x"]).expect_err("a state of all rows");
        let error = error.to_string();
        assert!(error.starts_with("gru (at tests/rows.rs:"), "{error}");
        assert!(error.contains(&format!(" reads {named} (at tests/rows.rs:")), "{error}");
        let shape = "of shape [1, 4, 5], which has a value for each recorded row along axis 1,";
        assert!(error.contains(shape), "{error}");
    }
    // A constant is the same for all rows.
    let record = |b: &GpuCommandBatch, rows| {
        gru(b.input("x", [rows, 2, 3]), b.full([1, rows, 5], 0.5), true).named("y");
    };
    let (batch, own) = (GpuCommandBatch::new(&Device::cpu()), GpuCommandBatch::new(&Device::cpu()));
    record(&batch, 4);
    record(&own, 3);
    let x = numbers(3 * 6);
    let got = batch.compile().await?.run_rows([("x", &x)]).await?.read::<f32>("y").await?;
    let want = own.compile().await?.run([("x", &x)]).await?.read::<f32>("y").await?;
    assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-6), "{got:?} {want:?}");
    assert_eq!(got.len(), want.len());
    Ok(())
}

/// An axis of time as long as there are rows is taken for theirs: the messages say so.
#[tokio::test]
async fn the_axes_that_were_taken_for_rows_are_named() -> Result<()> {
    let b = GpuCommandBatch::new(&Device::cpu());
    let line = line!() + 1;
    let x = b.input::<f32>("x", [4, 4, 3]);
    gru(x, b.full([1, 4, 5], 0.5), false);
    let error = b.compile().await?.rows().expect_err("steps are no rows").to_string();
    let x = format!("axis 0 of input \"x\" (at tests/rows.rs:{line}) of shape [4, 4, 3]");
    assert!(
        error.starts_with("gru (at ")
            && error.ends_with(&format!(
                " mixes rows: it walks along the axis of rows; rows are {x}: give them by `Recurrence {{ batch_first: true, .. }}`, which makes axis 1 that of time, \
                 name the inputs with rows by `rows_of`, or record a program for each number of rows and `run` it"
            )),
        "{error}"
    );
    // A layer with the batch in front, of one sequence.
    let b = GpuCommandBatch::new(&Device::cpu());
    gru(b.input("x", [1, 4, 3]), b.full([1, 1, 5], 0.5), true);
    let error = b.compile().await?.rows().expect_err("one row").to_string();
    let end = "was recorded with 1 row along axis 0; record the program with 2 or more there to trace them";
    assert!(error.starts_with("input \"x\" (at ") && error.ends_with(end), "{error}");

    let b = GpuCommandBatch::new(&Device::cpu());
    let line = line!() + 1;
    let (x, steps) = (b.input::<f32>("x", [4, 4, 3]), b.input::<f32>("steps", [4, 3]));
    let _ = b.input::<f32>("other", [4, 3]).relu();
    let _ = x + steps;
    let program = b.compile().await?;
    let error = program.rows().expect_err("two axes").to_string();
    let at = |axis, name, shape| {
        format!("axis {axis} of input {name:?} (at tests/rows.rs:{line}) of shape {shape}")
    };
    let want = format!("; rows are {} and {}: ", at(0, "x", "[4, 4, 3]"), at(0, "steps", "[4, 3]"));
    assert!(error.contains(&want), "{error}");
    let rows = program.rows_of(["x"])?;
    assert_eq!(rows.inputs().collect::<Vec<_>>(), [(Some("x"), 0)]);
    assert!(format!("{rows:?}").ends_with(", recorded with 4, axis 0 of \"x\")"), "{rows:?}");
    Ok(())
}

/// The position of an id counts all rows, along the axis that has them.
#[tokio::test]
async fn ids_out_of_range_are_told_by_their_row() -> Result<()> {
    for (shape, rows, want) in [([4, 3], 3001, "[3000, 1]"), ([1, 4], 9003, "[0, 9001]")] {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let (ids, x) = (batch.input::<u32>("ids", shape), batch.input::<f32>("x", 4));
        batch.outputs((ids + 1, x.neg()));
        let program = batch.compile().await?;
        let (mut ids, x) = (vec![0_i64; 9003], vec![0.5_f32; rows]);
        ids[9001] = -1;
        let given = [Input::ids("ids", &ids), Input::from(("x", &x))];
        let error = program.run_rows(given).await.expect_err("below 0").to_string();
        let want = format!("the id -1 at {want} is out of its range");
        assert!(error.contains(&want), "{error}");
    }
    Ok(())
}

/// A weight is named as such by its name in the batch, by that of its file and by its id.
#[tokio::test]
async fn weights_have_no_rows() -> Result<()> {
    let device = Device::cpu();
    let (w, line) = (device.resident(&[0.5_f32; 6], [3, 2])?, line!());
    let batch = GpuCommandBatch::new(&device);
    let bound = batch.bind(&w);
    batch.input::<f32>("x", [4, 3]).matmul(bound.named("w")).named("y");
    let program = batch.compile().await?;
    let told = |name: &str, inputs: &str| {
        format!(
            "resident{name} (at tests/rows.rs:{line}) is a weight or a state of the program, and only inputs have rows; \
             {inputs}"
        )
    };
    for key in [ValueKey::from("w"), bound.into()] {
        let error = program.rows_of([key]).expect_err("a weight").to_string();
        assert_eq!(error, told(" \"w\"", "name an input: \"x\""));
    }
    let batch = GpuCommandBatch::new(&device);
    let bound = batch.bind(&w);
    (batch.input::<f32>("x", [4, 3]).matmul(bound) + batch.input::<f32>("b", [4, 2])).named("y");
    let program = batch.compile().await?;
    let error = program.rows_of([bound]).expect_err("a weight").to_string();
    assert_eq!(error, told("", "name an input: \"b\", \"x\""));
    let error = program.rows_of(["y"]).expect_err("an output").to_string();
    assert!(
        error.contains(" \"y\" (at tests/rows.rs:") && error.contains(" is an output; "),
        "{error}"
    );

    // The resident of a value that was kept has the name of that value.
    let first = GpuCommandBatch::new(&device);
    let kept = first.upload(&[1.0_f32, 2.0]).exp().named("powers").keep();
    first.execute().await?;
    let batch = GpuCommandBatch::new(&device);
    (batch.input::<f32>("x", [4, 2]) * &kept).named("y");
    let error = batch.compile().await?.rows_of(["powers"]).expect_err("a state").to_string();
    assert!(error.starts_with("resident \"powers\" (at "), "{error}");
    Ok(())
}

#[tokio::test]
async fn programs_for_other_numbers_of_rows_explain_and_profile() -> Result<()> {
    let record = |b: &GpuCommandBatch, rows| {
        b.input::<f32>("x", [rows, 3]).softmax(1).named("y");
    };
    let (batch, own) = (GpuCommandBatch::new(&Device::cpu()), GpuCommandBatch::new(&Device::cpu()));
    record(&batch, 4);
    record(&own, 7);
    let program = batch.compile().await?;
    let rows = program.rows()?;
    let seven = rows.program(7).await?;
    assert_eq!(seven.fingerprint(), own.compile().await?.fingerprint());
    assert_eq!(rows.program(4).await?.fingerprint(), program.fingerprint());
    let text = seven.explain()?.to_string();
    assert!(text.contains(" \"y\" f32[7, 3]") && !text.contains("[4, 3]"), "{text}");
    let x = numbers(21);
    let profile = seven.profile([("x", &x)]).await?;
    assert_eq!(profile.kernels.len(), 1);
    let got = seven.run([("x", &x)]).await?.read::<f32>("y").await?;
    assert_eq!(got, program.run_rows([("x", &x)]).await?.read::<f32>("y").await?);
    Ok(())
}

/// An axis of size 1 before that of the rows leaves them one after another in memory.
#[tokio::test]
async fn rows_may_be_along_the_second_axis_of_an_input() -> Result<()> {
    for device in common::devices().await {
        let record = |batch: &GpuCommandBatch, rows: usize| {
            let h = batch.input::<f32>("h", [1, rows, 3]);
            let x = batch.input::<f32>("x", [rows, 2, 3]);
            batch.outputs(((x.permute([1, 0, 2]) + h).named("y"), h.sum([0, 1]).named("sum")));
        };
        let batch = GpuCommandBatch::new(&device);
        record(&batch, 4);
        let program = batch.compile().await?;
        let all = program.rows()?;
        let results: Vec<_> = all.outputs().map(|(_, result)| result).collect();
        assert_eq!(results, [RowResult::PerRow { axis: 1 }, RowResult::Sum]);
        assert_eq!(program.rows_of(["x", "h"])?.recorded_rows(), 4);
        for rows in [0, 1, 3, 4, 5] {
            let (h, x) = (numbers(rows * 3), numbers(rows * 6));
            let own = GpuCommandBatch::new(&device);
            record(&own, rows);
            let own = own.compile().await?;
            let given = || [("h", &h), ("x", &x)];
            let (got, want) = (program.run_rows(given()).await?, own.run(given()).await?);
            assert_eq!(got.shape::<f32>("y")?.dims(), [2, rows, 3]);
            assert_eq!(got.read::<f32>("y").await?, want.read::<f32>("y").await?, "{rows} rows");
            let (got, want) = (got.read::<f32>("sum").await?, want.read::<f32>("sum").await?);
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() < 1e-5, "{rows} rows: {got}, not {want}");
            }
        }
        let part = program.run_rows([("h", &[0.0_f32; 4][..]), ("x", &[0.0; 6])]).await;
        let part = part.expect_err("a row and a third").to_string();
        assert!(part.ends_with("4 elements are no whole number of them; give 3 or 6"), "{part}");
    }
    Ok(())
}

#[tokio::test]
async fn a_mean_loss_is_a_mean_over_rows() -> Result<()> {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let (x, y) = (batch.input::<f32>("x", [4, 2]), batch.input::<f32>("y", [4, 2]));
    let classes = batch.input::<u32>("classes", [4]);
    let loss = x.mse_loss(y, LossReduction::Mean).named("squares");
    let entropy = x.cross_entropy(classes, ClassLoss::default()).named("entropy");
    let shares = x.cross_entropy_with(y, ClassLoss::default()).named("shares");
    batch.outputs((loss, entropy, shares));
    let program = batch.compile().await?;
    assert!(program.rows()?.outputs().all(|(_, result)| result == RowResult::Mean));
    for rows in [1, 3, 6] {
        let (x, y) = (numbers(rows * 2), numbers(rows * 2 + 1)[1..].to_vec());
        let classes: Vec<u32> = (0..rows as u32).map(|row| row % 2).collect();
        let inputs = (("x", &x), ("y", &y), ("classes", &classes));
        let outputs = program.run_rows(inputs).await?;
        let pairs = || x.iter().zip(&y).map(|(&x, &y)| (f64::from(x), f64::from(y)));
        let mut want = [pairs().map(|(x, y)| (x - y).powi(2)).sum::<f64>() / 2.0, 0.0, 0.0];
        for ((x, y), &class) in x.chunks(2).zip(y.chunks(2)).zip(&classes) {
            let total = x.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
            want[1] += total - f64::from(x[class as usize]);
            let both = x.iter().zip(y);
            want[2] += both.map(|(&x, &y)| f64::from(y) * (total - f64::from(x))).sum::<f64>();
        }
        for (name, want) in ["squares", "entropy", "shares"].into_iter().zip(want) {
            let (got, want) = (outputs.read::<f32>(name).await?[0], want / rows as f64);
            assert!((f64::from(got) - want).abs() < 1e-5, "{name}, {rows} rows: {got}, not {want}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn runs_with_rows_end_at_their_deadline_and_when_told_to() -> Result<()> {
    const HOUR: Duration = Duration::from_secs(3600);
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let y = batch.input::<f32>("x", [4, 2]).scale(3.0);
        let program = batch.compile().await?;
        let rows = program.rows()?;
        // Five trips: the second one is late, if the first one was not.
        let many = numbers(2 * 5000);
        for late in [
            program.run_rows_within(Duration::ZERO, [("x", &many)]).await,
            rows.run_within(Duration::ZERO, [("x", &many)]).await,
        ] {
            let error = late.expect_err("no time at all");
            let Error::Run(RunError::Deadline { of, limit }) = &error else { panic!("{error}") };
            assert_eq!((of.op, *limit), ("scale", Duration::ZERO), "{error}");
            assert!(of.place.file().ends_with("rows.rs"), "{error}");
        }
        let metrics = device.metrics();
        assert_eq!((metrics.late, metrics.cancelled, metrics.failed), (2, 0, 0));
        if device.is_gpu() {
            for stopped in [
                program.run_rows_unless(async {}, [("x", &many)]).await,
                rows.run_unless(async {}, [("x", &many)]).await,
            ] {
                let error = stopped.unwrap_err();
                assert!(matches!(error, Error::Run(RunError::Cancelled)), "{error}");
            }
        }
        let few = [1.0, 2.0, -3.0, 4.0, 5.0, -6.0];
        let tripled: Vec<f32> = few.iter().map(|x| 3.0 * x).collect();
        for done in [
            program.run_rows_within(HOUR, [("x", &few)]).await?,
            program.run_rows_unless(std::future::pending(), [("x", &few)]).await?,
            rows.run_within(HOUR, [("x", &few)]).await?,
            rows.run_unless(std::future::pending(), [("x", &few)]).await?,
        ] {
            assert_eq!(done.read(y).await?, tripled);
        }
        let half = program.run_rows_within(HOUR, [("x", &few[..5])]).await.unwrap_err().to_string();
        assert!(half.ends_with("5 elements are no whole number of them; give 4 or 6"), "{half}");
    }
    Ok(())
}

#[tokio::test]
async fn a_warm_up_plans_all_chunks_that_have_room() -> Result<()> {
    for budget in [None, Some(1000)] {
        let builder = Device::builder().without_cache();
        let device = match budget {
            Some(bytes) => builder.memory_budget(bytes).cpu()?,
            None => builder.cpu()?,
        };
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", [8, 3]);
        let y = (x.sum(1) + x.cumsum(1).amax(1)).named("y");
        let program = batch.compile().await?;
        let rows = program.rows()?;
        let largest = rows.warm_up().await?;
        match budget {
            None => assert_eq!((largest, device.pool_stats().plans), (1024, 11)),
            Some(budget) => {
                let held = rows.program(largest).await?.explain()?.budget_bytes();
                assert!(held <= budget && largest < 1024, "{largest}: {held}");
                let more = rows.program(2 * largest).await.unwrap_err();
                assert!(matches!(more, Error::Run(RunError::OverBudget { .. })), "{more}");
            }
        }
        let planned = device.pool_stats().plan_misses;
        let data = numbers(3 * 300);
        let sums = rows.run([("x", &data)]).await?.read(y).await?;
        assert_eq!(device.pool_stats().plan_misses, planned, "no request plans");
        for (x, got) in data.chunks(3).zip(sums) {
            let [one, two] = [x[0], x[0] + x[1]];
            let three = two + x[2];
            assert!((three + one.max(two).max(three) - got).abs() < 1e-5, "{x:?}: {got}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_input_that_no_result_needs_may_be_left_out() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", [2, 3]);
        batch.input::<f32>("unread", [2, 5]);
        let y = x.sum(1).download();
        let program = batch.compile().await.unwrap();
        for rows in [0, 1, 2, 5, 1500] {
            let outputs = program.run_rows([(x, &vec![1.0; 3 * rows])]).await.unwrap();
            assert_eq!(outputs.read(y).await.unwrap(), vec![3.0; rows]);
        }
        for error in [program.run_rows(()).await, program.run(()).await] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("\"x\"") && !error.contains("unread"), "{error}");
        }
    }
}
