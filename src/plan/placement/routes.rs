//! The routes of a graph that are worth a trial.

use smallvec::SmallVec;

use crate::cost::{Backend, Route, Routes};

/// The predicted time of a GPU for a whole graph is weighted by this factor, beside that of the host. Probes see a card
/// at work; the driver of one that waits for the host lowers its clocks, and after some seconds a small run takes 1.8
/// times as long (measured on an H200: 1980 MHz and 345). The margin lies between the two: a program that keeps the
/// card at work and one that uses it now and then both wait little longer than on the better side. Shares of a split
/// are not weighted: a split must save more anyway.
pub(crate) const GPU_MARGIN: f64 = 1.25;

/// Routes whose weighted time is up to so many times that of the fastest are tried. In the tables of BENCHMARKS.md, the
/// time of one side was off from its prediction by up to 2.7 times, relative to the other (1024×[64, 64, 10]: 58.6 µs
/// and 113.5 predicted, 118.6 and 84.5 measured). A route that takes 1.5 times as long as the other was then predicted
/// to take at least 1 / 1.8 of its time. The rest is for cards that are slower at rest.
const NEAR: f64 = 2.5;
/// Nothing that is predicted to take longer is tried.
const MOST_SECONDS: f64 = 0.05;

/// A route with its predicted seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedRoute {
    pub route: Route,
    pub seconds: f64,
}

impl TimedRoute {
    fn weighted(&self) -> f64 {
        match self.route {
            Route::Cpu | Route::Both => self.seconds,
            Route::Gpu => weighted(Backend::Gpu, self.seconds),
        }
    }
}

/// Predicted seconds with the [margin](GPU_MARGIN) of their side.
pub(crate) fn weighted(side: Backend, seconds: f64) -> f64 {
    match side {
        Backend::Cpu => seconds,
        Backend::Gpu => seconds * GPU_MARGIN,
    }
}

/// The route that is `taken`, and those of `others` that are worth being tried beside it, the faster first.
pub(crate) fn near(taken: TimedRoute, others: impl IntoIterator<Item = TimedRoute>) -> Routes {
    let mut others: SmallVec<[TimedRoute; 2]> = others.into_iter().collect();
    others.sort_by(|one, other| one.weighted().total_cmp(&other.weighted()));
    let least = others.iter().map(TimedRoute::weighted).fold(taken.weighted(), f64::min);
    let is_near = |one: &TimedRoute| one.seconds <= MOST_SECONDS && one.weighted() <= NEAR * least;
    let is_tried = is_near(&taken);
    let others = others.iter().filter(|&other| is_tried && is_near(other));
    Routes { taken: taken.route, others: others.map(|one| one.route).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Route = Route::Cpu;
    const GPU: Route = Route::Gpu;

    fn routes(taken: (Route, f64), others: &[(Route, f64)]) -> Vec<Route> {
        let candidate = |(route, seconds)| TimedRoute { route, seconds };
        near(candidate(taken), others.iter().copied().map(candidate)).all().collect()
    }

    #[test]
    fn what_is_predicted_to_take_about_as_long_is_tried() {
        let both = [CPU, GPU];
        assert_eq!(routes((CPU, 1e-4), &[(GPU, 1e-4)]), both);
        // 1024×[64, 64, 10] and attention 8×256×64, which were taken to the wrong side of an H200's machine.
        assert_eq!(routes((CPU, 58.6e-6), &[(GPU, 113.5e-6)]), both);
        assert_eq!(routes((CPU, 226.5e-6), &[(GPU, 388.8e-6)]), both);
        assert_eq!(routes((GPU, 76.0e-6), &[(CPU, 101.4e-6)]), [GPU, CPU]);
        assert_eq!(routes((CPU, 1e-4), &[(GPU, 2.01e-4)]), [CPU], "2.51 with the margin");
        assert_eq!(routes((GPU, 1e-4), &[(CPU, 3.1e-4)]), [GPU, CPU]);
        assert_eq!(routes((GPU, 1e-4), &[(CPU, 3.2e-4)]), [GPU]);
    }

    #[test]
    fn the_faster_is_tried_first_and_nothing_that_is_slow_or_has_no_room() {
        let split = (Route::Both, 1.0e-3);
        assert_eq!(routes(split, &[(CPU, 2e-3), (GPU, 1.2e-3)]), [Route::Both, GPU, CPU]);
        assert_eq!(routes(split, &[(CPU, f64::INFINITY), (GPU, 1.2e-3)]), [Route::Both, GPU]);
        assert_eq!(routes((CPU, 0.04), &[(GPU, 0.051)]), [CPU]);
        assert_eq!(routes((CPU, 0.06), &[(GPU, 0.04)]), [CPU], "what was kept is slow by now");
        assert_eq!(
            routes((CPU, 3e-4), &[(GPU, 1e-4)]),
            [CPU, GPU],
            "what was kept is predicted slower"
        );
        assert_eq!(
            routes((CPU, 4e-4), &[(GPU, 1e-4)]),
            [CPU],
            "and so much that it is not asked again"
        );
        assert_eq!(routes((CPU, 0.0), &[(GPU, 0.0)]), [CPU, GPU]);
    }
}
