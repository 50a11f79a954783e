//! One trip: lease the memory, pack the uploads, encode, submit.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::encode::{Encode, Memory, value};
use super::flight::Flight;
use super::readback::{GpuRun, Output, Source};
use super::record::{Script, record};
use super::resident::DeviceBuffer;
use super::stamps::Stamps;
use crate::base::clock::{Stopwatch, nanoseconds};
use crate::base::trace::{Timeline, stage};
use crate::error::{DeviceError, Error};
use crate::exec::budget::Permit;
use crate::exec::gpu::compile::kernels::Kernels;
use crate::exec::gpu::driver::driver_lock::{Caller, in_turn};
use crate::exec::gpu::driver::health::Scope;
use crate::exec::gpu::memory::bind_groups::release;
use crate::exec::gpu::memory::pool::{Kind, Lease, bytes, needs};
use crate::exec::gpu::submit::coalesce::Coalescer;
use crate::exec::gpu::submit::mapped_after::MappedAfter;
use crate::exec::gpu::submit::stage::{Load, host_data};
use crate::exec::gpu::{Gpu, GpuCounts, Shared};
use crate::exec::memory::LARGE;
use crate::exec::threads::off_thread;
use crate::plan::{Home, Plan};

/// Elements in host memory, in the host's representation.
pub(crate) type HostData = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What one run needs.
#[derive(Clone)]
pub(crate) struct Job {
    pub plan: Arc<Plan>,
    /// Of the plan's dispatches, from the same device.
    pub kernels: Arc<Kernels>,
    /// By position of the batch's uploads.
    pub uploads: Vec<HostData>,
    /// By position of the batch's bound residents.
    pub residents: Vec<Arc<DeviceBuffer>>,
    /// To hold the memory of the run.
    pub permit: Permit,
    /// Where the times of its parts go.
    pub timeline: Timeline,
}

impl Gpu {
    /// Runs a plan.
    ///
    /// Small uploads are packed when the future is first polled, large ones on another thread from then on. So are those
    /// of runs for which memory must be allocated: drivers may take milliseconds. What is small is packed and submitted by
    /// another thread while a driver [takes long](crate::exec::gpu::driver::driver_lock).
    /// Dropping the future leaves out a run that is not submitted yet; what is submitted is done.
    pub fn run(
        &self,
        job: Job,
    ) -> impl Future<Output = Result<GpuRun, Error>> + Send + 'static + use<> {
        let shared = Arc::clone(&self.0);
        let timeline = job.timeline.clone();
        async move {
            let kernels = Arc::clone(&job.kernels);
            let (ahead, needs) = (&kernels.ahead, kernels.needs.get());
            let finds_room = || needs.is_some_and(|needs| shared.pool.has(needs));
            let has_room = !ahead.is_short() && (ahead.is_ready() || finds_room());
            let Launched { flight, mut run } = if has_room && job.plan.bytes_up < LARGE as u64 {
                in_turn(move |on| shared.launch(&job, on)).await?
            } else {
                off_thread(move || shared.launch(&job, Caller::Worker)).await?
            };
            if let Some(mut flight) = flight {
                let (ticket, running) = (flight.ticket(), Stopwatch::started());
                flight.expect(Duration::from_nanos(kernels.took.load(Ordering::Relaxed)));
                let flown = stage!(timeline, "compute").over(pin!(flight.land())).await;
                run.counts.shared = ticket.is_shared().into();
                run.readback = flown?.map(Arc::new);
                if run.counts.shared == 0 {
                    kernels.took.store(nanoseconds(running.total()), Ordering::Relaxed);
                }
            }
            run.find_failure();
            Ok(run)
        }
    }
}

/// A run that was submitted.
pub(crate) struct Launched {
    /// `None` if there was nothing to do.
    pub flight: Option<Flight>,
    /// Without what the flight brings.
    pub run: GpuRun,
}

/// A run that only has to be submitted.
pub(crate) struct Prepared {
    work: Work,
    kept: Vec<Arc<DeviceBuffer>>,
    outputs: Vec<Output>,
    failures: Range<usize>,
    counts: GpuCounts,
    /// Whether nothing goes between host and device, but for where the run failed.
    pub stays: bool,
}

/// Where results will lie.
pub(crate) struct Results {
    pub outputs: Vec<Output>,
    /// The bytes of the readback that tell failures.
    pub failures: Range<usize>,
    /// With the bytes to map.
    pub readback: Option<(Lease, u64)>,
}

/// What is to be submitted.
enum Work {
    Nothing,
    /// What may be recorded with others.
    Script(Script),
    Recorded(Recorded),
}

/// The commands of one run, with the memory that must be there until they are submitted. What was encoded ahead is held
/// by the kernels, so it holds neither these nor residents.
struct Recorded {
    commands: wgpu::CommandBuffer,
    returns: MappedAfter,
    slots: Vec<Lease>,
}

impl Prepared {
    /// What is on loan for this run alone.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        let (script, recorded) = match &self.work {
            Work::Nothing => (None, None),
            Work::Script(script) => (Some(script), None),
            Work::Recorded(recorded) => (None, Some((recorded, &self.kept))),
        };
        let recorded = recorded.into_iter().flat_map(|(Recorded { slots, returns, .. }, kept)| {
            slots.iter().chain(returns.leases()).chain(kept.iter().map(|kept| &kept.lease))
        });
        script.into_iter().flat_map(Script::leases).chain(recorded)
    }
}

