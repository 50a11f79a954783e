//! Losses and whole layers: operations over operands of several types, with options.

use onetrip::{
    Attention, AttentionMask, BufferId, Causal, CellWeights, ClassLoss, Float, GpuCommandBatch,
    Index, LossReduction, LstmState, Recurrence, Rotary, f16,
};

use crate::case::Case;
use crate::ops::{Id, Kind};

/// Records the case's operation, or `None` if there is no such operation for its inputs.
pub fn record(batch: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let layer = match inputs[0] {
        Id::F32(_) => layer::<f32>(batch, case, inputs),
        Id::F16(_) => layer::<f16>(batch, case, inputs),
        _ => None,
    };
    if layer.is_some() {
        return layer;
    }
    match inputs[0] {
        Id::F32(x) => loss(batch, case, x, inputs),
        Id::F16(x) => loss(batch, case, x, inputs),
        _ => None,
    }
}

fn loss<T: Kind + Float>(
    b: &GpuCommandBatch,
    case: &Case,
    x: BufferId<T>,
    inputs: &[Id],
) -> Option<Id> {
    match *inputs.get(1)? {
        Id::I32(classes) => class_loss(b, case, x, classes, how(case, inputs)),
        Id::U32(classes) => class_loss(b, case, x, classes, how(case, inputs)),
        y => {
            let (y, reduction) = (T::unwrap(y)?, reduction(case));
            let number = |key| case.number(key) as f32;
            let loss = match case.op.as_str() {
                "cross_entropy_with" => b.cross_entropy_with(x, y, how(case, inputs)),
                "mse_loss" => b.mse_loss(x, y, reduction),
                "l1_loss" => b.l1_loss(x, y, reduction),
                "huber_loss" => b.huber_loss(x, y, number("delta"), reduction),
                "smooth_l1_loss" => b.smooth_l1_loss(x, y, number("beta"), reduction),
                "binary_cross_entropy_with_logits" => {
                    b.binary_cross_entropy_with_logits(x, y, reduction)
                }
                _ => return None,
            };
            Some(T::wrap(loss))
        }
    }
}

fn class_loss<T: Kind + Float, I: Index>(
    b: &GpuCommandBatch,
    case: &Case,
    x: BufferId<T>,
    classes: BufferId<I>,
    how: ClassLoss,
) -> Option<Id> {
    match case.op.as_str() {
        "cross_entropy" => Some(T::wrap(b.cross_entropy(x, classes, how))),
        "nll_loss" => Some(T::wrap(b.nll_loss(x, classes, how))),
        "accuracy" => Some(f32::wrap(b.accuracy(x, classes, case.number("axis") as isize))),
        "accuracy_with" => {
            let (axis, ignore) = (case.number("axis") as isize, case.number("ignore") as i64);
            Some(f32::wrap(b.accuracy_with(x, classes, axis, ignore)))
        }
        _ => None,
    }
}

fn layer<T: Kind + Float>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    match case.op.as_str() {
        "scaled_dot_product_attention" => attention::<T>(b, case, inputs),
        "lstm" | "gru" | "lstm_cell" | "gru_cell" => recurrent::<T>(b, case, inputs),
        "rotary" => {
            let number = |key| case.params[key].as_f64().unwrap_or_default();
            let positions = match inputs.get(1) {
                Some(&Id::F32(positions)) => Some(positions),
                _ => None,
            };
            let base = case.number("base") as f32;
            let how = Rotary {
                interleaved: case.flag("interleaved"),
                base,
                start: number("start") as u32,
                positions,
            };
            Some(T::wrap(b.rotary(T::unwrap(inputs[0])?, how)))
        }
        _ => None,
    }
}

fn recurrent<T: Kind + Float>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let mut ids = inputs.iter().map(|&id| T::unwrap(id)).collect::<Option<Vec<_>>>()?.into_iter();
    let mut next = || ids.next().expect("an operand");
    let is_cell = case.op.ends_with("cell");
    let x = next();
    let start = (is_cell || case.flag("start")).then(|| {
        let h = next();
        LstmState { h, c: if case.op.starts_with("lstm") { next() } else { h } }
    });
    let count = if is_cell { 1 } else { case.number("cells") as usize };
    let cells: Vec<CellWeights<T>> = (0..count)
        .map(|_| CellWeights {
            input: next(),
            hidden: next(),
            bias: case.flag("bias").then(|| [next(), next()]),
        })
        .collect();
    let how = Recurrence {
        batch_first: case.flag("batch_first"),
        bidirectional: case.flag("bidirectional"),
    };
    let (y, state) = match case.op.as_str() {
        "lstm" => {
            let (y, state) = b.lstm(x, &cells, start, how);
            (Some(y), state)
        }
        "gru" => {
            let (y, h) = b.gru(x, &cells, start.map(|state| state.h), how);
            (Some(y), LstmState { h: h.id(), c: h.id() })
        }
        "lstm_cell" => (None, b.lstm_cell(x, start?, cells[0])),
        _ => {
            let h = b.gru_cell(x, start?.h, cells[0]);
            (None, LstmState { h: h.id(), c: h.id() })
        }
    };
    let id = match case.text("output") {
        "y" => y?.id(),
        "h" => state.h,
        _ => state.c,
    };
    Some(T::wrap(id))
}

fn attention<T: Kind + Float>(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let [q, k, v] = [0, 1, 2].map(|at| T::unwrap(inputs[at]));
    let mask = match inputs.get(3) {
        None => None,
        Some(&Id::F32(mask)) => Some(AttentionMask::Add(mask)),
        Some(&Id::Bool(mask)) => Some(AttentionMask::Keep(mask)),
        Some(_) => return None,
    };
    let causal = match case.params["causal"].as_str() {
        Some("top left") => Causal::TopLeft,
        Some("bottom right") => Causal::BottomRight,
        _ => Causal::None,
    };
    let scale = case.params["scale"].as_f64().map(|scale| scale as f32);
    let how = Attention { mask, causal, scale };
    Some(T::wrap(b.scaled_dot_product_attention(q?, k?, v?, how)))
}

fn how(case: &Case, inputs: &[Id]) -> ClassLoss {
    ClassLoss {
        axis: case.params["axis"].as_i64().map(|axis| axis as isize),
        ignore: case.params["ignore"].as_i64(),
        smoothing: case.params["smoothing"].as_f64().unwrap_or_default() as f32,
        weight: inputs.get(2).and_then(|&weight| f32::unwrap(weight)),
        reduction: reduction(case),
    }
}

fn reduction(case: &Case) -> LossReduction {
    match case.params["reduction"].as_str() {
        Some("none") => LossReduction::None,
        Some("sum") => LossReduction::Sum,
        _ => LossReduction::Mean,
    }
}
