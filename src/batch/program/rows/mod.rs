//! Programs with any number of rows: cut, padded to a few sizes, joined.

mod cut;
mod join;
pub(super) mod plans;
mod row_inputs;
mod run;
mod time_left;
mod traced;
mod warm_up;

pub use self::traced::{RowResult, Rows};
