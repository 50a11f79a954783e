//! Copies of data that does not change, in the order in which a kernel reads them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most bytes of all copies.
const BUDGET: usize = 1 << 30;
/// Bytes of all copies.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// The place of one copy beside its data. The copy is made when the data are read for the second time, and freed with
/// them.
#[derive(Debug, Default)]
pub(crate) struct ArrangedCopy {
    was_read: AtomicBool,
    /// Boxed, since most data have none.
    copy: OnceLock<Option<Box<Arrangement>>>,
}

/// Elements in an order that the key describes.
#[derive(Debug)]
struct Arrangement {
    key: ArrangementKey,
    elements: AlignedFloats,
}

/// Numbers from the start of a cache line on. A vector of 512 bits then lies in one line: on a Xeon, a row times 192 KB of
/// panels took 1.4 µs, and 2.8 µs where vectors lay across lines.
#[derive(Debug)]
struct AlignedFloats {
    /// The numbers, behind less than a line.
    memory: Vec<f32>,
    start: usize,
}

impl AlignedFloats {
    /// Bytes and numbers of a line.
    const BYTES: usize = 64;
    const LINE: usize = Self::BYTES / size_of::<f32>();

    /// Moves numbers within their memory, of which a copy would take twice as much.
    fn of(mut numbers: Vec<f32>) -> Self {
        let len = numbers.len();
        numbers.reserve_exact(Self::LINE - 1);
        let start = numbers.as_ptr().align_offset(Self::BYTES).min(Self::LINE - 1);
        numbers.resize(start + len, 0.0);
        numbers.copy_within(..len, start);
        Self { memory: numbers, start }
    }

    fn numbers(&self) -> &[f32] {
        &self.memory[self.start..]
    }
}

/// The order of a copy, and the matrix of the data that was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrangementKey {
    pub order: ArrangementOrder,
    /// The position of the first element.
    pub start: i64,
    /// The distances between rows and between columns.
    pub strides: [i64; 2],
    pub size: [usize; 2],
}

/// The order of the elements of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrangementOrder {
    /// Panels of so many columns.
    Panels(usize),
    /// The transforms of filters, by points.
    WinogradFilters,
    /// The elements of windows, each with all channels.
    ChannelsLast,
}

impl ArrangedCopy {
    /// Returns the copy in the order of `key`, which `make` makes of `len` elements. Returns `None` at the first read, and
    /// where there is a copy in another order or no room.
    pub fn get(
        &self,
        key: ArrangementKey,
        len: usize,
        make: impl FnOnce() -> Vec<f32>,
    ) -> Option<&[f32]> {
        if !self.was_read.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.copy.get_or_init(|| {
            let bytes = size_of::<f32>() * len;
            let before = KEPT.fetch_add(bytes, Ordering::Relaxed);
            if before.saturating_add(bytes) > BUDGET {
                KEPT.fetch_sub(bytes, Ordering::Relaxed);
                return None;
            }
            let mut elements = make();
            elements.resize(len, 0.0);
            Some(Box::new(Arrangement { key, elements: AlignedFloats::of(elements) }))
        });
        self.kept(key)
    }

    /// Returns the copy in the order of `key`, if it was made.
    pub fn kept(&self, key: ArrangementKey) -> Option<&[f32]> {
        let made = self.copy.get()?.as_ref();
        made.filter(|made| made.key == key).map(|made| made.elements.numbers())
    }
}

/// The clone of a buffer has no copy yet.
impl Clone for ArrangedCopy {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Arrangement {
    fn drop(&mut self) {
        KEPT.fetch_sub(size_of_val(self.elements.numbers()), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::HostBuffer;

    #[test]
    fn a_copy_is_made_at_the_second_read_and_lives_until_the_data_change() {
        let mut data = HostBuffer::from_slice(&[1.0_f32, 2.0, 3.0]);
        let order = ArrangementOrder::Panels(16);
        let key = ArrangementKey { order, start: 0, strides: [1, 2], size: [2, 1] };
        let other = ArrangementKey { order: ArrangementOrder::WinogradFilters, ..key };
        let get = |data: &HostBuffer, key, at: f32| {
            data.arranged().get(key, 2, || vec![at; 2]).map(<[f32]>::to_vec)
        };
        assert_eq!(get(&data, key, 1.0), None);
        assert_eq!(data.arranged().kept(key), None);
        assert_eq!(get(&data, key, 2.0), Some(vec![2.0; 2]));
        assert_eq!(get(&data, key, 3.0), Some(vec![2.0; 2]), "it was kept");
        assert_eq!(data.arranged().kept(key), Some(&[2.0; 2][..]));
        assert_eq!(data.arranged().kept(other), None);
        assert_eq!(get(&data, other, 3.0), None, "the copy has another order");
        assert_eq!(get(&data.clone(), key, 4.0), None, "a clone has none yet");
        data.write(&[4.0_f32, 5.0, 6.0]);
        assert_eq!(get(&data, key, 5.0), None);
        assert_eq!(get(&data, key, 6.0), Some(vec![6.0; 2]));
        let huge = data.clone();
        let make = || unreachable!("there is no room");
        assert!((0..2).all(|_| huge.arranged().get(key, BUDGET / 2, make).is_none()));
    }
}
