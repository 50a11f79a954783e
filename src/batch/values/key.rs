//! Keys of the values of a program.

use super::{BufferId, Tensor};
use crate::base::dtype::Element;
use crate::record::UntypedId;

/// The key of a value of a program, of any element type: its id or its [name](crate::GpuCommandBatch::name). A tensor,
/// an id and a name become one, so that a list of keys can hold all three.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch, ValueKey};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let (x, ids) = (batch.input::<f32>("x", [4, 3]), batch.input::<i32>("ids", 4));
/// let table = batch.input::<f32>("table", [9, 3]); // The same for all rows.
/// batch.add(x, table.gather(ids, 0));
/// let program = batch.compile().await?;
/// let keys: [ValueKey; 2] = [x.into(), "ids".into()];
/// assert_eq!(program.rows_of(keys)?.recorded_rows(), 4);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ValueKey<'a>(pub(in crate::batch) IdOrName<'a>);

#[derive(Clone, Copy, Debug)]
pub(in crate::batch) enum IdOrName<'a> {
    Id(UntypedId),
    Name(&'a str),
}

/// The key of a value with elements `T`: the tensor that recording it returned, its id, or the
/// [name](crate::GpuCommandBatch::name) that it was given.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of a value of elements `{T}`",
    note = "a tensor or an id of `{T}` is, and a `&str` with the name of a value; results are read as their own type"
)]
pub trait KeyOf<T>: sealed::Keyed + Copy {}

mod sealed {
    use super::ValueKey;

    pub trait Keyed {
        fn key(&self) -> ValueKey<'_>;
    }
}

impl<T> From<BufferId<T>> for ValueKey<'_> {
    fn from(id: BufferId<T>) -> Self {
        Self(IdOrName::Id(id.value()))
    }
}

impl<T> From<Tensor<'_, T>> for ValueKey<'_> {
    fn from(tensor: Tensor<'_, T>) -> Self {
        BufferId::from(tensor).into()
    }
}

impl<'a> From<&'a str> for ValueKey<'a> {
    fn from(name: &'a str) -> Self {
        Self(IdOrName::Name(name))
    }
}

impl<'a> From<&'a String> for ValueKey<'a> {
    fn from(name: &'a String) -> Self {
        name.as_str().into()
    }
}

macro_rules! keys {
    ($(<$($t:ident)?> $key:ty),*) => {$(
        impl<T: Element> KeyOf<T> for $key {}
        impl $(<$t: Element>)? sealed::Keyed for $key {
            fn key(&self) -> ValueKey<'_> {
                (*self).into()
            }
        }
    )*};
}
keys!(<T> BufferId<T>, <T> Tensor<'_, T>, <> &str, <> &String, <> ValueKey<'_>);
