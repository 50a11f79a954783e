//! The inputs of a run, which tell how many rows it has.

use super::cut::RowChunk;
use super::traced::Rows;
use crate::base::shape::Shape;
use crate::batch::input::Input;
use crate::batch::program::compiled::Inner;
use crate::error::{DataError, Result, RowsError};
use crate::graph::{NodeId, RowAxis};

/// Inputs of a run, and the number of their rows.
pub(super) struct RowInputs<'a> {
    pub rows: usize,
    /// Each with its node.
    pub inputs: Vec<(NodeId, Input<'a>)>,
}

impl RowInputs<'_> {
    /// All rows as one chunk.
    pub fn whole(&self) -> RowChunk {
        RowChunk { start: 0, rows: self.rows, planned: self.rows }
    }
}

impl Rows {
    /// Checks inputs and counts their rows.
    pub(super) fn given<'s, 'a: 's>(
        &self,
        list: &mut dyn Iterator<Item = Input<'a>>,
    ) -> Result<RowInputs<'s>> {
        let Inner { recorded, .. } = &*self.program.0;
        let (mut rows, mut inputs) = (None, Vec::new());
        for input in list {
            let (_, id) = self.program.0.typed_upload(&input)?;
            if inputs.iter().any(|&(given, _)| given == id) {
                return Err(DataError::GivenTwice(recorded.origin(id)).into());
            }
            let ty = &recorded.graph[id].ty;
            if let Some(why) = input.misfit(ty.dtype) {
                return Err(self.program.0.unfilled(id, why));
            }
            if !self.plans.inputs.contains(&id) {
                self.program.0.check_size(id, &ty.shape, &input)?;
                inputs.push((id, input));
                continue;
            }
            let axis = RowAxis::of_input(&ty.shape).axis;
            let row = Shape::from(&ty.shape.dims()[axis + 1..]);
            let given = input.len(ty.dtype);
            let own = match &input.shape {
                Some(shape) if shape.rank() == ty.shape.rank() => shape[axis],
                _ => given.checked_div(row.elements()).unwrap_or(0),
            };
            if own.checked_mul(row.elements()) != Some(given) {
                let of = recorded.origin(id);
                return Err(RowsError::Part { of, row, axis, given }.into());
            }
            let whole = of_rows(&ty.shape, axis, own);
            self.program.0.check_size(id, &whole, &input)?;
            let (first, count) = *rows.get_or_insert((id, own));
            if count != own {
                let [first, second] = [first, id].map(|id| recorded.origin(id));
                let others = own;
                return Err(RowsError::Counts { first, rows: count, second, others }.into());
            }
            inputs.push((id, input));
        }
        let is_missing = |id: &&NodeId| !inputs.iter().any(|(given, _)| given == *id);
        let missing = self.plans.inputs.iter().filter(is_missing).copied().collect();
        let missing = recorded.needed_of(missing);
        match rows {
            _ if !missing.is_empty() => Err(DataError::NotGiven(missing).into()),
            Some((_, rows)) => Ok(RowInputs { rows, inputs }),
            None => Err(RowsError::NoInput.into()),
        }
    }
}

/// The shape with `rows` rows along `axis`.
pub(super) fn of_rows(shape: &Shape, axis: usize, rows: usize) -> Shape {
    let mut dims = shape.dims().to_vec();
    dims[axis] = rows;
    dims.into()
}
