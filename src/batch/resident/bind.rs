//! Residents in batches: read by its operations, and filled by its runs.

use std::panic::Location;

use smallvec::SmallVec;

use super::Resident;
use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Tensor};
use crate::ops::{Op, Type};
use crate::record::elsewhere;
use crate::residents::{Handle, Keep, Storage};

/// Residents: data that stays on the device from batch to batch.
impl GpuCommandBatch {
    /// A resident as an input of this batch. It must live on this batch's device.
    #[track_caller]
    pub fn bind<T: Element>(&self, resident: &Resident<T>) -> Tensor<'_, T> {
        self.bound(resident, "bind")
    }

    /// A resident as an input, for `method`.
    #[track_caller]
    pub(crate) fn bound<T: Element>(
        &self,
        resident: &Resident<T>,
        method: &'static str,
    ) -> Tensor<'_, T> {
        let handle = resident.handle();
        let mut recorder = self.recorder.lock();
        if !handle.device().is_same(&self.device) {
            let node = recorder.mistake(method, handle.foreign(&self.device), T::DTYPE);
            return self.tensor(node);
        }
        recorder.recording.start();
        let residents = &mut recorder.change().residents;
        let position = residents.len() as u32;
        residents.push(handle.clone());
        let node = recorder.push(Op::Resident(position), SmallVec::new(), handle.ty().clone());
        self.tensor(node)
    }

    /// Keeps a result on the device. The resident is filled by each run of this batch, and is empty
    /// until the first. A kept value is downloaded only if [`download`](Self::download) asks for it.
    #[track_caller]
    pub fn keep<T: Element>(&self, id: impl Into<BufferId<T>>) -> Resident<T> {
        let mut recorder = self.recorder.lock();
        let node = recorder.check(id.into().value()).map_err(elsewhere);
        let ty = match node {
            Ok(node) => recorder.recorded().graph[node].ty.clone(),
            Err(_) => Type { dtype: T::DTYPE, shape: Shape::default() },
        };
        let handle = Handle::new(&self.device, ty, Location::caller(), Storage::default());
        match node {
            Ok(node) if matches!(recorder.recorded().graph[node].op, Op::Invalid) => {}
            Ok(node) => {
                recorder.change().keep(node, Keep { handle: handle.clone(), patch: None });
            }
            Err(what) => recorder.note("keep", what),
        }
        Resident::of(handle)
    }
}
