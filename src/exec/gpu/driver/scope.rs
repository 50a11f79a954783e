//! Error scopes: every error of a group of calls becomes one error of this crate.
//!
//! Quirk: calls of wgpu return no `Result`; an error outside all scopes goes to a handler of the device. In a browser all
//! errors come later, so no scope is opened there, and the handler [notes](super::Health::late_errors) them. Tests:
//! `exec/gpu/tests/failures.rs`, `tests/browser.sh`.

use super::opened_device::{OpenedDevice, popped};
use crate::error::DeviceError;

/// Catches every error of the calls on this thread between `open` and `close`.
///
/// Scopes close in the reverse order of opening; so the guards are ordered, for when this is dropped.
pub(crate) struct Scope<'a> {
    /// The scopes of internal errors, of validation and of memory; `None` in a browser.
    guards: Option<[wgpu::ErrorScopeGuard; 3]>,
    opened: &'a OpenedDevice,
}

impl<'a> Scope<'a> {
    pub fn open(opened: &'a OpenedDevice) -> Self {
        if cfg!(target_arch = "wasm32") {
            return Self { guards: None, opened };
        }
        let device = &opened.device;
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        Self { guards: Some([internal, validation, memory]), opened }
    }

    /// The first error since `open`, as an error of `doing`. Earlier errors are left to the next check.
    ///
    /// # Errors
    /// If a call was refused, or the device is lost.
    pub fn close(self, doing: impl FnOnce() -> String) -> Result<(), DeviceError> {
        let Some(error) = self.first_error()? else { return Ok(()) };
        Err(refused(&error, doing()))
    }

    /// See [`close`](Self::close). This is compiled once.
    fn first_error(self) -> Result<Option<wgpu::Error>, DeviceError> {
        let errors = self.guards.map(|guards| guards.map(popped));
        // Memory first: the other errors may be its effects.
        let error = errors.into_iter().flatten().rev().flatten().next();
        match error {
            None => self.opened.health.check_not_lost()?,
            Some(wgpu::Error::OutOfMemory { .. }) => {}
            Some(_) => self.opened.probe()?,
        }
        Ok(error)
    }
}

/// The error of calls that were refused while `doing` something.
fn refused(error: &wgpu::Error, doing: String) -> DeviceError {
    match error {
        wgpu::Error::OutOfMemory { .. } => DeviceError::OutOfMemory { doing },
        error => DeviceError::Refused { doing, reason: error.to_string() },
    }
}
