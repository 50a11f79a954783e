//! The inputs of a run, matched with the program's uploads.

use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;

use super::compiled::Inner;
use crate::base::shape::Shape;
use crate::batch::input::{Input, Lend};
use crate::batch::upload::wide_ids::Unfilled;
use crate::error::{DataError, Error, Result};
use crate::exec::Misfit;
use crate::graph::NodeId;
use crate::ops::Type;
use crate::record::{Record, Uploads};

/// The inputs of a run, each with the position of the upload that it fills, and its node.
pub(super) type Fitting<'a> = SmallVec<[(usize, NodeId, Input<'a>); 4]>;

impl Inner {
    /// `inputs`, each with the position of the upload that it fills, and its node.
    pub(super) fn fitting<'s, 'a: 's>(
        &self,
        inputs: &mut dyn Iterator<Item = Input<'a>>,
    ) -> Result<Fitting<'s>> {
        let mut fitting = Fitting::new();
        let mut given = SmallVec::<[bool; 64]>::from_elem(false, self.recorded.uploads.len());
        for input in inputs {
            let (position, id) = self.matched_upload(&input)?;
            if mem::replace(&mut given[position], true) {
                return Err(DataError::GivenTwice(self.recorded.origin(id)).into());
            }
            fitting.push((position, id, input));
        }
        Ok(fitting)
    }

    /// The data of all uploads: the recorded data, unless `inputs` bring other. Buffers that go to the pool after the
    /// run are added to `lent`.
    pub(super) fn collect(
        &self,
        inputs: Fitting<'_>,
        lent: &mut Uploads,
        lend: Lend<'_>,
    ) -> Result<Uploads> {
        let Record { device, uploads, .. } = &*self.recorded;
        let mut uploads: SmallVec<[_; 4]> = uploads.iter().cloned().collect();
        for (position, id, input) in inputs {
            let dtype = self.recorded.graph[id].ty.dtype;
            let buffer = input.into_buffer(device.pool(), dtype, lend);
            let buffer = buffer.map_err(|why| self.unfilled(id, why))?;
            lent.push(Arc::clone(&buffer));
            uploads[position] = Some(buffer);
        }
        self.recorded.all_given(uploads)
    }

    /// The error for data that cannot fill the upload `id`.
    pub(super) fn unfilled(&self, id: NodeId, why: Unfilled) -> Error {
        let of = self.recorded.origin(id);
        match why {
            Unfilled::NoRoom(error) => error.of(&of).into(),
            Unfilled::Misfit(Misfit::Askew | Misfit::Length) => DataError::Askew(of).into(),
            Unfilled::Misfit(Misfit::Truth(at)) => DataError::Truth { of, at }.into(),
            Unfilled::Panicked(what) => DataError::Panicked { of, what }.into(),
            Unfilled::Range { at, value } => {
                let Type { dtype, shape } = self.recorded.graph[id].ty.clone();
                DataError::IdRange { of, at, value, dtype, shape }.into()
            }
        }
    }

    /// The position of the upload that `input` is for, which it fills, and its node.
    fn matched_upload(&self, input: &Input<'_>) -> Result<(usize, NodeId)> {
        let (position, id) = self.typed_upload(input)?;
        self.check_size(id, &self.recorded.graph[id].ty.shape, input)?;
        Ok((position, id))
    }

    /// As [`matched_upload`](Self::matched_upload), for data of any size.
    pub(super) fn typed_upload(&self, input: &Input<'_>) -> Result<(usize, NodeId)> {
        let id = self.input_node(input.key)?;
        let of = || self.recorded.origin(id);
        let position = self.recorded.upload(id)?;
        let expected = self.recorded.graph[id].ty.dtype;
        match input.dtype {
            _ if input.fits(expected) => Ok((position, id)),
            Some(given) => Err(DataError::DType { of: of(), expected, given }.into()),
            None => Err(DataError::NotIds { of: of(), expected }.into()),
        }
    }

    /// Fails unless the data fill the upload `id` of this shape.
    pub(super) fn check_size(&self, id: NodeId, shape: &Shape, input: &Input<'_>) -> Result<()> {
        let (of, dtype) = (|| self.recorded.origin(id), self.recorded.graph[id].ty.dtype);
        if let Some(given) = input.shape.clone().filter(|given| given != shape) {
            let (of, given) = (of(), Box::new(given));
            return Err(DataError::Shape { of, given, expected: shape.clone() }.into());
        }
        let expected = shape.elements().saturating_mul(dtype.size());
        if let Some(given) = input.shared_bytes().filter(|&given| given != expected) {
            let shape = shape.clone();
            return Err(DataError::Bytes { of: of(), given, expected, shape }.into());
        }
        let given = input.len(dtype);
        if given != shape.elements() {
            return Err(DataError::Length { of: of(), given, shape: shape.clone() }.into());
        }
        Ok(())
    }
}
