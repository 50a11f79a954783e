//! Checks of parameters and of the shapes of weights, for several families.

use std::fmt;

use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::batch::Tensor;
use crate::error::MistakeKind;
use crate::record::Refusal;

/// The cure for shapes of which one does not fit the others.
pub(in crate::methods) const CHANGE_ONE: &str = "change this shape, or the others";

/// Refuses the parameter `what` unless it `fits`, with words for the requirement.
pub(in crate::methods) fn check_parameter(
    what: &'static str,
    fits: bool,
    must: &'static str,
    given: &dyn fmt::Display,
) -> Result<(), MistakeKind> {
    if fits {
        return Ok(());
    }
    Err(MistakeKind::Parameter { what, must, given: given.to_string() })
}

/// Refuses operands `what` of another shape than the one that the other operands ask for.
pub(in crate::methods) fn check_shape<'b, T: Element>(
    what: &'static str,
    operands: impl IntoIterator<Item = Tensor<'b, T>>,
    wanted: impl Into<Shape>,
) -> Result<(), Refusal> {
    let wanted = wanted.into();
    for operand in operands {
        let given = operand.known_shape()?;
        if given != wanted {
            let fix = CHANGE_ONE.into();
            return Err(MistakeKind::LayerShape { what, given, wanted, fix }.into());
        }
    }
    Ok(())
}

/// The mistake of a tensor `x` whose axes are not as `wanted` names them.
pub(in crate::methods) fn layout(wanted: &'static str, shape: &Shape) -> MistakeKind {
    MistakeKind::Layout { what: "x", wanted, shape: shape.clone() }
}
