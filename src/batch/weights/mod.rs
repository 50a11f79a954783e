//! Weights of a file in the format safetensors, as residents or as vectors.

mod convert;
mod program;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use memmap2::Mmap;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};

pub use self::convert::TensorType;
use super::resident::Resident;
use crate::base::dtype::Element;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::device::Device;
use crate::error::{DataError, Origin, Result, quoted};
use crate::exec::HostBuffer;

/// The bytes before the header, which hold its length.
const LENGTH: usize = 8;

/// The tensors of a safetensors file, by name (feature `safetensors`). [`map`](Self::map) reads a tensor when
/// it is asked for, [`read`](Self::read) reads the whole file.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch, Weights};
/// # use safetensors::tensor::{Dtype, TensorView};
/// # let bias = TensorView::new(Dtype::F32, vec![2], &[0, 0, 128, 63, 0, 0, 0, 64]).unwrap();
/// # let ids = [5_i64, 6].map(i64::to_le_bytes).concat();
/// # let ids = TensorView::new(Dtype::I64, vec![2], &ids).unwrap();
/// # let file = safetensors::serialize([("layer.0.bias", bias), ("layer.0.ids", ids)], None).unwrap();
///
/// let device = Device::cpu();
/// let weights = Weights::from_bytes(file)?;
/// let layer = weights.prefix("layer.0.");
/// let bias = layer.resident::<f32>(&device, "bias")?;
/// assert_eq!(layer.vec::<i32>("ids")?, [5, 6]); // 64-bit integers in the file, checked.
/// let batch = GpuCommandBatch::new(&device);
/// let twice = batch.bind(&bias) * 2.0;
/// batch.execute().await?;
/// assert_eq!(batch.read(twice).await?, [2.0, 4.0]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
///
/// A model of PyTorch is saved by `safetensors.torch.save_file(model.state_dict(), "model.safetensors")`. Weights of
/// embeddings, LSTMs, GRUs and convolutions are taken as PyTorch stores them, and that of a `Linear` is transposed. It is
/// [outputs, inputs] in the file, and [`resident_transposed`](Self::resident_transposed) swaps its axes once:
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch, Weights};
/// # use safetensors::tensor::{Dtype, TensorView};
/// # let weight: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
/// # let weight = TensorView::new(Dtype::F32, vec![2, 3], &weight).unwrap();
/// # let bias: Vec<u8> = [0.5_f32, -1.0].map(f32::to_le_bytes).concat();
/// # let bias = TensorView::new(Dtype::F32, vec![2], &bias).unwrap();
/// # let file = safetensors::serialize([("0.weight", weight), ("0.bias", bias)], None).unwrap();
///
/// // model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
/// let model = Weights::from_bytes(file)?; // `Weights::map("model.safetensors")` maps a file.
/// let device = Device::auto().await?;
/// let weight = model.resident_transposed::<f32>(&device, "0.weight")?;
/// let bias = model.resident::<f32>(&device, "0.bias")?;
///
/// let batch = GpuCommandBatch::new(&device);
/// let x = batch.input::<f32>("x", [2, 3]);
/// let y = x.linear(batch.bind(&weight), batch.bind(&bias)).relu();
/// let program = batch.compile().await?;
/// let outputs = program.run_rows([(x, &[1.0, 0.0, 1.0])]).await?; // Any number of rows.
/// assert_eq!(outputs.read(y).await?, [4.5, 9.0]); // 1 + 3 + 0.5 and 4 + 6 − 1.
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
///
/// # Element types
///
/// A tensor is read as the type of its elements, or as a type that holds them exactly: `f16` and `bf16` as `f32`, and
/// integers of any width as `i32` or `u32`. An integer that the asked type cannot hold is an error that names it.
#[derive(Clone)]
pub struct Weights {
    file: Arc<TensorFile>,
    /// The start of the names, which callers leave out.
    prefix: String,
}

struct TensorFile {
    bytes: Bytes,
    name: String,
    metadata: Metadata,
    start: usize,
    is_mapped: bool,
}

