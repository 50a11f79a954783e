//! All that a tape is compiled from, and the tapes of a program. Like steps, as those of a recurrent layer, share theirs.

use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use super::Tape;
use crate::base::dtype::Scalar;
use crate::base::sync::Mutex;
use crate::exec::cpu::operands::{BoundInput, LanePattern};
use crate::expr::{Expr, Ref};

/// All that a tape is compiled from.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TapeSource {
    pub expr: Expr,
    pub roots: SmallVec<[Ref; 2]>,
    /// The bits of scalars as lanes.
    pub scalars: Vec<u32>,
    pub inputs: Vec<Option<LanePattern>>,
}

/// The tapes of a program, by their sources.
#[derive(Debug, Default)]
pub(crate) struct SharedTapes(Mutex<HashMap<TapeSource, Arc<Tape>>>);

impl TapeSource {
    /// The source of a tape that computes `roots` of operands bound as `inputs`.
    pub fn new(
        expr: &Expr,
        roots: &[Ref],
        scalars: &[Scalar],
        inputs: &[Option<BoundInput<'_>>],
    ) -> Self {
        Self {
            expr: expr.clone(),
            roots: roots.into(),
            scalars: scalars.iter().map(|scalar| scalar.lane_bits()).collect(),
            inputs: inputs.iter().map(|input| input.as_ref().map(BoundInput::pattern)).collect(),
        }
    }
}

impl SharedTapes {
    /// The tape of `source`, compiled when it is first asked for.
    pub fn get(&self, source: TapeSource) -> Arc<Tape> {
        let known = self.0.lock().get(&source).cloned();
        known.unwrap_or_else(|| {
            let tape = Arc::new(Tape::of(&source));
            Arc::clone(self.0.lock().entry(source).or_insert(tape))
        })
    }
}
