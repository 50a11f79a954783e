//! Large uploads in waves: the device works on the data that has come while the host packs the next.

use std::sync::Arc;

use super::encode::{Encode, up};
use super::engine::Engine;
use super::flight::{Flight, Launched};
use super::job::Job;
use super::mapped_after::MappedAfter;
use super::readback::GpuRun;
use super::record::Script;
use super::request::{Leased, outputs};
use super::stage::Load;
use crate::base::trace::stage;
use crate::error::{DeviceError, Error};
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver::Calls;
use crate::plan::Wave;

impl Engine {
    /// Submits a run in the waves of its plan. The flight of the last one is that of the run.
    ///
    /// If a wave cannot be packed or submitted, the work of the waves before it is lost.
    pub fn launch_in_waves(self: &Arc<Self>, job: &Job, leased: Leased) -> Result<Launched, Error> {
        debug_assert_eq!(
            job.plan.waves.last().map(|wave| wave.dispatches.end),
            Some(job.kernels.dispatches.len()),
            "a dispatch is in no wave"
        );
        let Leased { buffers, readback, failures, mut counts, .. } = leased;
        let outputs = outputs(job, self.driver.limits())?;
        let kept = buffers.kept.clone();
        let encode = Encode { engine: self, job, buffers };
        let mapped_after = MappedAfter { staging: None, readback };
        let script = |calls: &Calls<'_>| {
            encode.script(calls, &mut counts, mapped_after, Vec::new(), &outputs)
        };
        let mut script: Script = self.driver.checked(|| job.kernels.doing(), script)?;
        let mut flight: Option<Flight> = None;
        let mut waves = job.plan.waves.iter().peekable();
        while let Some(wave) = waves.next() {
            let is_last = waves.peek().is_none();
            let next = self.submit_wave(job, &mut script, wave, is_last, &mut counts)?;
            counts.submits += 1;
            flight.replace(next).into_iter().for_each(Flight::leave_to_next);
        }
        let run = GpuRun { readback: None, outputs, failures, failed: None, kept, counts };
        Ok(Launched { flight, run })
    }

    /// Packs and submits a wave. The last one takes the readback.
    fn submit_wave(
        self: &Arc<Self>,
        job: &Job,
        script: &mut Script,
        wave: &Wave,
        is_last: bool,
        counts: &mut GpuCounts,
    ) -> Result<Flight, Error> {
        let load = Load::Wave(wave);
        let (staging, copies) = self.bring(job, &script.buffers, load, None, counts)?;
        let doing = || job.kernels.doing();
        let submit = || {
            let held = self.hold(&job.permit)?;
            let up = up(staging.as_ref(), copies);
            let mut mapped_after = MappedAfter { staging, readback: None };
            let commands = self.driver.checked(doing, |calls| {
                let mut encoder = calls.encoder();
                script.record_part(&mut encoder, &up, wave.dispatches.clone());
                if is_last {
                    script.record_down(&mut encoder);
                    mapped_after.readback = script.mapped_after.readback.take();
                }
                Ok::<_, DeviceError>(encoder.finish())
            })?;
            self.submissions.submit(doing, commands, mapped_after, held)
        };
        let submitted = stage!(job.timeline, "submit").of(submit);
        let submitted = submitted.inspect_err(|_| self.memory.groups.clear())?;
        job.kernels.note_submission();
        Ok(Flight::new(self, submitted))
    }
}
