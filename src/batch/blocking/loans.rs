//! Memory that the caller of a blocking run lends to the run.

use std::sync::Arc;
use std::thread;

use crate::base::dtype::DType;
use crate::base::sync::Mutex;
use crate::exec::HostBuffer;

/// Buffers in the caller's memory. Their drop, also while a panic unwinds, waits until nobody else holds them. A run
/// copies those that its results keep, and drops the others when it ends, so that the wait is short.
#[derive(Default)]
pub(super) struct Loans(Mutex<Vec<Arc<HostBuffer>>>);

impl Loans {
    /// Lends `bytes` to a buffer of elements of type `dtype`; `None` if these must be copied.
    ///
    /// # Safety
    /// `bytes` stay borrowed until the loans are dropped, which must happen.
    pub unsafe fn lend(&self, dtype: DType, bytes: &[u8]) -> Option<Arc<HostBuffer>> {
        // SAFETY: the drop of the loans waits for other holders of the buffer.
        let lent = Arc::new(unsafe { HostBuffer::lent(dtype, bytes) }?);
        self.0.lock().push(Arc::clone(&lent));
        Some(lent)
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        for lent in &mut *self.0.lock() {
            while Arc::get_mut(lent).is_none() {
                thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::{Device, GpuCommandBatch};

    #[test]
    fn a_loan_ends_once_nobody_holds_it() {
        let (data, dropped) = (vec![5_u32; 1000], AtomicBool::new(false));
        thread::scope(|scope| {
            let loans = Loans::default();
            // SAFETY: `data` outlive the loans.
            let lent = unsafe { loans.lend(DType::U32, bytemuck::cast_slice(&data)) }.unwrap();
            let dropped = &dropped;
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(20));
                assert_eq!(lent.words().iter().sum::<u32>(), 5000);
                dropped.store(true, Ordering::Relaxed);
            });
            drop(loans);
            assert!(dropped.load(Ordering::Relaxed));
        });
    }

    /// Results that are the input itself, a view of it or computed from it outlive the input.
    #[test]
    fn results_outlive_lent_inputs() {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.input::<f32>("x", [2, 3]);
        let (same, view, twice) = (x.download(), x.reshape(6).download(), (x * 2.0).download());
        let program = batch.compile_blocking().unwrap();
        let mut data = vec![1.0_f32, -0.0, f32::NAN, f32::INFINITY, 3.0, 4.0];
        let outputs = program.run_blocking([(x, &data[..])]).unwrap();
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let want = bits(&data);
        data.fill(7.0);
        drop(data);
        for same in [same, view] {
            assert_eq!(bits(&outputs.read_blocking(same).unwrap()), want);
        }
        let twice = outputs.read_blocking(twice).unwrap();
        assert_eq!((twice[0], twice[3], twice[5]), (2.0, f32::INFINITY, 8.0));
    }
}
