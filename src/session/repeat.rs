//! Calls that are made again after losses of the GPU.

use crate::device::Device;
use crate::error::{Error, Result};

/// The number of times that a run or a transfer is repeated after losses of the GPU.
const REPEATS: u64 = 3;

/// The result of a call, which is made again after losses of the GPU from which `device` recovers. A macro, since a call
/// may borrow what each try writes to.
macro_rules! repeated {
    ($device:expr, $call:expr) => {{
        let mut recoveries = 0;
        loop {
            match $call.await {
                Err(error) => {
                    $crate::session::recover_for_repeat($device, error, &mut recoveries).await?;
                }
                done => break done,
            }
        }
    }};
}
pub(crate) use repeated;

/// Returns `Ok` if the call that failed with `error` may be repeated after the device recovered from a loss, and counts
/// the recovery.
pub(crate) async fn recover_for_repeat(
    device: &Device,
    error: Error,
    recoveries: &mut u64,
) -> Result<()> {
    if *recoveries == REPEATS {
        return Err(error);
    }
    device.recover(error).await?;
    *recoveries += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    #[cfg(feature = "gpu")]
    use crate::base::test_device::found;
    use crate::error::DeviceError;

    fn lost() -> Error {
        DeviceError::Lost { reason: "as it should".into() }.into()
    }

    /// The result of a call that fails with each of `errors` and then succeeds.
    async fn after(device: &Device, errors: Vec<Error>) -> Result<()> {
        let mut errors = errors.into_iter();
        repeated!(device, ready(errors.next().map_or(Ok(()), Err)))
    }

    #[tokio::test]
    async fn without_a_gpu_nothing_is_repeated() {
        assert!(after(&Device::cpu(), vec![lost()]).await.is_err());
    }

    #[cfg(feature = "gpu")]
    #[tokio::test]
    async fn what_is_lost_again_and_again_is_repeated_three_times() {
        let builder = Device::builder().without_cache().recovery(crate::Recovery::Cpu);
        let Some(device) = found(builder.gpu().await) else { return };
        after(&device, vec![lost(); 3]).await.unwrap();
        let end = after(&device, vec![lost(); 4]).await.unwrap_err();
        assert!(matches!(end, Error::Device(DeviceError::Lost { .. })), "{end}");
        let other = DeviceError::broken("no loss").into();
        assert!(after(&device, vec![other]).await.is_err(), "what is no loss is not repeated");
    }
}
