//! Programs as files: what is saved is loaded and gives the same bits; what is damaged or hostile is an error.
#![cfg(feature = "safetensors")]

mod changed;
#[path = "../common/mod.rs"]
mod common;
mod damaged;
mod hostile;
mod own_kernels;

use onetrip::{
    Causal, CellWeights, DataError, Device, Error, GpuCommandBatch, LoadOptions, LstmState,
    Program, Recurrence, Resident, Result, SaveOptions, Weights,
};
use safetensors::tensor::{Dtype, TensorView};

/// Numbers in (−1, 1) that differ from seed to seed.
fn numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + seed * 101 + 11) % 1009) as f32 / 505.0 - 1.0).collect()
}

/// A decoder's step: keys are appended to a state, a counter counts, and one value is kept.
fn decoder(device: &Device) -> (GpuCommandBatch, Resident<f32>) {
    let batch = GpuCommandBatch::new(device);
    let keys = device.resident(&numbers(1, 2 * 5 * 4), [2, 5, 4]).expect("memory");
    let weight = device.resident(&numbers(2, 16), [4, 4]).expect("memory");
    let x = batch.input::<f32>("x", [2, 1, 4]);
    let new = x.matmul(batch.bind(&weight).named("weight")) + batch.upload(&numbers(3, 4));
    let all = batch.bind(&keys).named("keys").replace_slice(new, 1, 3);
    batch.update(&keys, all);
    let how = onetrip::Attention { causal: Causal::BottomRight, ..Default::default() };
    let y = x.scaled_dot_product_attention(all, all, how).named("y");
    batch.keep(new.named("row"));
    batch.outputs((y, y.argmax(-1)));
    (batch, keys)
}

async fn step(program: &Program, seed: usize) -> Result<(Vec<f32>, Vec<u32>, Vec<f32>)> {
    let outputs = program.run([("x", &numbers(seed, 8))]).await?;
    let kept = outputs.kept::<f32>("row")?.read().await?;
    Ok((outputs.read("y").await?, outputs.read("output1").await?, kept))
}

#[tokio::test]
async fn state_and_weights_travel() -> Result<()> {
    let device = Device::cpu();
    let (batch, keys) = decoder(&device);
    let program = batch.compile().await?;
    let first = Program::load_bytes(&device, program.to_bytes().await?).await?;
    program.run([("x", &numbers(7, 8))]).await?;
    let second = Program::load_bytes(&device, program.to_bytes().await?).await?;
    assert_eq!(first.fingerprint(), program.fingerprint());
    step(&first, 7).await?;
    for seed in 8..11 {
        let [a, b] = [step(&first, seed).await?, step(&second, seed).await?];
        assert_eq!(a, b);
        let own = program.run([("x", &numbers(seed, 8))]).await?;
        assert_eq!(own.read::<f32>("y").await?, a.0);
    }
    // The state of a loaded program is its own.
    let before = keys.read().await?;
    step(&second, 20).await?;
    assert_eq!(keys.read().await?, before);
    Ok(())
}

/// The results of a layer are of its method in the file.
#[tokio::test]
async fn states_of_a_layer_travel() -> Result<()> {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let (input, hidden) = (batch.full([8, 3], 0.5_f32), batch.full([8, 2], 0.25_f32));
    let x = batch.input::<f32>("x", [2, 1, 3]);
    let cell = CellWeights::new(&batch, input, hidden);
    let (_, LstmState { h, c }) = x.lstm(&[cell], None, Recurrence::default());
    batch.name(h, "h");
    batch.name(c, "c");
    batch.outputs((h, c));
    let (program, bytes) = (batch.compile().await?, batch.to_bytes().await?);
    assert!(!String::from_utf8_lossy(&bytes).contains("lstm."));
    let loaded = Program::load_bytes(&Device::cpu(), bytes).await?;
    let [own, there] = [program, loaded].map(|program| async move {
        let outputs = program.run([("x", &numbers(3, 6))]).await?;
        Ok::<_, Error>([outputs.read::<f32>("h").await?, outputs.read::<f32>("c").await?])
    });
    assert_eq!(own.await?, there.await?);
    Ok(())
}

#[tokio::test]
async fn descriptions_need_no_device() -> Result<()> {
    let (batch, _) = decoder(&Device::cpu());
    let line = line!() - 1;
    let bytes = batch.to_bytes().await?;
    let info = Program::describe(&Weights::from_bytes(bytes)?)?;
    let names =
        |values: &[onetrip::ValueInfo]| values.iter().map(|v| v.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&info.inputs), ["x"]);
    assert_eq!(names(&info.outputs), ["y", "output1"]);
    assert_eq!(names(&info.tensors), ["upload1", "weight", "keys"]);
    assert_eq!(info.fingerprint, batch.compile().await?.fingerprint());
    let place = &info.inputs[0].place;
    assert!(place.file().ends_with("main.rs") && place.line() < line, "{place}");
    assert!(info.to_string().contains("input \"x\": f32[2, 1, 4]"), "{info}");
    Ok(())
}

