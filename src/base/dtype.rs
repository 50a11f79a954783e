//! Element types: that of a buffer ([`DType`]), the Rust types that stand for it ([`Element`]), and that of a lane
//! ([`Ty`]).

use std::fmt;

use half::f16;

/// The element type of a buffer.
///
/// ```
/// use onetrip::DType;
///
/// let wide: Vec<_> = DType::ALL.into_iter().filter(|dtype| dtype.size() == 4).collect();
/// assert_eq!(wide, [DType::F32, DType::I32, DType::U32]);
/// assert!(DType::F16.is_float() && DType::I32.is_numeric() && !DType::Bool.is_numeric());
/// assert_eq!(DType::F16.to_string(), "f16");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 32-bit IEEE 754 float.
    F32,
    /// 16-bit IEEE 754 float. Stored in 16 bits, computed in `f32`.
    F16,
    /// 32-bit signed integer; arithmetic wraps.
    I32,
    /// 32-bit unsigned integer; arithmetic wraps.
    U32,
    /// Truth value; one byte on the host, one 32-bit word on a GPU.
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::I32, Self::U32, Self::Bool];

    /// Bytes of one element in host memory.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 => 2,
            Self::Bool => 1,
        }
    }

    /// True if an element is a word of 32 bits, on the host as on a GPU.
    pub(crate) const fn is_word(self) -> bool {
        self.size() == 4
    }

    /// The name as Rust spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::Bool => "bool",
        }
    }

    #[must_use]
    pub(crate) const fn lane(self) -> Ty {
        match self {
            Self::F32 | Self::F16 => Ty::F32,
            Self::I32 => Ty::I32,
            Self::U32 => Ty::U32,
            Self::Bool => Ty::Bool,
        }
    }

    /// True if this is a floating-point type.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16)
    }

    /// True if arithmetic is defined (all but `bool`).
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        !matches!(self, Self::Bool)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type in which one lane of a kernel computes: always 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    F32,
    I32,
    U32,
    Bool,
}

impl Ty {
    /// The 32 bits of the lane nearest to `value`.
    pub fn bits(self, value: f64) -> u32 {
        match self {
            Self::F32 => (value as f32).to_bits(),
            Self::I32 => (value as i32).cast_unsigned(),
            Self::U32 => value as u32,
            Self::Bool => u32::from(value != 0.0),
        }
    }
}

pub(crate) mod sealed {
    /// The requirements on an element type that only this crate can meet.
    pub trait Sealed: Sized {
        /// The elements that `bytes` hold; `None` if they lie askew, or one is no value of the type.
        fn in_place(bytes: &[u8]) -> Option<&[Self]>;
        fn in_place_mut(bytes: &mut [u8]) -> Option<&mut [Self]>;
        /// The elements in the memory of `words`, which is given back if an element is no word.
        fn from_words(words: Vec<u32>) -> Result<Vec<Self>, Vec<u32>>;
    }

    macro_rules! sealed {
        ($($t:ty, $cast:path, $cast_mut:path, $from_words:expr;)*) => {$(
            impl Sealed for $t {
                fn in_place(bytes: &[u8]) -> Option<&[Self]> {
                    $cast(bytes).ok()
                }
                fn in_place_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
                    $cast_mut(bytes).ok()
                }
                fn from_words(words: Vec<u32>) -> Result<Vec<Self>, Vec<u32>> {
                    $from_words(words)
                }
            }
        )*};
    }
    fn of_words<T: bytemuck::Pod>(words: Vec<u32>) -> Result<Vec<T>, Vec<u32>> {
        bytemuck::try_cast_vec(words).map_err(|(_, words)| words)
    }
    // Any bytes are a number, so that these casts do not look at them.
    sealed! {
        f32, bytemuck::try_cast_slice, bytemuck::try_cast_slice_mut, of_words;
        half::f16, bytemuck::try_cast_slice, bytemuck::try_cast_slice_mut, Err;
        i32, bytemuck::try_cast_slice, bytemuck::try_cast_slice_mut, of_words;
        u32, bytemuck::try_cast_slice, bytemuck::try_cast_slice_mut, of_words;
        bool, bytemuck::checked::try_cast_slice, bytemuck::checked::try_cast_slice_mut, Err;
    }
}

