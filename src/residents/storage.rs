//! The data of one resident, and the sides where it lies.

use std::sync::Arc;

use crate::cost::Residence;
use crate::device::Device;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::gpu::DeviceBuffer;

/// The data of a resident: nowhere, on one side, or the same on both.
#[derive(Clone, Default)]
pub(crate) enum Storage {
    /// No run has filled the resident.
    #[default]
    Empty,
    Host(Arc<HostBuffer>),
    Gpu(Arc<DeviceBuffer>),
    Both {
        host: Arc<HostBuffer>,
        gpu: Arc<DeviceBuffer>,
    },
    /// On the GPU, where others may write to it: no copy on the host would stay valid.
    Shared(Arc<DeviceBuffer>),
}

impl Storage {
    /// Data that is not shared, on each side that has a buffer.
    pub fn of(host: Option<Arc<HostBuffer>>, gpu: Option<Arc<DeviceBuffer>>) -> Self {
        match (host, gpu) {
            (None, None) => Self::Empty,
            (Some(host), None) => Self::Host(host),
            (None, Some(gpu)) => Self::Gpu(gpu),
            (Some(host), Some(gpu)) => Self::Both { host, gpu },
        }
    }

    pub fn into_parts(self) -> (Option<Arc<HostBuffer>>, Option<Arc<DeviceBuffer>>) {
        match self {
            Self::Empty => (None, None),
            Self::Host(host) => (Some(host), None),
            Self::Gpu(gpu) | Self::Shared(gpu) => (None, Some(gpu)),
            Self::Both { host, gpu } => (Some(host), Some(gpu)),
        }
    }

    pub fn host(&self) -> Option<&Arc<HostBuffer>> {
        match self {
            Self::Host(host) | Self::Both { host, .. } => Some(host),
            Self::Empty | Self::Gpu(_) | Self::Shared(_) => None,
        }
    }

    pub fn host_mut(&mut self) -> Option<&mut Arc<HostBuffer>> {
        match self {
            Self::Host(host) | Self::Both { host, .. } => Some(host),
            Self::Empty | Self::Gpu(_) | Self::Shared(_) => None,
        }
    }

    pub fn gpu(&self) -> Option<&Arc<DeviceBuffer>> {
        match self {
            Self::Gpu(gpu) | Self::Both { gpu, .. } | Self::Shared(gpu) => Some(gpu),
            Self::Empty | Self::Host(_) => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// Returns whether the data on the GPU is in `buffer`.
    pub fn is_in(&self, buffer: &Arc<DeviceBuffer>) -> bool {
        self.gpu().is_some_and(|gpu| Arc::ptr_eq(gpu, buffer))
    }

    /// The side or sides where the data lies, if there is any.
    pub fn residence(&self) -> Option<Residence> {
        match self {
            Self::Empty => None,
            Self::Host(_) => Some(Residence::Host),
            Self::Gpu(_) => Some(Residence::Gpu),
            Self::Both { .. } => Some(Residence::Both),
            Self::Shared(_) => Some(Residence::Shared),
        }
    }

    /// Adds a copy on the host. A shared buffer gets none.
    pub fn add_host(&mut self, copy: Arc<HostBuffer>) {
        *self = match std::mem::take(self) {
            Self::Empty | Self::Host(_) => Self::Host(copy),
            Self::Gpu(gpu) | Self::Both { gpu, .. } => Self::Both { host: copy, gpu },
            Self::Shared(gpu) => Self::Shared(gpu),
        };
    }

    /// Adds a copy on the GPU to data on the host.
    pub fn add_gpu(&mut self, copy: Arc<DeviceBuffer>) {
        let (host, _) = std::mem::take(self).into_parts();
        *self = Self::of(host, Some(copy));
    }

    /// The same without a buffer of a lost GPU, unless `device` still has that GPU.
    pub fn without_lost_buffer(self, device: &Device) -> Self {
        let is_gone = self.gpu().is_some_and(|buffer| {
            buffer.is_lost() && !device.opened().is_some_and(|gpu| gpu.owns(buffer))
        });
        if is_gone { Self::of(self.into_parts().0, None) } else { self }
    }

    /// The data on the host, fetched from the GPU if need be; `None` where there is none, or no GPU any more.
    pub async fn to_host(&self, device: &Device) -> Result<Option<Arc<HostBuffer>>, DeviceError> {
        match (self.host(), self.gpu(), device.opened()) {
            (Some(host), ..) => Ok(Some(Arc::clone(host))),
            (None, Some(buffer), Some(gpu)) => {
                let read = device.fetch(&gpu, buffer).await?;
                Ok(Some(Arc::new(read.to_host()?)))
            }
            _ => Ok(None),
        }
    }
}