#[tokio::test]
async fn weights_may_stay_behind() -> Result<()> {
    let device = Device::cpu();
    let (batch, _) = decoder(&device);
    let program = batch.compile().await?;
    let folder = std::env::temp_dir();
    let path = folder.join(format!("onetrip-weights-{}.safetensors", std::process::id()));
    program.save(&path).await?;
    // SAFETY: the file is of this test alone.
    let whole = unsafe { Weights::map(&path) }?;
    let loaded = Program::load_with(&device, &whole, LoadOptions::default()).await?;
    program.save_with(&path.with_extension("few"), SaveOptions { leave_out_weights: true }).await?;
    let few = Weights::read(path.with_extension("few"))?;
    assert_eq!(few.names(), ["keys", "upload1"]);
    let error = Program::load_with(&device, &few, LoadOptions::default()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Data(DataError::LeftOut { name, given: None, .. }) if name == "weight"),
        "{error}"
    );
    let options = LoadOptions { weights: Some(whole.clone()), ..LoadOptions::default() };
    let given = Program::load_with(&device, &few, options).await?;
    assert_eq!(step(&loaded, 5).await?, step(&given, 5).await?);
    drop(whole);
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(path.with_extension("few")).unwrap();
    Ok(())
}

#[tokio::test]
async fn weights_of_a_file_keep_their_names_and_may_be_replaced() -> Result<()> {
    let device = Device::cpu();
    let file = |name: &str, number: f32| {
        let bytes = number.to_le_bytes();
        let tensor = TensorView::new(Dtype::F32, vec![1], &bytes).expect("a tensor");
        let bytes = safetensors::serialize([(name, tensor)], None).expect("a file");
        Weights::from_bytes(bytes).expect("a file")
    };
    let weight = file("fc.weight", 2.0).resident::<f32>(&device, "fc.weight")?;
    let state = device.resident(&[1.0_f32], 1)?;
    let batch = GpuCommandBatch::new(&device);
    (batch.input::<f32>("x", 1) * &weight + &state).named("y");
    let saved = Weights::from_bytes(batch.to_bytes().await?)?;
    assert_eq!(saved.names(), ["fc.weight", "resident1"]);
    let recorded = batch.compile().await?;
    assert_eq!(recorded.resident::<f32>("fc.weight")?.read().await?, [2.0]);
    let error = recorded.resident::<f32>("fc.bias").unwrap_err().to_string();
    assert!(error.contains("called \"fc.bias\"") && error.contains("\"fc.weight\""), "{error}");
    let error = recorded.resident::<i32>("fc.weight").unwrap_err().to_string();
    assert!(error.contains("resident \"fc.weight\" (at"), "{error}");
    let load = async |weights: Option<Weights>| {
        let options = LoadOptions { weights, ..LoadOptions::default() };
        let program = Program::load_with(&device, &saved, options).await?;
        let y = program.run(("x", &[10.0_f32])).await?.read::<f32>("y").await?;
        let weight = program.resident::<f32>("fc.weight")?.read().await?;
        assert!(program.resident::<f32>("resident1").is_err());
        Ok::<_, Error>((y, weight))
    };
    assert_eq!(load(None).await?, (vec![21.0], vec![2.0]));
    assert_eq!(load(Some(file("fc.weight", 3.0))).await?, (vec![31.0], vec![3.0]));
    let error = load(Some(file("weight", 3.0))).await.unwrap_err().to_string();
    let want = "it has none of the tensors of the program, such as \"fc.weight\"; give a file with";
    assert!(error.contains(want), "{error}");
    Ok(())
}

