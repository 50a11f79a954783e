//! Operations called by their names in the registry, for bindings of other languages.

mod signature;

use self::signature::{Callable, Composed};
pub use self::signature::{ParameterKind, Signature, signatures};
use crate::base::dtype::{DType, Element, Numeric, Scalar};
use crate::base::shape::Shape;
use crate::batch::{AnyId, GpuCommandBatch, Tensor};
use crate::error::MistakeKind;
use crate::methods::Axes;
use crate::methods::arguments::axes::resolve;
use crate::methods::arguments::checks::check_parameter;
use crate::ops::{Op, Precision};
use crate::record::Refusal;

/// A parameter of an operation that is called by its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// A number, also one axis. A flag is 0 or 1.
    Number(f64),
    /// Several axes, or the sizes of a shape.
    List(Vec<isize>),
}

/// Calls by name.
impl GpuCommandBatch {
    /// Records the operation `name` of the [`registry`](crate::registry), for bindings of other languages; `None` if
    /// [`signatures`] has no such operation. Wrong operands and parameters are mistakes, as those of the methods.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Device, GpuCommandBatch, Parameter};
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[1.0_f32, -2.0, 3.0, 4.0], [2, 2]);
    /// let relu = batch.call("relu", &[x.into()], &[]).unwrap();
    /// let sums = batch.call("sum", &[relu], &[Parameter::Number(-1.0)]).unwrap();
    /// let sums = sums.typed::<f32>().unwrap();
    /// batch.execute().await?;
    /// assert_eq!(batch.read(sums).await?, [1.0, 7.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn call(&self, name: &str, operands: &[AnyId], parameters: &[Parameter]) -> Option<AnyId> {
        let callable = Callable::find(name)?;
        Some(self.composed(callable.name(), || {
            let (least, most) = callable.parameter_counts();
            check_count("number of operands", operands.len(), callable.arity(), callable.arity())?;
            if let Some(&(what, _)) = callable.parameters().get(parameters.len())
                && parameters.len() < least
            {
                check_parameter(what, false, "given", &"left out")?;
            }
            check_count("number of parameters", parameters.len(), least, most)?;
            self.record_call(callable, operands, &GivenParameters(parameters))
        }))
    }

    #[track_caller]
    fn record_call(
        &self,
        callable: Callable,
        operands: &[AnyId],
        given: &GivenParameters<'_>,
    ) -> Result<AnyId, Refusal> {
        let op = match callable {
            Callable::Elementwise(op) => {
                let types = op.def().parameters.iter().enumerate();
                let parameters = types.map(|(at, &ty)| {
                    given.scalar(at, if ty == "T" { operands[0].dtype } else { DType::F32 })
                });
                Op::Elementwise(op, parameters.collect::<Result<_, _>>()?)
            }
            Callable::Reduce(op) => {
                let axes = given.axes()?;
                let shape = self.shape_of(operands[0].value)?;
                Op::Reduce { op, axes: axes.resolve(&shape)?, keep: axes.keep }
            }
            Callable::Row(op) => {
                let axis = resolve(given.integer(0)?, &self.shape_of(operands[0].value)?)?;
                let epsilon = if op.def().has_epsilon { given.number(1)? } else { 0.0 };
                let fits = epsilon.is_finite() && epsilon >= 0.0;
                check_parameter("epsilon", fits, "finite and not negative", &epsilon)?;
                Op::Row { op: op.with(Scalar::new(DType::F32, epsilon)), axis }
            }
            Callable::Scan(op) => {
                let axis = resolve(given.integer(0)?, &self.shape_of(operands[0].value)?)?;
                Op::Scan { op, axis }
            }
            Callable::Composed(Composed::Matmul) => Op::MatMul(Precision::Exact),
            Callable::Composed(Composed::Select) => Op::Select,
            Callable::Composed(composed) => return self.compose(composed, operands, given),
        };
        Ok(self.record_any(op, operands))
    }

    #[track_caller]
    fn compose(
        &self,
        composed: Composed,
        operands: &[AnyId],
        given: &GivenParameters<'_>,
    ) -> Result<AnyId, Refusal> {
        match operands[0].dtype {
            DType::F32 => self.compose_numeric::<f32>(composed, operands, given),
            DType::F16 => self.compose_numeric::<half::f16>(composed, operands, given),
            DType::I32 => self.compose_numeric::<i32>(composed, operands, given),
            DType::U32 => self.compose_numeric::<u32>(composed, operands, given),
            DType::Bool => self.compose_moved::<bool>(composed, operands, given),
        }
    }

    #[track_caller]
    fn compose_numeric<T: Numeric>(
        &self,
        composed: Composed,
        operands: &[AnyId],
        given: &GivenParameters<'_>,
    ) -> Result<AnyId, Refusal> {
        match composed {
            Composed::Linear => {
                let x = self.typed::<T>(operands[0])?;
                let (w, b) = (self.typed::<T>(operands[1])?, self.typed::<T>(operands[2])?);
                Ok(self.linear(x, w, b).into())
            }
            moved => self.compose_moved::<T>(moved, operands, given),
        }
    }

    #[track_caller]
    fn compose_moved<T: Element>(
        &self,
        composed: Composed,
        operands: &[AnyId],
        given: &GivenParameters<'_>,
    ) -> Result<AnyId, Refusal> {
        let x = self.typed::<T>(operands[0])?;
        Ok(match composed {
            Composed::Reshape => x.reshape(given.sizes()?).into(),
            Composed::Permute => x.permute(given.list()?).into(),
            Composed::Transpose => x.transpose().into(),
            Composed::Linear => return Err(MistakeKind::DType(T::DTYPE).into()),
            Composed::Matmul | Composed::Select => {
                return Err(MistakeKind::Internal("an operation of its own is composed").into());
            }
        })
    }

    /// An operand as a tensor of elements `T`; a mistake if it has others.
    fn typed<T: Element>(&self, operand: AnyId) -> Result<Tensor<'_, T>, MistakeKind> {
        let id = operand.typed::<T>().ok_or(MistakeKind::DTypes(T::DTYPE, operand.dtype))?;
        Ok(Tensor::new(self, id))
    }
}

