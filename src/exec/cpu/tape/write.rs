//! Outputs written by a tape.

use super::machine::RootPlaces;
use super::{Machine, Span};
use crate::base::dtype::DType;
use crate::exec::cpu::operands::{BoundInput, OutputPart, store, words};

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
        let mut places = RootPlaces::new();
        let mut elsewhere = false;
        for (index, (dtype, bytes)) in self.outputs.iter_mut().enumerate() {
            let place = lies_in_place(machine, index, *dtype).then(|| words(bytes, at, span.len));
            elsewhere |= place.is_none();
            places.push(place);
        }
        machine.run_to(span, &mut places);
        drop(places);
        if elsewhere {
            self.store_others(machine, span, at);
        }
    }

    /// Stores the roots that were not computed in place.
    fn store_others(&mut self, machine: &Machine<'_>, span: &Span<'_>, at: usize) {
        for (index, (dtype, bytes)) in self.outputs.iter_mut().enumerate() {
            if !lies_in_place(machine, index, *dtype) {
                let range = at * dtype.size()..(at + span.len) * dtype.size();
                store(*dtype, machine.root(index, span), &mut bytes[range]);
            }
        }
    }
}

/// Returns whether root `index` is computed directly in its output of type `dtype`.
fn lies_in_place(machine: &Machine<'_>, index: usize, dtype: DType) -> bool {
    !matches!(dtype, DType::F16 | DType::Bool) && machine.has_place(index)
}
