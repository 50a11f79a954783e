//! An explanation as a picture: the recorded graph, kernels, memory and transfers as plain data.

use super::Explanation;
use super::not_fused::Unfused;
use super::operations::operations;
use super::reasons::parts_with_reasons;
use super::transfers::transfers;
use crate::cost::{Backend, Limits};
use crate::ops::Type;
use crate::picture::{Kernel, Memory, Part, Picture, Stored, Transfer};
use crate::plan::forms::Measure;
use crate::plan::order::memory::lives;
use crate::plan::placement::chosen_by::ChosenBy;
use crate::plan::placement::split::{PartOf, SideTargets};
use crate::plan::step::Step;
use crate::plan::value::{Home, ValueId};
use crate::plan::{Pieces, Plan};

impl Explanation {
    /// The recorded graph and how it was fused, the kernels with their sides and predicted times, the buffers over
    /// time, and the transfers: one page of HTML with everything that it needs, in a light and in a dark theme.
    ///
    /// Operations and kernels are linked: each shows the other under the pointer and under the keyboard's focus. Blocks
    /// that repeat are drawn once, so that the page of a large graph has a bounded size. Names and places of the user
    /// are escaped.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.upload(&[1.0_f32, -2.0]).relu();
    /// let page = batch.explain()?.to_html();
    /// assert!(page.starts_with("<!DOCTYPE html>"));
    /// # Ok::<_, onetrip::Error>(())
    /// ```
    #[must_use]
    pub fn to_html(&self) -> String {
        self.picture().to_html()
    }

    /// The recorded graph alone as SVG: operations of one kernel have one colour. It has a light and a dark theme, and
    /// draws blocks that repeat once.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.upload(&[1.0_f32, -2.0]).relu();
    /// assert!(batch.explain()?.to_svg().starts_with("<svg"));
    /// # Ok::<_, onetrip::Error>(())
    /// ```
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.picture().to_svg()
    }

    /// The explanation as plain data to draw.
    pub(crate) fn picture(&self) -> Picture {
        let Self { placed, graph, names, .. } = self;
        let split = match &placed.pieces {
            Pieces::Whole(_) => None,
            Pieces::Split(split) => Some(split),
        };
        let mut picture = Picture {
            title: match split {
                None => format!("Plan for the {}", self.backend()),
                Some(_) => "Plan for both sides".to_owned(),
            },
            heading: self.heading(),
            operations: operations(graph, names, placed),
            ..Picture::default()
        };
        let reasons = self.reasons();
        for (at, plan) in placed.pieces.iter().enumerate() {
            let part = split.map(|split| PartOf { split, at });
            let title = match split {
                None => format!("On the {}", plan.backend),
                Some(split) => {
                    let phase = split.parts[at].phase.to_string();
                    phase[..1].to_uppercase() + &phase[1..]
                }
            };
            self.add_part(&mut picture, title, plan, &reasons);
            if let Some(gpu) = self.target(Backend::Gpu) {
                picture.transfers.extend(transfers(plan, part, gpu).into_iter().map(|moved| {
                    Transfer {
                        name: moved.name,
                        part: at,
                        values: moved.values.iter().map(|id| id.index()).collect(),
                        bytes: moved.bytes,
                        seconds: moved.seconds,
                    }
                }));
            }
        }
        picture
    }

    /// The reason for the side of each kernel, of all parts.
    fn reasons(&self) -> Vec<String> {
        let (Some(cpu), Some(gpu)) = (self.target(Backend::Cpu), self.target(Backend::Gpu)) else {
            return vec!["the device has no other side".to_owned(); self.kernels.len()];
        };
        let chosen_by = self.chosen_by.unwrap_or(ChosenBy::Times);
        let parts =
            parts_with_reasons(&self.placed, SideTargets { cpu, gpu }, &self.residents, chosen_by);
        parts.iter().flat_map(|part| &part.reasons).map(ToString::to_string).collect()
    }

    fn add_part(&self, picture: &mut Picture, title: String, plan: &Plan, reasons: &[String]) {
        let limits = self.target(plan.backend).map_or_else(Limits::cpu, |of| of.limits.clone());
        let first = picture.kernels.len();
        let unfused = Unfused::new(plan);
        let has_other = self.targets.len() > 1;
        for (at, step) in plan.steps.iter().enumerate() {
            let not_fused_with = unfused.not_fused_with(at).into_iter();
            picture.kernels.push(Kernel {
                reason: reasons[first + at].clone(),
                not_fused_with: not_fused_with.map(|(made, why)| (first + made, why)).collect(),
                ..kernel(step, plan.backend, has_other)
            });
        }
        let stored = plan.values.iter().zip(lives(plan)).map(|(value, life)| Stored {
            name: value.op,
            place: value.place.clone(),
            ty: Type { dtype: value.dtype, shape: value.shape.clone() },
            bytes: value.bytes(&limits),
            memory: match value.home {
                Home::Upload { slot: None, .. } => Memory::Caller,
                Home::Upload { slot: Some(slot), .. } | Home::Slot(slot) => Memory::Buffer(slot),
                Home::Resident(_) => Memory::Resident,
                Home::Kept(_) => Memory::Kept,
            },
            life: life.map(|life| (life.first, life.last)),
        });
        let scratch = plan.steps.iter().enumerate().filter_map(|(at, step)| {
            step.scratch.map(|scratch| (at, scratch.slot, scratch.words.saturating_mul(4)))
        });
        picture.parts.push(Part {
            title,
            kernels: first..first + plan.steps.len(),
            peak_bytes: plan.peak_bytes,
            values: stored.collect(),
            buffers: plan.slots.clone(),
            scratch: scratch.collect(),
        });
    }
}

/// A step as a kernel, without the reasons.
fn kernel(step: &Step, side: Backend, has_other: bool) -> Kernel {
    let (form, seconds) = (step.form.kernel(), step.cost.seconds);
    Kernel {
        label: step.label(),
        form: form.name(),
        side,
        place: step.place.clone(),
        reads: step.reads().iter().map(|id: &ValueId| id.index()).collect(),
        writes: step.outputs.iter().map(|output| output.value.index()).collect(),
        dispatches: if side == Backend::Gpu { step.dispatches() } else { 0 },
        flops: (form.measure() == Measure::Flops).then_some(step.cost.flops),
        bytes_read: step.cost.bytes_read,
        bytes_written: step.cost.bytes_written,
        predicted: seconds.on(side),
        elsewhere: has_other.then(|| seconds.on(side.other())),
        measured: None,
        reason: String::new(),
        not_fused_with: Vec::new(),
    }
}
