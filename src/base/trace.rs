//! Spans and events of a run for subscribers of `tracing`, and its times for a profile.
//!
//! Without the feature `tracing` spans and events are nothing, and without a profile no clock is read.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Stopwatch;
use crate::base::sync::Mutex;

/// A stage of a run on the host: `stage!(timeline, "admit", bytes = 12)`.
macro_rules! stage {
    ($timeline:expr, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        #[cfg(feature = "tracing")]
        let stage = $crate::base::trace::StageSpan::new(
            &$timeline,
            $name,
            tracing::debug_span!(target: "onetrip", $name $(, $field = $value)*),
        );
        #[cfg(not(feature = "tracing"))]
        let stage = {
            let _ = || {
                $(let _ = &$value;)*
            };
            $crate::base::trace::StageSpan::new(&$timeline, $name)
        };
        stage
    }};
}

/// Something that happened: `event!(DEBUG, "compiled", kernel = label)`.
macro_rules! event {
    ($level:ident, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        #[cfg(feature = "tracing")]
        tracing::event!(target: "onetrip", tracing::Level::$level, $($field = $value,)* $name);
        #[cfg(not(feature = "tracing"))]
        let _ = || {
                $(let _ = &$value;)*
            };
    }};
}

pub(crate) use {event, stage};

/// The times of one run, if anybody asked for them. Clones write to the same page.
#[derive(Clone, Default)]
pub(crate) struct Timeline {
    log: Option<Arc<TimeLog>>,
    /// Steps of other plans of the run, which are counted first.
    steps: usize,
}

pub(crate) static OFF: Timeline = Timeline { log: None, steps: 0 };

struct TimeLog {
    since: Stopwatch,
    parts: Mutex<Vec<TimedPart>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedPart {
    pub what: TimedWork,
    /// Since the timeline began.
    pub start: Duration,
    pub time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "only a GPU tells"))]
pub(crate) enum TimedWork {
    /// The host, for this stage.
    Host(&'static str),
    /// The host's cores, for this step of the run's plans.
    Step(usize),
    Dispatch(usize),
    Copies(&'static str),
}

impl Timeline {
    /// A timeline that begins now.
    pub fn begun() -> Self {
        let log = TimeLog { since: Stopwatch::started(), parts: Mutex::default() };
        Self { log: Some(Arc::new(log)), steps: 0 }
    }

    /// For another plan of the same run, whose steps are counted from `steps`.
    pub fn after_steps(&self, steps: usize) -> Self {
        Self { log: self.log.clone(), steps }
    }

    /// True if anybody wants to know.
    pub fn is_kept(&self) -> bool {
        self.log.is_some()
    }

    /// The time since the beginning; zero where nobody wants to know.
    pub fn now(&self) -> Duration {
        self.log.as_ref().map_or(Duration::ZERO, |log| log.since.total())
    }

    /// Times a part from now until the returned value is dropped. `None` if nobody listens.
    pub fn part(&self, what: TimedWork) -> Option<PartTimer> {
        let start = self.log.as_ref()?.since.total();
        let what =
            if let TimedWork::Step(at) = what { TimedWork::Step(self.steps + at) } else { what };
        Some(PartTimer { timeline: self.clone(), what, start })
    }

    pub fn add(&self, part: TimedPart) {
        if let Some(log) = &self.log {
            log.parts.lock().push(part);
        }
    }

    /// Forgets the recorded parts; parts still in progress are recorded when they end.
    pub fn forget(&self) {
        if let Some(log) = &self.log {
            log.parts.lock().clear();
        }
    }

    /// The parts so far, in the order in which they began.
    pub fn parts(&self) -> Vec<TimedPart> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut parts = log.parts.lock().clone();
        parts.sort_by_key(|part| part.start);
        parts
    }
}

pub(crate) struct PartTimer {
    timeline: Timeline,
    what: TimedWork,
    start: Duration,
}

impl Drop for PartTimer {
    fn drop(&mut self) {
        let time = self.timeline.now().saturating_sub(self.start);
        self.timeline.add(TimedPart { what: self.what, start: self.start, time });
    }
}

pub(crate) struct StageSpan {
    timing: Option<PartTimer>,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl StageSpan {
    #[cfg(feature = "tracing")]
    pub fn new(timeline: &Timeline, name: &'static str, span: tracing::Span) -> Self {
        Self { timing: timeline.part(TimedWork::Host(name)), span }
    }

    #[cfg(not(feature = "tracing"))]
    pub fn new(timeline: &Timeline, name: &'static str) -> Self {
        Self { timing: timeline.part(TimedWork::Host(name)) }
    }

    /// Does `work` as this stage.
    pub fn of<R>(self, work: impl FnOnce() -> R) -> R {
        let _timing = self.timing;
        #[cfg(feature = "tracing")]
        let _entered = self.span.enter();
        work()
    }

    /// Awaits `future` as this stage. Pinned, since one of some KiB would be moved several times on the way.
    pub async fn over<F: Future>(self, future: Pin<&mut F>) -> F::Output {
        let _timing = self.timing;
        #[cfg(feature = "tracing")]
        let future = tracing::Instrument::instrument(future, self.span);
        future.await
    }
}

/// Carries the caller's tracing subscriber and span to the thread that runs `work`.
pub(crate) fn from_here<R>(work: impl FnOnce() -> R) -> impl FnOnce() -> R {
    #[cfg(feature = "tracing")]
    let (listener, span) =
        (tracing::dispatcher::get_default(Clone::clone), tracing::Span::current());
    move || {
        #[cfg(feature = "tracing")]
        let _listens = tracing::dispatcher::set_default(&listener);
        #[cfg(feature = "tracing")]
        let _entered = span.enter();
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_the_order_in_which_they_began() {
        let timeline = Timeline::begun();
        let outer = stage!(timeline, "outer", bytes = 3);
        outer.of(|| stage!(timeline, "inner").of(|| std::hint::black_box(1)));
        let parts = timeline.parts();
        let names: Vec<_> = parts.iter().map(|part| part.what).collect();
        assert_eq!(names, [TimedWork::Host("outer"), TimedWork::Host("inner")]);
        let end = |part: &TimedPart| part.start + part.time;
        assert!(end(&parts[0]) >= end(&parts[1]));
    }

    #[test]
    fn what_goes_on_outlives_what_is_forgotten() {
        let timeline = Timeline::begun();
        let outer = stage!(timeline, "outer");
        outer.of(|| {
            stage!(timeline, "first").of(|| {});
            timeline.forget();
            stage!(timeline, "second").of(|| {});
        });
        let names: Vec<_> = timeline.parts().iter().map(|part| part.what).collect();
        assert_eq!(names, [TimedWork::Host("outer"), TimedWork::Host("second")]);
    }
}
