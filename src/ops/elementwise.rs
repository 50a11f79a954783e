//! The elementwise operations: each one a scalar expression, written once in [`table!`].

use crate::base::dtype::DType;
use crate::expr::E;

/// Hands the table of elementwise operations to the macro `$use`, which expands each row as it needs: here to the
/// definition, in [`crate::methods`] the method.
///
/// A row is: documentation; name, variant and bound on the element type `T`; arguments, then
/// parameters; the result's type; the error allowed against the `f64` reference in units in the
/// last place of an `f32` and in absolute terms; the interval that tests draw from; the formula.
macro_rules! table {
    ($use:ident) => { $use! {
        /// −x. `i32::MIN` stays as it is.
        #[doc(alias = "negative")]
        neg Neg<Signed>(x) -> T, ulp 0.0, abs 0.0, on (-1e3, 1e3), -x;
        /// |x|. `i32::MIN` stays as it is.
        abs Abs<Signed>(x) -> T, ulp 0.0, abs 0.0, on (-1e3, 1e3), x.abs();
        /// −1, 0 or 1 by the sign of x; NaN stays NaN.
        sign Sign<Signed>(x) -> T, ulp 0.0, abs 0.0, on (-2.0, 2.0), x.sign();
        /// 1 / x.
        #[doc(alias = "reciprocal")]
        recip Recip<Float>(x) -> T, ulp 3.0, abs 0.0, on (-50.0, 50.0), x.recip();
        /// x². Integers wrap.
        square Square<Numeric>(x) -> T, ulp 1.0, abs 0.0, on (-100.0, 100.0), x * x;
        /// √x; NaN below zero.
        sqrt Sqrt<Float>(x) -> T, ulp 3.0, abs 0.0, on (0.0, 1e4), x.sqrt();
        /// 1 / √x; NaN below zero, ±∞ at ±0.
        rsqrt Rsqrt<Float>(x) -> T, ulp 4.0, abs 0.0, on (1e-3, 1e4), x.rsqrt();
        /// eˣ.
        exp Exp<Float>(x) -> T, ulp 6.0, abs 1e-44, on (-80.0, 80.0), x.exp();
        /// The natural logarithm; NaN below zero, −∞ at 0.
        #[doc(alias = "ln")]
        log Log<Float>(x) -> T, ulp 4.0, abs 2e-7, on (1e-6, 1e6), x.log();
        /// log(1 + x), accurate near 0; NaN below −1.
        log1p Log1p<Float>(x) -> T, ulp 8.0, abs 0.0, on (-0.99, 1e3), x.log1p();
        /// eˣ − 1, accurate near 0.
        expm1 Expm1<Float>(x) -> T, ulp 8.0, abs 0.0, on (-20.0, 20.0), x.expm1();
        /// The sine, x in radians. Accuracy falls off past |x| = 10⁵; NaN at ±∞.
        sin Sin<Float>(x) -> T, ulp 4.0, abs 5e-7, on (-1e3, 1e3), x.sin();
        /// The cosine, x in radians. Accuracy falls off past |x| = 10⁵; NaN at ±∞.
        cos Cos<Float>(x) -> T, ulp 4.0, abs 5e-7, on (-1e3, 1e3), x.cos();
        /// The hyperbolic tangent.
        tanh Tanh<Float>(x) -> T, ulp 8.0, abs 0.0, on (-12.0, 12.0), x.tanh();
        /// The error function 2/√π ∫₀ˣ exp(−t²) dt.
        erf Erf<Float>(x) -> T, ulp 8.0, abs 0.0, on (-5.0, 5.0), x.erf();
        /// The greatest integer that is not above x.
        floor Floor<Float>(x) -> T, ulp 0.0, abs 0.0, on (-100.0, 100.0), x.floor();
        /// The least integer that is not below x.
        ceil Ceil<Float>(x) -> T, ulp 0.0, abs 0.0, on (-100.0, 100.0), x.ceil();
        /// The greatest power of two that is not above |x|: 2^⌊log₂|x|⌋. 0 below 2⁻¹²⁶, the least normal `f32`;
        /// NaN at NaN and ±∞.
        floor_pow2 FloorPow2<Float>(x) -> T, ulp 0.0, abs 0.0, on (-1e4, 1e4), x.floor_pow2();
        /// The nearest integer, halves to even as in NumPy.
        round Round<Float>(x) -> T, ulp 0.0, abs 0.0, on (-100.0, 100.0), x.round();

        /// The logistic function 1 / (1 + e⁻ˣ).
        sigmoid Sigmoid<Float>(x) -> T, ulp 10.0, abs 1e-37, on (-30.0, 30.0), sigmoid(x);
        /// max(x, 0); NaN stays NaN.
        relu Relu<Numeric>(x) -> T, ulp 0.0, abs 0.0, on (-10.0, 10.0),
            x.max(0.0);
        /// x, or `slope`·x below zero.
        leaky_relu LeakyRelu<Float>(x; slope: f32) -> T, ulp 1.0, abs 0.0, on (-10.0, 10.0),
            x.lt(0.0).select(x * slope, x, x);
        /// x, or `alpha`·(eˣ − 1) below zero (Clevert et al., 2015).
        elu Elu<Float>(x; alpha: f32) -> T, ulp 10.0, abs 0.0, on (-10.0, 10.0),
            x.lt(0.0).select(alpha * x.expm1(), x, x);
        /// λ·elu(x, α) with λ = 1.0507 and α = 1.6733 (Klambauer et al., 2017).
        selu Selu<Float>(x) -> T, ulp 10.0, abs 0.0, on (-10.0, 10.0),
            x.lt(0.0).select(x.expm1() * 1.758_099_340_847_376_6, x * 1.050_700_987_355_480_5, x);
        /// ½·x·(1 + erf(x / √2)) (Hendrycks and Gimpel, 2016).
        gelu Gelu<Float>(x) -> T, ulp 10.0, abs 2e-6, on (-6.0, 6.0),
            x * 0.5 * ((x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0);
        /// The approximation ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) of [`gelu`](Self::gelu).
        gelu_tanh GeluTanh<Float>(x) -> T, ulp 10.0, abs 2e-6, on (-6.0, 6.0),
            x * 0.5 * (((x + x * x * x * 0.044_715) * 0.797_884_560_802_865_4).tanh() + 1.0);
        /// x·sigmoid(x), also known as swish.
        #[doc(alias = "swish")]
        silu Silu<Float>(x) -> T, ulp 10.0, abs 1e-36, on (-30.0, 30.0), x / ((-x).exp() + 1.0);
        /// x·tanh(softplus(x)) (Misra, 2019).
        mish Mish<Float>(x) -> T, ulp 16.0, abs 1e-36, on (-20.0, 20.0), x * softplus(x).tanh();
        /// log(1 + eˣ), without overflow.
        softplus Softplus<Float>(x) -> T, ulp 8.0, abs 1e-36, on (-30.0, 30.0), softplus(x);
        /// min(max(x/6 + ½, 0), 1), as in PyTorch (ONNX takes a slope of 0.2).
        hard_sigmoid HardSigmoid<Float>(x) -> T, ulp 4.0, abs 2e-7, on (-5.0, 5.0),
            hard_sigmoid(x);
        /// x·hard_sigmoid(x).
        hard_swish HardSwish<Float>(x) -> T, ulp 4.0, abs 1e-6, on (-5.0, 5.0),
            x * hard_sigmoid(x);
        /// min(max(x, low), high); NaN stays NaN. Where `low` is greater than `high`, all numbers become `high`, as in
        /// PyTorch.
        #[doc(alias = "clamp")]
        clip Clip<Numeric>(x; low: T, high: T) -> T, ulp 0.0, abs 0.0, on (-10.0, 10.0),
            x.max(low).min(high);
        /// `factor`·x. Integers wrap.
        scale Scale<Numeric>(x; factor: T) -> T, ulp 1.0, abs 0.0, on (-100.0, 100.0), x * factor;
        /// x + `addend`. Integers wrap.
        add_scalar AddScalar<Numeric>(x; addend: T) -> T, ulp 1.0, abs 0.0, on (-100.0, 100.0),
            x + addend;
        /// x to the power of `exponent`, by the rules of [`pow`](Self::pow).
        pow_scalar PowScalar<Numeric>(x; exponent: T) -> T, ulp 96.0, abs 0.0, on (0.0, 10.0),
            x.pow(exponent);

        /// x + y. Integers wrap.
        add Add<Numeric>(x, y) -> T, ulp 1.0, abs 0.0, on (-100.0, 100.0), x + y;
        /// x − y. Integers wrap.
        #[doc(alias = "subtract")]
        sub Sub<Numeric>(x, y) -> T, ulp 1.0, abs 0.0, on (-100.0, 100.0), x - y;
        /// x·y. Integers wrap.
        #[doc(alias = "multiply")]
        mul Mul<Numeric>(x, y) -> T, ulp 1.0, abs 0.0, on (-100.0, 100.0), x * y;
        /// x / y. Integers truncate toward zero; `i32::MIN` / −1 is `i32::MIN`, and x / 0 a [`Fault`](crate::Fault).
        #[doc(alias = "divide")]
        div Div<Numeric>(x, y) -> T, ulp 4.0, abs 0.0, on (-100.0, 100.0), x / y;
        /// The lesser of the two; NaN if either is NaN. It reduces nothing: see [`amin`](Self::amin).
        #[doc(alias = "minimum")]
        min Min<Numeric>(x, y) -> T, ulp 0.0, abs 0.0, on (-100.0, 100.0), x.min(y);
        /// The greater of the two; NaN if either is NaN. It reduces nothing: see [`amax`](Self::amax).
        #[doc(alias = "maximum")]
        max Max<Numeric>(x, y) -> T, ulp 0.0, abs 0.0, on (-100.0, 100.0), x.max(y);
        /// x to the power of y. Floats follow C's `pow`, with a relative error of about 10⁻⁷·|y·log₂ x|. Integers wrap;
        /// a negative exponent truncates 1 / xⁿ toward zero, with 0 for x = 0.
        #[doc(alias = "power")]
        pow Pow<Numeric>(x, y) -> T, ulp 96.0, abs 0.0, on (0.0, 10.0), x.pow(y);
        /// The remainder of the division truncated toward zero: it has the sign of x, as Rust's
        /// `%` and NumPy's `fmod` have it. Integers: x rem 0 is a [`Fault`](crate::Fault).
        #[doc(alias = "fmod")]
        #[doc(alias = "modulo")]
        rem Rem<Numeric>(x, y) -> T, ulp 4.0, abs 3e-5, on (-100.0, 100.0), x.rem(y);

        /// x = y; false if either is NaN.
        eq Eq<Element>(x, y) -> bool, ulp 0.0, abs 0.0, on (-3.0, 3.0), x.eq(y);
        /// x ≠ y; true if either is NaN.
        ne Ne<Element>(x, y) -> bool, ulp 0.0, abs 0.0, on (-3.0, 3.0), x.ne(y);
        /// x < y; false if either is NaN.
        lt Lt<Numeric>(x, y) -> bool, ulp 0.0, abs 0.0, on (-3.0, 3.0), x.lt(y);
        /// x ≤ y; false if either is NaN.
        le Le<Numeric>(x, y) -> bool, ulp 0.0, abs 0.0, on (-3.0, 3.0), x.le(y);
        /// x > y; false if either is NaN.
        gt Gt<Numeric>(x, y) -> bool, ulp 0.0, abs 0.0, on (-3.0, 3.0), x.gt(y);
        /// x ≥ y; false if either is NaN.
        ge Ge<Numeric>(x, y) -> bool, ulp 0.0, abs 0.0, on (-3.0, 3.0), x.ge(y);

        /// x and y.
        and And<Logical>(x, y) -> T, ulp 0.0, abs 0.0, on (0.0, 1.0), x.and(y);
        /// x or y.
        or Or<Logical>(x, y) -> T, ulp 0.0, abs 0.0, on (0.0, 1.0), x.or(y);
        /// not x.
        not Not<Logical>(x) -> T, ulp 0.0, abs 0.0, on (0.0, 1.0), !x;
    } };
}
pub(crate) use table;

fn sigmoid(x: E<'_>) -> E<'_> {
    ((-x).exp() + 1.0).recip()
}

fn softplus(x: E<'_>) -> E<'_> {
    x.max(0.0) + (-x.abs()).exp().log1p()
}

fn hard_sigmoid(x: E<'_>) -> E<'_> {
    (x * (1.0 / 6.0) + 0.5).max(0.0).min(1.0)
}

/// Everything that there is to know of one elementwise operation.
pub(crate) struct Def {
    pub op: Elementwise,
    pub name: &'static str,
    pub doc: &'static str,
    pub arity: usize,
    /// The Rust types of the parameters: `T` for that of the elements.
    pub parameters: &'static [&'static str],
    pub parameter_names: &'static [&'static str],
    pub accepts: Accepts,
    pub truth: bool,
    pub tolerance: Tolerance,
    /// The interval that tests draw arguments from.
    #[cfg(test)]
    pub domain: (f64, f64),
    formula: for<'b> fn(&[E<'b>], &[E<'b>]) -> E<'b>,
}

/// The error that is allowed against the `f64` reference: units in the last place of an
/// `f32`, and an absolute part for results near zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub ulp: f64,
    pub abs: f64,
}

/// The element types that an operation takes: the bound on its method's type parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    Element,
    Numeric,
    Signed,
    Float,
    Logical,
}

