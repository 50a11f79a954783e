//! The outputs of products, and the epilogue that follows their sums.

use std::slice::{from_raw_parts, from_raw_parts_mut};

use crate::exec::HostBuffer;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::operands::{SharedOutputs, for_each, parts};
use crate::exec::cpu::tape::{Machine, Span, TILE};
use crate::exec::cpu::vectors::links::RowLinks;

/// The outputs of a product. The sums are written to the memory of an output with elements of 32 bits, if there is one.
/// The epilogue reads an element before it overwrites it.
pub(crate) struct ProductOutputs<'a> {
    outputs: SharedOutputs<'a>,
    sums: *mut u32,
    epilogue: &'a Epilogue<'a>,
    /// True if the sums are the result.
    done: bool,
}

// SAFETY: the sums lie in one of the outputs, or are borrowed as these are, and are written as these are.
unsafe impl Sync for ProductOutputs<'_> {}

impl<'a> ProductOutputs<'a> {
    /// Prepares the outputs of `epilogue` over the sums, which lie in `scratch_sums` if no output has room for them.
    pub fn new(
        outputs: &'a mut [HostBuffer],
        scratch_sums: &'a mut Vec<u32>,
        epilogue: &'a Epilogue<'a>,
    ) -> Self {
        let host = outputs.iter().position(|output| output.dtype().is_word());
        let done = outputs.len() == 1 && host.is_some() && epilogue.tape.is_acc(0);
        let outputs = SharedOutputs::new(outputs);
        let sums = if let Some(host) = host {
            outputs.start(host).cast()
        } else {
            scratch_sums.resize(outputs.len(), 0);
            scratch_sums.as_mut_ptr()
        };
        Self { outputs, sums, epilogue, done }
    }

    pub fn machine(&self) -> Machine<'a> {
        self.epilogue.machine()
    }

    /// Cost of the epilogue of one sum.
    pub fn flops(&self) -> u64 {
        if self.done { 0 } else { self.epilogue.tape.flops() }
    }

    pub fn sums_mut(&mut self) -> &mut [u32] {
        // SAFETY: there are as many sums as an output has elements. Nothing else borrows them, since every borrow of
        // them borrows `self`.
        unsafe { from_raw_parts_mut(self.sums, self.outputs.len()) }
    }

    /// Pointer to the sum of element `start`, to write to. It is valid as long as the outputs are.
    pub fn sum(&self, start: usize) -> *mut f32 {
        assert!(start < self.outputs.len());
        self.sums.wrapping_add(start).cast()
    }

    /// The operations that follow `rows` rows of `columns` sums each, if rows can be finished one by one. The first sum is that
    /// of element `start`, and rows begin `stride` elements apart.
    pub fn row_links(
        &self,
        start: usize,
        rows_and_columns: [usize; 2],
        stride: usize,
    ) -> Option<RowLinks<'_>> {
        let chain = self.epilogue.chain.as_ref().filter(|_| !self.done)?;
        chain.of_rows(start, rows_and_columns, stride)
    }

    /// Computes the results of all sums, on all threads.
    pub fn finish_all(&mut self) {
        let this = &*self;
        let len = self.outputs.len();
        let per = len.div_ceil(parts(len as u64 * (this.flops() + 2))).next_multiple_of(TILE);
        let ranges = if this.done { 0..0 } else { 0..len };
        for_each(
            ranges.step_by(per.max(1)).collect(),
            || this.machine(),
            // SAFETY: the ranges are disjoint, and nobody else has `self`.
            |machine, start| unsafe { this.finish(machine, start, per.min(len - start)) },
        );
    }

    /// Computes the results of `len` sums from the one at `start` on.
    ///
    /// # Safety
    /// Nothing else reads or writes these sums and results meanwhile.
    pub unsafe fn finish(&self, machine: &mut Machine<'_>, start: usize, len: usize) {
        if self.done {
            return;
        }
        assert!(start + len <= self.outputs.len());
        if let Some(chain) = &self.epilogue.chain {
            // SAFETY: the sums exist, and no other thread uses them, as the caller promises.
            return chain
                .apply(start, unsafe { from_raw_parts_mut(self.sums.add(start).cast(), len) });
        }
        let mut acc = [0; TILE];
        for at in (0..len).step_by(TILE) {
            let (start, len) = (start + at, TILE.min(len - at));
            let acc = &mut acc[..len];
            // SAFETY: no other thread uses the range, as the caller promises. Each output has the range, and so have
            // the sums.
            let mut part = unsafe {
                acc.copy_from_slice(from_raw_parts(self.sums.add(start), len));
                self.outputs.part(start, len)
            };
            part.write_tile(machine, &Span { inputs: &self.epilogue.inputs, start, len, acc }, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::base::dtype::{DType, Ty};
    use crate::exec::cpu::tape::Tape;
    use crate::expr::{Builder, E};

    /// Checks f(sum) for outputs of `dtypes`. Three threads write and finish sums of their own rows, or all sums are
    /// finished at once.
    fn check(dtypes: &[DType], f: impl Fn(E<'_>) -> E<'_>, want: impl Fn(f32) -> f32) {
        const ROW: usize = 67;
        let builder = Builder::default();
        let root = f(builder.acc(Ty::F32)).r();
        let tape = Tape::compile(&builder.clone().finish(), &vec![root; dtypes.len()], &[], &[]);
        for at_once in [false, true] {
            let new = |&dtype| HostBuffer::try_zeroed(dtype, 3 * ROW).unwrap();
            let (mut outputs, mut scratch_sums) =
                (dtypes.iter().map(new).collect::<Vec<_>>(), Vec::new());
            let epilogue = Epilogue { tape: &tape, inputs: Vec::new(), chain: None };
            let mut results = ProductOutputs::new(&mut outputs, &mut scratch_sums, &epilogue);
            if at_once {
                for (at, sum) in results.sums_mut().iter_mut().enumerate() {
                    *sum = (at as f32).to_bits();
                }
                results.finish_all();
            } else {
                let results = &results;
                std::thread::scope(|scope| {
                    for row in 0..3 {
                        scope.spawn(move || {
                            let all = row * ROW..(row + 1) * ROW;
                            // SAFETY: each thread has a row.
                            unsafe {
                                all.clone().for_each(|at| results.sum(at).write(at as f32));
                                results.finish(&mut results.machine(), all.start, ROW);
                            }
                        });
                    }
                });
            }
            for output in &outputs {
                for at in 0..3 * ROW {
                    let got = match output.dtype() {
                        DType::F16 => output.as_slice::<f16>().unwrap()[at].to_f32(),
                        _ => output.as_slice::<f32>().unwrap()[at],
                    };
                    assert_eq!(got, want(at as f32), "{dtypes:?} [{at}]");
                }
            }
        }
    }

    #[test]
    fn what_follows_a_sum_reads_it_wherever_it_lies() {
        use DType::{F16, F32};
        check(&[F32], |sum| sum, |sum| sum);
        for dtypes in [&[F32][..], &[F16], &[F16, F32], &[F32, F32]] {
            check(dtypes, |sum| sum * 2.0 + 1.0, |sum| 2.0 * sum + 1.0);
        }
    }
}