/// A Rust type that a buffer can hold: `f32`, [`half::f16`], `i32`, `u32`, `bool`, or a [`Newtype`] of one of them.
///
/// ```
/// use onetrip::{DType, Device, Element, Float, GpuCommandBatch, Tensor};
///
/// /// The root of the mean of squares, for `f32` and `f16`.
/// fn rms<'b, T: Float>(x: Tensor<'b, T>) -> Tensor<'b, T> {
///     (x * x).mean(..).sqrt()
/// }
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// assert!(rms(batch.upload(&[3.0_f32, 4.0])).shape().is_some());
/// assert_eq!((u32::DTYPE, 7_u32.scalar().value()), (DType::U32, 7.0));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    note = "`f32`, `f16`, `i32`, `u32`, `bool` and types that implement `Newtype` are",
    note = "`f64` is converted first, such as by `data.iter().map(|&x| x as f32).collect::<Vec<_>>()`",
    note = "`upload_ids` and `Input::ids` take `i64`, such as token ids; nested vectors are joined by `concat()`"
)]
pub trait Element:
    sealed::Sealed
    + bytemuck::NoUninit
    + bytemuck::CheckedBitPattern
    + bytemuck::Zeroable
    + Default
    + PartialEq
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// The element type that stands for `Self` at run time.
    const DTYPE: DType;

    /// The value as a [`Scalar`].
    fn scalar(self) -> Scalar;
}

/// An element type with arithmetic: all but `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a numeric element type",
    note = "`f32`, `f16`, `i32` and `u32` are; `.cast::<f32>()` converts a tensor"
)]
pub trait Numeric: Element {}

/// A numeric type with a sign: `f32`, `f16`, `i32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a signed element type",
    note = "`f32`, `f16` and `i32` are; `.cast::<f32>()` converts a tensor"
)]
pub trait Signed: Numeric {}

/// A floating-point type: `f32` or `f16`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point element type",
    note = "`f32` and `f16` are; `.cast::<f32>()` converts a tensor"
)]
pub trait Float: Signed {}

/// An integer type that can say which element: `i32` or `u32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index type",
    note = "`i32` and `u32` are; `.cast::<i32>()` converts a tensor"
)]
pub trait Index: Numeric {}

/// The type `bool` alone, as a bound for the logical operations.
pub trait Logical: Element {}

/// A type of the user's own that is one of the element types with another name, so that metres are not added to
/// seconds. It has the operations of the type inside.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onetrip::Result<()> {
/// use onetrip::bytemuck::{Pod, TransparentWrapper, Zeroable};
/// use onetrip::{Device, GpuCommandBatch, Newtype};
///
/// #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, TransparentWrapper)]
/// #[bytemuck(crate = "onetrip::bytemuck")]
/// #[repr(transparent)]
/// struct Metres(f32);
///
/// impl Newtype for Metres {
///     type Inner = f32;
/// }
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let there = batch.upload(&[Metres(3.0), Metres(4.0)]);
/// let and_back = batch.scale(there, Metres(2.0));
/// batch.execute().await?;
/// assert_eq!(batch.read(and_back).await?, [Metres(6.0), Metres(8.0)]);
/// # Ok(())
/// # }
/// ```
///
/// [`bytemuck::TransparentWrapper`] promises that both are the same in memory, and its derive macro checks it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    note = "`f32`, `f16`, `i32`, `u32`, `bool` and types that implement `Newtype` are",
    note = "`f64` is converted first, such as by `data.iter().map(|&x| x as f32).collect::<Vec<_>>()`",
    note = "`upload_ids` and `Input::ids` take `i64`, such as token ids; nested vectors are joined by `concat()`"
)]
pub trait Newtype:
    bytemuck::TransparentWrapper<Self::Inner>
    + bytemuck::NoUninit
    + bytemuck::CheckedBitPattern
    + bytemuck::Zeroable
    + Default
    + PartialEq
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// The type inside.
    type Inner: Element;
}

