//! The work of a step, and the time that a side takes for it.

use super::{Rates, SideProfile};
use crate::base::backend::Backend;
use crate::base::units::seconds;

/// The bytes that a step moves and the flops that it computes, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Work {
    pub bytes: f64,
    pub arithmetic: f64,
    pub transcendental: f64,
    pub reduce: f64,
    pub row: f64,
    pub product: f64,
    /// 1 for a product with few rows, 0 for one with many.
    pub thinness: f64,
    /// Seconds of the product, where they are known better than by its flops.
    pub product_seconds: Option<f64>,
    pub dispatches: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prediction {
    /// Submit and wait.
    pub round_trip: f64,
    /// Uploads to the device.
    pub up: f64,
    pub steps: f64,
    /// Results to the host.
    pub down: f64,
    /// The time in which uploads and kernels overlap.
    pub overlap: f64,
}

impl Prediction {
    pub fn total(&self) -> f64 {
        self.round_trip + self.up + self.steps + self.down - self.overlap
    }

    /// The predicted time of a run on `side` and its parts, as text. The fixed part is a round trip on the GPU, an overhead
    /// on the cores.
    pub fn text_for(&self, side: Backend) -> String {
        let Self { round_trip, up, steps, down, overlap } = *self;
        let fixed = if side == Backend::Gpu { "round trip" } else { "overhead" };
        let parts = [("upload", up), ("kernels", steps), ("download", down)];
        let parts = parts.iter().filter(|(_, time)| *time > 0.0);
        let parts: String =
            parts.map(|(what, time)| format!(", {what} {}", seconds(*time))).collect();
        let at_once = match overlap > 0.0 {
            true => format!(", of which {} at the same time", seconds(overlap)),
            false => String::new(),
        };
        let total = seconds(self.total());
        format!("{side} {total} ({fixed} {}{parts}{at_once})", seconds(round_trip))
    }
}

impl Work {
    /// All flops together.
    pub fn flops(&self) -> f64 {
        self.arithmetic + self.transcendental + self.reduce + self.row + self.product
    }
}

impl SideProfile {
    /// The seconds of one step: those of its transfers or of its arithmetic, whichever takes longer.
    pub(crate) fn step(&self, work: &Work) -> f64 {
        let product = || {
            let thin = self.thin_product.seconds(work.product);
            let square = self.product.seconds(work.product);
            thin.powf(work.thinness) * square.powf(1.0 - work.thinness)
        };
        let product = work.product_seconds.unwrap_or_else(product);
        let parts = [
            (&self.arithmetic, work.arithmetic),
            (&self.transcendental, work.transcendental),
            (&self.reduce, work.reduce),
            (&self.row, work.row),
        ];
        let alone = parts.map(|(curve, flops)| curve.seconds(flops));
        let all = product + alone.iter().sum::<f64>();
        // Threads and cores share out a step as a whole: each part goes at the rate of so much of it as takes as long.
        let shared = parts.iter().zip(alone).map(|(&(curve, flops), alone)| {
            if alone > 0.0 { flops / curve.rate(flops * all / alone) } else { 0.0 }
        });
        let compute = product + shared.sum::<f64>();
        self.dispatch * work.dispatches as f64 + self.memory.seconds(work.bytes).max(compute)
    }

    /// A run whose steps take `steps` seconds, with these bytes brought and fetched.
    pub(crate) fn run(&self, steps: f64, up: u64, down: u64) -> Prediction {
        Prediction {
            round_trip: self.round_trip,
            up: self.upload.seconds(up as f64),
            steps,
            down: self.download.seconds(down as f64),
            overlap: 0.0,
        }
    }

    /// The rates of large kernels, for fusion.
    pub(crate) fn rates(&self) -> Rates {
        Rates {
            dispatch: self.dispatch,
            bandwidth: self.memory.last(),
            flops: self.arithmetic.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Curve, DeviceProfile};

    #[test]
    fn the_slower_of_moving_and_computing_counts() {
        let mut side = DeviceProfile::typical(1).cpu;
        (side.dispatch, side.memory) = (1.0, Curve::flat(10.0));
        (side.arithmetic, side.transcendental) = (Curve::flat(100.0), Curve::flat(1.0));
        let work = Work { bytes: 40.0, arithmetic: 100.0, dispatches: 2, ..Work::default() };
        assert_eq!(side.step(&work), 2.0 + 4.0);
        assert_eq!(side.step(&Work { transcendental: 5.0, ..work }), 2.0 + 6.0);
        assert_eq!(side.step(&Work { product_seconds: Some(9.0), ..work }), 2.0 + 10.0);
    }

    #[test]
    fn a_run_on_the_cores_makes_no_round_trip() {
        let time = Prediction { round_trip: 2e-6, up: 0.0, steps: 3e-6, down: 1e-6, overlap: 1e-6 };
        let parts = "2.0 µs, kernels 3.0 µs, download 1.0 µs, of which 1.0 µs at the same time)";
        assert_eq!(time.text_for(Backend::Cpu), format!("cpu 5.0 µs (overhead {parts}"));
        assert_eq!(time.text_for(Backend::Gpu), format!("gpu 5.0 µs (round trip {parts}"));
    }

    #[test]
    fn products_of_few_rows_have_a_rate_of_their_own() {
        let mut side = DeviceProfile::typical(1).cpu;
        (side.product, side.thin_product) = (Curve::flat(10.0), Curve::flat(1.0));
        side.dispatch = 0.0;
        let work = Work { product: 20.0, ..Work::default() };
        assert_eq!(side.step(&work), 2.0);
        assert_eq!(side.step(&Work { thinness: 1.0, ..work }), 20.0);
        let between = side.step(&Work { thinness: 0.5, ..work });
        assert!((between - 40_f64.sqrt()).abs() < 1e-12, "{between}");
    }
}
