//! One trip: lease the memory, pack the uploads, encode, submit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::convert::Storage;
use super::fault::Scope;
use super::flight::Flight;
use super::kernels::{Kernels, Params, Pipeline};
use super::pool::{Block, Kind, Lease};
use super::readback::{GpuRun, Output, Source};
use super::resident::DeviceBuffer;
use super::staging::Cargo;
use super::{Gpu, GpuCounts, GroupKey, Shared};
use crate::codegen::{BufferRef, Dispatch};
use crate::error::{DataError, DeviceError, Error};
use crate::plan::{Home, Plan, Value};
use crate::run::memory::LARGE;
use crate::run::threads::off_thread;

/// Elements in host memory, in the host's representation.
pub(crate) type HostData = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What one run needs.
pub(crate) struct Job {
    pub plan: Arc<Plan>,
    /// Of the plan's dispatches, from the same device.
    pub kernels: Arc<Kernels>,
    /// By position of the batch's uploads.
    pub uploads: Vec<HostData>,
    /// By position of the batch's bound residents.
    pub residents: Vec<Arc<DeviceBuffer>>,
}

impl Gpu {
    /// Runs a plan.
    ///
    /// Small uploads are packed when the future is first polled, large ones on another thread from then on.
    /// Dropping the future later cancels nothing.
    pub fn run(
        &self,
        job: Job,
    ) -> impl Future<Output = Result<GpuRun, Error>> + Send + 'static + use<> {
        let shared = Arc::clone(&self.0);
        async move {
            let (flight, mut run) = if job.plan.bytes_up < LARGE as u64 {
                shared.launch(&job)?
            } else {
                off_thread(move || shared.launch(&job)).await?
            };
            if let Some(flight) = flight {
                run.readback = flight.await?.map(Arc::new);
            }
            run.find_failure();
            Ok(run)
        }
    }
}

impl Shared {
    /// Submits a run. There is no flight if there was nothing to do.
    fn launch(self: &Arc<Self>, job: &Job) -> Result<(Option<Flight>, GpuRun), Error> {
        self.health.check()?;
        self.forget_freed();
        let mut counts = GpuCounts::default();
        let memory = Memory::lease(self, job, &mut counts)?;
        let (cargo, copies) = self.load(job, &memory)?;
        let staging = self.stage(&cargo, &mut counts)?;
        let (outputs, bytes_of_outputs) = self.outputs(job)?;
        let sites = job.plan.sites.len();
        let bytes_down = bytes_of_outputs + 4 * sites as u64;
        let readback = match bytes_down {
            0 => None,
            bytes => Some((self.lease(Kind::Readback, bytes, &mut counts)?, bytes)),
        };
        let idle = staging.is_none() && readback.is_none() && job.kernels.dispatches.is_empty();
        let flight = if idle {
            None
        } else {
            let encode = Encode { shared: self, job, memory: &memory };
            Some(encode.submit(&mut counts, staging, &copies, readback, &outputs)?)
        };
        let kept = memory.kept.into_iter().map(Arc::new).collect();
        let failures = bytes_of_outputs as usize..bytes_down as usize;
        Ok((flight, GpuRun { readback: None, outputs, failures, failed: None, kept, counts }))
    }

    /// What must be uploaded, and where to.
    fn load<'a>(
        &self,
        job: &'a Job,
        memory: &'a Memory<'_>,
    ) -> Result<(Cargo<'a>, Vec<StagedCopy<'a>>), Error> {
        let mut cargo = Cargo::default();
        let mut copies = Vec::new();
        if let Some(params) = &job.kernels.params {
            let bytes: &[u8] = bytemuck::cast_slice(&params.words);
            if params.there.load(Ordering::Acquire) {
                cargo.leave_room(bytes.len() as u64);
            } else {
                let from = cargo.push(Storage::Same(4), bytes);
                copies.push(StagedCopy { from, to: &params.block });
            }
        }
        for value in &job.plan.values {
            let Home::Upload { input, slot: Some(slot) } = value.home else { continue };
            let host = (**host_data(job, value, input)?).as_ref();
            let from = cargo.push(self.storage(value), host);
            copies.push(StagedCopy { from, to: memory.slot(slot)? });
        }
        Ok((cargo, copies))
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

    fn storage(&self, value: &Value) -> Storage {
        Storage::of(value.dtype, &self.limits)
    }

    fn bind_group(
        &self,
        pipeline: &Pipeline,
        params: &Params,
        blocks: &[&Block],
        counts: &mut GpuCounts,
    ) -> wgpu::BindGroup {
        let layout = &pipeline.layout;
        let ids = [params.block.id].into_iter().chain(blocks.iter().map(|block| block.id));
        let key: GroupKey = (layout.id, ids.collect());
        if let Some(group) = self.bind_groups().get(&key) {
            counts.bind_group_hits += 1;
            return group.clone();
        }
        let params = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &params.block.buffer,
            offset: 0,
            size: wgpu::BufferSize::new(layout.params),
        });
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: params }];
        for (binding, block) in (1..).zip(blocks) {
            let resource = block.buffer.as_entire_binding();
            entries.push(wgpu::BindGroupEntry { binding, resource });
        }
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("onetrip kernel"),
            layout: &layout.group,
            entries: &entries,
        });
        self.bind_groups().insert(key, group.clone());
        group
    }
}

