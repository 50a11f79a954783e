//! Runs of a program on zeros, before its first run.

use super::compiled::Program;
use super::run::RunOptions;
use crate::base::trace::OFF;
use crate::batch::input::Input;
use crate::batch::values::key::{IdOrName, ValueKey};
use crate::exec::memory::LARGE;
use crate::ops::Type;
use crate::record::UntypedId;

/// The first run leaves facts of the steps. The second packs weights that do not change.
const RUNS: usize = 2;

impl Program {
    /// Runs a short program on zeros. Its first run then finds the machine code in memory and in caches, the facts of the
    /// steps, packed weights, and a helper that spins. Without them it takes ten times as long.
    pub(super) async fn warm_up(&self) {
        let recorded = &self.0.recorded;
        let bytes = |ty: &Type| ty.shape.elements().saturating_mul(ty.dtype.size());
        let longest = recorded.open_inputs().map(|(_, ty)| bytes(ty)).max().unwrap_or_default();
        // A program may have a long input that it does not read.
        if longest > LARGE {
            return;
        }
        let zeros = vec![0; longest];
        for _ in 0..RUNS {
            let mut inputs = recorded.open_inputs().map(|(node, ty)| {
                let id = UntypedId { node, batch_id: recorded.batch_id };
                Input::of_bytes(ValueKey(IdOrName::Id(id)), ty.dtype, &zeros[..bytes(ty)])
            });
            let Ok(inputs) = self.0.fitting(&mut inputs) else { return };
            let options = RunOptions { is_warm_up: true, ..RunOptions::default() };
            // An error comes again in a run, which returns it.
            drop(self.run_timed(inputs, options, &OFF).await);
        }
    }
}
