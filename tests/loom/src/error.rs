//! In place of the crate's `src/error.rs`.

#[derive(Debug)]
pub enum RunError {
    OverBudget { needs: u64, budget: u64 },
}

#[derive(Debug)]
pub enum DeviceError {
    OutOfMemory { doing: String },
}
