//! From an operation's name to the method that records it.

use onetrip::{
    AnyId, Axes, BufferId, DType, Element, Float, GpuCommandBatch, Index, Logical, Numeric,
    Precision, Result, SearchSide, Signed, SortOrder, f16,
};

use crate::case::{Case, Tensor};
use crate::windows;

/// An id of any element type.
#[derive(Clone, Copy)]
pub enum Id {
    F32(BufferId<f32>),
    F16(BufferId<f16>),
    I32(BufferId<i32>),
    U32(BufferId<u32>),
    Bool(BufferId<bool>),
}

/// An element type that ids of any type can be taken apart to.
pub trait Kind: Element {
    fn wrap(id: impl Into<BufferId<Self>>) -> Id;
    fn unwrap(id: Id) -> Option<BufferId<Self>>;
    fn number(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! kinds {
    ($($t:ty, $variant:ident, $from:expr, $to:expr;)*) => {
        $(impl Kind for $t {
            fn wrap(id: impl Into<BufferId<Self>>) -> Id {
                Id::$variant(id.into())
            }
            fn unwrap(id: Id) -> Option<BufferId<Self>> {
                if let Id::$variant(id) = id { Some(id) } else { None }
            }
            fn number(value: f64) -> Self {
                ($from)(value)
            }
            fn value(self) -> f64 {
                ($to)(self)
            }
        })*

        /// A tensor as an upload.
        pub fn upload(batch: &GpuCommandBatch, tensor: &Tensor) -> Id {
            let values = tensor.values();
            match tensor.dtype {
                $(DType::$variant => {
                    let data: Vec<$t> = values.iter().map(|&value| Kind::number(value)).collect();
                    Id::$variant(batch.upload_shaped(data, tensor.shape.clone()).id())
                })*
            }
        }

        pub fn download(batch: &GpuCommandBatch, id: Id) {
            match id {
                $(Id::$variant(id) => batch.download(id),)*
            }
        }

        pub fn any(id: Id) -> AnyId {
            match id {
                $(Id::$variant(id) => id.into(),)*
            }
        }

        pub fn typed(id: AnyId) -> Id {
            match id.dtype() {
                $(DType::$variant => Id::$variant(id.typed().expect("the type is known")),)*
            }
        }

        #[cfg(feature = "safetensors")]
        pub fn name(batch: &GpuCommandBatch, id: Id, name: &str) {
            match id {
                $(Id::$variant(id) => batch.name(id, name),)*
            }
        }

        pub fn shape(batch: &GpuCommandBatch, id: Id) -> Option<Vec<usize>> {
            let shape = match id {
                $(Id::$variant(id) => batch.shape(id),)*
            };
            shape.map(|shape| shape.dims().to_vec())
        }

        /// The elements of a result.
        pub async fn read(batch: &GpuCommandBatch, id: Id) -> Result<Vec<f64>> {
            Ok(match id {
                $(Id::$variant(id) => batch.read(id).await?.into_iter().map(Kind::value).collect(),)*
            })
        }

        fn cast<T: Kind>(batch: &GpuCommandBatch, x: BufferId<T>, to: DType) -> Id {
            match to {
                $(DType::$variant => Id::$variant(batch.cast(x).id()),)*
            }
        }
    };
}
kinds! {
    f32, F32, |v| v as f32, f64::from;
    f16, F16, f16::from_f64, f16::to_f64;
    i32, I32, |v| v as i32, f64::from;
    u32, U32, |v| v as u32, f64::from;
    bool, Bool, |v| v != 0.0, |v| f64::from(u8::from(v));
}

/// Records the case's operation, or `None` if there is no such operation for its inputs.
pub fn record(batch: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    if case.op == "select" {
        let condition = bool::unwrap(inputs[0])?;
        return match inputs[1] {
            Id::F32(x) => Some(f32::wrap(batch.select(condition, x, f32::unwrap(inputs[2])?))),
            Id::I32(x) => Some(i32::wrap(batch.select(condition, x, i32::unwrap(inputs[2])?))),
            _ => None,
        };
    }
    if let Some(id) = indexed(batch, case, inputs) {
        return Some(id);
    }
    match inputs[0] {
        Id::F32(_) => float::<f32>(batch, case, inputs),
        Id::F16(_) => float::<f16>(batch, case, inputs),
        Id::I32(_) => signed::<i32>(batch, case, inputs),
        Id::U32(_) => numeric::<u32>(batch, case, inputs),
        Id::Bool(_) => logical::<bool>(batch, case, inputs),
    }
}

/// Records an operation whose last input is indices.
fn indexed(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    match *inputs.last()? {
        Id::I32(i) => indexed_by(b, case, inputs, i),
        Id::U32(i) => indexed_by(b, case, inputs, i),
        _ => None,
    }
}

fn indexed_by<I: Index>(
    b: &GpuCommandBatch,
    case: &Case,
    inputs: &[Id],
    i: BufferId<I>,
) -> Option<Id> {
    match (case.op.as_str(), inputs) {
        ("one_hot", _) => return Some(Id::F32(b.one_hot(i, case.number("classes") as usize).id())),
        ("histogram", _) => return Some(u32::wrap(b.histogram(i, case.number("bins") as usize))),
        (_, &[Id::F32(x), Id::F32(u), _]) => return scatter(b, case, x, u, i),
        (_, &[Id::F16(x), Id::F16(u), _]) => return scatter(b, case, x, u, i),
        (_, &[Id::I32(x), Id::I32(u), _]) => return scatter(b, case, x, u, i),
        (_, &[Id::U32(x), Id::U32(u), _]) => return scatter(b, case, x, u, i),
        _ => {}
    }
    match inputs[0] {
        Id::F32(x) => look_up(b, case, x, i),
        Id::F16(x) => look_up(b, case, x, i),
        Id::I32(x) => look_up(b, case, x, i),
        Id::U32(x) => look_up(b, case, x, i),
        Id::Bool(x) => look_up(b, case, x, i),
    }
}

fn scatter<T: Kind + Numeric, I: Index>(
    b: &GpuCommandBatch,
    case: &Case,
    x: BufferId<T>,
    updates: BufferId<T>,
    i: BufferId<I>,
) -> Option<Id> {
    let y = match case.op.as_str() {
        "scatter" => b.scatter(x, i, updates, axis(case)),
        "scatter_add" => b.scatter_add(x, i, updates, axis(case)),
        "scatter_max" => b.scatter_max(x, i, updates, axis(case)),
        "scatter_min" => b.scatter_min(x, i, updates, axis(case)),
        _ => return None,
    };
    Some(T::wrap(y))
}

fn look_up<T: Kind, I: Index>(
    b: &GpuCommandBatch,
    case: &Case,
    x: BufferId<T>,
    i: BufferId<I>,
) -> Option<Id> {
    let y = match case.op.as_str() {
        "gather" => b.gather(x, i, axis(case)),
        "embedding" => b.embedding(x, i),
        "take_along_axis" => b.take_along_axis(x, i, axis(case)),
        _ => return None,
    };
    Some(T::wrap(y))
}

/// Calls the method of `$batch` whose name is `$op`, if it is in the list.
macro_rules! call {
    ($batch:ident, $op:expr, $wrap:expr, $args:tt: $($name:ident)*) => {
        match $op {
            $(stringify!($name) => return Some($wrap($batch.$name $args)),)*
            _ => {}
        }
    };
}

fn float<T: Kind + Float>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let x = T::unwrap(inputs[0])?;
    let op = case.op.as_str();
    call!(b, op, T::wrap, (x): recip sqrt rsqrt exp log log1p expm1 sin cos tanh erf floor ceil
        floor_pow2 round sigmoid selu gelu gelu_tanh silu mish softplus hard_sigmoid hard_swish);
    call!(b, op, T::wrap, (x, axes(case)): mean logsumexp norm);
    match op {
        "leaky_relu" => Some(T::wrap(b.leaky_relu(x, case.number("slope") as f32))),
        "elu" => Some(T::wrap(b.elu(x, case.number("alpha") as f32))),
        "softmax" => Some(T::wrap(b.softmax(x, axis(case)))),
        "log_softmax" => Some(T::wrap(b.log_softmax(x, axis(case)))),
        "layer_norm" => Some(T::wrap(b.layer_norm(x, axis(case), case.number("eps") as f32))),
        "matmul_with" => {
            let precision = match case.text("precision") {
                "split" => Precision::Split,
                "half" => Precision::Half,
                _ => Precision::Exact,
            };
            Some(T::wrap(b.matmul_with(x, T::unwrap(inputs[1])?, precision)))
        }
        "layer_norm_with" | "rms_norm_with" => {
            let ids: Vec<BufferId<T>> =
                inputs.iter().map(|&id| T::unwrap(id)).collect::<Option<_>>()?;
            let (axis, eps) = (axis(case), case.number("eps") as f32);
            Some(T::wrap(match ids[..] {
                [x, weight, bias] => b.layer_norm_with(x, weight, bias, axis, eps),
                _ => b.rms_norm_with(x, ids[1], axis, eps),
            }))
        }
        "rms_norm" => Some(T::wrap(b.rms_norm(x, axis(case), case.number("eps") as f32))),
        _ => {
            let ids: Option<Vec<BufferId<T>>> = inputs.iter().map(|&id| T::unwrap(id)).collect();
            match ids.and_then(|ids| windows::float(b, case, &ids)) {
                Some(y) => Some(T::wrap(y)),
                None => signed::<T>(b, case, inputs),
            }
        }
    }
}

fn signed<T: Kind + Signed>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let x = T::unwrap(inputs[0])?;
    call!(b, case.op.as_str(), T::wrap, (x): neg abs sign);
    numeric::<T>(b, case, inputs)
}

