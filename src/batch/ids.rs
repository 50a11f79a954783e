//! 64-bit ids, as tokenizers give them, for tensors of 32-bit integers.

use super::{GpuCommandBatch, Tensor};
use crate::base::dtype::DType;
use crate::base::shape::Shape;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::CpuPool;

/// The reason why ids cannot be had in 32 bits.
pub(super) enum Unfit {
    NoRoom(DeviceError),
    /// The id at position `at` is out of range.
    Range {
        at: usize,
        value: i64,
    },
}

/// `ids` as elements of `dtype`, `i32` or `u32`, in memory of `pool`.
pub(super) fn narrowed(pool: &CpuPool, dtype: DType, ids: &[i64]) -> Result<HostBuffer, Unfit> {
    let (mut buffer, _) = pool.buffer(dtype, ids.len()).map_err(Unfit::NoRoom)?;
    let words = buffer.bytes_mut().as_chunks_mut().0;
    for (at, (&value, word)) in ids.iter().zip(words).enumerate() {
        let bits = match dtype {
            DType::I32 => i32::try_from(value).ok().map(i32::cast_unsigned),
            _ => u32::try_from(value).ok(),
        };
        *word = bits.ok_or(Unfit::Range { at, value })?.to_ne_bytes();
    }
    Ok(buffer)
}

impl GpuCommandBatch {
    /// A tensor of `shape` with the 64-bit `ids` in row-major order, as tokenizers give them. It is a mistake if one is no
    /// `i32`, or if they do not fill the shape. [`Input::ids`](crate::Input::ids) gives them to runs of a program.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let table = batch.upload_shaped(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0], [3, 2]);
    /// let ids = batch.upload_ids(&[2_i64, 0], 2);
    /// let rows = table.embedding(ids);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(rows).await?, [4.0, 5.0, 0.0, 1.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn upload_ids(&self, ids: &[i64], shape: impl Into<Shape>) -> Tensor<'_, i32> {
        self.upload_filling("upload_ids", shape.into(), ids.len(), || {
            Ok(narrowed(self.device.pool(), DType::I32, ids)?)
        })
    }
}
