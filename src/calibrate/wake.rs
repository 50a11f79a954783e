//! A card at rest is woken before it is measured.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::graphs::{self, Piece};
use super::probe::{Bench, Probe};
use crate::clock::Stopwatch;
use crate::plan::plan;

/// Rows and columns of the products that wake a card: a run of them takes an H200 1 ms, and 3 where it was at rest. What
/// else comes to the card waits no longer than that.
pub(super) const WAKING_SIDE: usize = 2048;
/// Products of a run.
const PRODUCTS: usize = 2;
/// Seconds of work at the least: an H200 at 345 MHz raised its clocks after 0.13 s for the first time, and was at its
/// highest after half a second.
const LEAST: f64 = 0.15;

/// Work for a card whose driver lowers the clocks while it rests.
pub(super) struct Wake<'a> {
    bench: &'a Bench<'a>,
    probe: Probe,
}

impl<'a> Wake<'a> {
    /// With its kernel compiled; `None` where the card has no room for it.
    pub async fn prepared(bench: &'a Bench<'a>, side: usize) -> Option<Self> {
        let product = Piece::Product { m: side, n: side, k: side };
        let plan = plan(&graphs::pieces(product, 0, PRODUCTS)?, bench.target).ok()?;
        let probe = bench.prepare(plan).await.ok()?;
        Some(Self { bench, probe })
    }

    /// What `other` comes to, with the card at work meanwhile.
    pub async fn while_doing<T>(&self, other: impl Future<Output = T>) -> T {
        let working = Stopwatch::started();
        let mut other = pin!(other);
        let mut done = None;
        // What fails says so to the probes that follow.
        while self.bench.may_go_on() && (done.is_none() || working.total().as_secs_f64() < LEAST) {
            let mut run = pin!(self.bench.run(&self.probe));
            let ran = poll_fn(|context| {
                if done.is_none()
                    && let Poll::Ready(what) = other.as_mut().poll(context)
                {
                    done = Some(what);
                }
                run.as_mut().poll(context)
            });
            if ran.await.is_err() {
                break;
            }
        }
        match done {
            Some(done) => done,
            None => other.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::super::AtOnce;
    use super::*;
    use crate::Device;

    #[test]
    fn the_card_works_until_the_other_is_done_and_for_a_while_at_least() {
        let Ok(device) = pollster::block_on(Device::builder().without_cache().both()) else {
            return;
        };
        let (gpu, targets) = (device.opened().expect("just opened"), device.targets());
        let (target, data) = (targets.gpu.as_ref().expect("there is one"), Default::default());
        let bench = Bench::on_gpu(&gpu, target, &AtOnce, &data);
        let wake = pollster::block_on(Wake::prepared(&bench, 16)).expect("room");
        // Asks to be polled again by whoever runs beside it.
        let mut polls = 0;
        let other = poll_fn(|_| {
            polls += 1;
            if polls == 20 { Poll::Ready(7) } else { Poll::Pending }
        });
        let working = Stopwatch::started();
        assert_eq!(pollster::block_on(wake.while_doing(other)), 7);
        assert_eq!(polls, 20, "not polled once it was done");
        assert!(working.total().as_secs_f64() >= LEAST);
    }
}
