//! The fingerprint of a graph: a hash of everything that a plan is made from.

use std::fmt;
use std::hash::{Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};
use slotmap::SecondaryMap;

use super::{Graph, NodeId};

/// The version of the hash: it counts changes of the hashed data and of their order.
const VERSION: u32 = 3;

/// A 128-bit hash of a graph's structure: operations with their parameters, element types, shapes, edges, downloads and
/// keeps. It excludes data and places of recording.
///
/// One version of the crate gives a graph the same hash in every process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(pub u128);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Fingerprint {
    /// The highest first.
    pub fn words(self) -> [u32; 4] {
        [96, 64, 32, 0].map(|shift| (self.0 >> shift) as u32)
    }

    pub fn from_words(words: [u32; 4]) -> Self {
        Self(words.into_iter().fold(0, |all, word| all << 32 | u128::from(word)))
    }
}

impl Graph {
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = Stable::default();
        (env!("CARGO_PKG_VERSION"), VERSION, self.len()).hash(&mut hasher);
        let mut positions: SecondaryMap<NodeId, usize> = SecondaryMap::with_capacity(self.len());
        for (position, (id, node)) in self.iter().enumerate() {
            positions.insert(id, position);
            (&node.op, &node.ty, node.inputs.len()).hash(&mut hasher);
            node.inputs.iter().for_each(|&input| positions[input].hash(&mut hasher));
        }
        for outputs in [&self.downloads, &self.keeps, &self.updates] {
            outputs.len().hash(&mut hasher);
            outputs.iter().for_each(|&output| positions[output].hash(&mut hasher));
        }
        Fingerprint(hasher.finish128())
    }
}

/// A hasher whose result depends neither on the order of bytes in a word nor on the size of a pointer. It gathers small
/// values: SipHash takes longer for each call than for its bytes.
struct Stable {
    hasher: SipHasher13,
    gathered: [u8; GATHERED],
    filled: usize,
}

const GATHERED: usize = 256;

impl Default for Stable {
    fn default() -> Self {
        Self { hasher: SipHasher13::new(), gathered: [0; GATHERED], filled: 0 }
    }
}

impl Stable {
    fn finish128(mut self) -> u128 {
        self.flush();
        self.hasher.finish128().as_u128()
    }

    fn flush(&mut self) {
        self.hasher.write(&self.gathered[..self.filled]);
        self.filled = 0;
    }

    fn word<const N: usize>(&mut self, bytes: [u8; N]) {
        self.gather(&bytes);
    }

    /// Adds at most as many bytes as are gathered.
    #[inline]
    fn gather(&mut self, bytes: &[u8]) {
        if self.filled + bytes.len() > GATHERED {
            self.flush();
        }
        self.gathered[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }
}

impl Hasher for Stable {
    fn finish(&self) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(&self.gathered[..self.filled]);
        hasher.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        if bytes.len() <= GATHERED {
            return self.gather(bytes);
        }
        self.flush();
        self.hasher.write(bytes);
    }

    fn write_u8(&mut self, value: u8) {
        self.word([value]);
    }

    fn write_u16(&mut self, value: u16) {
        self.word(value.to_le_bytes());
    }

    fn write_u32(&mut self, value: u32) {
        self.word(value.to_le_bytes());
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value.to_le_bytes());
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as i64 as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip128::{Hasher128, SipHasher13};

    use super::{GATHERED, Stable};
    use crate::{Device, GpuCommandBatch, Tensor};

    fn hash(record: impl FnOnce(&GpuCommandBatch)) -> u128 {
        let batch = GpuCommandBatch::new(&Device::cpu());
        record(&batch);
        batch.recorded().graph.fingerprint().0
    }

    fn x(b: &GpuCommandBatch) -> Tensor<'_, f32> {
        b.upload_shaped(&[1.0_f32; 6], [2, 3])
    }

    fn sum(b: &GpuCommandBatch) {
        x(b).scale(2.0).sum(1);
    }

    #[test]
    fn gathered_values_have_the_hash_of_their_bytes() {
        for long in [0, 1, GATHERED - 1, GATHERED, GATHERED + 1, 1000] {
            let (mut stable, mut bytes) = (Stable::default(), Vec::new());
            for value in 0..100_u64 {
                stable.write_u64(value);
                bytes.extend(value.to_le_bytes());
                stable.write_u8(7);
                bytes.push(7);
                if value == 50 {
                    stable.write(&vec![9; long]);
                    bytes.resize(bytes.len() + long, 9);
                }
            }
            let mut plain = SipHasher13::new();
            plain.write(&bytes);
            assert_eq!(stable.finish(), plain.finish());
            assert_eq!(stable.finish128(), plain.finish128().as_u128());
        }
    }

    #[test]
    fn graphs_of_equal_structure_have_one_hash_whatever_their_data() {
        let other_data = hash(|b| {
            let x = b.upload_shaped(&[7.0_f32, 0.0, -1.0, f32::NAN, 2.0, 3.0], [2, 3]);
            x.scale(2.0).sum(1);
        });
        assert_eq!(hash(sum), other_data);
    }

    #[test]
    fn each_difference_of_structure_shows() {
        let hashes = [
            hash(sum),
            hash(|_| {}),
            hash(|b| _ = b.upload_shaped(&[1.0_f32; 6], [3, 2]).scale(2.0).sum(1)),
            hash(|b| _ = x(b).scale(2.5).sum(1)),
            hash(|b| _ = x(b).scale(2.0).sum(0)),
            hash(|b| _ = x(b).scale(2.0).sum([0, 1])),
            hash(|b| {
                let y = x(b);
                b.download(y.scale(2.0));
                y.sum(1);
            }),
            hash(|b| b.download(x(b).scale(2.0).sum(1))),
            hash(|b| _ = b.keep(x(b).scale(2.0).sum(1))),
            hash(|b| {
                let (y, z) = (x(b), x(b));
                b.sub(y, z);
            }),
            hash(|b| {
                let (y, z) = (x(b), x(b));
                b.sub(z, y);
            }),
        ];
        let distinct: std::collections::HashSet<u128> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len(), "{hashes:x?}");
    }

    /// The hash that another process computes for the same graph. Changes with the version of the crate and of the
    /// hash, and with the list of operations.
    #[test]
    fn the_hash_of_a_graph_is_the_same_in_every_process() {
        if std::env::var_os("ONETRIP_TEST_FINGERPRINT").is_some() {
            println!("fingerprint {:032x}", hash(sum));
            return;
        }
        let name = "graph::hash::tests::the_hash_of_a_graph_is_the_same_in_every_process";
        let other = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env("ONETRIP_TEST_FINGERPRINT", "1")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&other.stdout).into_owned();
        assert!(printed.contains(&format!("fingerprint {:032x}", hash(sum))), "{printed}");
    }
}
