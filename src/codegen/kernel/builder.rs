//! The kernel in the making, which the other files bind buffers to, and write texts for.

use std::collections::BTreeSet;
use std::fmt;

use crate::codegen::BufferRef;
use crate::cost::Limits;
use crate::expr::Ref;
use crate::plan::{Plan, Step};

/// Stands for a missing binding: a text with it does not compile, which is an error for the user, where another
/// buffer's name would be a wrong result.
pub(super) const UNBOUND: &str = "unbound";

/// A kernel in the making: what it has bound so far, and which texts it needs.
pub(in crate::codegen) struct KernelBuilder<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub limits: &'a Limits,
    pub(super) params: Vec<u32>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) helpers: BTreeSet<&'static str>,
    /// Operands that are there as a whole.
    pub(super) whole: BTreeSet<usize>,
    /// Tables that are fetched from in fours.
    pub(super) fours: BTreeSet<usize>,
    /// WGSL extensions besides those that the buffers ask for.
    pub(super) extensions: BTreeSet<&'static str>,
    /// True if a thread keeps its failures until it is done.
    pub(super) tells_late: bool,
}

impl<'a> KernelBuilder<'a> {
    pub fn new(plan: &'a Plan, step: &'a Step, limits: &'a Limits) -> Self {
        Self {
            plan,
            step,
            limits,
            params: Vec::new(),
            buffers: Vec::new(),
            helpers: BTreeSet::new(),
            whole: BTreeSet::new(),
            fours: BTreeSet::new(),
            extensions: BTreeSet::new(),
            tells_late: false,
        }
    }

    pub fn needs(&mut self, helper: &'static str) {
        self.helpers.insert(helper);
    }

    pub fn enable(&mut self, extension: &'static str) {
        self.extensions.insert(extension);
    }

    /// The operands that `roots` read, in ascending order.
    pub fn operands_of(&self, roots: &[Ref]) -> Vec<usize> {
        self.step.context(&self.plan.values).operands_of(roots)
    }

    /// The roots of all outputs.
    pub fn output_roots(&self) -> Vec<Ref> {
        self.step.outputs.iter().map(|o| o.root).collect()
    }
}

pub(super) struct Buffer {
    pub at: BufferRef,
    pub element: BufferElement,
    pub writes: bool,
}

/// The element of a buffer, of which a number is named by its WGSL type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BufferElement {
    One(&'static str),
    Four(&'static str),
    /// A word that several threads write to.
    Atomic,
}

impl fmt::Display for BufferElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(scalar) => write!(f, "{scalar}"),
            Self::Four(scalar) => write!(f, "vec4<{scalar}>"),
            Self::Atomic => f.write_str("atomic<u32>"),
        }
    }
}
