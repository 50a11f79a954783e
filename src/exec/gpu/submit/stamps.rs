//! The times of kernels and copies, by the GPU's own clock.
//!
//! Quirk: reading a timestamp that was never written waits (the driver was not recorded). So only written queries are
//! resolved. Test: `tests/inside.rs`.

use std::sync::Arc;
use std::time::Duration;

use crate::base::trace::{TimedSpan, TimedWork, Timeline};
use crate::error::DeviceError;
use crate::exec::gpu::driver::{Calls, GuardedDevice, Health, WgpuHandle};

/// Queries of one set.
const PER_SET: u32 = wgpu::QUERY_SET_MAX_QUERIES;
const TICK: u64 = wgpu::QUERY_SIZE as u64;
/// Before and after the upload, before and after the download.
const MARKS: u32 = 4;
/// The place of the ticks of dispatches, behind those of copies.
const DISPATCHES: u64 = wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT;

pub(crate) struct Stamps {
    /// `None` if the adapter has no timestamps outside of passes.
    copies: Option<WgpuHandle<wgpu::QuerySet>>,
    /// Two queries a dispatch.
    sets: Vec<WgpuHandle<wgpu::QuerySet>>,
    dispatches: u32,
    resolved: WgpuHandle<wgpu::Buffer>,
    readback: WgpuHandle<wgpu::Buffer>,
    /// Nanoseconds of a tick.
    period: f64,
    health: Arc<Health>,
}

/// A moment of a run between its passes.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    Begin,
    Uploaded,
    Computed,
    End,
}

impl Stamps {
    /// `None` if the adapter has no timestamps.
    pub fn new(device: &GuardedDevice, dispatches: usize) -> Result<Option<Self>, DeviceError> {
        if !device.has(wgpu::Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        let dispatches = dispatches as u32;
        let doing = || "making room for timestamps".into();
        device.scoped_and_checked(doing, |calls| Ok(Some(Self::create(device, calls, dispatches))))
    }

    fn create(device: &GuardedDevice, calls: &Calls<'_>, dispatches: u32) -> Self {
        use wgpu::BufferUsages as U;
        let set = |count| {
            calls.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("onetrip profile"),
                ty: wgpu::QueryType::Timestamp,
                count,
            })
        };
        let starts = (0..2 * dispatches).step_by(PER_SET as usize);
        let sets = starts.map(|start| set((2 * dispatches - start).min(PER_SET)).into()).collect();
        let buffer = |usage| {
            calls.create_buffer(&wgpu::BufferDescriptor {
                label: Some("onetrip profile"),
                size: DISPATCHES + 2 * u64::from(dispatches) * TICK,
                usage,
                mapped_at_creation: false,
            })
        };
        let outside = device.has(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
        Self {
            copies: outside.then(|| set(MARKS).into()),
            sets,
            dispatches,
            resolved: buffer(U::QUERY_RESOLVE | U::COPY_SRC).into(),
            readback: buffer(U::MAP_READ | U::COPY_DST).into(),
            period: device.timestamp_period().into(),
            health: Arc::clone(&device.health),
        }
    }

    pub fn mark(&self, encoder: &mut wgpu::CommandEncoder, mark: Mark) {
        if let Some(copies) = &self.copies {
            encoder.write_timestamp(copies, mark as u32);
        }
    }

    /// The timestamps that the pass of a dispatch writes.
    pub fn around(&self, dispatch: usize) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        let first = 2 * dispatch as u32;
        Some(wgpu::ComputePassTimestampWrites {
            query_set: self.sets.get((first / PER_SET) as usize)?,
            beginning_of_pass_write_index: Some(first % PER_SET),
            end_of_pass_write_index: Some(first % PER_SET + 1),
        })
    }

    /// Has the times added to `timeline` before the run counts as done. To be called after all marks and passes.
    pub fn collect(self, encoder: &mut wgpu::CommandEncoder, timeline: &Timeline) {
        if let Some(copies) = &self.copies {
            encoder.resolve_query_set(copies, 0..MARKS, &self.resolved, 0);
        }
        let mut end = DISPATCHES;
        for (at, set) in (0..).zip(&self.sets) {
            let count = (2 * self.dispatches - at * PER_SET).min(PER_SET);
            encoder.resolve_query_set(set, 0..count, &self.resolved, end);
            end += u64::from(count) * TICK;
        }
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readback, 0, end);
        let timeline = timeline.clone();
        let buffer = self.readback.clone();
        encoder.map_buffer_on_submit(&buffer, wgpu::MapMode::Read, .., move |mapped| {
            let Some(_mapped) = self.health.map() else { return };
            let view = mapped.ok().and_then(|()| self.readback.get_mapped_range(..).ok());
            if let Some(view) = view {
                let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&view[..]);
                self.report(&ticks, &timeline);
            }
        });
    }

    /// Adds the times, the last one as of now: host and GPU have no clock in common.
    fn report(&self, ticks: &[u64], timeline: &Timeline) {
        let marks = self.copies.as_ref().map(|_| &ticks[..MARKS as usize]);
        let of_dispatches = &ticks[(DISPATCHES / TICK) as usize..];
        let all = || of_dispatches.iter().chain(marks.into_iter().flatten());
        let (Some(&first), Some(&last)) = (all().min(), all().max()) else { return };
        let time = |ticks: u64| Duration::from_nanos((ticks as f64 * self.period) as u64);
        let begin = timeline.now().saturating_sub(time(last - first));
        let report = |what, start: u64, end: u64| {
            let (start, time) = (begin + time(start - first), time(end.saturating_sub(start)));
            timeline.add(TimedSpan { what, start, time });
        };
        if let Some(&[begin, uploaded, computed, end]) = marks {
            report(TimedWork::Copies("upload"), begin, uploaded);
            report(TimedWork::Copies("download"), computed, end);
        }
        for (at, ticks) in of_dispatches.chunks_exact(2).enumerate() {
            report(TimedWork::Dispatch(at), ticks[0], ticks[1]);
        }
    }
}