impl Shared {
    fn launch(self: &Arc<Self>, job: &Job, thread: Caller) -> Result<Launched, Error> {
        let _passing = self.admit()?;
        release(self.take_freed());
        // Neither what was encoded ahead nor what is submitted in waves takes times.
        let timed = job.timeline.is_kept();
        if !job.plan.waves.is_empty() && !timed {
            return self.launch_in_waves(job);
        }
        let ahead = if timed { None } else { job.kernels.ahead.take(job, self) };
        // The run that brings the parameters takes staging memory that later ones may not.
        let brings_params = job.kernels.params.as_ref();
        let brings_params = brings_params.is_some_and(|it| !it.there.load(Ordering::Acquire));
        let prepared = match ahead {
            Some(prepared) => prepared,
            None => self.prepare(job, None)?,
        };
        if !brings_params {
            job.kernels.needs.get_or_init(|| needs(prepared.leases()));
        }
        let (stays, bytes) = (prepared.stays, bytes(prepared.leases()));
        let launched = stage!(job.timeline, "submit").of(|| self.submit(job, prepared))?;
        if stays && !timed {
            self.look_ahead(job, bytes, &launched.run.kept, thread);
        }
        Ok(launched)
    }

    /// Leases the memory of a run, packs its uploads and encodes it. Puts what it keeps into `room`, if there is any.
    pub fn prepare(
        self: &Arc<Self>,
        job: &Job,
        room: Option<Vec<Arc<DeviceBuffer>>>,
    ) -> Result<Prepared, Error> {
        let mut counts = GpuCounts::default();
        let memory = Memory::lease(self, job, room, &mut counts)?;
        let (staging, copies) = self.bring(job, &memory, Load::Whole, &mut counts)?;
        let Results { outputs, failures, readback } = self.room_for_results(job, &mut counts)?;
        // An output of no bytes may be the data of this run.
        let stays = staging.is_none() && outputs.is_empty();
        let returns = MappedAfter { staging, readback };
        let idle = returns.leases().next().is_none() && job.kernels.dispatches.is_empty();
        let kept = memory.kept.clone();
        let work = if idle {
            Work::Nothing
        } else {
            let encode = Encode { shared: self, job, memory };
            let encoding = stage!(job.timeline, "encode", kernels = job.kernels.dispatches.len());
            encoding.of(|| {
                let scope = Scope::open(&self.device, &self.health);
                let script = encode.script(&mut counts, returns, copies, &outputs)?;
                counts.submits = 1;
                let alone = stays || !kept.is_empty() || job.timeline.is_kept();
                let work = if alone || !Coalescer::takes(&script) {
                    Work::Recorded(self.record(job, script)?)
                } else {
                    Work::Script(script)
                };
                let done = scope.close(|| job.kernels.doing()).map(|()| work);
                done.inspect_err(|_| self.groups.clear())
            })?
        };
        Ok(Prepared { work, kept, outputs, failures, counts, stays })
    }

    fn record(&self, job: &Job, script: Script) -> Result<Recorded, DeviceError> {
        let dispatches = job.kernels.dispatches.len();
        let timed = job.timeline.is_kept();
        let stamps = if timed { Stamps::new(self, dispatches)? } else { None };
        let mut encoder = self.encoder();
        record(&mut encoder, &[&script], stamps.as_ref());
        if let Some(stamps) = stamps {
            stamps.collect(&mut encoder, &job.timeline);
        }
        let Script { returns, memory, .. } = script;
        Ok(Recorded { commands: encoder.finish(), returns, slots: memory.into_slots() })
    }

    /// Submits a run.
    pub fn submit(self: &Arc<Self>, job: &Job, prepared: Prepared) -> Result<Launched, Error> {
        let Prepared { work, kept, outputs, failures, counts, .. } = prepared;
        let flight = match work {
            Work::Nothing => None,
            Work::Script(script) => Some(Flight::depart(self, script, self.hold(&job.permit)?)),
            Work::Recorded(recorded) => Some(self.submit_alone(job, recorded)?),
        };
        let run = GpuRun { readback: None, outputs, failures, failed: None, kept, counts };
        Ok(Launched { flight, run })
    }

    fn submit_alone(
        self: &Arc<Self>,
        job: &Job,
        recorded: Recorded,
    ) -> Result<Flight, DeviceError> {
        let Recorded { commands, returns, slots: _held } = recorded;
        let scope = Scope::open(&self.device, &self.health);
        let flight = Flight::submit(self, commands, returns, self.hold(&job.permit)?);
        let done = scope.close(|| job.kernels.doing());
        done.inspect_err(|_| self.groups.clear())?;
        job.kernels.sent();
        Ok(flight)
    }

    /// Where results will lie, and memory for them.
    pub fn room_for_results(&self, job: &Job, counts: &mut GpuCounts) -> Result<Results, Error> {
        let (outputs, bytes_of_outputs) = self.outputs(job)?;
        let bytes_down = bytes_of_outputs + 4 * job.plan.sites.len() as u64;
        let failures = bytes_of_outputs as usize..bytes_down as usize;
        let readback = match bytes_down {
            0 => None,
            bytes => Some((self.lease(Kind::Readback, bytes, counts)?, bytes)),
        };
        Ok(Results { outputs, failures, readback })
    }

    /// Where each download will lie, and the bytes of all.
    fn outputs(&self, job: &Job) -> Result<(Vec<Output>, u64), Error> {
        let mut outputs = Vec::with_capacity(job.plan.downloads.len());
        let mut bytes = 0;
        for id in &job.plan.downloads {
            let value = value(&job.plan, id.index())?;
            let (storage, elements) = (self.storage(value), value.shape.elements());
            let source = if let Home::Upload { input, slot: None } = value.home {
                Source::Host(Arc::clone(host_data(job, value, input)?))
            } else {
                let start = bytes;
                bytes += storage.bytes(elements);
                Source::Device(start as usize)
            };
            outputs.push(Output { dtype: value.dtype, elements, storage, source });
        }
        Ok((outputs, bytes))
    }
}
