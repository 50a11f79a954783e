//! Outputs written by a tape.

use super::machine::RootDestinations;
use super::{Machine, Span};
use crate::base::dtype::DType;
use crate::exec::cpu::operands::{BoundInput, OutputPart, words};

impl OutputPart<'_> {
    /// Runs `machine` over the part and stores its roots as the outputs. `acc` holds the form's combined values for
    /// these elements, or is empty.
    pub fn write(
        &mut self,
        machine: &mut Machine<'_>,
        inputs: &[Option<BoundInput<'_>>],
        acc: &[u32],
    ) {
        let mut done = 0;
        while done < self.len {
            let len = machine.reach(self.start + done).min(self.len - done);
            let acc = acc.get(done..done + len).unwrap_or(&[]);
            let span = Span { inputs, start: self.start + done, len, acc };
            self.write_tile(machine, &span, done);
            done += len;
        }
    }

    /// Runs `machine` over `span`, which begins `at` elements into the part, and stores its roots.
    pub fn write_tile(&mut self, machine: &mut Machine<'_>, span: &Span<'_>, at: usize) {
        let mut destinations = RootDestinations::new();
        let mut elsewhere = false;
        for (index, (dtype, bytes)) in self.outputs.iter_mut().enumerate() {
            let destination = is_direct(machine, index, *dtype).then(|| words(bytes, at, span.len));
            elsewhere |= destination.is_none();
            destinations.push(destination);
        }
        machine.run_to(span, &mut destinations);
        drop(destinations);
        if elsewhere {
            self.store_others(machine, span, at);
        }
    }

    /// Stores the roots that were not written directly.
    fn store_others(&mut self, machine: &Machine<'_>, span: &Span<'_>, at: usize) {
        for index in 0..self.outputs.len() {
            if !is_direct(machine, index, self.outputs[index].0) {
                self.store(index, at, machine.root(index, span));
            }
        }
    }
}

/// Returns whether root `index` is written directly to its output of type `dtype`.
fn is_direct(machine: &Machine<'_>, index: usize, dtype: DType) -> bool {
    !matches!(dtype, DType::F16 | DType::Bool) && machine.is_direct(index)
}
