//! Large uploads in waves: the device works on what has come while the host packs what comes next.

use std::sync::Arc;

use super::encode::{Encode, Memory, up};
use super::flight::Flight;
use super::readback::GpuRun;
use super::record::Script;
use crate::base::trace::stage;
use crate::error::Error;
use crate::exec::gpu::driver::health::Scope;
use crate::exec::gpu::submit::job::{Job, Launched, Results};
use crate::exec::gpu::submit::mapped_after::MappedAfter;
use crate::exec::gpu::submit::stage::Load;
use crate::exec::gpu::{GpuCounts, Shared};
use crate::plan::Wave;

impl Shared {
    /// Submits a run in the waves of its plan. The last one's flight is that of the run.
    ///
    /// Where one cannot be packed or submitted, those before it are done in vain.
    pub fn launch_in_waves(self: &Arc<Self>, job: &Job) -> Result<Launched, Error> {
        debug_assert_eq!(
            job.plan.waves.last().map(|wave| wave.dispatches.end),
            Some(job.kernels.dispatches.len()),
            "a dispatch is in no wave"
        );
        let mut counts = GpuCounts::default();
        let memory = Memory::lease(self, job, None, &mut counts)?;
        let Results { outputs, failures, readback } = self.room_for_results(job, &mut counts)?;
        let kept = memory.kept.clone();
        let encode = Encode { shared: self, job, memory };
        let returns = MappedAfter { staging: None, readback };
        let scope = Scope::open(&self.device, &self.health);
        let mut script = encode.script(&mut counts, returns, Vec::new(), &outputs)?;
        scope.close(|| job.kernels.doing())?;
        let mut flight: Option<Flight> = None;
        let mut waves = job.plan.waves.iter().peekable();
        while let Some(wave) = waves.next() {
            let is_last = waves.peek().is_none();
            let next = self.send_wave(job, &mut script, wave, is_last, &mut counts)?;
            counts.submits += 1;
            flight.replace(next).into_iter().for_each(Flight::leave_to_next);
        }
        let run = GpuRun { readback: None, outputs, failures, failed: None, kept, counts };
        Ok(Launched { flight, run })
    }

    /// Packs and submits a wave. The last one takes the readback.
    fn send_wave(
        self: &Arc<Self>,
        job: &Job,
        script: &mut Script,
        wave: &Wave,
        is_last: bool,
        counts: &mut GpuCounts,
    ) -> Result<Flight, Error> {
        let (staging, copies) = self.bring(job, &script.memory, Load::Wave(wave), counts)?;
        let submit = stage!(job.timeline, "submit");
        submit.of(|| {
            let scope = Scope::open(&self.device, &self.health);
            let mut encoder = self.encoder();
            script.record_part(
                &mut encoder,
                &up(staging.as_ref(), copies),
                wave.dispatches.clone(),
            );
            let mut returns = MappedAfter { staging, readback: None };
            if is_last {
                script.record_down(&mut encoder);
                returns.readback = script.returns.readback.take();
            }
            let flight = Flight::submit(self, encoder.finish(), returns, self.hold(&job.permit)?);
            let done = scope.close(|| job.kernels.doing());
            done.inspect_err(|_| self.groups.clear())?;
            job.kernels.sent();
            Ok(flight)
        })
    }
}
