//! Inputs of a run of a program.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::upload::UploadData;
use super::upload::wide_ids::{Unfilled, narrowed};
use super::{KeyOf, ValueKey};
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::error::DeviceError;
use crate::exec::{HostBuffer, HostPool, Misfit};

/// Data for one input of a [`Program`](crate::Program), made of an [`InputPair`]. A vector of 32-bit elements is not
/// copied. A borrowed slice is copied when the run starts, except by
/// [`Program::run_blocking`](crate::Program::run_blocking): on the CPU, that reads 32-bit elements where they lie. Bytes
/// that [share](Self::shared) an owner are never copied on the CPU.
#[derive(Debug)]
pub struct Input<'a> {
    pub(super) key: ValueKey<'a>,
    /// The type of the elements; `None` for 64-bit ids and shared bytes, which become those of the input.
    pub(super) dtype: Option<DType>,
    /// The shape that the data must fill, where it comes with one.
    pub(super) shape: Option<Shape>,
    data: Data<'a>,
}

enum Data<'a> {
    /// The bytes of elements, and how many they are.
    Borrowed(&'a [u8], usize),
    Ids(Cow<'a, [i64]>),
    /// A number of elements; an error if they had to be copied and there was no room.
    Owned(usize, Result<HostBuffer, DeviceError>),
    /// Bytes of an owner.
    Shared(Bytes),
}

/// The owner of shared bytes.
struct SharedOwner(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl AsRef<[u8]> for SharedOwner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Borrowed(_, len) | Self::Owned(len, _) => write!(f, "{len} elements"),
            Self::Ids(ids) => write!(f, "{} ids", ids.len()),
            Self::Shared(bytes) => write!(f, "{} shared bytes", bytes.len()),
        }
    }
}

/// The function of a run whose caller waits: it lends the caller's memory to a buffer, or returns `None` if the elements
/// of that type must be copied.
pub(super) type Lend<'s> = Option<&'s (dyn Fn(DType, &[u8]) -> Option<Arc<HostBuffer>> + Sync)>;

