//! Weights of a file in the format safetensors, as residents.

use std::fmt;
use std::fs::File;
use std::panic::Location;
use std::path::Path;

use memmap2::Mmap;
use safetensors::SafeTensors;
use safetensors::tensor::{Metadata, TensorInfo};

use super::resident::Resident;
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::device::Device;
use crate::error::{DataError, Origin, Result};
use crate::exec::HostBuffer;

/// The tensors of a safetensors file, by name (feature `safetensors`). Only what is asked for is read.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onetrip::Result<()> {
/// use onetrip::{Device, GpuCommandBatch, Weights};
/// # let tensor = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2], &[0, 0, 128, 63, 0, 0, 0, 64]);
/// # let file = safetensors::serialize([("bias", tensor.unwrap())], None).unwrap();
///
/// let device = Device::cpu();
/// let weights = Weights::from_bytes(file)?;
/// let bias = weights.resident::<f32>(&device, "bias")?;
/// let mut batch = GpuCommandBatch::new(&device);
/// let bias = batch.bind(&bias);
/// let twice = batch.scale(bias, 2.0);
/// batch.execute().await?;
/// assert_eq!(batch.read(twice).await?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct Weights {
    file: Bytes,
    /// What the messages call it.
    name: String,
    metadata: Metadata,
    /// Where the tensors' data begins.
    start: usize,
}

enum Bytes {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Weights {
    /// The tensors of the file at `path`, mapped into memory: what no tensor is asked of is never read, and what is
    /// goes from the page cache to the device.
    ///
    /// # Errors
    /// [`DataError::File`] if the file cannot be opened, or is not of the format.
    ///
    /// # Safety
    /// Nobody may change or shorten the file while it is mapped, as for every mapped file. [`read`](Self::read) has no
    /// such condition.
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // SAFETY: the caller makes sure that the file stays as it is.
        let map = File::open(path).and_then(|file| unsafe { Mmap::map(&file) });
        let map = map.map_err(|error| unreadable(&path.display().to_string(), error))?;
        Self::new(Bytes::Mapped(map), path.display().to_string())
    }

    /// The tensors of the file at `path`, all of which are read now.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let name = path.as_ref().display().to_string();
        let bytes = std::fs::read(path).map_err(|error| unreadable(&name, error))?;
        Self::new(Bytes::Owned(bytes), name)
    }

    /// The tensors of a file that is in memory.
    ///
    /// # Errors
    /// [`DataError::File`] if it is not of the format.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::new(Bytes::Owned(bytes), "the file in memory".into())
    }

    fn new(file: Bytes, name: String) -> Result<Self> {
        let read = SafeTensors::read_metadata(file.get());
        let not_one =
            |error| unreadable(&name, format_args!("it is not a safetensors file: {error}"));
        let (header, metadata) = read.map_err(not_one)?;
        // The header's length comes before it, in eight bytes.
        Ok(Self { file, name, metadata, start: header + 8 })
    }

    /// The names of all tensors, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.metadata.tensors().into_keys().collect();
        names.sort_unstable();
        names
    }

    /// The shape of a tensor.
    ///
    /// # Errors
    /// [`DataError::NoTensor`].
    pub fn shape(&self, tensor: &str) -> Result<Shape> {
        Ok(Shape::from(&self.info(tensor)?.shape[..]))
    }

    /// A tensor as a resident of `device`.
    ///
    /// # Errors
    /// [`DataError::NoTensor`] if the file has none of the name, with those that it has; [`DataError::TensorType`]
    /// if its elements are of another type than `T`; [`DataError::File`] if a truth value is neither 0 nor 1; as
    /// [`Device::resident`].
    #[track_caller]
    pub fn resident<T: Element>(&self, device: &Device, tensor: &str) -> Result<Resident<T>> {
        let name = Some(tensor.into());
        let of = Origin { op: "resident", name, place: Location::caller() };
        let info = self.info(tensor)?;
        if self.dtype(info) != Some(T::DTYPE) {
            return Err(DataError::TensorType {
                file: self.name.clone(),
                name: tensor.into(),
                found: format!("{:?}", info.dtype).to_lowercase(),
                asked: T::DTYPE,
            }
            .into());
        }
        let (start, end) = info.data_offsets;
        let bytes = self.file.get().get(self.start + start..self.start + end);
        let bytes = bytes.ok_or_else(|| unreadable(&self.name, "it ends before its tensors do"))?;
        let shape = Shape::from(&info.shape[..]);
        if let Some(data) = T::in_place(bytes) {
            return device.resident_of(of, data, shape);
        }
        // The format does not align tensors.
        let aligned = HostBuffer::try_zeroed(T::DTYPE, bytes.len() / T::DTYPE.size());
        let mut aligned = aligned.map_err(|error| error.of(&of))?;
        aligned.bytes_mut().copy_from_slice(bytes);
        let wrong = || unreadable(&self.name, format!("{tensor:?} holds what is no {}", T::DTYPE));
        device.resident_of(of, aligned.as_slice::<T>().ok_or_else(wrong)?, shape)
    }

    fn info(&self, tensor: &str) -> Result<&TensorInfo> {
        let unknown = || {
            let (file, name) = (self.name.clone(), tensor.to_owned());
            DataError::NoTensor { file, name, there: self.names() }
        };
        Ok(self.metadata.info(tensor).ok_or_else(unknown)?)
    }

    fn dtype(&self, info: &TensorInfo) -> Option<DType> {
        use safetensors::Dtype as Of;
        match info.dtype {
            Of::F32 => Some(DType::F32),
            Of::F16 => Some(DType::F16),
            Of::I32 => Some(DType::I32),
            Of::U32 => Some(DType::U32),
            Of::BOOL => Some(DType::Bool),
            _ => None,
        }
    }
}

fn unreadable(name: &str, reason: impl fmt::Display) -> DataError {
    DataError::File { name: name.into(), reason: reason.to_string() }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weights({}, {} tensors)", self.name, self.metadata.tensors().len())
    }
}
