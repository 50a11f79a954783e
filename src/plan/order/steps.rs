//! The pass *order*: an order of the steps that keeps the memory in use low.

use crate::plan::step::{Step, total};
use crate::plan::value::ValueId;

/// Orders `steps` so that each comes after the makers of its operands. Among the steps that could run next, the one
/// that adds least to the memory in use does; ties go to the one recorded first.
///
/// `bytes` is the size of each value; values in `lasting` are never freed.
pub(crate) fn order(steps: Vec<Step>, bytes: &[u64], lasting: &[ValueId]) -> Vec<Step> {
    let mut pending = PendingSteps::new(&steps, bytes.len(), lasting);
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(next) = pending.take(bytes) {
        order.extend(steps[next].take());
    }
    order
}

struct PendingSteps {
    reads: Vec<Vec<ValueId>>,
    writes: Vec<Vec<ValueId>>,
    /// The steps that read a value.
    readers: Vec<Vec<usize>>,
    /// Readers of a value that have not run.
    uses: Vec<usize>,
    /// Values that a step still waits for.
    missing: Vec<usize>,
    ready: Vec<usize>,
}

impl PendingSteps {
    fn new(steps: &[Step], values: usize, lasting: &[ValueId]) -> Self {
        let reads: Vec<Vec<ValueId>> = steps.iter().map(|step| step.reads().to_vec()).collect();
        let writes: Vec<Vec<ValueId>> = steps
            .iter()
            .map(|step| step.outputs.iter().map(|output| output.value).collect())
            .collect();
        let mut made = vec![false; values];
        for value in writes.iter().flatten() {
            made[value.index()] = true;
        }
        let mut readers = vec![Vec::new(); values];
        for (step, reads) in reads.iter().enumerate() {
            for value in reads {
                readers[value.index()].push(step);
            }
        }
        let mut uses: Vec<usize> = readers.iter().map(Vec::len).collect();
        for value in lasting {
            uses[value.index()] += 1;
        }
        let missing: Vec<usize> = reads
            .iter()
            .map(|reads| reads.iter().filter(|value| made[value.index()]).count())
            .collect();
        let ready = (0..steps.len()).filter(|&step| missing[step] == 0).collect();
        Self { reads, writes, readers, uses, missing, ready }
    }

    fn take(&mut self, bytes: &[u64]) -> Option<usize> {
        let growth = |step: usize| {
            let made = total(self.writes[step].iter().map(|value| bytes[value.index()]));
            let last = self.reads[step].iter().filter(|value| self.uses[value.index()] == 1);
            let freed = total(last.map(|value| bytes[value.index()]));
            (i128::from(made) - i128::from(freed), step)
        };
        let (at, &next) = self.ready.iter().enumerate().min_by_key(|&(_, &step)| growth(step))?;
        self.ready.swap_remove(at);
        for value in &self.reads[next] {
            self.uses[value.index()] -= 1;
        }
        for value in &self.writes[next] {
            for &reader in &self.readers[value.index()] {
                self.missing[reader] -= 1;
                if self.missing[reader] == 0 {
                    self.ready.push(reader);
                }
            }
        }
        Some(next)
    }
}
