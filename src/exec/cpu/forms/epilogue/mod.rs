//! The epilogue: the expression that follows each sum of a form.

mod find_chain;

use bytemuck::cast_slice_mut;

use crate::exec::cpu::chain::{BoundChain, Chain};
use crate::exec::cpu::operands::{BoundInput, OutputPart};
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape};
use crate::exec::cpu::{ExprHole, StepJob};
use crate::plan::Space;

/// The epilogue of a step, bound to its operands.
pub(crate) struct Epilogue<'a> {
    pub tape: &'a Tape,
    pub inputs: Vec<Option<BoundInput<'a>>>,
    /// The epilogue as a chain of operations over the sums of the only output, if it is one.
    pub chain: Option<BoundChain<'a>>,
}

impl<'a> Epilogue<'a> {
    pub fn of(job: &StepJob<'a>) -> Self {
        let inputs = job.inputs(Space::Out);
        let tape = job.tape(ExprHole::After, &job.roots(), &inputs);
        let chain = Self::chain(job, &inputs)
            .map(|chain| chain.bind(&inputs, |axes| find_chain::inputs_along(job, axes)));
        Self { tape, inputs, chain }
    }

    /// The chain of operations that follows each sum, if the epilogue is one.
    pub fn chain(job: &StepJob<'a>, inputs: &[Option<BoundInput<'_>>]) -> Option<&'a Chain> {
        job.cache.chain(|| find_chain::find(job, inputs))
    }

    pub fn machine(&self) -> Machine<'a> {
        Machine::new(self.tape)
    }

    /// Computes the results of `len` elements of `part` from the one at `at` on. The only output has words, and holds the
    /// sums.
    pub fn finish_in_place(
        &self,
        machine: &mut Machine<'_>,
        part: &mut OutputPart<'_>,
        at: usize,
        len: usize,
    ) {
        self.apply(machine, part.start + at, cast_slice_mut(part.words(0, at, len)));
    }

    /// Replaces `sums` by their results. The first of them is element `start` of the only output, which has words.
    pub fn apply(&self, machine: &mut Machine<'_>, start: usize, sums: &mut [f32]) {
        if let Some(chain) = &self.chain {
            return chain.apply(start, sums);
        }
        if self.tape.is_acc(0) {
            return;
        }
        let mut acc = [0; TILE];
        for (tile, results) in cast_slice_mut(sums).chunks_mut(TILE).enumerate() {
            let acc = &mut acc[..results.len()];
            acc.copy_from_slice(results);
            let span =
                Span { inputs: &self.inputs, start: start + tile * TILE, len: acc.len(), acc };
            machine.fill(&span, results);
        }
    }
}
