//! The values that have storage, and their homes.

use super::fuse::Fusion;
use super::ir::{Ir, Ix};
use super::path::Views;
use crate::cost::Backend;
use crate::error::PlanError;
use crate::ops::Op;
use crate::plan::value::ValueId;
use crate::plan::value::{Home, Value};

/// The homes of the values that steps read and write.
pub(crate) struct ValueHomes<'a> {
    ir: &'a Ir,
    views: &'a Views,
    backend: Backend,
    /// The value of each stored node.
    pub of: Vec<Option<ValueId>>,
    pub values: Vec<Value>,
    pub downloads: Vec<ValueId>,
    pub keeps: Vec<ValueId>,
}

impl<'a> ValueHomes<'a> {
    /// Gives a home to all that the groups read and store, and to the outputs.
    pub fn assign(
        ir: &'a Ir,
        views: &'a Views,
        fusion: &Fusion,
        backend: Backend,
    ) -> Result<Self, PlanError> {
        let of = vec![None; ir.nodes.len()];
        let (values, downloads, keeps) = (Vec::new(), Vec::new(), Vec::new());
        let mut homes = Self { ir, views, backend, of, values, downloads, keeps };
        for read in fusion.groups.iter().flat_map(|group| &group.reads) {
            homes.source(read.base);
        }
        for group in &fusion.groups {
            for &ix in group.extra.iter().chain([&group.root]) {
                homes.of[ix] = Some(homes.add(ix, Home::Slot(0)));
            }
        }
        homes.downloads =
            ir.downloads.iter().map(|&ix| homes.output(ix)).collect::<Result<_, _>>()?;
        homes.keeps = ir.keeps.iter().map(|&ix| homes.output(ix)).collect::<Result<_, _>>()?;
        for (at, value) in homes.keeps.iter().enumerate() {
            let home = &mut homes.values[value.index()].home;
            if matches!(home, Home::Slot(_)) {
                *home = Home::Kept(at);
            }
        }
        Ok(homes)
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
        let slot = (self.backend == Backend::Gpu).then_some(0);
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
            channels_last: false,
            home,
        });
        ValueId(self.values.len() as u32 - 1)
    }
}