impl Accepts {
    pub fn dtype(self, dtype: DType) -> bool {
        match self {
            Self::Element => true,
            Self::Numeric => dtype.is_numeric(),
            Self::Signed => dtype.is_float() || dtype == DType::I32,
            Self::Float => dtype.is_float(),
            Self::Logical => dtype == DType::Bool,
        }
    }
}

macro_rules! define {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident<$bound:ident>($($x:ident),+ $(; $($p:ident: $pt:ty),+)?)
        -> $out:tt, ulp $ulp:literal, abs $abs:literal, on ($lo:literal, $hi:literal), $formula:expr;)*) => {
        /// An elementwise operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Elementwise { $($op),* }

        /// The definitions, in the order of [`Elementwise`].
        pub(crate) static ELEMENTWISE: &[Def] = &[$(Def {
            op: Elementwise::$op,
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            arity: [$(stringify!($x)),+].len(),
            parameters: &[$($(stringify!($pt)),+)?],
            parameter_names: &[$($(stringify!($p)),+)?],
            accepts: Accepts::$bound,
            truth: matches!(stringify!($out).as_bytes(), b"bool"),
            tolerance: Tolerance { ulp: $ulp, abs: $abs },
            #[cfg(test)]
            domain: ($lo, $hi),
            formula: |args, params| {
                let &[$($x),+] = args else { unreachable!("arity was checked when recorded") };
                let &[$($($p),+)?] = params else { unreachable!("parameters come from the method") };
                $formula
            },
        }),*];
    };
}
table!(define);

impl Elementwise {
    pub fn def(self) -> &'static Def {
        &ELEMENTWISE[self as usize]
    }

    /// The operation's expression over `args` and `params`.
    pub fn apply<'b>(self, args: &[E<'b>], params: &[E<'b>]) -> E<'b> {
        (self.def().formula)(args, params)
    }
}
