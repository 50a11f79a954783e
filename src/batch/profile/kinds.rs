//! Kernels of a profile, summed by kind.

use std::time::Duration;

use super::{KernelProfile, Profile};
use crate::base::shape::Shape;
use crate::cost::Backend;

/// Kernels alike: the same operations on the same shapes on the same side. From [`Profile::kinds`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelKind {
    /// The operations fused in each, joined by `+`.
    pub kernel: String,
    /// Their form: `map`, `reduce`, `matmul` and so on.
    pub form: &'static str,
    /// The shapes of the values that each reads.
    pub inputs: Vec<Shape>,
    /// The shapes of the results of each.
    pub outputs: Vec<Shape>,
    /// The side that ran them.
    pub backend: Backend,
    /// The number of kernels.
    pub count: usize,
    /// The time of all together; `None` if that of one is not known.
    pub time: Option<Duration>,
    /// The share of the time of all timed kernels, from 0 to 1.
    pub share: Option<f64>,
    /// Arithmetic operations of all together, as the planner counts them.
    pub flops: u64,
    /// Bytes that all together must at least read and write, as the planner counts them.
    pub bytes: u64,
}

impl KernelKind {
    fn of(kernel: &KernelProfile) -> Self {
        Self {
            kernel: kernel.kernel.clone(),
            form: kernel.form,
            inputs: kernel.inputs.clone(),
            outputs: kernel.outputs.clone(),
            backend: kernel.backend,
            count: 0,
            time: Some(Duration::ZERO),
            share: None,
            flops: 0,
            bytes: 0,
        }
    }

    fn is_of(&self, kernel: &KernelProfile) -> bool {
        self.kernel == kernel.kernel
            && (self.form, self.backend) == (kernel.form, kernel.backend)
            && (&self.inputs, &self.outputs) == (&kernel.inputs, &kernel.outputs)
    }

    fn add(&mut self, kernel: &KernelProfile) {
        self.count += 1;
        self.time = self.time.zip(kernel.time).map(|(sum, time)| sum + time);
        self.flops = self.flops.saturating_add(kernel.flops);
        self.bytes = self.bytes.saturating_add(kernel.bytes);
    }
}

impl Profile {
    /// The kernels summed by kind, the slowest kind first: kernels are alike if they compute the same operations on the
    /// same shapes on the same side.
    #[must_use]
    pub fn kinds(&self) -> Vec<KernelKind> {
        of(&self.kernels)
    }
}

/// The kinds of `kernels`, the slowest first.
fn of(kernels: &[KernelProfile]) -> Vec<KernelKind> {
    let mut kinds: Vec<KernelKind> = Vec::new();
    for kernel in kernels {
        let known = kinds.iter().position(|kind| kind.is_of(kernel));
        let at = known.unwrap_or_else(|| {
            kinds.push(KernelKind::of(kernel));
            kinds.len() - 1
        });
        kinds[at].add(kernel);
    }
    let whole: Duration = kernels.iter().filter_map(|kernel| kernel.time).sum();
    for kind in &mut kinds {
        let share = |time: Duration| time.as_secs_f64() / whole.as_secs_f64();
        kind.share = kind.time.filter(|_| !whole.is_zero()).map(share);
    }
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.time));
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_alike_are_summed_and_the_slowest_kind_is_first() {
        let kernel = |name: &str, rows: usize, micros: u64| KernelProfile {
            kernel: name.into(),
            form: "map",
            place: "here:1".into(),
            inputs: vec![[rows, 2].into()],
            outputs: vec![[rows, 2].into()],
            backend: Backend::Cpu,
            dispatches: 1,
            start: Some(Duration::ZERO),
            time: Some(Duration::from_micros(micros)),
            predicted: Duration::ZERO,
            flops: 5,
            bytes: 7,
        };
        let mut kernels = vec![
            kernel("neg", 1, 2),
            kernel("exp", 1, 4),
            kernel("neg", 1, 3),
            kernel("neg", 3, 1),
        ];
        let kinds = of(&kernels);
        let seen = kinds.iter().map(|kind| (&*kind.kernel, kind.count, kind.time, kind.flops));
        let micros = |time| Some(Duration::from_micros(time));
        let want = [("neg", 2, micros(5), 10), ("exp", 1, micros(4), 5), ("neg", 1, micros(1), 5)];
        assert_eq!(seen.collect::<Vec<_>>(), want);
        assert_eq!(kinds[0].share, Some(0.5));
        kernels[0].time = None;
        let unknown = of(&kernels).into_iter().find(|kind| kind.count == 2);
        assert_eq!(unknown.map(|kind| (kind.time, kind.share)), Some((None, None)));
    }
}
