//! Random histories of a service: batches, programs, cancelled runs, lost GPUs and devices opened again, with plain
//! loops as the oracle.

mod common;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use onetrip::{Device, Error, GpuCommandBatch, Input, Program, Recovery, Resident, Result};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// The actions of a caller.
#[derive(Clone, Debug)]
enum Action {
    /// Records and runs `relu(x · scale) + 1` of so many numbers.
    Batch {
        count: usize,
        scale: i8,
    },
    /// Adds this to the state, in a run that is polled so many times at most.
    Step {
        by: i8,
        polls: usize,
    },
    /// Reads the state.
    Read,
    Trim,
    LoseDevice,
    /// Drops everything but the state's numbers, and opens the device again.
    Reload,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..3000_usize, any::<i8>()).prop_map(|(count, scale)| Action::Batch { count, scale }),
        6 => (any::<i8>(), 0..9_usize).prop_map(|(by, polls)| Action::Step { by, polls }),
        2 => Just(Action::Read),
        1 => Just(Action::Trim),
        1 => Just(Action::LoseDevice),
        1 => Just(Action::Reload),
    ]
}

/// Elements of the state.
const WIDTH: usize = 257;

/// A device with a state on it, and what that must be.
struct Service {
    device: Device,
    state: Resident<f32>,
    step: Program,
    model: f32,
}

impl Service {
    async fn open(device: Device, model: f32) -> Result<Self> {
        let state = device.resident(&[model; WIDTH], WIDTH)?;
        state.keep_host_copy().await?;
        let batch = GpuCommandBatch::new(&device);
        let by = batch.input::<f32>("by", 1);
        let new = batch.bind(&state).add(by);
        batch.update(&state, new);
        batch.download(new);
        batch.name(new, "new");
        let step = batch.compile().await?;
        Ok(Self { device, state, step, model })
    }

    async fn act(&mut self, action: &Action) -> Result<()> {
        match *action {
            Action::Batch { count, scale } => self.batch(count, f32::from(scale)).await?,
            Action::Step { by, polls } => self.step(f32::from(by), polls).await?,
            Action::Read => assert_eq!(self.state.read().await?, [self.model; WIDTH]),
            Action::Trim => self.device.trim(),
            Action::LoseDevice => self.device.simulate_loss(),
            Action::Reload => {
                let device =
                    if self.device.is_gpu() { builder().gpu().await? } else { builder().cpu()? };
                *self = Self::open(device, self.model).await?;
            }
        }
        Ok(())
    }

    async fn batch(&self, count: usize, scale: f32) -> Result<()> {
        let data: Vec<f32> = (0..count).map(|at| (at % 100) as f32 - 50.0).collect();
        let got = self.device.eval(|b| b.upload(&data).scale(scale).relu().add_scalar(1.0));
        let want: Vec<f32> = data.iter().map(|x| (x * scale).max(0.0) + 1.0).collect();
        assert_eq!(got.await?, want);
        Ok(())
    }

    /// A run that is dropped in the middle changes nothing; one that ends changes all.
    async fn step(&mut self, by: f32, mut polls: usize) -> Result<()> {
        let data = [by];
        let mut run = pin!(self.step.run([Input::from(("by", &data))]));
        let ended = poll_fn(|context| {
            if polls == 0 {
                return Poll::Ready(None);
            }
            polls -= 1;
            run.as_mut().poll(context).map(Some)
        });
        let Some(outputs) = ended.await else { return Ok(()) };
        let outputs = outputs?;
        self.model += by;
        assert_eq!(outputs.read::<f32>("new").await?, [self.model; WIDTH]);
        Ok(())
    }
}

fn builder() -> onetrip::DeviceBuilder {
    Device::builder().without_cache().memory_budget(1 << 20).recovery(Recovery::Reopen)
}

#[test]
fn random_histories_end_as_loops_say() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases: 8, failure_persistence: None, ..Config::default() };
    let histories = prop::collection::vec(action(), 1..40);
    let on = |gpu: bool, actions: Vec<Action>| {
        runtime.block_on(async {
            let device = if gpu { builder().gpu().await? } else { builder().cpu()? };
            let mut service = Service::open(device, 0.0).await?;
            for action in &actions {
                service.act(action).await?;
            }
            service.act(&Action::Read).await
        })
    };
    for device in runtime.block_on(common::devices()) {
        let gpu = device.is_gpu();
        let run = |actions| {
            on(gpu, actions).map_err(|error: Error| TestCaseError::fail(error.to_string()))
        };
        TestRunner::new(config.clone()).run(&histories, run).unwrap();
    }
}
