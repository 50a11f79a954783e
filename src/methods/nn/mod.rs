//! Layers of networks: windows and convolutions, pooling, normalisations, attention, recurrent layers, dropout, resizing.

pub(super) mod conv;

pub(super) mod conv_transpose;

pub(super) mod pool;

pub(super) mod adaptive;

pub(super) mod norm;

pub(super) mod attention;

pub(super) mod rotary;

pub(super) mod recurrent;

pub(super) mod dropout;

pub(super) mod resize;

mod window;

pub use attention::{Attention, AttentionMask, Causal};
pub use conv::{Conv, Conv1d, Conv2d};
pub use conv_transpose::{ConvTranspose, ConvTranspose1d, ConvTranspose2d};
pub use pool::{Pool, Pool1d, Pool2d};
pub use recurrent::{CellWeights, LstmState, Recurrence};
pub use resize::{Corners, ImageSize};
pub use rotary::Rotary;
pub(super) use window::unfold;
