//! One run: lease its buffers, pack the uploads, encode, submit, wait. Large uploads go in waves: the device works on the
//! data that has come while the host packs the next.

use std::pin::pin;
use std::sync::Arc;

use super::buffer_request::{BufferRequest, LeasedRun};
use super::coalesce::Coalescer;
use super::commands::{EncodedRun, RunCommands, record, recorded_now, take_or_record};
use super::encode::{RunEncoder, up};
use super::engine::{Engine, SubmissionTicket};
use super::run_inputs::GpuRunInputs;
use super::run_results::GpuRunResults;
use super::stage::UploadPart;
use super::stamps::Stamps;
use super::submission::MappedAfter;
use super::submission_future::{SubmissionFuture, SubmittedRun};
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

impl SubmittedRun {
    /// Waits for the end of the run, and returns its results.
    pub async fn finish(
        self,
        kernels: &Kernels,
        timeline: &Timeline,
    ) -> Result<GpuRunResults, Error> {
        let Self { future, mut results } = self;
        if let Some(mut future) = future {
            let (submission, running) = (future.submission(), Stopwatch::started());
            future.set_expected_time(kernels.expected_time());
            let readback = stage!(timeline, "compute").over(pin!(future.finish())).await;
            results.counts.shared = submission.is_shared().into();
            results.readback = readback?.map(Arc::new);
            if results.counts.shared == 0 {
                kernels.note_time(nanoseconds(running.total()));
            }
        }
        results.find_failure();
        Ok(results)
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
        inputs: GpuRunInputs,
    ) -> impl Future<Output = Result<GpuRunResults, Error>> + Send + 'static + use<> {
        let engine = Arc::clone(self);
        async move {
            let (kernels, timeline) = (Arc::clone(&inputs.kernels), inputs.timeline.clone());
            let request = BufferRequest::new(&engine.memory, &engine.device.limits, &inputs)?;
            let idle = request.lease_idle(&engine.memory);
            let allocates = idle.iter().any(Option::is_none);
            let is_large = inputs.plan.bytes_up >= LARGE as u64;
            let start = move || engine.start(&inputs, request, idle);
            let submitted = if allocates || is_large {
                off_thread(start).await?
            } else {
                driver::in_turn(start).await?
            };
            submitted.finish(&kernels, &timeline).await
        }
    }

    /// Packs, encodes and submits a run in the buffers `idle`, and new ones.
    fn start(
        self: &Arc<Self>,
        inputs: &GpuRunInputs,
        request: BufferRequest,
        idle: IdleLeases,
    ) -> Result<SubmittedRun, Error> {
        let submitted = self.device.guarded(|| {
            self.memory.release_freed();
            let leased = request.lease(&self.memory, inputs, idle)?;
            if inputs.is_in_waves() {
                return self.start_in_waves(inputs, leased);
            }
            let (encoded, results) = self.encode(inputs, leased)?;
            stage!(inputs.timeline, "submit").of(|| self.submit(inputs, encoded, results))
        });
        // After a refusal, the bind groups may be invalid.
        submitted.inspect_err(|_| self.memory.groups.clear())
    }

    /// Packs the uploads of a run and encodes it. Returns the run, unless there is nothing to do.
    pub fn encode(
        &self,
        inputs: &GpuRunInputs,
        leased: LeasedRun,
    ) -> Result<(Option<EncodedRun>, GpuRunResults), Error> {
        let LeasedRun { buffers, mut mapped_after, mut results } = leased;
        let (part, staging) = (UploadPart::Whole, mapped_after.staging.take());
        let (staging, copies) = self.pack(inputs, &buffers, part, staging, &mut results.counts)?;
        mapped_after.staging = staging;
        let dispatches = inputs.kernels.dispatches.len();
        if dispatches == 0 && mapped_after.leases().next().is_none() {
            return Ok((None, results));
        }
        let encoder = RunEncoder { engine: self, inputs, buffers };
        let encode = |calls: &Calls<'_>| {
            let mut encoded = encoder.encode(calls, &mut results, mapped_after, copies)?;
            results.counts.submits = 1;
            // Runs that are submitted together must not write what others read, as kept values may be.
            let is_alone = !results.kept.is_empty() || inputs.timeline.is_recording();
            if is_alone || !Coalescer::takes(&encoded) {
                encoded.recorded = Some(self.record(calls, inputs, &encoded)?.into());
            }
            Ok::<_, DeviceError>(encoded)
        };
        let encoding = stage!(inputs.timeline, "encode", kernels = dispatches);
        let doing = || inputs.kernels.doing();
        let encoded = encoding.of(|| self.device.scoped_and_checked(doing, encode))?;
        Ok((Some(encoded), results))
    }

    /// Records the commands of a run that is submitted alone.
    fn record(
        &self,
        calls: &Calls<'_>,
        inputs: &GpuRunInputs,
        encoded: &EncodedRun,
    ) -> Result<wgpu::CommandBuffer, DeviceError> {
        let dispatches = inputs.kernels.dispatches.len();
        let timed = inputs.timeline.is_recording();
        let stamps = if timed { Stamps::new(&self.device, dispatches)? } else { None };
        let Some(stamps) = stamps else { return Ok(take_or_record(calls, encoded)) };
        Ok(calls.commands(|encoder| {
            record(encoder, &[encoded.commands()], Some(&stamps));
            stamps.collect(encoder, &inputs.timeline);
        }))
    }

    /// Submits an encoded run, alone or together with others.
    pub fn submit(
        self: &Arc<Self>,
        inputs: &GpuRunInputs,
        encoded: Option<EncodedRun>,
        results: GpuRunResults,
    ) -> Result<SubmittedRun, Error> {
        let Some(mut encoded) = encoded else {
            return Ok(SubmittedRun { future: None, results });
        };
        let list = Arc::clone(&encoded.list);
        let held = self.hold(&inputs.permit)?;
        let ticket = if let Some(commands) = encoded.recorded.take() {
            let EncodedRun { mapped_after, buffers, .. } = encoded;
            let (doing, commands) = (|| inputs.kernels.doing(), commands.into_inner());
            let ticket = self.submissions.submit_alone(doing, commands, mapped_after, held);
            Lease::return_all(buffers.into_slots());
            let ticket = ticket?;
            inputs.kernels.note_submission();
            ticket
        } else {
            self.submissions.enter(encoded, held)
        };
        if ticket.is_left_to_future && !ticket.submission.is_shared() {
            self.record_next(inputs, list);
        }
        Ok(SubmittedRun { future: Some(SubmissionFuture::new(self, ticket)), results })
    }

    /// Records the next run of the kernels of `inputs`, of which a run of `list` was submitted alone.
    fn record_next(&self, inputs: &GpuRunInputs, list: Arc<CommandList>) {
        let kernels = &*inputs.kernels;
        if inputs.timeline.is_recording() {
            return;
        }
        let Some(list) = self.memory.next_runs.follow(&kernels.next_run, list) else { return };
        let run = RunCommands { kernels, list: &list };
        let record = |calls: &Calls<'_>| Ok::<_, DeviceError>(recorded_now(calls, &[run]));
        // A refusal is told when the run comes, and records the same.
        if let Ok(commands) = self.device.scoped(|| inputs.kernels.doing(), record) {
            kernels.next_run.keep(list, commands);
        }
    }

    /// Starts a run in the waves of its plan. The future of the last one is that of the run.
    ///
    /// If a wave cannot be packed or submitted, the work of the waves before it is lost.
    fn start_in_waves(
        self: &Arc<Self>,
        inputs: &GpuRunInputs,
        leased: LeasedRun,
    ) -> Result<SubmittedRun, Error> {
        debug_assert_eq!(
            inputs.plan.waves.last().map(|wave| wave.dispatches.end),
            Some(inputs.kernels.dispatches.len()),
            "a dispatch is in no wave"
        );
        let LeasedRun { buffers, mapped_after, mut results } = leased;
        let encoder = RunEncoder { engine: self, inputs, buffers };
        let encode =
            |calls: &Calls<'_>| encoder.encode(calls, &mut results, mapped_after, Vec::new());
        let mut encoded = self.device.scoped_and_checked(|| inputs.kernels.doing(), encode)?;
        let mut future: Option<SubmissionFuture> = None;
        let mut waves = inputs.plan.waves.iter().peekable();
        while let Some(wave) = waves.next() {
            let is_last = waves.peek().is_none();
            let ticket =
                self.submit_wave(inputs, &mut encoded, wave, is_last, &mut results.counts)?;
            results.counts.submits += 1;
            let next = SubmissionFuture::new(self, ticket);
            future.replace(next).into_iter().for_each(SubmissionFuture::leave_to_next);
        }
        Ok(SubmittedRun { future, results })
    }

    /// Packs and submits a wave. The last one takes the readback.
    fn submit_wave(
        &self,
        inputs: &GpuRunInputs,
        encoded: &mut EncodedRun,
        wave: &Wave,
        is_last: bool,
        counts: &mut GpuCounts,
    ) -> Result<SubmissionTicket, Error> {
        let part = UploadPart::Wave(wave);
        let (staging, copies) = self.pack(inputs, &encoded.buffers, part, None, counts)?;
        let up = up(staging.as_ref(), copies);
        let readback = if is_last { encoded.mapped_after.readback.take() } else { None };
        let record = |encoder: &mut wgpu::CommandEncoder| {
            encoded.commands().record_part(encoder, &up, wave.dispatches.clone());
            if is_last {
                encoded.commands().record_down(encoder);
            }
        };
        let (doing, after) = (|| inputs.kernels.doing(), MappedAfter { staging, readback });
        let submit = || self.record_and_submit(doing, &inputs.permit, after, record);
        let ticket = stage!(inputs.timeline, "submit").of(submit)?;
        inputs.kernels.note_submission();
        Ok(ticket)
    }
}
