//! Error scopes: every error of a group of calls becomes one error of this crate.
//!
//! Quirk: calls of wgpu return no `Result`; an error outside all scopes goes to a handler of the device. In a browser the
//! errors of a scope come later, so the handler reports them there. Test: `exec/gpu/tests/failures.rs`.

use super::health::{Opened, ready};
use crate::error::DeviceError;

/// Catches every error of the calls on this thread between `open` and `close`.
///
/// Scopes close in the reverse order of opening; so the fields are declared, for when this is dropped.
pub(crate) struct Scope<'a> {
    internal: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
    memory: wgpu::ErrorScopeGuard,
    opened: &'a Opened,
}

impl<'a> Scope<'a> {
    pub fn open(opened: &'a Opened) -> Self {
        let device = &opened.device;
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        Self { internal, validation, memory, opened }
    }

    /// The first error since `open`, as an error of `doing`. Earlier errors are left to the next check.
    ///
    /// # Errors
    /// If a call was refused, or the device is lost.
    pub fn close(self, doing: impl FnOnce() -> String) -> Result<(), DeviceError> {
        let internal = ready(self.internal.pop());
        let validation = ready(self.validation.pop());
        let memory = ready(self.memory.pop());
        match memory.or(validation).or(internal) {
            None => self.opened.health.check_loss(),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                Err(DeviceError::OutOfMemory { doing: doing() })
            }
            Some(error) => {
                self.opened.probe()?;
                Err(DeviceError::Refused { doing: doing(), reason: error.to_string() })
            }
        }
    }
}
