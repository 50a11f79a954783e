//! Sentence embeddings: an encoder in PyTorch's names and layout, served to several tasks at once. Sentences that wait
//! together are padded to a common length and run in one trip. Beside the embeddings stand those computed in `f64`, each
//! sentence alone and without padding.
//!
//! Fails where a number of an embedding is off by more than 10⁻⁵.

mod model;
mod service;

use std::error::Error;
use std::path::PathBuf;

use model::Model;
use onetrip::{Device, Weights};
use service::{Request, Service};
use tokio::sync::{mpsc, oneshot};

const TOLERANCE: f32 = 1e-5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let expected = Weights::read(path("encoder_expected.safetensors"))?;
    let sentences = sentences(&expected)?;
    let wanted: Vec<f32> = expected.vec("embeddings")?;
    let width = wanted.len() / sentences.len();

    let device = Device::auto().await?;
    println!("{}", device.info());
    if let Some(why) = &device.info().fallback {
        println!("on the CPU: {why}");
    }
    let model = Model::load(&device, &Weights::read(path("encoder.safetensors"))?)?;
    let service = Service::new(&device, &model).await?;
    let (requests, waiting) = mpsc::channel(sentences.len());
    let serving = tokio::spawn(service.serve(waiting));
    let clients: Vec<_> =
        sentences.into_iter().map(|ids| tokio::spawn(embedding(requests.clone(), ids))).collect();
    drop(requests);

    let trips = serving.await??;
    let mut error = 0.0_f32;
    let count = clients.len();
    for (client, want) in clients.into_iter().zip(wanted.chunks(width)) {
        let (words, got) = client.await?.ok_or("a sentence has no embedding")?;
        let off = greatest_difference(&got, want);
        println!("{words:2} words, off by {off:.1e}: {:+.3?} …", &got[..4]);
        error = error.max(off);
    }
    println!(
        "transformer: {count} sentences, max |error| {error:.1e}, backend {}, uploads {}, submits {}, downloads {}",
        trips.backend.ok_or("nothing ran")?,
        trips.uploads,
        trips.submits,
        trips.downloads,
    );
    if error > TOLERANCE {
        return Err(format!("embeddings are off by {error:e}, and may be by {TOLERANCE:e}").into());
    }
    Ok(())
}

/// A client: sends a sentence, and waits for its embedding. Returns the number of its words too.
async fn embedding(requests: mpsc::Sender<Request>, ids: Vec<i64>) -> Option<(usize, Vec<f32>)> {
    let (words, (reply, answer)) = (ids.len(), oneshot::channel());
    requests.send(Request { ids, reply }).await.ok()?;
    Some((words, answer.await.ok()?))
}

/// A file of `data/`.
fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "data", name].iter().collect()
}

/// The ids of each sentence.
fn sentences(expected: &Weights) -> onetrip::Result<Vec<Vec<i64>>> {
    let mut ids = expected.vec::<i32>("ids")?.into_iter().map(i64::from);
    let lengths = expected.vec::<u32>("lengths")?;
    Ok(lengths.iter().map(|&length| ids.by_ref().take(length as usize).collect()).collect())
}

/// The greatest |a − b|; infinite where one is NaN or the lengths differ.
fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.map(|d| if d.is_nan() { f32::INFINITY } else { d }).fold(0.0, f32::max)
}
