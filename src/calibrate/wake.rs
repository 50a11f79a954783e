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
/// Seconds of work after which runs are compared, and those at the most: an H200 at 345 MHz raised its clocks every 0.13 s,
/// and was at its highest after half a second. One that has rested no longer than a second needs none.
const WINDOW: f64 = 0.15;
const MOST: f64 = 0.6;
/// A card is awake where runs take no less than so many times what they took a window before.
const SETTLED: f64 = 0.95;

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

    /// What `other` comes to, with the card at work meanwhile, and until it is awake.
    pub async fn while_doing<T>(&self, other: impl Future<Output = T>) -> T {
        let working = Stopwatch::started();
        let mut other = pin!(other);
        let (mut done, mut pace) = (None, Pace::default());
        // What fails says so to the probes that follow.
        while self.bench.may_go_on() && (done.is_none() || !pace.is_settled) {
            let mut run = pin!(self.bench.run(&self.probe));
            let ran = poll_fn(|context| {
                if done.is_none()
                    && let Poll::Ready(what) = other.as_mut().poll(context)
                {
                    done = Some(what);
                }
                run.as_mut().poll(context)
            });
            let Ok(seconds) = ran.await else { break };
            pace.note(working.total().as_secs_f64(), seconds);
        }
        match done {
            Some(done) => done,
            None => other.await,
        }
    }
}

/// Whether a card still gets faster.
#[derive(Default)]
struct Pace {
    /// When the window began, and the seconds of its first run.
    window: Option<(f64, f64)>,
    is_settled: bool,
}

impl Pace {
    /// Takes note of a run of so many seconds that ended `now`, after so many seconds of work.
    fn note(&mut self, now: f64, seconds: f64) {
        let &mut (began, first) = self.window.get_or_insert((0.0, seconds));
        if now - began >= WINDOW {
            self.is_settled = now >= MOST || seconds >= SETTLED * first;
            self.window = Some((now, seconds));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::super::AtOnce;
    use super::*;
    use crate::Device;

    /// After how many seconds a card is taken to be awake whose runs take so many, by what it has worked.
    fn settled(seconds: impl Fn(f64) -> f64) -> f64 {
        let (mut now, mut pace) = (0.0, Pace::default());
        while !pace.is_settled {
            let run = seconds(now);
            now += run;
            pace.note(now, run);
        }
        now
    }

    #[test]
    fn a_card_at_work_is_known_at_once_and_one_at_rest_once_it_gets_no_faster() {
        let about = |seconds: f64, least: f64| (least..least + 0.02).contains(&seconds);
        assert!(about(settled(|_| 1e-3), WINDOW));
        assert!(about(settled(|_| 0.5), 0.5), "a slow one");
        let stairs = |now: f64| [3.2e-3, 2.2e-3, 1.1e-3, 0.9e-3][((now / 0.13) as usize).min(3)];
        let awake = settled(stairs);
        assert!((4.0 * WINDOW..MOST + 0.02).contains(&awake), "{awake}");
        assert!(about(settled(|now| 0.01 / (1.0 + 20.0 * now)), MOST));
    }

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
        assert!(working.total().as_secs_f64() >= WINDOW);
    }
}
