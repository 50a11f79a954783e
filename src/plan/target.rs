//! The side that a plan is made for.

use std::sync::Arc;

use crate::cost::{Backend, DeviceProfile, Limits};

/// The side that a plan is made for, with its limits and its profile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub backend: Backend,
    pub limits: Limits,
    /// Speeds of both sides.
    pub profile: Arc<DeviceProfile>,
}
