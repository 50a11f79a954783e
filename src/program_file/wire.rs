//! Parameters of operations as values of JSON.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::reason::Unreadable;
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{Range, Shape, Window};
use crate::error::quoted;
use crate::methods::registry;
use crate::ops::{
    CustomKernel, Distribution, ELEMENTWISE, Elementwise, Normalization, Precision, Random,
    Reduction, RowKind, Scan, Scores, SearchSide, Sort, SortOrder, Sorted,
};

/// A parameter with its form in files.
pub(super) trait Wire: Sized {
    type Form: Serialize + DeserializeOwned;
    fn form(&self) -> Self::Form;
    /// The parameter, or the reason why the form is none.
    fn of(form: Self::Form) -> Result<Self, Unreadable>;
}

/// The functions that serde calls for a field of a type that is [`Wire`].
pub(super) mod as_form {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::Wire;

    pub fn serialize<T: Wire, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.form().serialize(to)
    }

    pub fn deserialize<'de, T: Wire, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::of(T::Form::deserialize(from)?).map_err(|reason| de::Error::custom(reason.text()))
    }
}

/// Parameters that are one of several names.
macro_rules! named {
    ($($type:ty, $what:literal: $name:expr, $all:expr;)*) => {$(
        impl Wire for $type {
            type Form = String;
            fn form(&self) -> String {
                let name: fn($type) -> &'static str = $name;
                name(*self).to_owned()
            }
            fn of(form: String) -> Result<Self, Unreadable> {
                let name: fn($type) -> &'static str = $name;
                let found = $all.into_iter().find(|&one| name(one) == form);
                found.ok_or_else(|| Unreadable::no_such($what, &form))
            }
        }
    )*};
}
named! {
    DType, "element type": DType::name, DType::ALL;
    Elementwise, "operation": |op| op.def().name, (0..ELEMENTWISE.len()).map(|at| ELEMENTWISE[at].op);
    Reduction, "reduction": |op| op.def().name, Reduction::ALL;
    RowKind, "operation on rows": |op| op.def().name, RowKind::ALL;
    Scan, "scan": |op| op.def().name, Scan::ALL;
    &'static str, "method": |name| name, METHODS.iter().copied();
    Precision, "precision": |of| match of {
        Precision::Exact => "exact",
        Precision::Split => "split",
        Precision::Half => "half",
    }, [Precision::Exact, Precision::Split, Precision::Half];
    SortOrder, "order": |of| match of {
        SortOrder::Ascending => "ascending",
        SortOrder::Descending => "descending",
    }, [SortOrder::Ascending, SortOrder::Descending];
    SearchSide, "side": |of| match of {
        SearchSide::Left => "left",
        SearchSide::Right => "right",
    }, [SearchSide::Left, SearchSide::Right];
    Sorted, "result of a sort": |of| match of {
        Sorted::Values => "values",
        Sorted::Positions => "positions",
    }, [Sorted::Values, Sorted::Positions];
}

/// The names of all methods that nodes have.
static METHODS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let others = ["upload", "resident", "input", "wgsl"];
    registry().map(|info| info.name).chain(others).collect()
});

/// A number of JSON, or the bits of an `f64` that JSON has no number for, in hexadecimal.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Finite(f64),
    Bits(String),
}

impl Wire for Scalar {
    type Form = (String, Number);
    fn form(&self) -> Self::Form {
        let value = self.value();
        let number = match value.is_finite() {
            true => Number::Finite(value),
            false => Number::Bits(format!("{:016x}", value.to_bits())),
        };
        (self.dtype().form(), number)
    }
    fn of((dtype, number): Self::Form) -> Result<Self, Unreadable> {
        let value = match number {
            Number::Finite(value) => value,
            Number::Bits(bits) => match u64::from_str_radix(&bits, 16) {
                Ok(bits) => f64::from_bits(bits),
                Err(_) => return Err(format!("{} is no number", quoted(&bits)).into()),
            },
        };
        Ok(Self::new(DType::of(dtype)?, value))
    }
}

/// Parameters that are a list of others, and those that are their own form.
macro_rules! listed {
    ($($type:ty: |$value:ident| $form:expr, |$parts:tt: $parts_type:ty| $of:expr;)*) => {$(
        impl Wire for $type {
            type Form = $parts_type;
            fn form(&self) -> Self::Form {
                let $value = self;
                $form
            }
            fn of($parts: Self::Form) -> Result<Self, Unreadable> {
                Ok($of)
            }
        }
    )*};
}
listed! {
    usize: |x| *x, |x: usize| x;
    Shape: |x| x.dims().to_vec(), |dims: Vec<usize>| dims.into();
    Range: |x| (x.start, x.step, x.count),
        |(start, step, count): (i64, i64, usize)| Self { start, step, count };
    Window: |x| (x.size, x.step, x.dilation),
        |(size, step, dilation): (usize, usize, usize)| Self { size, step, dilation };
    Scores: |x| (x.scale.form(), x.causal),
        |(scale, causal): (<Scalar as Wire>::Form, Option<i64>)| Self { scale: Scalar::of(scale)?, causal };
    Sort: |x| (x.axis, x.order.form(), x.top),
        |(axis, order, top): (usize, String, Option<usize>)| Self { axis, order: SortOrder::of(order)?, top };
    Arc<CustomKernel>: |x| (x.source.to_string(), x.entry.to_string(), x.groups),
        |(source, entry, groups): (String, String, [u32; 3])| Self::new(CustomKernel {
            source: source.into(), entry: entry.into(), groups, function: None
        });
    Normalization: |x| (x.kind().form(), x.epsilon().map(Scalar::value)),
        |(kind, epsilon): (String, Option<f64>)| {
            let (kind, given) = (RowKind::of(kind)?, epsilon.is_some());
            let whole = kind.with(Scalar::new(DType::F32, epsilon.unwrap_or_default()));
            if whole.epsilon().is_some() != given {
                return Err(format!("`{}` has an epsilon or not, unlike here", kind.def().name).into());
            }
            whole
        };
}

impl Wire for Random {
    type Form = (String, Option<u32>, u64, u64);
    fn form(&self) -> Self::Form {
        let (kind, below) = match self.kind {
            Distribution::Bits => ("bits", None),
            Distribution::Uniform => ("uniform", None),
            Distribution::Normal => ("normal", None),
            Distribution::Bernoulli(below) => ("bernoulli", Some(below)),
        };
        (kind.to_owned(), below, self.seed, self.stream)
    }
    fn of((kind, below, seed, stream): Self::Form) -> Result<Self, Unreadable> {
        let kind = match (&*kind, below) {
            ("bits", None) => Distribution::Bits,
            ("uniform", None) => Distribution::Uniform,
            ("normal", None) => Distribution::Normal,
            ("bernoulli", Some(below)) => Distribution::Bernoulli(below),
            _ => return Err(Unreadable::no_such("distribution", &kind)),
        };
        Ok(Self { kind, seed, stream })
    }
}

impl<T: Wire, const N: usize> Wire for SmallVec<[T; N]> {
    type Form = Vec<T::Form>;
    fn form(&self) -> Self::Form {
        self.iter().map(Wire::form).collect()
    }
    fn of(form: Self::Form) -> Result<Self, Unreadable> {
        form.into_iter().map(T::of).collect()
    }
}

impl<T: Wire> Wire for Option<T> {
    type Form = Option<T::Form>;
    fn form(&self) -> Self::Form {
        self.as_ref().map(Wire::form)
    }
    fn of(form: Self::Form) -> Result<Self, Unreadable> {
        form.map(T::of).transpose()
    }
}
