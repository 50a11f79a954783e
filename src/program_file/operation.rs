//! Operations as JSON: the table of their names and parameters, for both directions.

use std::sync::Arc;

use smallvec::SmallVec;

use super::wire::wire;
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{Move, Range, Shape, Window};
use crate::ops::{
    Elementwise, Normalization, Op, OwnKernel, Precision, Random, Reduction, Scan, Scores,
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
    Full(#[serde(with = "wire")] Scalar),
    Arange {
        #[serde(with = "wire")]
        start: Scalar,
        #[serde(with = "wire")]
        step: Scalar,
    },
    Random(#[serde(with = "wire")] Random),
    Elementwise(#[serde(with = "wire")] Elementwise, #[serde(with = "wire")] SmallVec<[Scalar; 2]>),
    Select,
    Cast(#[serde(with = "wire")] DType),
    Reduce {
        #[serde(with = "wire")]
        op: Reduction,
        #[serde(with = "wire")]
        axes: SmallVec<[usize; 4]>,
        keep: bool,
    },
    Row {
        #[serde(with = "wire")]
        op: Normalization,
        axis: usize,
    },
    Scan {
        #[serde(with = "wire")]
        op: Scan,
        axis: usize,
    },
    Sort {
        #[serde(with = "wire")]
        how: Sort,
        #[serde(with = "wire")]
        part: Sorted,
    },
    #[serde(rename = "matmul")]
    MatMul(#[serde(with = "wire")] Precision),
    Attention(#[serde(with = "wire")] Scores),
    Move {
        #[serde(with = "wire")]
        name: Method,
        #[serde(with = "MoveForm")]
        to: Move,
    },
    Pad {
        #[serde(with = "wire")]
        before: SmallVec<[usize; 4]>,
        #[serde(with = "wire")]
        after: SmallVec<[usize; 4]>,
        #[serde(with = "wire")]
        value: Scalar,
    },
    Concat {
        axis: usize,
    },
    #[serde(rename = "wgsl")]
    Own(#[serde(with = "wire")] Arc<OwnKernel>),
    Gather {
        #[serde(with = "wire")]
        name: Method,
        axis: usize,
    },
    #[serde(rename = "searchsorted")]
    SearchSorted {
        #[serde(with = "wire")]
        side: SearchSide,
    },
    TakeAlong {
        #[serde(with = "wire")]
        name: Method,
        axis: usize,
    },
    InRange {
        #[serde(with = "wire")]
        name: Method,
        axis: Option<usize>,
        size: usize,
        #[serde(with = "wire")]
        ignored: Option<Scalar>,
    },
}

/// The form of a [`Move`] in files.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "Move", rename_all = "snake_case", deny_unknown_fields)]
enum MoveForm {
    Reshape(#[serde(with = "wire")] Shape),
    Permute(#[serde(with = "wire")] SmallVec<[usize; 4]>),
    Broadcast(#[serde(with = "wire")] Shape),
    Slice(#[serde(with = "wire")] SmallVec<[Range; 4]>),
    Window {
        axis: usize,
        #[serde(with = "wire")]
        window: Window,
    },
}
