//! The service: one task takes sentences from many, and runs those that wait together, padded to a few lengths.

use onetrip::{Backend, Device, GpuCommandBatch, Input, Program, Result};
use tokio::sync::{mpsc, oneshot};

use crate::model::{Model, record};

/// Sentences of one run, and the lengths that they are padded to.
const SENTENCES: usize = 4;
const LENGTHS: [usize; 3] = [8, 16, 32];

/// A sentence, as its tokenizer gives it, and where its embedding goes.
pub struct Request {
    pub ids: Vec<i64>,
    pub reply: oneshot::Sender<Vec<f32>>,
}

pub struct Service {
    /// A program for each length.
    programs: Vec<(usize, Program)>,
    pub trips: Trips,
}

/// The most of each in one run.
#[derive(Default)]
pub struct Trips {
    pub backend: Option<Backend>,
    pub uploads: u64,
    pub submits: u64,
    pub downloads: u64,
}

impl Service {
    pub async fn new(device: &Device, model: &Model) -> Result<Self> {
        let mut programs = Vec::new();
        for length in LENGTHS {
            let batch = GpuCommandBatch::new(device);
            record(&batch, model, [SENTENCES, length]);
            programs.push((length, batch.compile().await?));
        }
        Ok(Self { programs, trips: Trips::default() })
    }

    /// Serves until nobody can send any more.
    pub async fn serve(mut self, mut requests: mpsc::Receiver<Request>) -> Result<Trips> {
        let mut waiting = Vec::new();
        while requests.recv_many(&mut waiting, SENTENCES * LENGTHS.len()).await > 0 {
            let mut shorter = 0;
            for (length, program) in &self.programs {
                let fits = |request: &mut Request| (shorter..=*length).contains(&request.ids.len());
                let mut fitting: Vec<Request> = waiting.extract_if(.., fits).collect();
                while !fitting.is_empty() {
                    let run = fitting.drain(..fitting.len().min(SENTENCES)).collect();
                    answer(program, *length, run, &mut self.trips).await?;
                }
                shorter = length + 1;
            }
            // Longer ones have no answer: their senders see that.
            waiting.clear();
        }
        Ok(self.trips)
    }
}

/// Runs sentences together, and answers each.
async fn answer(
    program: &Program,
    length: usize,
    sentences: Vec<Request>,
    trips: &mut Trips,
) -> Result<()> {
    let mut ids = vec![0; SENTENCES * length];
    let mut known = vec![false; SENTENCES * length];
    for (row, request) in sentences.iter().enumerate() {
        let words = row * length..row * length + request.ids.len();
        ids[words.clone()].copy_from_slice(&request.ids);
        known[words].fill(true);
    }
    let outputs = program.run((Input::ids("ids", &ids), ("known", &known))).await?;
    let stats = outputs.stats();
    trips.backend = stats.backend;
    trips.uploads = trips.uploads.max(stats.uploads);
    trips.submits = trips.submits.max(stats.submits);
    trips.downloads = trips.downloads.max(stats.downloads);
    let embeddings: Vec<f32> = outputs.into_vec("embeddings").await?;
    let width = embeddings.len() / SENTENCES;
    for (request, embedding) in sentences.into_iter().zip(embeddings.chunks(width)) {
        // A client that does not wait any more needs no answer.
        let _ = request.reply.send(embedding.to_vec());
    }
    Ok(())
}
