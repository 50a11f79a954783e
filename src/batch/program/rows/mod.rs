//! Programs with any number of rows: cut, padded to a few sizes, joined.

mod cut;
mod given;
mod join;
pub(super) mod plans;
mod run;
mod traced;

pub use self::traced::{RowResult, Rows};