/// A copy from the staging buffer to the start of a block.
struct StagedCopy<'a> {
    from: Range<u64>,
    to: &'a Block,
}

/// The buffers of one run.
struct Memory<'a> {
    slots: Vec<Lease>,
    kept: Vec<DeviceBuffer>,
    /// Where failures are told, if anything can fail.
    failures: Option<Lease>,
    residents: &'a [Arc<DeviceBuffer>],
}

impl<'a> Memory<'a> {
    fn lease(shared: &Shared, job: &'a Job, counts: &mut GpuCounts) -> Result<Self, Error> {
        let plan = &job.plan;
        let mut slots = Vec::with_capacity(plan.slots.len());
        for &bytes in &plan.slots {
            slots.push(shared.lease(Kind::Storage, bytes, counts)?);
        }
        let mut kept = Vec::with_capacity(plan.keeps.len());
        for id in &plan.keeps {
            let value = value(plan, id.index())?;
            let elements = value.shape.elements();
            kept.push(DeviceBuffer::lease(shared, value.dtype, elements, counts)?);
        }
        let sites = plan.sites.len() as u64;
        let failures = match sites {
            0 => None,
            _ => Some(shared.lease(Kind::Storage, 4 * sites, counts)?),
        };
        Ok(Self { slots, kept, failures, residents: &job.residents })
    }

    fn slot(&self, slot: usize) -> Result<&Block, DeviceError> {
        self.slots.get(slot).map(|lease| &**lease).ok_or_else(|| broken("a slot is missing"))
    }

    fn value(&self, plan: &Plan, index: usize) -> Result<&Block, DeviceError> {
        let lease = match value(plan, index)?.home {
            Home::Slot(slot) | Home::Upload { slot: Some(slot), .. } => return self.slot(slot),
            Home::Upload { slot: None, .. } => None,
            Home::Resident(position) => {
                self.residents.get(position as usize).map(|resident| &resident.lease)
            }
            Home::Kept(position) => self.kept.get(position).map(|kept| &kept.lease),
        };
        lease.map(|lease| &**lease).ok_or_else(|| broken("a value has no buffer"))
    }
}

/// The encoding of one run.
struct Encode<'a> {
    shared: &'a Arc<Shared>,
    job: &'a Job,
    memory: &'a Memory<'a>,
}

