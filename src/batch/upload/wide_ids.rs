//! 64-bit ids, as tokenizers give them, for tensors of 32-bit integers.

use crate::base::dtype::DType;
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Tensor};
use crate::error::DeviceError;
use crate::exec::cpu::CpuPool;
use crate::exec::{HostBuffer, Misfit};

/// The reason why there is no data for an upload.
pub(in crate::batch) enum Unfilled {
    NoRoom(DeviceError),
    /// Shared bytes are no elements.
    Misfit(Misfit),
    /// The function of the user's that was to write it panicked.
    Panicked(String),
    /// The 64-bit id at position `at` is out of range.
    Range {
        at: usize,
        value: i64,
    },
}

/// `ids` as elements of `dtype`, `i32` or `u32`, in memory of `pool`.
pub(in crate::batch) fn narrowed(
    pool: &CpuPool,
    dtype: DType,
    ids: &[i64],
) -> Result<HostBuffer, Unfilled> {
    let (mut buffer, _) = pool.buffer(dtype, ids.len()).map_err(Unfilled::NoRoom)?;
    let narrowed = narrow(ids.iter().copied(), dtype, buffer.bytes_mut());
    narrowed.map_err(|(at, value)| Unfilled::Range { at, value })?;
    Ok(buffer)
}

/// Writes integers to `out` as elements of `dtype`, `i32` or `u32`.
///
/// # Errors
/// The first integer that is out of range, with its position.
pub(in crate::batch) fn narrow<T: Copy + TryInto<i32> + TryInto<u32>>(
    integers: impl Iterator<Item = T>,
    dtype: DType,
    out: &mut [u8],
) -> Result<(), (usize, T)> {
    for (at, (integer, word)) in integers.zip(out.as_chunks_mut().0).enumerate() {
        let bits = match dtype {
            DType::I32 => TryInto::<i32>::try_into(integer).ok().map(i32::cast_unsigned),
            _ => integer.try_into().ok(),
        };
        *word = bits.ok_or((at, integer))?.to_ne_bytes();
    }
    Ok(())
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
            narrowed(self.device.pool(), DType::I32, ids)
        })
    }
}
