//! The elements of a value as lanes.

use half::f16;

use super::bools::to_lanes;
use super::halves::to_floats;
use crate::base::dtype::DType;
use crate::exec::HostBuffer;
use crate::exec::cpu::vectors::look_up::look_up;

/// Elements by their index, each as a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneData<'a> {
    Words(&'a [u32]),
    Halves(&'a [f16]),
    Bytes(&'a [u8]),
    /// The index itself.
    Iota,
}

impl<'a> LaneData<'a> {
    pub fn of(value: &'a HostBuffer) -> Self {
        match value.dtype() {
            DType::F32 | DType::I32 | DType::U32 => LaneData::Words(value.words()),
            DType::F16 => LaneData::Halves(bytemuck::cast_slice(value.bytes())),
            DType::Bool => LaneData::Bytes(value.bytes()),
        }
    }

    #[inline]
    pub fn len(self) -> usize {
        match self {
            Self::Words(data) => data.len(),
            Self::Halves(data) => data.len(),
            Self::Bytes(data) => data.len(),
            Self::Iota => usize::MAX,
        }
    }

    #[inline]
    pub fn lane(self, index: i64) -> u32 {
        match self {
            Self::Words(data) => data[index as usize],
            Self::Halves(data) => data[index as usize].to_f32().to_bits(),
            Self::Bytes(data) => u32::from(data[index as usize] != 0),
            Self::Iota => index as u32,
        }
    }

    /// Sets `out[i]` to the element at `first + positions[i]`, which wraps, or to the last element if that lies beyond it.
    pub fn fetch(self, positions: &[u32], first: u32, out: &mut [u32]) {
        let Some(last) = self.len().checked_sub(1) else { return out.fill(0) };
        match self {
            Self::Words(data) => look_up(data, positions, first, out),
            _ => {
                for (out, &at) in out.iter_mut().zip(positions) {
                    *out = self.lane((first.wrapping_add(at) as usize).min(last) as i64);
                }
            }
        }
    }

    /// Sets `out[i]` to the element at `first + i·stride`, or to that at the nearest end of the data.
    pub fn fetch_strided(self, first: i64, stride: i64, out: &mut [u32]) {
        let end = i64::try_from(self.len()).unwrap_or(i64::MAX);
        let last = first + (out.len() as i64 - 1) * stride;
        if end == 0 {
            return out.fill(0);
        }
        if (0..end).contains(&first) && (0..end).contains(&last) {
            return self.strided(first, stride, out);
        }
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.lane((first + i as i64 * stride).clamp(0, end - 1));
        }
    }

    /// Sets `out[i]` to the element at `first + i·stride`. All of them lie inside the data.
    #[inline]
    pub fn strided(self, first: i64, stride: i64, out: &mut [u32]) {
        let range = first as usize..(first as usize).wrapping_add(out.len());
        match (self, stride) {
            (_, 0) => out.fill(self.lane(first)),
            (Self::Words(data), 1) => out.copy_from_slice(&data[range]),
            (Self::Words(data), 2..) => {
                let elements = data[first as usize..].iter().step_by(stride as usize);
                out.iter_mut().zip(elements).for_each(|(out, &element)| *out = element);
            }
            (Self::Halves(data), 1) => to_floats(&data[range], bytemuck::cast_slice_mut(out)),
            (Self::Bytes(data), 1) => to_lanes(&data[range], out),
            (Self::Iota, _) => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = (first + i as i64 * stride) as u32;
                }
            }
            _ => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = self.lane(first + i as i64 * stride);
                }
            }
        }
    }
}
