//! The epilogue: the expression that follows each sum of a form.

pub(in crate::exec::cpu) mod chain;
mod find_chain;
mod links;

use bytemuck::cast_slice_mut;

use self::chain::BoundChain;
pub(in crate::exec::cpu) use self::links::RowLinks;
use crate::exec::cpu::operands::{BoundInput, Chunk};
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape};
use crate::exec::cpu::{ExprHole, Job};
use crate::plan::Space;

/// The epilogue of a step, bound to its operands.
pub(crate) struct Epilogue<'a> {
    pub tape: &'a Tape,
    pub inputs: Vec<Option<BoundInput<'a>>>,
    /// The epilogue as a chain of operations over the sums of the only output, if it is one.
    pub chain: Option<BoundChain<'a>>,
}

impl<'a> Epilogue<'a> {
    pub fn of(job: &Job<'a>) -> Self {
        let inputs = job.inputs(Space::Out);
        let tape = job.tape(ExprHole::After, &job.roots(), &inputs);
        let chain = job.tapes.chain(|| find_chain::find(job, &inputs));
        let chain =
            chain.map(|chain| chain.bind(&inputs, |axes| find_chain::inputs_along(job, axes)));
        Self { tape, inputs, chain }
    }

    pub fn machine(&self) -> Machine<'a> {
        Machine::new(self.tape)
    }

    /// Computes the results of `len` elements of `chunk` from the one at `at` on. The only output has words, and holds the
    /// sums.
    pub fn finish_in_place(
        &self,
        machine: &mut Machine<'_>,
        chunk: &mut Chunk<'_>,
        at: usize,
        len: usize,
    ) {
        let start = chunk.start + at;
        if let Some(chain) = &self.chain {
            return chain.apply(start, cast_slice_mut(chunk.words(0, at, len)));
        }
        if self.tape.is_acc(0) {
            return;
        }
        let mut acc = [0; TILE];
        for done in (0..len).step_by(TILE) {
            let acc = &mut acc[..TILE.min(len - done)];
            acc.copy_from_slice(chunk.words(0, at + done, acc.len()));
            let span =
                Span { inputs: &self.inputs, start: start + done, len: acc.len(), acc: &*acc };
            chunk.write_tile(machine, &span, at + done);
        }
    }
}
