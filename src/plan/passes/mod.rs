//! The passes from a recorded graph to steps. Each is a function from one plain value to the next:
//!
//! 1. [`ir`]: prune to the nodes that the outputs need.
//! 2. [`scale`]: scale the operands of split products.
//! 3. [`simplify`]: identities, constants, common subexpressions.
//! 4. [`path`]: fold movements.
//! 5. [`fuse`]: group operations to kernels, by the rules of [`reads`] and [`failure_sites`].
//! 6. [`storage`] and [`emit`]: homes of values, and expressions over them.
//! 7. [`predict`]: the cost of each step.
//! 8. [`limits`]: refuse steps that the device cannot run.

pub(super) mod emit;
pub(super) mod expression;
pub(super) mod failure_sites;
pub(super) mod fuse;
pub(super) mod ir;
pub(super) mod limits;
pub(super) mod path;
pub(super) mod predict;
pub(super) mod reads;
pub(super) mod scale;
pub(super) mod simplify;
pub(super) mod storage;
