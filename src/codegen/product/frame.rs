//! The texts that every kernel of a product needs.

use super::collapsed::Product;
use super::reading::{Factor, Reading};
use super::transfer::IndexCursor;
use crate::codegen::kernel::{KernelBuilder, passed};

/// The texts that every kernel of the product needs.
pub(super) struct Frame<'p> {
    pub functions: String,
    /// Statements that find where the batch begins in every map.
    pub bases: String,
    /// These places as arguments of `store`.
    pub base_arguments: String,
    /// One for each reading.
    pub walks: [IndexCursor<'p>; 2],
}

impl Product {
    /// Binds everything, each buffer in fours where all of its reads allow that, and defines the functions.
    /// `load_x` and `load_w` read both sides at the positions of an [`IndexCursor`]. `store(row, column, acc, …)` takes
    /// four neighbours along the row.
    pub fn frame<'p>(
        &'p self,
        kernel: &mut KernelBuilder<'_>,
        readings: [Reading; 2],
    ) -> Frame<'p> {
        let wide = self.wide(kernel, &readings);
        if self.parts == 1 {
            self.results.bind(kernel, &wide);
        }
        for reading in readings {
            let operands = kernel.operands_of(&[self.prologue(reading.side)]);
            if reading.halves {
                kernel.bind_words(operands[0]);
            } else {
                kernel.bind_operands(&operands, |o| wide[o]);
            }
        }
        let (bases, names) = self.results.maps.bases(kernel, "b", "batch");
        let mut functions = String::new();
        let walks = readings.map(|reading| {
            functions += &self.loads(kernel, reading);
            self.walk(kernel, &reading, &names)
        });
        let (base_parameters, base_arguments) = passed(&names);
        functions += &if self.parts == 1 {
            self.results.store(kernel, &names)
        } else {
            self.store_partial(kernel, &base_parameters)
        };
        Frame { functions, bases, base_arguments, walks }
    }

    /// The functions that read one side.
    fn loads(&self, kernel: &mut KernelBuilder<'_>, reading: Reading) -> String {
        let mut load = |end: bool| match (reading.side, &self.windows) {
            (Factor::W, Some(windows)) => {
                windows.load(kernel, self.prologue(Factor::W), self.ty, end.then_some(self.k))
            }
            _ => self.load(kernel, reading, end),
        };
        let inside = load(false);
        if reading.ragged_k { inside + &load(true) } else { inside }
    }
}
