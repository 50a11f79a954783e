//! Elementwise expressions of the user's own, written as formulas.

use std::cell::RefCell;
use std::fmt;
use std::ops;

use half::f16;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{Element, Float, Logical, Numeric, Signed};
use crate::ops::table;

/// What [`GpuCommandBatch::map_expr`] hands to the formula, to make [`Term`]s of values.
pub struct Formula<'b>(RefCell<&'b mut GpuCommandBatch>);

/// A value in a formula: operators, and the elementwise operations as methods. What stands beside it may be a number.
pub struct Term<'f, 'b, T> {
    formula: &'f Formula<'b>,
    id: BufferId<T>,
}

/// What may stand on the right of an operator: a [`Term`], or one value for all elements.
pub trait Operand<'f, 'b, T> {
    #[doc(hidden)]
    fn beside<U: Element>(self, term: Term<'f, 'b, U>) -> BufferId<T>;
}

impl<'f, 'b, T: Element> Operand<'f, 'b, T> for Term<'f, 'b, T> {
    fn beside<U: Element>(self, _term: Term<'f, 'b, U>) -> BufferId<T> {
        self.id
    }
}

impl<'f, 'b, T: Element> Operand<'f, 'b, T> for T {
    #[track_caller]
    fn beside<U: Element>(self, term: Term<'f, 'b, U>) -> BufferId<T> {
        let mut batch = term.formula.0.borrow_mut();
        // Of the term's shape, so that no plan thinks of storing it.
        let shape = batch.shape(term.id).unwrap_or_default();
        batch.full(shape, self)
    }
}

impl GpuCommandBatch {
    /// An elementwise expression of the caller's own, written as a formula over values of this batch. It becomes one
    /// kernel, and fuses with what is around it, as the operations that it is made of do. Shapes broadcast.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// use onetrip::{Device, GpuCommandBatch};
    ///
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[0.0_f32, 3.0, -8.0]);
    /// let y = batch.upload(&[2.0_f32, 4.0, 6.0]);
    /// let length = batch.map_expr(|f| {
    ///     let (x, y) = (f.of(x), f.of(y));
    ///     (x * x + y * y).sqrt() * 0.5
    /// });
    /// assert_eq!(batch.explain()?.kernels().len(), 1);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(length).await?, [1.0, 2.5, 5.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Mistakes are those of the operations, at the line of the formula where they stand.
    pub fn map_expr<T: Element>(
        &mut self,
        formula: impl for<'f, 'b> FnOnce(&'f Formula<'b>) -> Term<'f, 'b, T>,
    ) -> BufferId<T> {
        formula(&Formula(RefCell::new(self))).id
    }
}

impl<'b> Formula<'b> {
    /// A value of the batch as a term.
    pub fn of<T: Element>(&self, id: BufferId<T>) -> Term<'_, 'b, T> {
        Term { formula: self, id }
    }
}

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident>($first:ident $(, $x:ident)* $(; $($p:ident: $pt:ty),+)?)
        -> $out:ty, ulp $ulp:literal, abs $abs:literal, on ($lo:literal, $hi:literal), $formula:expr;)*) => {
        /// The elementwise operations, with this term for their first argument.
        #[expect(clippy::should_implement_trait, reason = "the traits are implemented by these")]
        impl<'f, 'b, T: Element> Term<'f, 'b, T> {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name(self, $($x: impl Operand<'f, 'b, T>,)* $($($p: $pt),+)?) -> Term<'f, 'b, $out>
            where
                T: $bound,
            {
                $(let $x = $x.beside(self);)*
                // Not in a closure, which would be the caller.
                let id = self.formula.0.borrow_mut().$name(self.id $(, $x)* $($(, $p)+)?);
                self.formula.of(id)
            })*
        }
    };
}
table!(methods);

impl<'f, 'b, T: Element> Term<'f, 'b, T> {
    /// The value as elements `U`, as [`GpuCommandBatch::cast`].
    #[track_caller]
    pub fn cast<U: Element>(self) -> Term<'f, 'b, U> {
        let id = self.formula.0.borrow_mut().cast(self.id);
        self.formula.of(id)
    }
}

impl<'f, 'b> Term<'f, 'b, bool> {
    /// `x` where this holds, else `y`, as [`GpuCommandBatch::select`].
    #[track_caller]
    pub fn select<T: Element>(
        self,
        x: Term<'f, 'b, T>,
        y: impl Operand<'f, 'b, T>,
    ) -> Term<'f, 'b, T> {
        let y = y.beside(x);
        let id = self.formula.0.borrow_mut().select(self.id, x.id, y);
        self.formula.of(id)
    }
}

macro_rules! operators {
    ($($trait:ident $operator:ident $method:ident $bound:ident;)*) => {$(
        impl<'f, 'b, T: $bound, R: Operand<'f, 'b, T>> ops::$trait<R> for Term<'f, 'b, T> {
            type Output = Self;
            #[track_caller]
            fn $operator(self, other: R) -> Self {
                Term::$method(self, other)
            }
        }
    )*};
}
operators! {
    Add add add Numeric;
    Sub sub sub Numeric;
    Mul mul mul Numeric;
    Div div div Numeric;
    Rem rem rem Numeric;
    BitAnd bitand and Logical;
    BitOr bitor or Logical;
}

/// Numbers on the left of operators: `1.0 - x`. Rust wants each type by itself.
macro_rules! numbers {
    ($($number:ident)*) => {$(
        numbers! { $number: Add add, Sub sub, Mul mul, Div div, Rem rem }
    )*};
    ($number:ident: $($trait:ident $operator:ident),*) => {$(
        impl<'f, 'b> ops::$trait<Term<'f, 'b, $number>> for $number {
            type Output = Term<'f, 'b, $number>;
            #[track_caller]
            fn $operator(self, term: Term<'f, 'b, $number>) -> Self::Output {
                Term::$operator(term.formula.of(self.beside(term)), term)
            }
        }
    )*};
}
numbers! { f32 f16 i32 u32 }

impl<T: Signed> ops::Neg for Term<'_, '_, T> {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        Term::neg(self)
    }
}

impl<T: Logical> ops::Not for Term<'_, '_, T> {
    type Output = Self;
    #[track_caller]
    fn not(self) -> Self {
        Term::not(self)
    }
}

impl<T> Clone for Term<'_, '_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Term<'_, '_, T> {}

impl<T: Element> fmt::Debug for Term<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term({:?})", self.id)
    }
}

impl fmt::Debug for Formula<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Formula")
    }
}
