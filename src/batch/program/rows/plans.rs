//! The traced rows of a program, with its plans for numbers of rows.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use crate::base::sync::Mutex;
use crate::graph::{NodeId, RowReduction, RowTrace, Traces};

/// Rows of the largest chunk of a run, if more were not recorded.
const MOST: usize = 1024;

/// The traced rows of a program, and a program `P` for each number of rows that was run.
pub(in crate::batch::program) struct RowPlans<P> {
    pub traces: Traces,
    /// The nodes of the inputs with rows.
    pub inputs: Vec<NodeId>,
    pub recorded_rows: usize,
    /// Padding would reach a result.
    pub is_exact: bool,
    /// Rows of the largest chunk; less once a budget of memory allowed no more.
    pub most: AtomicUsize,
    pub programs: Mutex<BTreeMap<usize, P>>,
}

impl<P> RowPlans<P> {
    /// No programs yet, for `traces` of `inputs`, which were recorded with as many rows.
    pub fn new(
        traces: Traces,
        inputs: Vec<NodeId>,
        recorded_rows: usize,
        outputs: &[NodeId],
    ) -> Self {
        let counts_padding = |id: &NodeId| {
            let by = traces.get(*id);
            matches!(by, Some(RowTrace::Reduced(RowReduction::Sum | RowReduction::Mean, _)))
        };
        Self {
            is_exact: outputs.iter().any(counts_padding),
            traces,
            inputs,
            recorded_rows,
            most: AtomicUsize::new(MOST.max(recorded_rows.next_power_of_two())),
            programs: Mutex::default(),
        }
    }

    pub fn trace(&self, id: NodeId) -> RowTrace {
        self.traces.get(id).copied().unwrap_or(RowTrace::Fixed)
    }
}
