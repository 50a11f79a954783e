//! One run: lease its buffers, pack the uploads, encode, submit, wait. Large uploads go in waves: the device works on the
//! data that has come while the host packs the next.

use std::pin::pin;
use std::sync::Arc;

use super::coalesce::Coalescer;
use super::completion::MappedAfter;
use super::encode::{Encode, up};
use super::engine::Engine;
use super::flight::{Launched, SubmissionFuture};
use super::job::GpuJob;
use super::readback::GpuRun;
use super::record::{Commands, Script, record, recorded_now, take_or_record};
use super::request::{Leased, Request};
use super::stage::Load;
use super::stamps::Stamps;
use crate::base::clock::{Stopwatch, nanoseconds};
use crate::base::trace::{Timeline, stage};
use crate::error::{DeviceError, Error};
use crate::exec::gpu::compile::Kernels;
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver::{self, Calls};
use crate::exec::gpu::memory::{CommandList, IdleLeases, Lease};
use crate::exec::memory::LARGE;
use crate::exec::threads::off_thread;
use crate::plan::Wave;

/// A run that only has to be submitted.
pub(crate) struct Encoded {
    work: EncodedWork,
    run: GpuRun,
}

enum EncodedWork {
    Nothing,
    /// The run may be recorded with others.
    Script(Script),
    /// The run is submitted alone.
    Recorded(RecordedCommands),
}

/// The commands of one run, with the buffers that must exist until they are submitted.
struct RecordedCommands {
    commands: wgpu::CommandBuffer,
    mapped_after: MappedAfter,
    slots: Vec<Lease>,
    list: Arc<CommandList>,
}

impl Launched {
    /// Waits for the end of the run, and returns it with its results.
    pub async fn land(self, kernels: &Kernels, timeline: &Timeline) -> Result<GpuRun, Error> {
        let Self { flight, mut run } = self;
        if let Some(mut flight) = flight {
            let (completion, running) = (flight.completion(), Stopwatch::started());
            flight.expect(kernels.expected_time());
            let landed = stage!(timeline, "compute").over(pin!(flight.land())).await;
            run.counts.shared = completion.is_shared().into();
            run.readback = landed?.map(Arc::new);
            if run.counts.shared == 0 {
                kernels.note_time(nanoseconds(running.total()));
            }
        }
        run.find_failure();
        Ok(run)
    }
}

