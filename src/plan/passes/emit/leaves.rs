//! The leaves of the expression of a step: operands and numbers.

use crate::base::dtype::{DType, Scalar};
use crate::base::shape::View;
use crate::expr::{Builder, E};
use crate::plan::step_parts::{Operand, Source, Space};

/// The operands and scalars of a step in the making.
pub(super) struct Leaves<'b> {
    builder: &'b Builder,
    /// Each once.
    pub operands: Vec<Operand>,
    pub scalars: Vec<Scalar>,
}

impl<'b> Leaves<'b> {
    pub fn new(builder: &'b Builder) -> Self {
        Self { builder, operands: Vec::new(), scalars: Vec::new() }
    }

    /// The element of `operand` that belongs to a point of its space.
    pub fn load(&mut self, operand: Operand) -> E<'b> {
        let ty = operand.dtype.lane();
        let at = self.operand(operand);
        self.builder.load(at, ty)
    }

    /// The index that `view` maps a point of the space to, as an `i32`.
    pub fn iota(&mut self, view: View, space: Space) -> E<'b> {
        self.counter(view, space).1
    }

    /// The operand that counts the index to which `view` maps a point of the space, and its load.
    pub fn counter(&mut self, view: View, space: Space) -> (usize, E<'b>) {
        let (source, dtype) = (Source::Iota, DType::I32);
        let at = self.operand(Operand { source, dtype, space, view, clamp: false });
        (at.into(), self.builder.load(at, dtype.lane()))
    }

    /// The position of an operand that is there as a whole.
    pub fn whole(&mut self, source: Source, dtype: DType, view: View) -> u16 {
        self.operand(Operand { source, dtype, space: Space::Whole, view, clamp: false })
    }

    fn operand(&mut self, operand: Operand) -> u16 {
        let known = self.operands.iter().position(|o| *o == operand);
        let at = known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        });
        at as u16
    }

    pub fn number(&mut self, value: i64) -> E<'b> {
        self.scalar(Scalar::new(DType::I32, value as f64))
    }

    pub fn scalar(&mut self, value: Scalar) -> E<'b> {
        let at = self.scalar_index(value);
        self.builder.scalar(at, value.dtype().lane())
    }

    /// Each number gets a place of its own, so that equal numbers make no other code.
    pub fn scalar_index(&mut self, value: Scalar) -> u16 {
        self.scalars.push(value);
        self.scalars.len() as u16 - 1
    }
}