impl Weights {
    /// Maps the file at `path` into memory. A tensor goes from the page cache to the device; other tensors are never
    /// read.
    ///
    /// # Errors
    /// [`DataError::File`] if the file cannot be opened, or is not of the format.
    ///
    /// # Safety
    /// Nobody may change or shorten the file while it is mapped, as for every mapped file. A program that was
    /// [loaded](crate::Program::load_with) from it holds the mapping. [`read`](Self::read) has no such condition.
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // SAFETY: the caller makes sure that the file stays as it is.
        let map = File::open(path).and_then(|file| unsafe { Mmap::map(&file) });
        let map = map.map_err(|error| unopened(path, "Weights::map", &error))?;
        Self::new(Bytes::from_owner(map), path.display().to_string(), true)
    }

    /// Reads all tensors of the file at `path`.
    ///
    /// # Errors
    /// As [`map`](Self::map).
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_by("Weights::read", path.as_ref())
    }

    /// As [`read`](Self::read), for the user's call of `method`.
    pub(crate) fn read_by(method: &str, path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| unopened(path, method, &error))?;
        Self::new(Bytes::from_owner(bytes), path.display().to_string(), false)
    }

    /// Takes a file that is in memory.
    ///
    /// # Errors
    /// [`DataError::File`] if it is not of the format.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::new(Bytes::from_owner(bytes), "the file in memory".into(), false)
    }

    /// The file's name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.file.name
    }

    fn new(bytes: Bytes, name: String, is_mapped: bool) -> Result<Self> {
        let read = SafeTensors::read_metadata(&bytes);
        let read = read.map_err(|error| unreadable(&name, reason_of_damage(&bytes, &error)));
        let (header, metadata) = read?;
        let start = header + LENGTH;
        let file = TensorFile { bytes, name, metadata, start, is_mapped };
        Ok(Self { file: Arc::new(file), prefix: String::new() })
    }

    /// The tensors whose names start with `prefix`, under the rest of their names. The file is shared, not copied.
    ///
    /// ```
    /// # fn f(weights: onetrip::Weights) {
    /// let layer = weights.prefix("encoder.layer.0.");
    /// // `layer.shape("dense.weight")` is that of "encoder.layer.0.dense.weight".
    /// # }
    /// ```
    #[must_use]
    pub fn prefix(&self, prefix: &str) -> Self {
        Self { file: Arc::clone(&self.file), prefix: format!("{}{prefix}", self.prefix) }
    }

    /// The names of the tensors under the [prefix](Self::prefix), in order and without it.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names = self.file.metadata.tensors().into_keys();
        let names = names.filter_map(|name| name.strip_prefix(&self.prefix).map(str::to_owned));
        let mut names: Vec<_> = names.collect();
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

    /// The type of a tensor's elements in the file.
    ///
    /// # Errors
    /// [`DataError::NoTensor`].
    pub fn dtype(&self, tensor: &str) -> Result<TensorType> {
        Ok(TensorType::of(self.info(tensor)?.dtype))
    }

    /// A tensor as a resident of `device`.
    ///
    /// # Errors
    /// [`DataError::NoTensor`] names the nearest name; [`DataError::TensorType`] for elements that `T` does not hold
    /// exactly; [`DataError::TensorRange`] for an integer outside of `T`; [`DataError::File`] for a truth value that is
    /// neither 0 nor 1; as [`Device::resident`].
    #[track_caller]
    pub fn resident<T: Element>(&self, device: &Device, tensor: &str) -> Result<Resident<T>> {
        let of = self.origin(tensor);
        let shape = self.shape(tensor)?;
        let elements = self.elements::<T>(tensor, &of)?;
        device.resident_of(of, elements.get(), shape)
    }

    /// A tensor as a resident of `device`, with its last two axes swapped. The host swaps them in this call. PyTorch
    /// stores the weight of a `Linear` as [outputs, inputs]; [`linear`](crate::GpuCommandBatch::linear) takes [inputs, outputs].
    ///
    /// ```
    /// # fn f(weights: onetrip::Weights, device: onetrip::Device) -> onetrip::Result<()> {
    /// println!("{:?}", weights.names()); // ["bias", "weight"]
    /// let w = weights.resident_transposed::<f32>(&device, "weight")?; // [inputs, outputs]
    /// let b = weights.resident::<f32>(&device, "bias")?;
    /// # let _ = (w, b);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`resident`](Self::resident); [`DataError::NoMatrix`] for a tensor of fewer than two axes.
    #[track_caller]
    pub fn resident_transposed<T: Element>(
        &self,
        device: &Device,
        tensor: &str,
    ) -> Result<Resident<T>> {
        let of = self.origin(tensor);
        let mut dims = self.shape(tensor)?.dims().to_vec();
        let &mut [.., ref mut rows, ref mut columns] = &mut dims[..] else {
            let (file, name) = (self.file.name.clone(), self.full(tensor));
            return Err(DataError::NoMatrix { file, name, shape: Shape::from(&dims[..]) }.into());
        };
        std::mem::swap(rows, columns);
        let size = (*columns, *rows);
        let elements = self.elements::<T>(tensor, &of)?;
        let transposed = convert::transposed(elements.get(), size);
        device.resident_of(of, &transposed, Shape::from(&dims[..]))
    }

    /// A tensor's elements in row-major order, in the host's memory.
    ///
    /// # Errors
    /// As [`resident`](Self::resident), without those of a device.
    #[track_caller]
    pub fn vec<T: Element>(&self, tensor: &str) -> Result<Vec<T>> {
        let of = self.origin(tensor);
        Ok(self.elements::<T>(tensor, &of)?.get().to_vec())
    }

    /// The elements of a tensor as `T`, in place where the file holds them so.
    fn elements<T: Element>(&self, tensor: &str, of: &Origin) -> Result<WeightElements<'_, T>> {
        let file = &*self.file;
        let info = self.info(tensor)?;
        let bytes = self
            .bytes(tensor)
            .ok_or_else(|| unreadable(&file.name, "it ends before its tensors do"))?;
        let from = TensorType::of(info.dtype);
        if let Some(data) = T::in_place(bytes).filter(|_| from.is(T::DTYPE)) {
            return Ok(WeightElements::InPlace(data));
        }
        let len: usize = info.shape.iter().product();
        let mut converted = HostBuffer::try_zeroed(T::DTYPE, len).map_err(|error| error.of(of))?;
        convert::convert(from, T::DTYPE, bytes, converted.bytes_mut()).map_err(|wrong| {
            let (file, name, asked) = (file.name.clone(), self.full(tensor), T::DTYPE);
            match wrong {
                convert::ConversionError::Type => {
                    DataError::TensorType { file, name, found: from.to_string(), asked }
                }
                convert::ConversionError::Range { at, value } => {
                    let at = Shape::from(&info.shape[..]).coordinates(at);
                    DataError::TensorRange { file, name, at, value, asked }
                }
            }
        })?;
        if converted.as_slice::<T>().is_none() {
            let name = quoted(&self.full(tensor));
            let reason = format!("{name} holds a byte that is no {}: 0 is false, 1 true", T::DTYPE);
            return Err(unreadable(&file.name, reason).into());
        }
        Ok(WeightElements::Converted(converted))
    }

    fn info(&self, tensor: &str) -> Result<&TensorInfo> {
        let name = self.full(tensor);
        let unknown = || DataError::NoTensor {
            file: self.file.name.clone(),
            name: name.clone(),
            there: self.whole().names(),
        };
        Ok(self.file.metadata.info(&name).ok_or_else(unknown)?)
    }

    /// The origin of the resident of a tensor, which the caller makes.
    #[track_caller]
    fn origin(&self, tensor: &str) -> Origin {
        Origin::resident(Some(self.full(tensor).into()), Place::caller())
    }

    /// The whole file, without the prefix.
    fn whole(&self) -> Self {
        Self { prefix: String::new(), ..self.clone() }
    }

    fn full(&self, tensor: &str) -> String {
        format!("{}{tensor}", self.prefix)
    }
}

