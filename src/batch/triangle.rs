//! Triangles of matrices.

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::Element;
use crate::error::MistakeKind;

impl GpuCommandBatch {
    /// x on the diagonal `diagonal` of its last two axes and above, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    #[track_caller]
    pub fn triu<T: Element>(&mut self, x: BufferId<T>, diagonal: isize) -> BufferId<T> {
        self.composed("triu", |b| {
            b.triangle("triu", x, diagonal, |b, column, row| b.ge(column, row))
        })
    }

    /// x on the diagonal `diagonal` of its last two axes and below, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    #[track_caller]
    pub fn tril<T: Element>(&mut self, x: BufferId<T>, diagonal: isize) -> BufferId<T> {
        self.composed("tril", |b| {
            b.triangle("tril", x, diagonal, |b, column, row| b.le(column, row))
        })
    }

    fn triangle<T: Element>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        diagonal: isize,
        keeps: impl Fn(&mut Self, BufferId<i32>, BufferId<i32>) -> BufferId<bool>,
    ) -> BufferId<T> {
        let id = self.check(x);
        let shape = match (&id, self.known_shape(&id)) {
            (Err(what), _) => return self.mistake(name, what.clone()),
            (Ok(_), None) => return x,
            (Ok(_), Some(shape)) if shape.rank() < 2 => {
                return self.mistake(name, MistakeKind::Transpose(shape));
            }
            (Ok(_), Some(shape)) => shape,
        };
        let sides = &shape.dims()[shape.rank() - 2..];
        let [Ok(rows), Ok(columns)] = [0, 1].map(|side| i32::try_from(sides[side])) else {
            return self.mistake(name, MistakeKind::TooLarge(shape));
        };
        // Diagonals past the corners are those beside them.
        let first = diagonal.clamp(-(rows as isize), columns as isize) as i32;
        let Some(end) = first.checked_add(rows) else {
            return self.mistake(name, MistakeKind::TooLarge(shape));
        };
        let column = self.arange(0, columns, 1);
        let row = self.arange(first, end, 1);
        let row = self.unsqueeze(row, -1);
        let kept = keeps(self, column, row);
        let zero = self.full([], T::default());
        self.select(kept, x, zero)
    }
}