fn check_count(
    what: &'static str,
    given: usize,
    least: usize,
    most: usize,
) -> Result<(), MistakeKind> {
    const MUST: [&str; 4] = ["0", "1", "2", "3"];
    let must = if given < least { least } else { most };
    let must = MUST.get(must).copied().unwrap_or("as documented");
    check_parameter(what, (least..=most).contains(&given), must, &given)
}

/// The parameters that a call was given.
struct GivenParameters<'a>(&'a [Parameter]);

impl GivenParameters<'_> {
    fn number(&self, at: usize) -> Result<f64, MistakeKind> {
        match self.0.get(at) {
            Some(&Parameter::Number(number)) => Ok(number),
            other => Err(not("a number", other)),
        }
    }

    fn integer(&self, at: usize) -> Result<isize, MistakeKind> {
        let number = self.number(at)?;
        let fits = number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX);
        check_parameter("axis", fits, "a whole number", &number)?;
        Ok(number as isize)
    }

    /// A parameter as an element `dtype`, which must be able to hold it.
    fn scalar(&self, at: usize, dtype: DType) -> Result<Scalar, MistakeKind> {
        let number = self.number(at)?;
        let scalar = Scalar::new(dtype, number);
        let fits = dtype.is_float() || scalar.value() == number;
        check_parameter("parameter", fits, "one of the values of the elements", &number)?;
        Ok(scalar)
    }

    /// The axes, which are all if none are given, and whether they stay.
    fn axes(&self) -> Result<Axes, MistakeKind> {
        let axes = match self.0.first() {
            None => Axes::ALL,
            Some(Parameter::Number(_)) => Axes::from(self.integer(0)?),
            Some(Parameter::List(list)) => Axes::from(&list[..]),
        };
        let keep = self.0.len() > 1 && self.number(1)? != 0.0;
        Ok(if keep { axes.keep_dims() } else { axes })
    }

    fn list(&self) -> Result<&[isize], MistakeKind> {
        match self.0.first() {
            Some(Parameter::List(list)) => Ok(list),
            other => Err(not("a list", other)),
        }
    }

    fn sizes(&self) -> Result<Shape, MistakeKind> {
        let list = self.list()?;
        let sizes: Result<Vec<usize>, _> = list.iter().map(|&size| size.try_into()).collect();
        let sizes = sizes.map_err(|_| not("a list of sizes", self.0.first()))?;
        Ok(sizes[..].into())
    }
}

fn not(must: &'static str, given: Option<&Parameter>) -> MistakeKind {
    let given = match given {
        None => "nothing".into(),
        Some(Parameter::Number(number)) => number.to_string(),
        Some(Parameter::List(list)) => format!("{list:?}"),
    };
    MistakeKind::Parameter { what: "parameter", must, given }
}
