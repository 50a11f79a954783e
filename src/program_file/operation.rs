//! Operations as JSON: the table of their names and parameters, for both directions.

use std::sync::Arc;

use smallvec::SmallVec;

use super::wire::as_form;
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{Move, Range, Shape, Window};
use crate::ops::{
    CustomKernel, Elementwise, Normalization, Op, Precision, Random, Reduction, Scan, Scores,
    SearchSide, Sort, Sorted,
};

/// The name of a method. Under its own type serde would borrow it from the file.
type Method = &'static str;

/// The form of an [`Op`] in files. The compiler checks that no operation and no parameter is missing. The names are
/// part of the format: they may not change without a new version of it.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "Op", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum OpForm {
    #[serde(skip)]
    Invalid,
    Upload(u32),
    Resident(u32),
    Full(#[serde(with = "as_form")] Scalar),
    Arange {
        #[serde(with = "as_form")]
        start: Scalar,
        #[serde(with = "as_form")]
        step: Scalar,
    },
    Random(#[serde(with = "as_form")] Random),
    Elementwise(
        #[serde(with = "as_form")] Elementwise,
        #[serde(with = "as_form")] SmallVec<[Scalar; 2]>,
    ),
    Select,
    Cast(#[serde(with = "as_form")] DType),
    Reduce {
        #[serde(with = "as_form")]
        op: Reduction,
        #[serde(with = "as_form")]
        axes: SmallVec<[usize; 4]>,
        keep: bool,
    },
    Row {
        #[serde(with = "as_form")]
        op: Normalization,
        axis: usize,
    },
    Scan {
        #[serde(with = "as_form")]
        op: Scan,
        axis: usize,
    },
    Sort {
        #[serde(with = "as_form")]
        how: Sort,
        #[serde(with = "as_form")]
        part: Sorted,
    },
    #[serde(rename = "matmul")]
    MatMul(#[serde(with = "as_form")] Precision),
    Attention(#[serde(with = "as_form")] Scores),
    Move {
        #[serde(with = "as_form")]
        name: Method,
        #[serde(with = "MoveForm")]
        to: Move,
    },
    Pad {
        #[serde(with = "as_form")]
        before: SmallVec<[usize; 4]>,
        #[serde(with = "as_form")]
        after: SmallVec<[usize; 4]>,
        #[serde(with = "as_form")]
        value: Scalar,
    },
    Concat {
        axis: usize,
    },
    #[serde(rename = "wgsl")]
    Custom(#[serde(with = "as_form")] Arc<CustomKernel>),
    Gather {
        #[serde(with = "as_form")]
        name: Method,
        axis: usize,
    },
    #[serde(rename = "searchsorted")]
    SearchSorted {
        #[serde(with = "as_form")]
        side: SearchSide,
    },
    TakeAlong {
        #[serde(with = "as_form")]
        name: Method,
        axis: usize,
    },
    InRange {
        #[serde(with = "as_form")]
        name: Method,
        axis: Option<usize>,
        size: usize,
        #[serde(with = "as_form")]
        ignored: Option<Scalar>,
    },
}

/// The form of a [`Move`] in files.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "Move", rename_all = "snake_case", deny_unknown_fields)]
enum MoveForm {
    Reshape(#[serde(with = "as_form")] Shape),
    Permute(#[serde(with = "as_form")] SmallVec<[usize; 4]>),
    Broadcast(#[serde(with = "as_form")] Shape),
    Slice(#[serde(with = "as_form")] SmallVec<[Range; 4]>),
    Window {
        axis: usize,
        #[serde(with = "as_form")]
        window: Window,
    },
}
