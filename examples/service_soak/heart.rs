//! A heart: a task that wakes every millisecond, which shows for how long a runtime leaves a task waiting.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(1);
/// A beat that comes later than by this is too late.
const LATE: Duration = Duration::from_millis(5);

/// Beats from one look at what the host took to the next.
const LOOK: u32 = 100;

/// The delays of beats.
#[derive(Default)]
pub struct Beats {
    pub latest: Duration,
    /// Beats that were too late.
    late: Vec<Late>,
    /// The time that the host took from the machine in all.
    stolen: Duration,
}

/// A beat that was too late.
struct Late {
    at: Instant,
    /// Since the first.
    after: Duration,
    by: Duration,
    /// The time that the host took from the machine since the look before, at most [`LOOK`] beats ago.
    stolen: Duration,
}

/// Beats until the `end`.
pub async fn heartbeat(end: Arc<AtomicBool>) -> Beats {
    let (begin, before, mut beats) = (Instant::now(), stolen(), Beats::default());
    let (mut last, mut looked, mut until_look) = (begin, before, LOOK);
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(BEAT).await;
        let at = Instant::now();
        let by = (at - last).saturating_sub(BEAT);
        beats.latest = beats.latest.max(by);
        last = at;
        until_look -= 1;
        if by > LATE || until_look == 0 {
            let now = stolen();
            if by > LATE {
                let (after, stolen) = (at - begin, now.saturating_sub(looked));
                beats.late.push(Late { at, after, by, stolen });
            }
            (looked, until_look, last) = (now, LOOK, Instant::now());
        }
    }
    beats.stolen = stolen().saturating_sub(before);
    beats
}

/// The time, summed over all cores, that the machine's host gave to others, if the system reports it: field 8 of the
/// first line, in hundredths of a second.
fn stolen() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let field = text.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    Duration::from_millis(10 * field.unwrap_or(0))
}

impl Beats {
    /// The delay of the latest beat, and the time that the host took meanwhile.
    pub fn summary(&self) -> String {
        let latest = self.latest.as_secs_f64() * 1e3;
        format!("heartbeat max {latest:.1} ms{}", took(self.stolen))
    }

    /// Prints what the host took from the machine, if anything.
    pub fn print_stolen(&self) {
        if !self.stolen.is_zero() {
            println!("host: took {} ms of its cores from this machine", self.stolen.as_millis());
        }
    }

    /// Prints how many beats were too late, if any, and how long after one of `losses` those came that were so most.
    pub fn print_late(mut self, losses: &[Instant]) {
        const MOST: usize = 6;
        if self.late.is_empty() {
            return;
        }
        self.late.sort_by_key(|late| Reverse(late.by));
        let each: Vec<_> = self.late.iter().take(MOST).map(|late| late.line(losses)).collect();
        let (count, least) = (self.late.len(), LATE.as_millis());
        println!("late: {count} beats by more than {least} ms: {}", each.join("; "));
    }
}

impl Late {
    fn line(&self, losses: &[Instant]) -> String {
        let loss = losses.iter().rev().find(|&&loss| loss < self.at);
        let since = loss.map_or_else(String::new, |&loss| {
            format!(", {} ms after the GPU was lost", (self.at - loss).as_millis())
        });
        let (by, after) = (self.by.as_secs_f64() * 1e3, self.after.as_secs_f64());
        format!("{by:.1} ms at {after:.3} s{since}{}", took(self.stolen))
    }
}

fn took(stolen: Duration) -> String {
    match stolen.as_millis() {
        0 => String::new(),
        ms => format!(", while the host took {ms} ms of its cores"),
    }
}