impl Encode<'_> {
    fn submit(
        &self,
        counts: &mut GpuCounts,
        staging: Option<Lease>,
        copies: &[StagedCopy<'_>],
        readback: Option<(Lease, u64)>,
        outputs: &[Output],
    ) -> Result<Flight, DeviceError> {
        let shared = self.shared;
        let scope = Scope::open(&shared.device, &shared.health);
        let mut encoder = shared.encoder();
        if let Some(staging) = &staging {
            for StagedCopy { from, to } in copies {
                let bytes = from.end - from.start;
                copy(&mut encoder, &staging.buffer, from.start, &to.buffer, 0, bytes);
            }
        }
        if let Some(failures) = &self.memory.failures {
            encoder.clear_buffer(&failures.buffer, 0, None);
        }
        self.dispatch(&mut encoder, counts)?;
        if let Some((readback, bytes)) = &readback {
            self.download(&mut encoder, readback, outputs)?;
            (counts.downloads, counts.bytes_down) = (1, *bytes);
        }
        let flight = Flight::submit(shared, encoder, staging, readback);
        counts.submits = 1;
        scope.close(|| self.doing()).inspect_err(|_| shared.bind_groups().retain(|_| false))?;
        if let Some(params) = &self.job.kernels.params {
            params.there.store(true, Ordering::Release);
        }
        Ok(flight)
    }

    /// All dispatches, in one compute pass.
    fn dispatch(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        counts: &mut GpuCounts,
    ) -> Result<(), DeviceError> {
        let Kernels { dispatches, pipelines, params, .. } = &*self.job.kernels;
        let Some(params) = params else { return Ok(()) };
        let descriptor =
            wgpu::ComputePassDescriptor { label: Some("onetrip"), timestamp_writes: None };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        let mut bound: Option<&Arc<Pipeline>> = None;
        for ((dispatch, pipeline), &offset) in dispatches.iter().zip(pipelines).zip(&params.offsets)
        {
            let blocks = self.blocks(dispatch)?;
            let group = self.shared.bind_group(pipeline, params, &blocks, counts);
            if !bound.is_some_and(|bound| Arc::ptr_eq(bound, pipeline)) {
                pass.set_pipeline(&pipeline.raw);
                bound = Some(pipeline);
            }
            pass.set_bind_group(0, &group, &[offset]);
            let [x, y, z] = dispatch.groups;
            pass.dispatch_workgroups(x, y, z);
        }
        counts.dispatches = dispatches.len() as u32;
        Ok(())
    }

    fn blocks(&self, dispatch: &Dispatch) -> Result<Vec<&Block>, DeviceError> {
        let block = |buffer| match buffer {
            BufferRef::Value(id) => self.memory.value(&self.job.plan, id.index()),
            BufferRef::Slot(slot) => self.memory.slot(slot),
            BufferRef::Failures => {
                let failures = self.memory.failures.as_deref();
                failures.ok_or_else(|| broken("there is no room for failures"))
            }
        };
        dispatch.buffers.iter().map(|binding| block(binding.buffer)).collect()
    }

    fn download(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        readback: &Lease,
        outputs: &[Output],
    ) -> Result<(), DeviceError> {
        let mut end = 0;
        for (id, output) in self.job.plan.downloads.iter().zip(outputs) {
            let Source::Device(start) = output.source else { continue };
            let from = &self.memory.value(&self.job.plan, id.index())?.buffer;
            let bytes = output.storage.bytes(output.elements);
            copy(encoder, from, 0, &readback.buffer, start as u64, bytes);
            end = start as u64 + bytes;
        }
        if let Some(failures) = &self.memory.failures {
            let bytes = 4 * self.job.plan.sites.len() as u64;
            copy(encoder, &failures.buffer, 0, &readback.buffer, end, bytes);
        }
        Ok(())
    }

    fn doing(&self) -> String {
        let labels: Vec<_> = self.job.kernels.dispatches.iter().map(|d| &*d.label).collect();
        format!("running a batch ({})", labels.join(", "))
    }
}

/// A copy of what may be nothing.
fn copy(
    encoder: &mut wgpu::CommandEncoder,
    from: &wgpu::Buffer,
    from_start: u64,
    to: &wgpu::Buffer,
    to_start: u64,
    bytes: u64,
) {
    if bytes > 0 {
        encoder.copy_buffer_to_buffer(from, from_start, to, to_start, bytes);
    }
}

fn value(plan: &Plan, index: usize) -> Result<&Value, DeviceError> {
    plan.values.get(index).ok_or_else(|| broken("a value is missing"))
}

fn host_data<'a>(job: &'a Job, value: &Value, input: u32) -> Result<&'a HostData, Error> {
    let data = job.uploads.get(input as usize);
    let data = data.ok_or_else(|| broken("the data of an upload is missing"))?;
    let (given, size) = ((**data).as_ref().len(), value.dtype.size());
    if given != value.shape.elements().saturating_mul(size) {
        let shape = value.shape.clone();
        return Err(DataError::Length { given: given / size, shape }.into());
    }
    Ok(data)
}

fn broken(reason: &str) -> DeviceError {
    DeviceError::Refused { doing: "running a plan".into(), reason: reason.into() }
}
