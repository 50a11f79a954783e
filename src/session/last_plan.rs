//! The plan by which a batch or a program ran last.

use crate::base::sync::Mutex;
use crate::device::PlanChoice;

/// The choice of the last run, which the next one goes by if it still holds.
#[derive(Debug, Default)]
pub(crate) struct LastPlan(Mutex<Option<PlanChoice>>);

impl LastPlan {
    pub fn get(&self) -> Option<PlanChoice> {
        self.0.lock().clone()
    }

    pub(super) fn set(&self, choice: &PlanChoice) {
        *self.0.lock() = Some(choice.clone());
    }
}
