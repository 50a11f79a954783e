//! The delay with which helpers come, and the least work that it is worth to share with them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Nanoseconds within which helpers of near cores come. On two cores of an EPYC that share a cache they took 120 to 170, and
/// 350 to 450 on two that do not.
const NEAR: u32 = 200;
/// Nanoseconds of work that a part needs for each nanosecond beyond that: a helper from far reads some thirty lines from
/// the owner's cache, one after the other.
const WORTH: u64 = 30;
/// Longest delay in nanoseconds. A helper that takes longer was interrupted.
const LONGEST: u32 = 2_000;

/// Nanoseconds from the opening of a team until a helper that spun for it has come: the least of late.
#[derive(Debug, Default)]
pub(super) struct HelperDelay(AtomicU32);

impl HelperDelay {
    /// Notes that a helper came after `delay`. The least rises by a sixteenth, so that it follows threads that move to other
    /// cores.
    pub fn note(&self, delay: Duration) {
        let now = u32::try_from(delay.as_nanos()).unwrap_or(u32::MAX).min(LONGEST);
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(now.min(before + before / 16 + 1), Ordering::Relaxed);
    }

    /// The nanoseconds of work that are worth a part of their own. From near cores, those are `least`.
    pub fn least_part(&self, least: u64) -> u64 {
        let beyond = self.0.load(Ordering::Relaxed).saturating_sub(NEAR);
        least.max(WORTH * u64::from(beyond))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_from_far_get_no_small_parts() {
        let delay = HelperDelay::default();
        let after = |nanoseconds, times| {
            (0..times).for_each(|_| delay.note(Duration::from_nanos(nanoseconds)));
            delay.least_part(500)
        };
        assert_eq!(after(0, 1), 500);
        assert_eq!(after(u64::from(NEAR), 1_000), 500);
        // One long delay may be an interruption.
        assert_eq!(after(u64::MAX, 1), 500);
        assert_eq!(after(400, 100), 200 * WORTH);
        assert_eq!(after(u64::MAX, 1_000), u64::from(LONGEST - NEAR) * WORTH);
        assert_eq!(after(150, 1), 500, "the threads are near again");
    }
}