impl Engine {
    /// Runs a plan.
    ///
    /// Small uploads are packed when the future is first polled. Large ones are packed on another thread from then on, and
    /// so are those of a run for which memory must be allocated. While a driver makes a long call, another thread packs
    /// and submits small ones. Dropping the future leaves out a run that is not submitted yet, and cancels no other.
    pub fn run(
        self: &Arc<Self>,
        job: GpuJob,
    ) -> impl Future<Output = Result<GpuRun, Error>> + Send + 'static + use<> {
        let engine = Arc::clone(self);
        async move {
            let (kernels, timeline) = (Arc::clone(&job.kernels), job.timeline.clone());
            let request = Request::new(&engine.memory, &engine.device.limits, &job)?;
            let found = request.find(&engine.memory);
            let allocates = found.iter().any(Option::is_none);
            let is_large = job.plan.bytes_up >= LARGE as u64;
            let launch = move || engine.launch(&job, request, found);
            let launched = if allocates || is_large {
                off_thread(launch).await?
            } else {
                driver::in_turn(launch).await?
            };
            launched.land(&kernels, &timeline).await
        }
    }

    /// Submits a run that leases the buffers `found`, and new ones.
    fn launch(
        self: &Arc<Self>,
        job: &GpuJob,
        request: Request,
        found: IdleLeases,
    ) -> Result<Launched, Error> {
        self.device.guarded(|| {
            self.memory.release_freed();
            let leased = request.lease(&self.memory, job, found)?;
            if job.is_in_waves() {
                return self.launch_in_waves(job, leased);
            }
            let encoded = self.encode(job, leased)?;
            stage!(job.timeline, "submit").of(|| self.enqueue(job, encoded))
        })
    }

    /// Packs the uploads of a run and encodes it.
    pub fn encode(&self, job: &GpuJob, leased: Leased) -> Result<Encoded, Error> {
        let Leased { buffers, mut mapped_after, mut run } = leased;
        let staging = mapped_after.staging.take();
        let (staging, copies) = self.bring(job, &buffers, Load::Whole, staging, &mut run.counts)?;
        mapped_after.staging = staging;
        let dispatches = job.kernels.dispatches.len();
        if dispatches == 0 && mapped_after.leases().next().is_none() {
            return Ok(Encoded { work: EncodedWork::Nothing, run });
        }
        let encode = Encode { engine: self, job, buffers };
        let encoding = stage!(job.timeline, "encode", kernels = dispatches);
        let doing = || job.kernels.doing();
        let work = encoding.of(|| {
            self.device.scoped_and_checked(doing, |calls| {
                let script = encode.script(calls, &mut run, mapped_after, copies)?;
                run.counts.submits = 1;
                // Runs that are submitted together must not write what others read, as kept values may be.
                let is_alone = !run.kept.is_empty() || job.timeline.is_recording();
                if is_alone || !Coalescer::takes(&script) {
                    self.record(calls, job, script).map(EncodedWork::Recorded)
                } else {
                    Ok(EncodedWork::Script(script))
                }
            })
        });
        let work = work.inspect_err(|_: &DeviceError| self.memory.groups.clear())?;
        Ok(Encoded { work, run })
    }

    fn record(
        &self,
        calls: &Calls<'_>,
        job: &GpuJob,
        script: Script,
    ) -> Result<RecordedCommands, DeviceError> {
        let dispatches = job.kernels.dispatches.len();
        let timed = job.timeline.is_recording();
        let stamps = if timed { Stamps::new(&self.device, dispatches)? } else { None };
        let commands = if let Some(stamps) = stamps {
            let mut encoder = calls.encoder();
            record(&mut encoder, &[script.commands()], Some(&stamps));
            stamps.collect(&mut encoder, &job.timeline);
            encoder.finish()
        } else {
            take_or_record(calls, &script)
        };
        let Script { mapped_after, buffers, list, .. } = script;
        Ok(RecordedCommands { commands, mapped_after, slots: buffers.into_slots(), list })
    }

    pub fn enqueue(self: &Arc<Self>, job: &GpuJob, encoded: Encoded) -> Result<Launched, Error> {
        let Encoded { work, run } = encoded;
        let submitted = match work {
            EncodedWork::Nothing => None,
            EncodedWork::Script(script) => {
                let list = Arc::clone(&script.list);
                let submitted = self.submissions.enter(script, self.hold(&job.permit)?);
                if submitted.is_left_to_future && !submitted.completion.is_shared() {
                    self.record_next(job, list);
                }
                Some(submitted)
            }
            EncodedWork::Recorded(recorded) => {
                let RecordedCommands { commands, mapped_after, slots, list } = recorded;
                let held = self.hold(&job.permit)?;
                let doing = || job.kernels.doing();
                let submitted = self.submissions.submit_alone(doing, commands, mapped_after, held);
                Lease::return_all(slots);
                let submitted = submitted.inspect_err(|_| self.memory.groups.clear())?;
                job.kernels.note_submission();
                self.record_next(job, list);
                Some(submitted)
            }
        };
        let flight = submitted.map(|submitted| SubmissionFuture::new(self, submitted));
        Ok(Launched { flight, run })
    }

    /// Records the next run of the kernels of `job`, of which a run of `list` was submitted alone.
    fn record_next(&self, job: &GpuJob, list: Arc<CommandList>) {
        let kernels = &*job.kernels;
        if job.timeline.is_recording() {
            return;
        }
        let Some(list) = self.memory.next_runs.follow(&kernels.next_run, list) else { return };
        let run = Commands { kernels, list: &list };
        let record = |calls: &Calls<'_>| Ok::<_, DeviceError>(recorded_now(calls, &[run]));
        // A refusal is told when the run comes, and records the same.
        if let Ok(commands) = self.device.scoped(|| job.kernels.doing(), record) {
            kernels.next_run.keep(list, commands);
        }
    }

    /// Submits a run in the waves of its plan. The flight of the last one is that of the run.
    ///
    /// If a wave cannot be packed or submitted, the work of the waves before it is lost.
    fn launch_in_waves(self: &Arc<Self>, job: &GpuJob, leased: Leased) -> Result<Launched, Error> {
        debug_assert_eq!(
            job.plan.waves.last().map(|wave| wave.dispatches.end),
            Some(job.kernels.dispatches.len()),
            "a dispatch is in no wave"
        );
        let Leased { buffers, mapped_after, mut run } = leased;
        let encode = Encode { engine: self, job, buffers };
        let script = |calls: &Calls<'_>| encode.script(calls, &mut run, mapped_after, Vec::new());
        let mut script: Script = self.device.scoped_and_checked(|| job.kernels.doing(), script)?;
        let mut flight: Option<SubmissionFuture> = None;
        let mut waves = job.plan.waves.iter().peekable();
        while let Some(wave) = waves.next() {
            let is_last = waves.peek().is_none();
            let next = self.submit_wave(job, &mut script, wave, is_last, &mut run.counts)?;
            run.counts.submits += 1;
            flight.replace(next).into_iter().for_each(SubmissionFuture::leave_to_next);
        }
        Ok(Launched { flight, run })
    }

    /// Packs and submits a wave. The last one takes the readback.
    fn submit_wave(
        self: &Arc<Self>,
        job: &GpuJob,
        script: &mut Script,
        wave: &Wave,
        is_last: bool,
        counts: &mut GpuCounts,
    ) -> Result<SubmissionFuture, Error> {
        let load = Load::Wave(wave);
        let (staging, copies) = self.bring(job, &script.buffers, load, None, counts)?;
        let doing = || job.kernels.doing();
        let submit = || {
            let held = self.hold(&job.permit)?;
            let up = up(staging.as_ref(), copies);
            let mut mapped_after = MappedAfter { staging, readback: None };
            let commands = self.device.scoped_and_checked(doing, |calls| {
                let mut encoder = calls.encoder();
                script.commands().record_part(&mut encoder, &up, wave.dispatches.clone());
                if is_last {
                    script.commands().record_down(&mut encoder);
                    mapped_after.readback = script.mapped_after.readback.take();
                }
                Ok::<_, DeviceError>(encoder.finish())
            })?;
            self.submissions.submit_alone(doing, commands, mapped_after, held)
        };
        let submitted = stage!(job.timeline, "submit").of(submit);
        let submitted = submitted.inspect_err(|_| self.memory.groups.clear())?;
        job.kernels.note_submission();
        Ok(SubmissionFuture::new(self, submitted))
    }
}