#[tokio::test]
async fn weights_that_are_left_out_are_asked_for() -> Result<()> {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let weight = batch.bind(&device.resident(&numbers(4, 15), [3, 5])?).named("fc.weight");
    batch.input::<f32>("x", [2, 3]).matmul(weight).named("y");
    let path =
        std::env::temp_dir().join(format!("onetrip-left-{}.safetensors", std::process::id()));
    let program = batch.compile().await?;
    program.save_with(&path, SaveOptions { leave_out_weights: true }).await?;
    let file = Weights::read(&path)?;
    std::fs::remove_file(&path).expect("the file of this test");
    let refused = async |weights: Option<Weights>| {
        let options = LoadOptions { weights, ..LoadOptions::default() };
        Program::load_with(&device, &file, options).await.unwrap_err().to_string()
    };
    let other = |name: &str, shape: &[usize]| {
        let bytes = vec![0; 4 * shape.iter().product::<usize>()];
        let tensor = TensorView::new(Dtype::F32, shape.to_vec(), &bytes).expect("a tensor");
        let bytes = safetensors::serialize([(name, tensor)], None).expect("a file");
        Some(Weights::from_bytes(bytes).expect("a file"))
    };
    let without =
        format!("{}: the program was saved without its weight \"fc.weight\"", path.display());
    assert_eq!(refused(None).await, format!("{without}; give it by `LoadOptions::weights`"));
    let there = "the file in memory has no such tensor (did you mean \"fc.wieght\"?), but under \"fc.\" there is";
    let misspelt = format!("{without}, and {there} \"fc.wieght\"");
    assert_eq!(refused(other("fc.wieght", &[3, 5])).await, misspelt);
    let turned = refused(other("fc.weight", &[5, 3])).await;
    assert!(
        turned.contains("has shape [5, 3], not [3, 5]; transposed it fits: record"),
        "{turned}"
    );
    let wrong = refused(other("fc.weight", &[15])).await;
    assert!(wrong.contains("has shape [15], not [3, 5]; give the tensor that"), "{wrong}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_named() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    batch.input::<f32>("x", 1).exp().named("y");
    let path = std::env::temp_dir().join("onetrip-there-is-no-such-folder").join("y.safetensors");
    let error = batch.save(&path).await.unwrap_err().to_string();
    let start = format!("{}: `save` cannot write this file: ", path.display());
    assert!(error.starts_with(&start) && error.ends_with("; check its folder"), "{error}");
}

#[tokio::test]
async fn places_of_other_languages_travel() -> Result<()> {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let (x, y) = {
        let _at = batch.at("model.py", 12);
        (batch.input::<i32>("x", 2), batch.input::<i32>("y", 2))
    };
    let quotient = {
        let _at = batch.at("model.py", 13);
        (x / y).named("quotient")
    };
    assert_eq!(batch.check_recorded().map_err(|error| error.to_string()), Ok(()));
    batch.download(quotient);
    let program = Program::load_bytes(&device, batch.to_bytes().await?).await?;
    let fault = program.run([("x", &[4, 4]), ("y", &[2, 0])]).await.unwrap_err().to_string();
    assert_eq!(
        fault,
        "model.py:13: div: division by zero at [1]; `select` can replace such divisors"
    );
    let wrong = program.run([("x", &[4, 4, 4]), ("y", &[2, 1, 1])]).await.unwrap_err().to_string();
    assert!(wrong.contains("(at model.py:12)"), "{wrong}");
    Ok(())
}

/// A file of the first version of the format, which later versions of the crate must load: it may be regenerated only
/// with a new version (`ONETRIP_WRITE_GOLDEN=1`, then commit it under a new name).
#[tokio::test]
async fn the_file_of_version_1_gives_known_values() -> Result<()> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/program_files/version_1.safetensors");
    let device = Device::cpu();
    if std::env::var_os("ONETRIP_WRITE_GOLDEN").is_some() {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", [2, 3]);
        let total = device.resident(&[10.0_f32, 20.0], 2)?;
        let weight = device.resident(&[1.0_f32, 0.0, 0.0, -1.0, 2.0, 0.5], [3, 2])?;
        let sums = x.matmul(batch.bind(&weight).named("weight")).sum(0);
        let next = batch.bind(&total).named("total") + sums.clip(f32::NEG_INFINITY, 100.0);
        batch.update(&total, next);
        let best = x.transpose().argmax(0).named("best");
        let ids = batch.upload(&[2_u32, 0]);
        batch.outputs((
            next.named("next"),
            best,
            x.gather(ids, 1).pad([(0, 0), (0, 1)], 7.0).named("gathered"),
        ));
        batch.save(&path).await?;
    }
    let program = Program::load(&device, &path).await?;
    let x = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    for round in 1..3_u8 {
        let round = f32::from(round);
        let outputs = program.run([("x", &x)]).await?;
        // Columns of x·weight sum to 5 + 18 and -7 + 4.5.
        assert_eq!(outputs.read::<f32>("next").await?, [10.0 + 23.0 * round, 20.0 - 2.5 * round]);
        assert_eq!(outputs.read::<u32>("best").await?, [2, 2]);
        assert_eq!(outputs.read::<f32>("gathered").await?, [3.0, 1.0, 7.0, 6.0, 4.0, 7.0]);
    }
    Ok(())
}
