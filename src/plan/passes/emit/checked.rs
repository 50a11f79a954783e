//! Values that read tables at computed positions, or can fail on the data.

use smallvec::smallvec;

use super::Emitter;
use crate::base::dtype::{DType, Scalar, Ty};
use crate::base::shape::View;
use crate::expr::E;
use crate::ops::SearchSide;
use crate::plan::passes::failure_sites::failing_position;
use crate::plan::passes::ir::Ix;
use crate::plan::passes::reads;
use crate::plan::passes::reads::Read;
use crate::plan::step_parts::{Lookup, OperandSource};

impl<'b> Emitter<'_, 'b> {
    /// The table's element at the index, which is checked.
    pub(super) fn look_up(&mut self, read: &Read) -> Option<E<'b>> {
        let elements = reads::table_elements(self.ir, self.views, read.base)?;
        let index = self.arguments(read)?.pop()?;
        let index = self.below(read, index, elements.size)?.cast(DType::I32);
        let (first, start) = self.leaves.counter(read.path.carried(elements.first)?, read.space);
        let position = index * self.leaves.number(elements.stride) + start;
        let (table, ty) = self.table(read.base)?;
        let element = self.builder.fetch(table, position, ty);
        self.lookups.push(Lookup {
            fetch: element.r(),
            table: table.into(),
            first,
            index: index.r(),
            stride: elements.stride,
            size: elements.size,
        });
        Some(element)
    }

    /// The index, or 0 where it is ignored. Any other is checked.
    pub(super) fn in_range(
        &mut self,
        read: &Read,
        size: usize,
        ignored: Option<Scalar>,
    ) -> Option<E<'b>> {
        let mut index = self.arguments(read)?.pop()?;
        if let Some(ignored) = ignored {
            index = index.eq(self.leaves.scalar(ignored)).select(0.0, index, index);
        }
        self.below(read, index, size)
    }

    /// The index where it is below `size`; else 0, and the run fails.
    fn below(&mut self, read: &Read, index: E<'b>, size: usize) -> Option<E<'b>> {
        // A negative index is a large one.
        let size = self.leaves.scalar(Scalar::new(DType::U32, size as f64));
        let outside = index.cast(DType::U32).ge(size);
        let fails = self.check(read, self.sites.get(read.base)?, outside)?;
        Some(fails.select(0.0, index, index))
    }

    /// The table of a look-up, as an operand, and the lane type of its elements.
    fn table(&mut self, ix: Ix) -> Option<(u16, Ty)> {
        let (base, _) = reads::lookup_table(self.views, &self.ir.nodes[ix])?;
        let (value, ty) = (self.values[*base]?, &self.ir.nodes[*base].ty);
        let table =
            self.leaves.whole(OperandSource::Table(value), ty.dtype, View::contiguous(&ty.shape));
        Some((table, ty.dtype.lane()))
    }

    /// The count of the ascending numbers that come before the value: found by steps of powers of two, each half of the
    /// one before. NaN comes after all numbers.
    pub(super) fn search(&mut self, read: &Read, side: SearchSide) -> Option<E<'b>> {
        let elements = reads::table_elements(self.ir, self.views, read.base)?;
        let value = self.arguments(read)?.pop()?;
        let (table, ty) = self.table(read.base)?;
        let (size, stride) =
            (self.leaves.number(elements.size as i64), self.leaves.number(elements.stride));
        // One element before the first.
        let start = self.leaves.number(elements.first.offset - elements.stride);
        let mut found = size.literal(0.0);
        for bit in (0..usize::BITS - elements.size.leading_zeros()).rev() {
            let next = found + f64::from(1_u32 << bit);
            let element = self.builder.fetch(table, next * stride + start, ty);
            let before = match side {
                SearchSide::Left => comes_before(element, value),
                SearchSide::Right => !comes_before(value, element),
            };
            found = next.le(size).and(before).select(next, found, found);
        }
        Some(found.cast(DType::U32))
    }

    /// `holds`, and the run fails where it does, which is at the node that is read.
    pub(super) fn check(&mut self, read: &Read, site: u32, holds: E<'b>) -> Option<E<'b>> {
        let position = failing_position(self.ir, read.base, &read.path)?;
        let at = self.leaves.iota(position, read.space);
        let site = self.leaves.scalar(Scalar::new(DType::U32, site.into()));
        let none = View { dims: smallvec![], strides: smallvec![], offset: 0 };
        let failures = self.leaves.whole(OperandSource::Failures, DType::U32, none);
        Some(self.builder.check(failures, holds, site, at))
    }
}

/// x < y, where NaN comes after all numbers.
fn comes_before<'b>(x: E<'b>, y: E<'b>) -> E<'b> {
    if x.ty() != Ty::F32 {
        return x.lt(y);
    }
    x.lt(y).or(x.eq(x).and(!y.eq(y)))
}
