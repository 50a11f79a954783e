//! Loops that are compiled for the vectors of each kind of processor.

/// Defines a struct of functions, with a value for each kind of processor. Numbers may stand beside the functions. `V` is the
/// kind of vectors. A constant has a number for AVX-512, one for AVX2, and one for all other processors.
///
/// `native()` returns the functions for this processor. `all()` returns all that it can run, the best first.
macro_rules! loops {
    (
        $(#[$doc:meta])*
        $visible:vis struct $loops:ident { $($(#[$number_doc:meta])* $number:ident: $of_number:expr,)* }
        $(const $size:ident = $sizes:expr;)*
        $(
            $(#[$function_doc:meta])*
            unsafe fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $call:expr;
        )*
    ) => {
        $(#[$doc])*
        $visible struct $loops {
            $($(#[$number_doc])* pub $number: usize,)*
            $($(#[$function_doc])* $name: unsafe fn($($type),*) $(-> $result)?,)*
        }

        impl $loops {
            /// The best functions for this processor.
            $visible fn native() -> &'static Self {
                static NATIVE: std::sync::LazyLock<&$loops> =
                    std::sync::LazyLock::new(|| $loops::all()[0]);
                *NATIVE
            }

            /// The functions that this processor can run, the best first.
            fn all() -> Vec<&'static Self> {
                let mut all: Vec<&'static Self> = Vec::new();
                #[cfg(target_arch = "x86_64")]
                {
                    use crate::exec::cpu::vectors::{has_avx2, has_avx512};
                    use std::arch::x86_64::{__m256, __m512};
                    static AVX512: $loops = $crate::exec::cpu::vectors::by_processor::loops!(
                        @of __m512, 0, target_feature(enable = "avx512f,avx2,fma"), $loops,
                        { $($size = $sizes,)* } { $($number: $of_number,)* }
                        { $($name($($argument: $type),*) $(-> $result)? = $call;)* }
                    );
                    static AVX2: $loops = $crate::exec::cpu::vectors::by_processor::loops!(
                        @of __m256, 1, target_feature(enable = "avx2,fma"), $loops,
                        { $($size = $sizes,)* } { $($number: $of_number,)* }
                        { $($name($($argument: $type),*) $(-> $result)? = $call;)* }
                    );
                    all.extend(has_avx512().then_some(&AVX512));
                    all.extend(has_avx2().then_some(&AVX2));
                }
                // A condition that holds stands for the attribute.
                static PLAIN: $loops = $crate::exec::cpu::vectors::by_processor::loops!(
                    @of $crate::exec::cpu::vectors::Plain, 2, cfg(all()), $loops,
                    { $($size = $sizes,)* } { $($number: $of_number,)* }
                    { $($name($($argument: $type),*) $(-> $result)? = $call;)* }
                );
                all.push(&PLAIN);
                all
            }
        }
    };
    (
        @of $vector:ty, $kind:literal, $attribute:meta, $loops:ident,
        { $($size:ident = $sizes:expr,)* } { $($number:ident: $of_number:expr,)* }
        { $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $call:expr;)* }
    ) => {{
        type V = $vector;
        $(const $size: usize = $sizes[$kind];)*
        $(
            #[$attribute]
            unsafe fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: as the caller promises.
                unsafe { $call }
            }
        )*
        $loops { $($number: $of_number,)* $($name,)* }
    }};
}
pub(crate) use loops;
