//! Data for uploads.

use std::borrow::Cow;
use std::sync::Arc;

use crate::base::dtype::Element;

/// The elements of an upload or an input: a slice, an array or a vector. All are copied, except a vector of
/// 32-bit elements by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no data to upload",
    note = "a borrowed slice, array or vector of elements is, such as `&data`, and a vector by value",
    note = "`full` makes a tensor of one number; `upload_array` takes views of `ndarray`"
)]
pub trait UploadData<'a> {
    /// The type of the elements.
    type Element: Element;

    /// The elements in row-major order.
    #[doc(hidden)]
    fn elements(self) -> Cow<'a, [Self::Element]>;
}

macro_rules! data {
    ($(<$(const $n:ident)?> $data:ty: |$x:ident| $elements:expr;)*) => {$(
        impl<'a, T: Element $(, const $n: usize)?> UploadData<'a> for $data {
            type Element = T;

            fn elements(self) -> Cow<'a, [T]> {
                let $x = self;
                $elements
            }
        }
    )*};
}
data! {
    <> &'a [T]: |slice| slice.into();
    <const N> &'a [T; N]: |array| array[..].into();
    <const N> [T; N]: |array| Vec::from(array).into();
    <> &'a Vec<T>: |vector| vector.into();
    <> Vec<T>: |vector| vector.into();
    <> Cow<'a, [T]>: |data| data;
    <> &'a Cow<'_, [T]>: |data| data[..].into();
    <> &'a Box<[T]>: |data| data[..].into();
    <> &'a Arc<[T]>: |data| data[..].into();
}

impl<'a, D: ?Sized> UploadData<'a> for &'a &D
where
    &'a D: UploadData<'a>,
{
    type Element = <&'a D as UploadData<'a>>::Element;

    fn elements(self) -> Cow<'a, [Self::Element]> {
        (*self).elements()
    }
}