enum WeightElements<'a, T> {
    InPlace(&'a [T]),
    Converted(HostBuffer),
}

impl<T: Element> WeightElements<'_, T> {
    fn get(&self) -> &[T] {
        match self {
            Self::InPlace(elements) => elements,
            Self::Converted(buffer) => buffer.as_slice().unwrap_or_default(),
        }
    }
}

fn unreadable(name: &str, reason: impl fmt::Display) -> DataError {
    DataError::File { name: name.into(), reason: reason.to_string() }
}

/// The error for a file that `method` was to read.
fn unopened(path: &Path, method: &str, error: &io::Error) -> DataError {
    let from = std::env::current_dir().ok().filter(|_| path.is_relative());
    let from = from.map(|folder| format!("; a relative path is taken from {}", folder.display()));
    let reason = format!("`{method}` cannot read this file: {error}{}", from.unwrap_or_default());
    unreadable(&path.display().to_string(), reason)
}

/// The reason why `bytes` are no safetensors file, with a cure.
fn reason_of_damage(bytes: &[u8], error: &SafeTensorError) -> String {
    use SafeTensorError::{InvalidHeaderLength, MetadataIncompleteBuffer};
    let len = bytes.len();
    if len <= LENGTH {
        format!("it ends after {len} bytes; copy the file again")
    } else if bytes[LENGTH] != b'{' {
        // The header is an object of JSON.
        "it is not a safetensors file; make one of a program by `Program::save`, of a model by \
         `safetensors.torch.save_file` in PyTorch"
            .to_owned()
    } else if matches!(error, InvalidHeaderLength | MetadataIncompleteBuffer) {
        format!(
            "it has {len} bytes, not as many as its header says, so it was cut off or changed; \
             copy the file again"
        )
    } else {
        format!("its header is damaged: {error}; copy the file again")
    }
}

impl fmt::Debug for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.names().len();
        let tensors = if count == 1 { "tensor" } else { "tensors" };
        write!(f, "Weights({}, {count} {tensors})", self.file.name)
    }
}
