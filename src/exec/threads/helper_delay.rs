//! The delay with which helpers come, and the least work that is worth sharing with them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Nanoseconds within which helpers on near cores come. On two cores of an EPYC that share a cache they took 120 to 170, and
/// 350 to 450 on two that do not.
const NEAR: u32 = 200;
/// Nanoseconds of work that a part needs for each nanosecond beyond [`NEAR`]: a far helper reads some thirty lines from
/// the owner's cache, one after the other.
const WORK_PER_DELAY: u64 = 30;
/// Longest delay in nanoseconds. A helper that takes longer was interrupted.
const LONGEST: u32 = 2_000;

/// Nanoseconds from the opening of a team until a helper that spun for it has come: the recent minimum of the slowest one.
#[derive(Debug, Default)]
pub(super) struct TeamDelay(AtomicU32);

/// The recent minimum of one helper.
#[derive(Debug)]
pub(super) struct HelperDelay(u32);

impl TeamDelay {
    /// Notes that a helper came after `delay`. Its minimum rises by a sixteenth a note, so that it follows threads that
    /// move to other cores.
    pub fn note(&self, HelperDelay(own): &mut HelperDelay, delay: Duration) {
        let now = u32::try_from(delay.as_nanos()).unwrap_or(u32::MAX).min(LONGEST);
        *own = now.min(own.saturating_add(*own / 16 + 1));
        // Several helpers may note at once. A note that is lost comes again.
        let all = self.0.load(Ordering::Relaxed);
        let above = all.saturating_sub(*own);
        self.0.store(all.max(*own) - above.div_ceil(4), Ordering::Relaxed);
    }

    /// The nanoseconds of work that are worth a part of their own. For near helpers, they are `least`.
    pub fn least_part(&self, least: u64) -> u64 {
        let beyond = self.0.load(Ordering::Relaxed).saturating_sub(NEAR);
        least.max(WORK_PER_DELAY * u64::from(beyond))
    }
}

impl Default for HelperDelay {
    /// The first delay is taken as it is.
    fn default() -> Self {
        Self(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_from_far_get_no_small_parts() {
        let (team, mut near, mut far) =
            (TeamDelay::default(), HelperDelay::default(), HelperDelay::default());
        let after = |helper: &mut HelperDelay, nanoseconds, times| {
            (0..times).for_each(|_| team.note(helper, Duration::from_nanos(nanoseconds)));
            team.least_part(500)
        };
        assert_eq!(team.least_part(500), 500);
        assert_eq!(after(&mut near, u64::from(NEAR), 1), 500);
        // One long delay may be an interruption, and counts little: 200 + 12 + 1.
        assert_eq!(after(&mut near, u64::MAX, 1), 500.max(13 * WORK_PER_DELAY));
        assert_eq!(after(&mut near, 150, 10), 500);
        let slowest = 200 * WORK_PER_DELAY;
        assert_eq!(after(&mut far, 400, 1), slowest);
        after(&mut near, 150, 1);
        assert_eq!(after(&mut far, 400, 1), slowest, "the slowest helper counts");
        assert_eq!(after(&mut far, u64::MAX, 1_000), u64::from(LONGEST - NEAR) * WORK_PER_DELAY);
        assert_eq!(after(&mut far, 150, 30), 500, "the threads are near again");
    }
}
