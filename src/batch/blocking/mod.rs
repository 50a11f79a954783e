//! Blocking twins of the async methods of devices, batches, programs and residents.
#![cfg(all(feature = "blocking", not(target_arch = "wasm32")))]

mod loans;
mod waiting;

#[cfg(feature = "safetensors")]
use std::path::Path;
use std::time::Duration;

use self::loans::Loans;
use self::waiting::{wait, wait_for_run};
use crate::base::dtype::{DType, Element};
#[cfg(feature = "ndarray")]
use crate::batch::arrays::ArrayD;
use crate::batch::{
    BufferId, GpuCommandBatch, Inputs, KeyOf, Outputs, Profile, Program, ReadView, Resident, Rows,
    Tensor,
};
#[cfg(feature = "safetensors")]
use crate::batch::{LoadOptions, SaveOptions, Weights};
use crate::calibrate::Progress;
use crate::cost::{DeviceProfile, Placement};
use crate::device::{Device, DeviceBuilder, GpuAdapter};
use crate::error::Result;

/// Twins of async methods, one in each row: `wait` for the future of `Type::method`, or `compute`, where the thread that
/// waits takes part in runs on the CPU.
macro_rules! twins {
    ($of:ident $(<$t:ident: $bound:path>)? { $(
        $(#[$more:meta])*
        $wait:ident $method:ident: $twin:ident $(<$($generic:tt),+ $(: $of_generic:path)?>)?
            ($($receiver:tt)*) ($($argument:ident: $type:ty),*) -> $output:ty;
    )* }) => {
        /// Twins that wait on the calling thread (feature `blocking`).
        impl $(<$t: $bound>)? $of $(<$t>)? {
            $(
                #[doc = concat!(
                    "[`", stringify!($of), "::", stringify!($method), "`], waiting on this thread",
                    twins!(@more $wait), "."
                )]
                $(#[$more])*
                ///
                /// # Errors
                #[doc = concat!("As [`", stringify!($of), "::", stringify!($method), "`].")]
                #[track_caller]
                pub fn $twin $(<$($generic),+ $(: $of_generic)?>)? (
                    $($receiver)* $($argument: $type),*
                ) -> Result<$output> {
                    twins!(@wait $wait)(twins!(@call $of $method ($($receiver)*) ($($argument),*)))
                }
            )*
        }
    };
    (@more wait) => { "" };
    (@more compute) => { ", which computes too where the host does" };
    (@wait wait) => { wait };
    (@wait compute) => { wait_for_run };
    (@call $of:ident $method:ident () ($($argument:ident),*)) => { $of::$method($($argument),*) };
    (@call $of:ident $method:ident (&$me:ident,) ($($argument:ident),*)) => { $me.$method($($argument),*) };
    (@call $of:ident $method:ident ($me:ident,) ($($argument:ident),*)) => { $me.$method($($argument),*) };
}

twins!(Device {
    wait auto: auto_blocking()() -> Self;
    wait gpu: gpu_blocking()() -> Self;
    wait gpus: gpus_blocking()() -> Vec<GpuAdapter>;
    compute eval: eval_blocking<T: Element>(&self,)
        (record: impl for<'b> FnOnce(&'b GpuCommandBatch) -> Tensor<'b, T>) -> Vec<T>;
    wait calibrate: calibrate_blocking(&self,)() -> DeviceProfile;
    wait calibrate_with: calibrate_with_blocking(&self,)(progress: impl FnMut(Progress) + Send)
        -> DeviceProfile;
});

twins!(DeviceBuilder {
    wait auto: auto_blocking(self,)() -> Device;
    wait gpu: gpu_blocking(self,)() -> Device;
});

twins!(GpuCommandBatch {
    ///
    /// Do not call it in a task of an executor; await [`GpuCommandBatch::execute`] there. It can deadlock if it waits
    /// for a run that only this thread would poll. Runs wait for each other if they [update](GpuCommandBatch::update)
    /// one resident or share a [memory budget](crate::DeviceBuilder::memory_budget).
    compute execute: execute_blocking(&self,)() -> ();
    wait read: read_blocking<T: Element>(&self,)(id: impl Into<BufferId<T>>) -> Vec<T>;
    wait read_into: read_into_blocking<T: Element>(&self,)(id: impl Into<BufferId<T>>, out: &mut [T]) -> ();
    #[cfg(feature = "ndarray")]
    wait read_array: read_array_blocking<T: Element>(&self,)(id: impl Into<BufferId<T>>) -> ArrayD<T>;
    compute compile: compile_blocking(&self,)() -> Program;
    #[cfg(feature = "safetensors")]
    wait save: save_blocking(&self,)(path: impl AsRef<Path>) -> ();
    #[cfg(feature = "safetensors")]
    wait to_bytes: to_bytes_blocking(&self,)() -> Vec<u8>;
});

