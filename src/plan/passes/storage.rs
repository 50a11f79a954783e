//! The values that have storage, their homes, and the steps that read and write them.

use super::fuse::Fusion;
use super::ir::{Ir, Ix};
use super::path::Views;
use super::{emit, predict};
use crate::cost::Backend;
use crate::error::PlanError;
use crate::ops::Op;
use crate::plan::passes::failure_sites::Sites;
use crate::plan::step::Step;
use crate::plan::target::Target;
use crate::plan::value::ValueId;
use crate::plan::value::{Home, Value};

/// Gives values a home as steps come to need them.
pub(crate) struct ValueHomes<'a> {
    ir: &'a Ir,
    views: &'a Views,
    sites: &'a Sites,
    target: &'a Target,
    of: Vec<Option<ValueId>>,
    pub values: Vec<Value>,
    pub downloads: Vec<ValueId>,
    pub keeps: Vec<ValueId>,
}

impl<'a> ValueHomes<'a> {
    pub fn new(ir: &'a Ir, views: &'a Views, sites: &'a Sites, target: &'a Target) -> Self {
        let of = vec![None; ir.nodes.len()];
        Self {
            ir,
            views,
            sites,
            target,
            of,
            values: Vec::new(),
            downloads: Vec::new(),
            keeps: Vec::new(),
        }
    }

    /// The steps of all groups, unordered; fills in the outputs.
    pub fn steps(&mut self, fusion: &Fusion) -> Result<Vec<Step>, PlanError> {
        for read in fusion.groups.iter().flat_map(|group| &group.reads) {
            self.source(read.base);
        }
        for group in &fusion.groups {
            for &ix in group.extra.iter().chain([&group.root]) {
                self.of[ix] = Some(self.add(ix, Home::Slot(0)));
            }
        }
        let mut steps = Vec::with_capacity(fusion.groups.len());
        for group in &fusion.groups {
            let step = emit::step(self.ir, self.views, self.sites, fusion, group, &self.of);
            let mut step = step.ok_or_else(|| PlanError::Invalid {
                pass: "emit",
                what: format!("{} cannot be expressed", self.ir.nodes[group.root].op.name()),
            })?;
            if self.target.backend == Backend::Gpu {
                step.tune(&self.values, self.target);
            }
            predict::predict(&mut step, &self.values, self.target);
            steps.push(step);
        }
        let ir = self.ir;
        self.downloads =
            ir.downloads.iter().map(|&ix| self.output(ix)).collect::<Result<_, _>>()?;
        self.keeps = ir.keeps.iter().map(|&ix| self.output(ix)).collect::<Result<_, _>>()?;
        for (at, value) in self.keeps.iter().enumerate() {
            let home = &mut self.values[value.index()].home;
            if matches!(home, Home::Slot(_)) {
                *home = Home::Kept(at);
            }
        }
        Ok(steps)
    }

    /// The value that an output is read from.
    fn output(&mut self, ix: Ix) -> Result<ValueId, PlanError> {
        let base = self.views.of(ix).0;
        self.source(base);
        self.of[base].ok_or_else(|| PlanError::Invalid {
            pass: "fuse",
            what: format!("{} is an output, but no step stores it", self.ir.nodes[ix].op.name()),
        })
    }

    /// A home for data from outside, at its first use.
    fn source(&mut self, ix: Ix) {
        if self.of[ix].is_some() {
            return;
        }
        let slot = (self.target.backend == Backend::Gpu).then_some(0);
        match self.ir.nodes[ix].op {
            Op::Upload(input) => self.of[ix] = Some(self.add(ix, Home::Upload { input, slot })),
            Op::Resident(at) => self.of[ix] = Some(self.add(ix, Home::Resident(at))),
            _ => {}
        }
    }

    fn add(&mut self, ix: Ix, home: Home) -> ValueId {
        let node = &self.ir.nodes[ix];
        self.values.push(Value {
            node: node.node,
            op: node.op.name(),
            place: node.place.clone(),
            dtype: node.ty.dtype,
            shape: node.ty.shape.clone(),
            home,
        });
        ValueId(self.values.len() as u32 - 1)
    }
}
