//! In place of the crate's `src/error.rs`.

#[derive(Debug)]
pub enum DeviceError {
    OutOfMemory { doing: String },
}
