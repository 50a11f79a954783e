//! 64-bit ids, as tokenizers give them, for tensors of 32-bit integers.

use crate::base::dtype::DType;
use crate::error::DeviceError;
use crate::exec::{HostBuffer, HostPool, Misfit};

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
    pool: &HostPool,
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
