//! Transfers of residents to the GPU and back, apart from those of runs: each is counted, and reports a loss of the GPU.

use std::sync::Arc;

use super::Device;
use super::parts::counters::Counter;
use crate::base::dtype::DType;
use crate::base::future::BoxFuture;
use crate::error::DeviceError;
use crate::exec::gpu::{DeviceBuffer, Download, DownloadChunks, Gpu};

const UP: [Counter; 2] = [Counter::ResidentsUp, Counter::ResidentBytesUp];
const DOWN: [Counter; 2] = [Counter::ResidentsDown, Counter::ResidentBytesDown];

impl Device {
    /// Puts host elements on `gpu`, which is this device's.
    pub(crate) fn send(
        &self,
        gpu: &Gpu,
        dtype: DType,
        host: &[u8],
    ) -> Result<Arc<DeviceBuffer>, DeviceError> {
        let buffer = gpu.resident(dtype, host).map_err(|error| self.report_if_lost(error))?;
        self.count(UP, host.len());
        Ok(buffer)
    }

    /// A value from `gpu`, in one piece.
    pub(crate) async fn fetch(
        &self,
        gpu: &Gpu,
        buffer: &Arc<DeviceBuffer>,
    ) -> Result<Download, DeviceError> {
        let read = gpu.read_resident(buffer).await.map_err(|error| self.report_if_lost(error))?;
        self.count(DOWN, read.bytes());
        Ok(read)
    }

    /// The next chunk of a value and where it starts; `None` after the last.
    pub(crate) fn fetch_next<'a>(
        &'a self,
        chunks: &'a mut DownloadChunks,
    ) -> BoxFuture<'a, Result<Option<(usize, Download)>, DeviceError>> {
        Box::pin(async {
            let chunk = chunks.next().await.map_err(|error| self.report_if_lost(error))?;
            if let Some((_, chunk)) = &chunk {
                self.count(DOWN, chunk.bytes());
            }
            Ok(chunk)
        })
    }

    /// Counts a transfer and its bytes. A transfer of 0 bytes is not counted.
    fn count(&self, [transfers, total]: [Counter; 2], bytes: usize) {
        self.counters().add(transfers, u64::from(bytes > 0));
        self.counters().add(total, bytes as u64);
    }
}
