//! Elements of a file as elements of a tensor.

use std::fmt;

use half::{bf16, f16};

use crate::base::dtype::DType;
use crate::batch::upload::wide_ids::narrow;

/// Defines each type once: its name here, its name in the format, its meaning.
macro_rules! types {
    ($($name:ident $format:ident $doc:literal;)*) => {
        /// The type of a tensor's elements in a file. Prints as the file's format names it, in lower case; `Other` prints as `other`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum TensorType {
            $(#[doc = $doc] $name,)*
            /// A type that cannot be read, such as a float of 8 bits.
            Other,
        }

        impl TensorType {
            pub(super) fn of(dtype: safetensors::Dtype) -> Self {
                match dtype {
                    $(safetensors::Dtype::$format => Self::$name,)*
                    _ => Self::Other,
                }
            }
        }
    };
}
types! {
    Bool BOOL "Truth value of one byte.";
    U8 U8 "8-bit unsigned integer.";
    I8 I8 "8-bit signed integer.";
    U16 U16 "16-bit unsigned integer.";
    I16 I16 "16-bit signed integer.";
    U32 U32 "32-bit unsigned integer.";
    I32 I32 "32-bit signed integer.";
    U64 U64 "64-bit unsigned integer.";
    I64 I64 "64-bit signed integer.";
    F16 F16 "16-bit IEEE 754 float.";
    BF16 BF16 "The upper half of a 32-bit IEEE 754 float.";
    F32 F32 "32-bit IEEE 754 float.";
    F64 F64 "64-bit IEEE 754 float.";
}

impl TensorType {
    /// Returns whether the file holds elements of `dtype` as they lie in memory.
    pub(super) fn is(self, dtype: DType) -> bool {
        let same = match self {
            Self::Bool => DType::Bool,
            Self::U32 => DType::U32,
            Self::I32 => DType::I32,
            Self::F16 => DType::F16,
            Self::F32 => DType::F32,
            _ => return false,
        };
        same == dtype
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// The reason why elements cannot be converted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConversionError {
    /// The asked type does not hold the elements exactly.
    Type,
    /// The integer at position `at` is outside of the asked type.
    Range { at: usize, value: String },
}

/// Writes the elements of `bytes` to `out`, converted from the type of the file to `to`.
pub(super) fn convert(
    from: TensorType,
    to: DType,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<(), ConversionError> {
    if from.is(to) {
        out.copy_from_slice(bytes);
        return Ok(());
    }
    match (from, to) {
        (TensorType::F16, DType::F32) => {
            floats(bytes, out, |half| f16::from_le_bytes(half).to_f32());
        }
        (TensorType::BF16, DType::F32) => {
            floats(bytes, out, |half| bf16::from_le_bytes(half).to_f32());
        }
        (_, DType::I32 | DType::U32) => return integers(from, to, bytes, out),
        _ => return Err(ConversionError::Type),
    }
    Ok(())
}

fn floats(bytes: &[u8], out: &mut [u8], convert: impl Fn([u8; 2]) -> f32) {
    for (half, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *out = convert(*half).to_ne_bytes();
    }
}

fn integers(
    from: TensorType,
    to: DType,
    bytes: &[u8],
    out: &mut [u8],
) -> Result<(), ConversionError> {
    macro_rules! checked {
        ($($variant:ident $integer:ident),*) => {
            match from {
                $(TensorType::$variant => {
                    let integers = bytes.as_chunks().0.iter();
                    narrow(integers.map(|bytes| $integer::from_le_bytes(*bytes)), to, out)
                        .map_err(|(at, value)| ConversionError::Range { at, value: value.to_string() })
                })*
                _ => Err(ConversionError::Type),
            }
        };
    }
    checked!(U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32, U64 u64, I64 i64)
}

/// Matrices of `rows` × `columns` behind each other, each transposed.
pub(super) fn transposed<T: Copy + Default>(from: &[T], (rows, columns): (usize, usize)) -> Vec<T> {
    /// A tile of this many rows and columns stays in the first-level cache.
    const TILE: usize = 32;
    let mut to = vec![T::default(); from.len()];
    let size = rows.saturating_mul(columns).max(1);
    for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
        for row in (0..rows).step_by(TILE) {
            for column in (0..columns).step_by(TILE) {
                for r in row..(row + TILE).min(rows) {
                    for c in column..(column + TILE).min(columns) {
                        to[c * rows + r] = from[r * columns + c];
                    }
                }
            }
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(
        from: TensorType,
        to: DType,
        bytes: &[u8],
        len: usize,
    ) -> Result<Vec<u8>, ConversionError> {
        let mut out = vec![0; len * to.size()];
        convert(from, to, bytes, &mut out).map(|()| out)
    }

    #[test]
    fn integers_of_any_width_are_checked() {
        let ids = [0_i64, -1, 2_147_483_647, -2_147_483_648].map(i64::to_le_bytes).concat();
        let expected = [0_i32, -1, i32::MAX, i32::MIN].map(i32::to_ne_bytes).concat();
        assert_eq!(converted(TensorType::I64, DType::I32, &ids, 4), Ok(expected));
        let negative = ConversionError::Range { at: 1, value: "-1".into() };
        assert_eq!(converted(TensorType::I64, DType::U32, &ids, 4), Err(negative));
        let large = u64::MAX.to_le_bytes();
        let wrong = ConversionError::Range { at: 0, value: u64::MAX.to_string() };
        assert_eq!(converted(TensorType::U64, DType::U32, &large, 1), Err(wrong));
        let bytes = [255_u32, 7].map(u32::to_ne_bytes).concat();
        assert_eq!(converted(TensorType::U8, DType::U32, &[255, 7], 2), Ok(bytes));
        let bytes = [-1_i32, 7].map(i32::to_ne_bytes).concat();
        assert_eq!(converted(TensorType::I8, DType::I32, &[255, 7], 2), Ok(bytes));
        assert_eq!(converted(TensorType::F64, DType::I32, &[0; 8], 1), Err(ConversionError::Type));
    }

    #[test]
    fn half_floats_become_the_same_numbers() {
        let expected = [1.5_f32, -0.0, f32::INFINITY].map(f32::to_ne_bytes).concat();
        let half = [1.5, -0.0, f32::INFINITY].map(f16::from_f32).map(f16::to_le_bytes).concat();
        assert_eq!(converted(TensorType::F16, DType::F32, &half, 3), Ok(expected.clone()));
        let half = [1.5, -0.0, f32::INFINITY].map(bf16::from_f32).map(bf16::to_le_bytes).concat();
        assert_eq!(converted(TensorType::BF16, DType::F32, &half, 3), Ok(expected));
        assert_eq!(converted(TensorType::F64, DType::F32, &[0; 8], 1), Err(ConversionError::Type));
        assert_eq!(converted(TensorType::BF16, DType::F16, &[0; 2], 1), Err(ConversionError::Type));
    }

    #[test]
    fn matrices_of_odd_sizes_are_transposed() {
        for (rows, columns) in [(1, 1), (2, 3), (33, 65), (0, 4), (4, 0)] {
            let count = 2;
            let from: Vec<usize> = (0..count * rows * columns).collect();
            let to = transposed(&from, (rows, columns));
            let size = rows * columns;
            for (at, element) in to.into_iter().enumerate() {
                let (matrix, row, column) = (at / size, at % size / rows, at % rows);
                assert_eq!(element, from[matrix * size + column * columns + row]);
            }
        }
    }
}