fn numeric<T: Kind + Numeric>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let op = case.op.as_str();
    let ids: Vec<BufferId<T>> = inputs.iter().map(|&id| T::unwrap(id)).collect::<Option<_>>()?;
    let x = ids[0];
    let number = |key| T::number(case.number(key));
    call!(b, op, T::wrap, (x): square relu);
    call!(b, op, T::wrap, (x, axes(case)): sum prod amax amin);
    call!(b, op, u32::wrap, (x, axes(case)): argmax argmin);
    call!(b, op, T::wrap, (x, axis(case)): cumsum cumprod cummax cummin);
    if let &[x, y] = &ids[..] {
        call!(b, op, T::wrap, (x, y): add sub mul div min max pow rem dot);
        call!(b, op, bool::wrap, (x, y): lt le gt ge);
        let side = if case.flag("after") { SearchSide::Right } else { SearchSide::Left };
        call!(b, op, u32::wrap, (x, y, side): searchsorted);
    }
    match (op, &ids[..]) {
        ("clip", _) => Some(T::wrap(b.clip(x, number("low"), number("high")))),
        ("scale", _) => Some(T::wrap(b.scale(x, number("factor")))),
        ("add_scalar", _) => Some(T::wrap(b.add_scalar(x, number("addend")))),
        ("pow_scalar", _) => Some(T::wrap(b.pow_scalar(x, number("exponent")))),
        ("matmul", &[x, w]) => {
            let x = if case.flag("transpose_x") { b.transpose(x).id() } else { x };
            let w = if case.flag("transpose_w") { b.transpose(w).id() } else { w };
            Some(T::wrap(b.matmul(x, w)))
        }
        ("einsum", _) => Some(T::wrap(b.einsum(case.text("subscripts"), &ids))),
        ("conv1d" | "conv2d" | "conv_transpose1d" | "conv_transpose2d", _) => {
            windows::numeric(b, case, &ids).map(T::wrap)
        }
        ("linear", &[x, w, bias]) => Some(T::wrap(b.linear(x, w, bias))),
        _ => element::<T>(b, case, inputs),
    }
}

