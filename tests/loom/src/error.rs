//! In place of the crate's `src/error/mod.rs`.

#[derive(Debug)]
pub enum DeviceError {
    OutOfMemory { doing: String },
}
