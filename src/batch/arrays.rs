//! Arrays of the crate `ndarray`, in and out.

#![expect(clippy::needless_pass_by_value, reason = "views go by value, as in `ndarray`")]

pub(super) use ndarray::ArrayD;
use ndarray::{ArrayView, Dimension, IxDyn};

use super::input::InputPair;
use super::program::Outputs;
use super::resident::Resident;
use super::{BufferId, GpuCommandBatch, Input, Tensor};
use super::{KeyOf, ValueKey};
use crate::base::dtype::Element;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::device::Device;
use crate::error::{DataError, DeviceError, Origin, Result};
use crate::exec::HostBuffer;

fn shape_of<T, D: Dimension>(array: &ArrayView<'_, T, D>) -> Shape {
    Shape::from(array.shape())
}

/// The elements in row-major order, however they lie: a view of few may have more than there is room for.
fn elements<T: Element, D: Dimension>(
    array: &ArrayView<'_, T, D>,
) -> Result<HostBuffer, DeviceError> {
    let mut buffer = HostBuffer::try_zeroed(T::DTYPE, array.len())?;
    copy(array, buffer.as_slice_mut().unwrap_or_default());
    Ok(buffer)
}

fn copy<T: Element, D: Dimension>(from: &ArrayView<'_, T, D>, to: &mut [T]) {
    to.iter_mut().zip(from).for_each(|(to, &element)| *to = element);
}

fn array<T>(shape: &Shape, values: Vec<T>) -> Result<ArrayD<T>> {
    let misfit = |_| DeviceError::broken("a result has another length than its shape").into();
    ArrayD::from_shape_vec(IxDyn(shape.dims()), values).map_err(misfit)
}

/// Arrays of the crate `ndarray` (feature `ndarray`).
impl GpuCommandBatch {
    /// The elements of an array of any layout (transposed, reversed, every other row), which are copied once: as
    /// [`upload_shaped`](Self::upload_shaped).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use ndarray::array;
    /// use onetrip::{Device, GpuCommandBatch};
    ///
    /// let x = array![[1.0_f32, 2.0], [3.0, 4.0]];
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let columns = batch.upload_array(x.t());
    /// let y = batch.relu(columns);
    /// batch.execute().await?;
    /// assert_eq!(batch.read_array(y).await?, x.t().into_dyn());
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn upload_array<T: Element, D: Dimension>(
        &self,
        array: ArrayView<'_, T, D>,
    ) -> Tensor<'_, T> {
        match array.as_slice() {
            Some(data) => self.upload_shaped(data, shape_of(&array)),
            None => self.upload_with(shape_of(&array), |out| copy(&array, out)),
        }
    }

    /// As [`write`](Self::write), of an array of any layout.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # use ndarray::array;
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[0_i32; 4], [2, 2]);
    /// batch.write_array(x, array![[1, 2], [3, 4]].t())?;
    /// let y = x.scale(10);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [10, 30, 20, 40]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`write`](Self::write); [`DataError::Shape`] if the array has not the shape of the upload.
    pub fn write_array<T: Element, D: Dimension>(
        &self,
        id: impl Into<BufferId<T>>,
        array: ArrayView<'_, T, D>,
    ) -> Result<()> {
        let (id, given) = (id.into(), shape_of(&array));
        if let Some(expected) = self.shape(id).filter(|shape| *shape != given) {
            let of = self.recorded().origin(id.node);
            return Err(DataError::Shape { of, given: given.into(), expected }.into());
        }
        match array.as_slice() {
            Some(data) => self.write(id, data),
            None => self.write_with(id, |out| copy(&array, out)),
        }
    }

    /// As [`read`](Self::read), as an array of the result's shape.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_array<T: Element>(&self, id: impl Into<BufferId<T>>) -> Result<ArrayD<T>> {
        let id = id.into();
        let values = self.read(id).await?;
        let given = values.len();
        array(&self.shape(id).unwrap_or_else(|| given.into()), values)
    }
}

/// Results as arrays (feature `ndarray`).
impl Outputs {
    /// As [`read`](Self::read), as an array of the result's shape.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_array<T: Element>(&self, key: impl KeyOf<T>) -> Result<ArrayD<T>> {
        let shape = self.shape::<T>(key)?;
        array(&shape, self.read(key).await?)
    }
}

/// Results as arrays (feature `ndarray`).
impl<T: Element> Resident<T> {
    /// As [`read`](Self::read), as an array of the resident's shape.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_array(&self) -> Result<ArrayD<T>> {
        array(self.shape(), self.read().await?)
    }
}

/// Data from arrays (feature `ndarray`).
impl Device {
    /// As [`resident`](Self::resident), of an array of any layout.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::Device;
    /// # use ndarray::array;
    /// let resident = Device::cpu().resident_array(array![[1, 2], [3, 4]].t())?;
    /// assert_eq!(resident.read().await?, [1, 3, 2, 4]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`resident`](Self::resident).
    #[track_caller]
    pub fn resident_array<T: Element, D: Dimension>(
        &self,
        array: ArrayView<'_, T, D>,
    ) -> Result<Resident<T>> {
        match array.as_slice() {
            Some(data) => self.resident(data, shape_of(&array)),
            None => {
                let of = Origin::resident(None, Place::caller());
                let copied = elements(&array).map_err(|error| error.of(&of))?;
                self.resident_of(of, copied.as_slice().unwrap_or_default(), shape_of(&array))
            }
        }
    }
}

/// Arrays as inputs: the elements in row-major order, copied at once where they lie otherwise. The array must have the
/// input's shape.
#[diagnostic::do_not_recommend]
impl<'a, K: KeyOf<T> + Into<ValueKey<'a>>, T: Element, D: Dimension> InputPair<'a>
    for (K, ArrayView<'a, T, D>)
{
    fn input(self) -> Input<'a> {
        let (key, array) = self;
        let input = match array.to_slice() {
            Some(data) => (key, data).input(),
            None => Input::owned::<T>(key.into(), array.len(), elements(&array)),
        };
        input.shaped(shape_of(&array))
    }
}
