//! A program that travels: one process records the digits' network for 8 rows and saves it, another one loads it and
//! runs it with any number of rows.
//! `cargo run --release --features safetensors --example save_and_load`; `-- --keep FILE` keeps the file.

#[path = "digits/dataset.rs"]
#[expect(dead_code, reason = "the example `digits` shows more of them")]
mod dataset;
#[path = "common/tensors.rs"]
#[expect(dead_code, reason = "onetrip reads the weights")]
mod tensors;

use std::error::Error;
use std::path::Path;
use std::process::Command;

use dataset::{CLASSES, Digits, PIXELS};
use onetrip::{Device, GpuCommandBatch, Program, Weights};

/// The rows that the network is recorded with, and those that it runs with.
const RECORDED: usize = 8;
const RUNS: [usize; 4] = [1, 7, 64, 360];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let name = format!("digits-{}.safetensors", std::process::id());
            let path = std::env::temp_dir().join(name);
            let done = travel(&path).await;
            let removed = std::fs::remove_file(&path);
            done.and(removed.map_err(Into::into))
        }
        ["--keep", path] => travel(Path::new(path)).await,
        ["--run", path] => run(Path::new(path)).await,
        _ => Err("the arguments are none, `--keep FILE` or `--run FILE`".into()),
    }
}

/// Saves the network, and has another process run it.
async fn travel(path: &Path) -> Result<(), Box<dyn Error>> {
    save(path).await?;
    let other = Command::new(std::env::current_exe()?).arg("--run").arg(path).status();
    if other?.success() { Ok(()) } else { Err("the other process failed".into()) }
}

/// Records the network with its weights, and saves it.
async fn save(path: &Path) -> Result<(), Box<dyn Error>> {
    let model = Weights::read(data("digits_mlp.safetensors"))?;
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let pixels = model.shape("w1")?[0];
    let mut x = batch.input::<f32>("pixels", [RECORDED, pixels]);
    for layer in 1..=3 {
        let [w, b] = [format!("w{layer}"), format!("b{layer}")];
        let [weight, bias] = [model.resident(&device, &w)?, model.resident(&device, &b)?];
        let sums = x.linear(batch.bind(&weight).named(&w), batch.bind(&bias).named(&b));
        x = if layer < 3 { sums.relu() } else { sums };
    }
    batch.outputs((x.named("logits"), x.argmax(1).named("class")));
    batch.save(path).await?;
    println!("process {} saved {} bytes", std::process::id(), std::fs::metadata(path)?.len());
    Ok(())
}

/// Loads the network, knowing nothing of it, and compares its results with those of `f64`.
async fn run(path: &Path) -> Result<(), Box<dyn Error>> {
    let file = Weights::read(path)?;
    let info = Program::describe(&file)?;
    println!("process {} found {info}", std::process::id());
    let program = Program::load(&Device::auto().await?, path).await?;
    for (name, result) in program.rows()?.outputs() {
        println!("output {}: {result:?}", name.unwrap_or("without a name"));
    }
    let digits = Digits::load()?;
    let expected = Weights::read(data("digits_mlp_expected.safetensors"))?.vec::<f32>("logits")?;
    let (mut right, mut greatest) = (0, 0.0_f32);
    for rows in RUNS {
        let pixels = &digits.pixels[..rows * PIXELS];
        let outputs = program.run_rows([("pixels", pixels)]).await?;
        let (classes, logits) =
            (outputs.read::<u32>("class").await?, outputs.read("logits").await?);
        if (classes.len(), logits.len()) != (rows, rows * CLASSES) {
            return Err(format!("{} classes of {rows} rows", classes.len()).into());
        }
        right = classes.iter().zip(&digits.classes).filter(|(got, want)| got == want).count();
        let errors = logits.iter().zip(&expected).map(|(x, y): (&f32, &f32)| (x - y).abs());
        let error = errors.fold(0.0, f32::max);
        println!("{rows} rows: {right} right, max |error| {error:.1e}");
        greatest = greatest.max(error);
    }
    println!("loaded digits: {right} of {} right, max |error| {greatest:.1e}", digits.len());
    if right == 329 && greatest < 1e-4 {
        Ok(())
    } else {
        Err("the results should be those of the model's file".into())
    }
}

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}
