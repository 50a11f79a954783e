//! Layers of networks: windows and convolutions, pooling, normalisations, attention, recurrent layers, dropout.

mod conv;

mod conv_transpose;

mod pool;

mod adaptive;

mod norm;

mod attention;

mod rotary;

mod recurrent;

mod dropout;

mod window;

pub use attention::{Attention, AttentionMask, Causal};
pub use conv::{Conv, Conv1d, Conv2d};
pub use conv_transpose::{ConvTranspose, ConvTranspose1d, ConvTranspose2d};
pub use pool::{Pool, Pool1d, Pool2d};
pub use recurrent::{CellWeights, LstmState, Recurrence};
pub use rotary::Rotary;
pub(super) use window::unfold;

use crate::methods::OpInfo;

/// The registry's rows of layers over sequences.
pub(super) const SEQUENCES: &[&[OpInfo]] = &[attention::ROWS, rotary::ROWS, recurrent::ROWS];
/// The registry's rows of layers over images and their like.
pub(super) const IMAGES: &[&[OpInfo]] =
    &[conv::ROWS, conv_transpose::ROWS, pool::ROWS, adaptive::ROWS, norm::ROWS];
pub(super) const DROPOUT: &[OpInfo] = dropout::ROWS;