#[diagnostic::do_not_recommend]
impl<N: Newtype> sealed::Sealed for N {
    fn in_place(bytes: &[u8]) -> Option<&[Self]> {
        N::Inner::in_place(bytes).map(Self::wrap_slice)
    }
    fn in_place_mut(bytes: &mut [u8]) -> Option<&mut [Self]> {
        N::Inner::in_place_mut(bytes).map(Self::wrap_slice_mut)
    }
    fn from_words(words: Vec<u32>) -> Result<Vec<Self>, Vec<u32>> {
        N::Inner::from_words(words).map(bytemuck::TransparentWrapperAlloc::wrap_vec)
    }
}

#[diagnostic::do_not_recommend]
impl<N: Newtype> Element for N {
    const DTYPE: DType = N::Inner::DTYPE;
    fn scalar(self) -> Scalar {
        Self::peel(self).scalar()
    }
}

#[diagnostic::do_not_recommend]
impl<N: Newtype<Inner: Numeric>> Numeric for N {}
#[diagnostic::do_not_recommend]
impl<N: Newtype<Inner: Signed>> Signed for N {}
#[diagnostic::do_not_recommend]
impl<N: Newtype<Inner: Float>> Float for N {}
#[diagnostic::do_not_recommend]
impl<N: Newtype<Inner: Index>> Index for N {}
#[diagnostic::do_not_recommend]
impl<N: Newtype<Inner: Logical>> Logical for N {}

macro_rules! elements {
    ($($t:ty, $d:ident, $to:expr, $($kind:ident)+;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            fn scalar(self) -> Scalar {
                Scalar::new(DType::$d, ($to)(self))
            }
        }
        $(impl $kind for $t {})+
    )*};
}
elements! {
    f32, F32, f64::from, Numeric Signed Float;
    f16, F16, f16::to_f64, Numeric Signed Float;
    i32, I32, f64::from, Numeric Signed Index;
    u32, U32, f64::from, Numeric Index;
    bool, Bool, |v: bool| f64::from(u8::from(v)), Logical;
}

/// One value of any element type, compared and hashed by its bits.
///
/// Every `f32`, `f16`, `i32`, `u32` and `bool` is exact in an `f64`, so that is how it is kept.
#[derive(Clone, Copy)]
pub struct Scalar {
    dtype: DType,
    value: f64,
}

impl Scalar {
    /// The value nearest to `value` that `dtype` can hold.
    pub(crate) fn new(dtype: DType, value: f64) -> Self {
        let value = match dtype {
            DType::F32 => f64::from(value as f32),
            DType::F16 => f16::from_f64(value).to_f64(),
            DType::I32 => f64::from(value as i32),
            DType::U32 => f64::from(value as u32),
            DType::Bool => f64::from(u8::from(value != 0.0)),
        };
        Self { dtype, value }
    }

    /// The element type.
    #[must_use]
    pub const fn dtype(self) -> DType {
        self.dtype
    }

    /// The value; exact for every element type.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.value
    }

    pub(crate) fn lane_bits(self) -> u32 {
        self.dtype.lane().bits(self.value)
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.value.to_bits() == other.value.to_bits()
    }
}
impl Eq for Scalar {}
impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dtype.hash(state);
        self.value.to_bits().hash(state);
    }
}
impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            DType::Bool => write!(f, "{}", self.value != 0.0),
            _ => write!(f, "{}", self.value),
        }
    }
}
