//! A heart: a task that wakes every millisecond, which shows for how long a runtime leaves a task waiting.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(1);
/// A beat that comes later than by this is too late.
const LATE: Duration = Duration::from_millis(5);

/// How late beats came.
#[derive(Default)]
pub struct Beats {
    pub latest: Duration,
    /// Those that were too late.
    late: Vec<Late>,
}

/// A beat that was too late.
struct Late {
    at: Instant,
    by: Duration,
}

/// Beats until the `end`.
pub async fn heartbeat(end: Arc<AtomicBool>) -> Beats {
    let (mut last, mut beats) = (Instant::now(), Beats::default());
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(BEAT).await;
        let at = Instant::now();
        let by = (at - last).saturating_sub(BEAT);
        beats.latest = beats.latest.max(by);
        if by > LATE {
            beats.late.push(Late { at, by });
        }
        last = at;
    }
    beats
}

impl Beats {
    /// Prints how many beats were too late, if any, and how long after one of `losses` those came that were so most.
    pub fn print_late(mut self, losses: &[Instant]) {
        const MOST: usize = 6;
        if self.late.is_empty() {
            return;
        }
        self.late.sort_by_key(|late| Reverse(late.by));
        let each: Vec<_> = self.late.iter().take(MOST).map(|late| late.line(losses)).collect();
        let (count, least) = (self.late.len(), LATE.as_millis());
        println!("late: {count} beats by more than {least} ms: {}", each.join(", "));
    }
}

impl Late {
    fn line(&self, losses: &[Instant]) -> String {
        let loss = losses.iter().rev().find(|&&loss| loss < self.at);
        let since = loss.map_or_else(String::new, |&loss| {
            format!(" {} ms after the GPU was lost", (self.at - loss).as_millis())
        });
        format!("{:.1} ms{since}", self.by.as_secs_f64() * 1e3)
    }
}
