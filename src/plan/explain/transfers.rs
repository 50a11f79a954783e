//! The transfers between the sides.

use crate::cost::Backend;
use crate::plan::placement::split::PartOf;
use crate::plan::step::total;
use crate::plan::value::{Home, ValueId};
use crate::plan::{Plan, Target};

/// Values that go from one side to the other together.
pub(super) struct Transfer {
    /// `upload`, `download`, or from which side to which.
    pub name: &'static str,
    pub values: Vec<ValueId>,
    pub bytes: u64,
    /// Predicted seconds.
    pub seconds: f64,
}

/// The transfers of a plan for the GPU, which may be a `part` of a split; none for one of the host.
pub(super) fn transfers(plan: &Plan, part: Option<PartOf<'_>>, gpu: &Target) -> Vec<Transfer> {
    if plan.backend != Backend::Gpu {
        return Vec::new();
    }
    let (mut uploads, mut made, mut results, mut handed) = (vec![], vec![], vec![], vec![]);
    for (value, at) in plan.values.iter().zip(0..) {
        let id = ValueId(at);
        if let Home::Upload { input, .. } = value.home {
            let maker = part.and_then(|part| part.maker(input));
            if maker.is_some() { &mut made } else { &mut uploads }.push(id);
        }
        if plan.downloads.contains(&id) {
            let is_result = part.is_none_or(|part| part.is_result(id));
            if is_result { &mut results } else { &mut handed }.push(id);
        }
    }
    let size = |id: &ValueId| plan.values[id.index()].bytes(&gpu.limits);
    let prediction = plan.predicted(gpu);
    let (up, down) = ((prediction.up, plan.bytes_up), (prediction.down, plan.bytes_down));
    let all = [
        ("upload", uploads, up),
        ("cpu → gpu", made, up),
        ("gpu → cpu", handed, down),
        ("download", results, down),
    ];
    let moved = |(name, values, (time, together)): (_, Vec<ValueId>, (f64, u64))| {
        let bytes = total(values.iter().map(size));
        // Values that go together share the time by size.
        let share = if together == 0 { 0.0 } else { bytes as f64 / together as f64 };
        Transfer { name, values, bytes, seconds: time * share }
    };
    all.into_iter().filter(|(_, values, _)| !values.is_empty()).map(moved).collect()
}