twins!(Program {
    compute with_placement: with_placement_blocking(&self,)(placement: Placement) -> Self;
    wait run_within: run_within_blocking<'a, K>(&self,)
        (limit: Duration, inputs: impl Inputs<'a, K>) -> Outputs;
    wait run_unless: run_unless_blocking<'a, K>(&self,)
        (stop: impl Future<Output = ()>, inputs: impl Inputs<'a, K>)
        -> Outputs;
    #[cfg(feature = "safetensors")]
    wait save: save_blocking(&self,)(path: impl AsRef<Path>) -> ();
    #[cfg(feature = "safetensors")]
    wait save_with: save_with_blocking(&self,)(path: impl AsRef<Path>, options: SaveOptions) -> ();
    #[cfg(feature = "safetensors")]
    wait to_bytes: to_bytes_blocking(&self,)() -> Vec<u8>;
    #[cfg(feature = "safetensors")]
    compute load: load_blocking()(device: &Device, path: impl AsRef<Path>) -> Self;
    #[cfg(feature = "safetensors")]
    compute load_bytes: load_bytes_blocking()(device: &Device, bytes: Vec<u8>) -> Self;
    #[cfg(feature = "safetensors")]
    compute load_with: load_with_blocking()(device: &Device, file: &Weights, options: LoadOptions)
        -> Self;
    compute run_rows: run_rows_blocking<'a, K>(&self,)(inputs: impl Inputs<'a, K>) -> Outputs;
    wait run_rows_within: run_rows_within_blocking<'a, K>(&self,)
        (limit: Duration, inputs: impl Inputs<'a, K>) -> Outputs;
    wait run_rows_unless: run_rows_unless_blocking<'a, K>(&self,)
        (stop: impl Future<Output = ()>, inputs: impl Inputs<'a, K>) -> Outputs;
    wait profile: profile_blocking<'a, K>(&self,)
        (inputs: impl Inputs<'a, K>) -> Profile;
});

/// Twins that wait on the calling thread (feature `blocking`).
impl Program {
    /// [`Program::run`], waiting on this thread, which computes too where the host does. On the CPU, borrowed inputs of
    /// 32-bit elements are read where they lie, and nothing is copied.
    ///
    /// In a task of an executor it may wait for ever: for a run of another task that this thread alone would poll,
    /// where both [update](GpuCommandBatch::update) a resident or share a [memory
    /// budget](crate::DeviceBuilder::memory_budget). There, await [`Program::run`].
    ///
    /// ```
    /// # fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = x.relu();
    /// let program = batch.compile_blocking()?;
    /// let outputs = program.run_blocking([(x, &[1.0, -2.0, 3.0])])?;
    /// assert_eq!(outputs.read_blocking(y)?, [1.0, 0.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_blocking<'a, K>(&self, inputs: impl Inputs<'a, K>) -> Result<Outputs> {
        let loans = Loans::default();
        // SAFETY: the inputs are borrowed until this call returns, and `loans` are waited for before.
        let lend = |dtype: DType, bytes: &[u8]| unsafe { loans.lend(dtype, bytes) };
        wait_for_run(self.run_lent(&mut inputs.list(), Some(&lend)))
    }
}

twins!(Rows {
    compute run: run_blocking<'a, K>(&self,)(inputs: impl Inputs<'a, K>) -> Outputs;
    wait run_within: run_within_blocking<'a, K>(&self,)
        (limit: Duration, inputs: impl Inputs<'a, K>) -> Outputs;
    wait run_unless: run_unless_blocking<'a, K>(&self,)
        (stop: impl Future<Output = ()>, inputs: impl Inputs<'a, K>) -> Outputs;
    compute program: program_blocking(&self,)(rows: usize) -> Program;
    compute warm_up: warm_up_blocking(&self,)() -> usize;
});

twins!(Outputs {
    wait read: read_blocking<T: Element>(&self,)(key: impl KeyOf<T>) -> Vec<T>;
    wait read_into: read_into_blocking<T: Element>(&self,)
        (key: impl KeyOf<T>, out: &mut [T]) -> ();
    #[cfg(feature = "ndarray")]
    wait read_array: read_array_blocking<T: Element>(&self,)(key: impl KeyOf<T>) -> ArrayD<T>;
    wait into_vec: into_vec_blocking<T: Element>(self,)(key: impl KeyOf<T>) -> Vec<T>;
});

twins!(Resident<T: Element> {
    wait write: write_blocking(&self,)(data: &[T]) -> ();
    wait read: read_blocking(&self,)() -> Vec<T>;
    wait read_into: read_into_blocking(&self,)(out: &mut [T]) -> ();
    #[cfg(feature = "ndarray")]
    wait read_array: read_array_blocking(&self,)() -> ArrayD<T>;
    wait read_view: read_view_blocking(&self,)() -> ReadView<T>;
    wait keep_host_copy: keep_host_copy_blocking(&self,)() -> ();
});