impl<'a> Input<'a> {
    /// 64-bit ids, as tokenizers give them, for an input of `i32` or `u32`, by id, by tensor or by name. They are
    /// checked as they are copied: a run with an id out of range is a [`DataError`](crate::DataError) that names it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Device, GpuCommandBatch, Input};
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let table = batch.upload(&[0.5_f32, 1.5, 2.5]);
    /// let ids = batch.input::<i32>("ids", 2);
    /// let y = table.gather(ids, 0);
    /// let program = batch.compile().await?;
    /// let outputs = program.run(Input::ids(ids, &[2, 0])).await?;
    /// assert_eq!(outputs.read(y).await?, [2.5, 0.5]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn ids(key: impl Into<ValueKey<'a>>, ids: &'a [i64]) -> Self {
        Self { key: key.into(), dtype: None, shape: None, data: Data::Ids(ids.into()) }
    }

    /// The bytes of an owner as the elements of an input, in the byte order of the machine: those of a mapped file, of
    /// another library's buffer, of an array of another language. The run holds the owner. On the CPU they are read
    /// where they lie, and results that are the input itself share the owner too; a GPU takes its copy from there.
    ///
    /// The bytes must fill the input exactly, begin at a multiple of 4 bytes, and for `bool` be 0 or 1: otherwise the run
    /// is a [`DataError`](crate::DataError).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::sync::Arc;
    /// use onetrip::{Device, GpuCommandBatch, Input};
    ///
    /// struct Sensor(Vec<f32>);
    /// impl AsRef<[u8]> for Sensor {
    ///     fn as_ref(&self) -> &[u8] {
    ///         onetrip::bytemuck::cast_slice(&self.0)
    ///     }
    /// }
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = x * 2.0;
    /// let program = batch.compile().await?;
    /// let sensor = Arc::new(Sensor(vec![1.0, 2.0, 3.0]));
    /// let outputs = program.run([Input::shared(x, sensor)]).await?;
    /// assert_eq!(outputs.read(y).await?, [2.0, 4.0, 6.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn shared(key: impl Into<ValueKey<'a>>, owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let data = Data::Shared(Bytes::from_owner(SharedOwner(owner)));
        Self { key: key.into(), dtype: None, shape: None, data }
    }

    fn borrowed<T: Element>(key: ValueKey<'a>, data: &'a [T]) -> Self {
        Self::of_bytes(key, T::DTYPE, bytemuck::cast_slice(data))
    }

    /// The borrowed bytes of elements of type `dtype`.
    pub(super) fn of_bytes(key: ValueKey<'a>, dtype: DType, bytes: &'a [u8]) -> Self {
        let data = Data::Borrowed(bytes, bytes.len() / dtype.size());
        Self { key, dtype: Some(dtype), shape: None, data }
    }

    /// `len` elements in newly allocated memory, or the allocation error.
    pub(super) fn owned<T: Element>(
        key: ValueKey<'a>,
        len: usize,
        data: Result<HostBuffer, DeviceError>,
    ) -> Self {
        Self { key, dtype: Some(T::DTYPE), shape: None, data: Data::Owned(len, data) }
    }

    /// The data has `shape`, and fits no input of another.
    #[cfg(feature = "ndarray")]
    pub(super) fn shaped(self, shape: Shape) -> Self {
        Self { shape: Some(shape), ..self }
    }

    /// The number of elements, for an input of `dtype`.
    pub(super) fn len(&self, dtype: DType) -> usize {
        match &self.data {
            Data::Borrowed(_, len) | Data::Owned(len, _) => *len,
            Data::Ids(ids) => ids.len(),
            Data::Shared(bytes) => bytes.len() / dtype.size(),
        }
    }

    /// The number of bytes, if they are shared.
    pub(super) fn shared_bytes(&self) -> Option<usize> {
        if let Data::Shared(bytes) = &self.data { Some(bytes.len()) } else { None }
    }

    /// The reason why shared bytes are no elements of type `dtype`, if they are none.
    pub(super) fn misfit(&self, dtype: DType) -> Option<Unfilled> {
        let Data::Shared(bytes) = &self.data else { return None };
        Misfit::of(dtype, bytes).map(Unfilled::Misfit)
    }

    /// The elements `range`, of type `dtype`, followed by copies of the last `row` of them up to `len` elements.
    pub(super) fn rows_chunk(
        &self,
        pool: &HostPool,
        dtype: DType,
        range: Range<usize>,
        (row, len): (usize, usize),
    ) -> Input<'_> {
        let padding = len - range.len();
        let bytes = |range: &Range<usize>| range.start * dtype.size()..range.end * dtype.size();
        let of = |all: &'_ [u8]| -> Data<'static> {
            let padded = || {
                let (mut buffer, _) = pool.buffer(dtype, len)?;
                let (own, rest) = buffer.bytes_mut().split_at_mut(range.len() * dtype.size());
                own.copy_from_slice(&all[bytes(&range)]);
                let last = &own[own.len() - (row * dtype.size()).min(own.len())..];
                if !last.is_empty() {
                    rest.chunks_mut(last.len())
                        .for_each(|to| to.copy_from_slice(&last[..to.len()]));
                }
                Ok(buffer)
            };
            Data::Owned(len, padded())
        };
        let data = match &self.data {
            Data::Borrowed(all, _) if padding == 0 => Data::Borrowed(&all[bytes(&range)], len),
            Data::Owned(_, Ok(all)) if padding == 0 => {
                Data::Borrowed(&all.bytes()[bytes(&range)], len)
            }
            // A chunk that begins within a word is copied.
            Data::Shared(all) if padding == 0 && bytes(&range).start.is_multiple_of(4) => {
                Data::Shared(all.slice(bytes(&range)))
            }
            Data::Borrowed(all, _) => of(all),
            Data::Owned(_, Ok(all)) => of(all.bytes()),
            Data::Shared(all) => of(all),
            Data::Owned(_, Err(error)) => Data::Owned(len, Err(error.clone())),
            Data::Ids(ids) if padding == 0 => Data::Ids(Cow::Borrowed(&ids[range.clone()])),
            Data::Ids(ids) => {
                let own = &ids[range.clone()];
                let last = own[own.len() - row.min(own.len())..].iter().cycle();
                Data::Ids(own.iter().chain(last).take(len).copied().collect::<Vec<_>>().into())
            }
        };
        let is_untyped = matches!(data, Data::Ids(_) | Data::Shared(..));
        Input { key: self.key, dtype: (!is_untyped).then_some(dtype), shape: None, data }
    }

    /// Returns whether an input of elements `dtype` takes the data.
    pub(super) fn fits(&self, dtype: DType) -> bool {
        match &self.data {
            Data::Ids(_) => matches!(dtype, DType::I32 | DType::U32),
            Data::Shared(..) => true,
            Data::Borrowed(..) | Data::Owned(..) => self.dtype == Some(dtype),
        }
    }

    /// The elements for an input of `dtype`, in memory of `pool` if they are borrowed and not lent by `lend`.
    pub(super) fn into_buffer(
        self,
        pool: &HostPool,
        dtype: DType,
        lend: Lend<'_>,
    ) -> Result<Arc<HostBuffer>, Unfilled> {
        Ok(Arc::new(match self.data {
            Data::Borrowed(bytes, _) => match lend.and_then(|lend| lend(dtype, bytes)) {
                Some(lent) => return Ok(lent),
                None => pool.holding(dtype, bytes).map_err(Unfilled::NoRoom)?,
            },
            Data::Ids(ids) => narrowed(pool, dtype, &ids)?,
            Data::Owned(_, buffer) => buffer.map_err(Unfilled::NoRoom)?,
            Data::Shared(bytes) => HostBuffer::shared(dtype, bytes).map_err(Unfilled::Misfit)?,
        }))
    }
}

