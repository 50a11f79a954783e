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
    spans: Mutex<Vec<TimedSpan>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedSpan {
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
        let log = TimeLog { since: Stopwatch::started(), spans: Mutex::default() };
        Self { log: Some(Arc::new(log)), steps: 0 }
    }

    /// For another plan of the same run, whose steps are counted from `steps`.
    pub fn after_steps(&self, steps: usize) -> Self {
        Self { log: self.log.clone(), steps }
    }

    /// True if a profile records the times.
    pub fn is_recording(&self) -> bool {
        self.log.is_some()
    }

    /// The time since the beginning; zero where no profile records them.
    pub fn now(&self) -> Duration {
        self.log.as_ref().map_or(Duration::ZERO, |log| log.since.total())
    }

    /// Times a span from now until the returned value is dropped. `None` if no profile records it.
    pub fn begin_span(&self, what: TimedWork) -> Option<Box<SpanTimer>> {
        let start = self.log.as_ref()?.since.total();
        let what =
            if let TimedWork::Step(at) = what { TimedWork::Step(self.steps + at) } else { what };
        Some(Box::new(SpanTimer { timeline: self.clone(), what, start }))
    }

    pub fn add(&self, span: TimedSpan) {
        if let Some(log) = &self.log {
            log.spans.lock().push(span);
        }
    }

    /// Forgets the recorded spans; spans still in progress are recorded when they end.
    pub fn forget(&self) {
        if let Some(log) = &self.log {
            log.spans.lock().clear();
        }
    }

    /// The spans so far, in the order in which they began.
    pub fn spans(&self) -> Vec<TimedSpan> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut spans = log.spans.lock().clone();
        spans.sort_by_key(|span| span.start);
        spans
    }
}

pub(crate) struct SpanTimer {
    timeline: Timeline,
    what: TimedWork,
    start: Duration,
}

impl Drop for SpanTimer {
    fn drop(&mut self) {
        let time = self.timeline.now().saturating_sub(self.start);
        self.timeline.add(TimedSpan { what: self.what, start: self.start, time });
    }
}

pub(crate) struct StageSpan {
    /// Boxed, so that it takes little room in the future of a run without a profile.
    timing: Option<Box<SpanTimer>>,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl StageSpan {
    #[cfg(feature = "tracing")]
    pub fn new(timeline: &Timeline, name: &'static str, span: tracing::Span) -> Self {
        Self { timing: timeline.begin_span(TimedWork::Host(name)), span }
    }

    #[cfg(not(feature = "tracing"))]
    pub fn new(timeline: &Timeline, name: &'static str) -> Self {
        Self { timing: timeline.begin_span(TimedWork::Host(name)) }
    }

    /// Does `work` as this stage.
    pub fn of<R>(self, work: impl FnOnce() -> R) -> R {
        self.part(work)
    }

    /// Does `work` as a part of this stage.
    pub fn part<R>(&self, work: impl FnOnce() -> R) -> R {
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
    fn spans_come_in_the_order_in_which_they_began() {
        let timeline = Timeline::begun();
        let outer = stage!(timeline, "outer", bytes = 3);
        outer.of(|| stage!(timeline, "inner").of(|| std::hint::black_box(1)));
        let spans = timeline.spans();
        let names: Vec<_> = spans.iter().map(|span| span.what).collect();
        assert_eq!(names, [TimedWork::Host("outer"), TimedWork::Host("inner")]);
        let end = |span: &TimedSpan| span.start + span.time;
        assert!(end(&spans[0]) >= end(&spans[1]));
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
        let names: Vec<_> = timeline.spans().iter().map(|span| span.what).collect();
        assert_eq!(names, [TimedWork::Host("outer"), TimedWork::Host("second")]);
    }
}
