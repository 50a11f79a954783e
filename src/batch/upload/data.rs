//! Data for uploads.

use std::borrow::Cow;

use crate::base::dtype::Element;

/// The elements of an upload: a slice, an array or a vector. All are copied, except a vector of
/// 32-bit elements by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no data to upload",
    note = "a borrowed slice, array or vector of elements is, such as `&data`, and a vector by value",
    note = "`full` makes a tensor of one number; `upload_array` takes views of `ndarray`"
)]
pub trait UploadData<'a, T: Element> {
    /// The elements in row-major order.
    #[doc(hidden)]
    fn elements(self) -> Cow<'a, [T]>;
}

macro_rules! data {
    ($(<$(const $n:ident)?> $data:ty: |$x:ident| $elements:expr;)*) => {$(
        impl<'a, T: Element $(, const $n: usize)?> UploadData<'a, T> for $data {
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
}