/// A pair of a [key](KeyOf) (tensor, id or name) and its [data](UploadData) in row-major order: a slice, an array or a
/// vector, borrowed, or an array or a vector by value. With the feature `ndarray` a view of an array is data too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of a program",
    note = "an input is a pair of a tensor, an id or a name (`&str`) with its data, such as `(x, &data)`; one number is `[1.0]`",
    note = "the elements have the type of the tensor or id; `f64` is converted first: `data.iter().map(|&x| x as f32)`",
    note = "`Input::ids` takes `i64`; the data is one list for all axes: nested ones are joined by `concat()`"
)]
pub trait InputPair<'a> {
    /// The input.
    #[doc(hidden)]
    fn input(self) -> Input<'a>;
}

impl<'a, P: InputPair<'a>> From<P> for Input<'a> {
    fn from(pair: P) -> Self {
        pair.input()
    }
}

// A pair that does not fit is reported whole, with all that may be wrong with it.
#[diagnostic::do_not_recommend]
impl<'a, K: KeyOf<D::Element> + Into<ValueKey<'a>>, D: UploadData<'a>> InputPair<'a> for (K, D) {
    fn input(self) -> Input<'a> {
        let key = self.0.into();
        match self.1.elements() {
            Cow::Borrowed(data) => Input::borrowed(key, data),
            Cow::Owned(data) => {
                Input::owned::<D::Element>(key, data.len(), HostBuffer::try_from_vec(data))
            }
        }
    }
}

/// All inputs of one run: one [pair](InputPair), an array, a vector or an iterator of pairs, or a tuple of up to eight,
/// whose element types may differ. Longer lists of several element types have [`Input`]s. `()` has no inputs.
///
/// ```
/// # pollster::block_on(async {
/// # use onetrip::{Device, GpuCommandBatch, Input};
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let (x, row) = (batch.input::<f32>("x", [2, 2]), batch.input::<bool>("mask", 2));
/// let y = row.select(x, 0.0);
/// let program = batch.compile().await?;
/// let data = [1.0, 2.0, 3.0, 4.0];
/// let outputs = program.run(((x, &data), ("mask", &[true, false]))).await?;
/// assert_eq!(outputs.read(y).await?, [1.0, 0.0, 3.0, 0.0]);
/// let list = vec![Input::from((x, &data)), Input::from((row, &[false, true]))];
/// assert_eq!(program.run(list).await?.read(y).await?, [0.0, 2.0, 0.0, 4.0]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
///
/// One input needs no list:
///
/// ```
/// # pollster::block_on(async {
/// # use onetrip::{Device, GpuCommandBatch, Input};
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let ids = batch.input::<i32>("ids", 2);
/// let y = ids + 1;
/// let program = batch.compile().await?;
/// assert_eq!(program.run(Input::ids(ids, &[5, 6])).await?.read(y).await?, [6, 7]);
/// assert_eq!(program.run((ids, &[8, 9])).await?.read(y).await?, [9, 10]);
/// assert_eq!(program.run(("ids", [1, 2])).await?.read(y).await?, [2, 3]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
///
/// `Kind` tells tuples, lists and one input apart. The compiler finds it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of inputs of a program",
    note = "one input is a pair, such as `(x, &data)`; several of one element type are an array or a vector of pairs",
    note = "inputs of several element types are a tuple of pairs, such as `((x, &data), (ids, &numbers))`",
    note = "the data of a pair has the element type of its tensor or id; one number is `[1.0]`",
    note = "`f64` is converted first: `data.iter().map(|&x| x as f32)`; `Input::ids` takes data of `i64`",
    note = "`()` is for a program without inputs"
)]
pub trait Inputs<'a, Kind> {
    /// The inputs in the caller's order.
    #[doc(hidden)]
    fn list(self) -> impl Iterator<Item = Input<'a>>;
}

mod kind {
    /// A list of inputs of one Rust type.
    pub enum List {}
    /// A tuple of inputs.
    pub enum Tuple {}
    /// One input.
    pub enum One {}
}

impl<'a, L: IntoIterator<Item: Into<Input<'a>>>> Inputs<'a, kind::List> for L {
    fn list(self) -> impl Iterator<Item = Input<'a>> {
        self.into_iter().map(Into::into)
    }
}

impl<'a, I: Into<Input<'a>>> Inputs<'a, kind::One> for I {
    fn list(self) -> impl Iterator<Item = Input<'a>> {
        std::iter::once(self.into())
    }
}

impl<'a> Inputs<'a, kind::Tuple> for () {
    fn list(self) -> impl Iterator<Item = Input<'a>> {
        std::iter::empty()
    }
}

macro_rules! inputs {
    ($($input:ident $at:tt),+) => {
        impl<'a, $($input: Into<Input<'a>>),+> Inputs<'a, kind::Tuple> for ($($input,)+) {
            fn list(self) -> impl Iterator<Item = Input<'a>> {
                [$(self.$at.into()),+].into_iter()
            }
        }
    };
}
tuples!(inputs);
