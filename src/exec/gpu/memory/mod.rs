//! Device memory: the pool, bind groups, layouts of bindings, and the form of elements on the device.

pub(crate) mod bind_groups;
pub(crate) mod convert;
pub(crate) mod layouts;
pub(crate) mod pool;
pub(crate) mod sizes;
