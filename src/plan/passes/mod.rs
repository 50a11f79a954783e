//! The passes from a recorded graph to steps. Each is a function from one plain value to the next:
//!
//! 1. [`ir`]: prune to the nodes that the outputs need.
//! 2. [`scale`]: scale the operands of split products.
//! 3. [`simplify`]: identities, constants, common subexpressions.
//! 4. [`kept_copies`]: copy values that outlive the run and have no buffer of their own.
//! 5. [`sort_pairs`]: put the two results of a sort next to each other.
//! 6. [`path`]: fold movements.
//! 7. [`fuse`]: group operations to kernels, by the rules of [`reads`] and [`failure_sites`].
//! 8. [`storage`]: the homes of values.
//! 9. [`emit`]: the step of each kernel, with expressions over its values, then [`Step::tune`](super::step::Step::tune).
//! 10. [`channels_last`]: the order of the elements of small images on the host.
//! 11. [`predict`]: the cost of each step.
//! 12. [`limits`]: refuse steps that the device cannot run.

pub(super) mod channels_last;
pub(super) mod emit;
pub(super) mod expression;
pub(super) mod failure_sites;
pub(super) mod fuse;
pub(super) mod ir;
pub(super) mod kept_copies;
pub(super) mod limits;
pub(super) mod path;
pub(super) mod predict;
pub(super) mod reads;
pub(super) mod scale;
pub(super) mod simplify;
pub(super) mod sort_pairs;
pub(super) mod storage;