fn logical<T: Kind + Logical>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let x = T::unwrap(inputs[0])?;
    let op = case.op.as_str();
    call!(b, op, T::wrap, (x): not);
    if let (Some(mask), "nonzero") = (bool::unwrap(inputs[0]), op) {
        let (positions, count) = b.nonzero(mask, case.number("size") as usize);
        return Some(u32::wrap(if case.flag("count") { count } else { positions }));
    }
    call!(b, op, T::wrap, (x, axes(case)): any all);
    if let Some(y) = inputs.get(1).and_then(|&id| T::unwrap(id)) {
        call!(b, op, T::wrap, (x, y): and or);
    }
    element::<T>(b, case, inputs)
}

fn element<T: Kind>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let ids: Vec<BufferId<T>> = inputs.iter().map(|&id| T::unwrap(id)).collect::<Option<_>>()?;
    let (op, x) = (case.op.as_str(), ids[0]);
    if let &[x, y] = &ids[..] {
        call!(b, op, bool::wrap, (x, y): eq ne);
    }
    let order = if case.flag("descending") { SortOrder::Descending } else { SortOrder::Ascending };
    let y = match op {
        "sort" => b.sort(x, axis(case), order),
        "argsort" => return Some(u32::wrap(b.argsort(x, axis(case), order))),
        "top_k" => {
            let (values, positions) = b.top_k(x, case.number("k") as usize, axis(case), order);
            return Some(if case.flag("positions") {
                u32::wrap(positions)
            } else {
                T::wrap(values)
            });
        }
        "cast" => return Some(cast(b, x, case.output.dtype)),
        "reshape" => b.reshape(x, case.list::<usize>("shape")),
        "permute" => b.permute(x, case.list::<isize>("axes")),
        "transpose" => b.transpose(x),
        "triu" => b.triu(x, case.number("diagonal") as isize),
        "tril" => b.tril(x, case.number("diagonal") as isize),
        "slice" => b.slice(x, ranges(case)),
        "unfold" => {
            b.unfold(x, axis(case), case.number("size") as usize, case.number("step") as usize)
        }
        "squeeze" => b.squeeze(x, axis(case)),
        "unsqueeze" => b.unsqueeze(x, axis(case)),
        "broadcast_to" => b.broadcast_to(x, case.list::<usize>("shape")),
        "flip" => b.flip(x, &case.list::<isize>("axes")[..]),
        "replace_slice" => b.replace_slice(x, ids[1], axis(case), case.number("at") as usize),
        "concat" => b.concat(&ids, axis(case)),
        "pad" => {
            let (before, after) = (case.list::<usize>("before"), case.list::<usize>("after"));
            let border: Vec<(usize, usize)> = before.into_iter().zip(after).collect();
            b.pad(x, border, T::number(case.number("value")))
        }
        _ => return None,
    };
    Some(T::wrap(y))
}

fn axis(case: &Case) -> isize {
    case.number("axis") as isize
}

fn axes(case: &Case) -> Axes {
    let axes = Axes::from(&case.list::<isize>("axes")[..]);
    if case.flag("keep") { axes.keep_dims() } else { axes }
}

/// The ranges of a slice, each stored as start, end and step.
fn ranges(case: &Case) -> Vec<(std::ops::Range<usize>, isize)> {
    let range = |range: &Vec<i64>| {
        let &[start, end, step] = &range[..] else { panic!("{}: not a range", case.name) };
        (start as usize..end as usize, step as isize)
    };
    case.lists("ranges").iter().map(range).collect()
}
