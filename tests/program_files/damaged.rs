//! Files with random damage: each loads or is an error, in bounded memory.

use std::time::{Duration, Instant};

use onetrip::{Device, Program, Weights};

use super::changed::without_checksums;
use super::{decoder, numbers};

/// Files tried in a usual run, and in CI. `ONETRIP_DAMAGED_FILES=1000000` sets another number.
const USUAL: u64 = 3_000;
const IN_CI: u64 = 100_000;
/// A run of less than a million files ends after this time.
const LONGEST: Duration = Duration::from_secs(30);

/// A small generator of random numbers (xorshift64*: Vigna, 2016).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

/// Files of many kinds of operations, without checksums.
async fn files() -> Vec<Vec<u8>> {
    let device = Device::cpu();
    let layers = onetrip::GpuCommandBatch::new(&device);
    let x = layers.input::<f32>("x", [2, 3, 8]);
    let table = layers.upload_shaped(&numbers(1, 12), [3, 4]);
    let ids = layers.upload(&[2_i32, 0, 1]);
    let windows = x.unfold(2, 3, 2).permute([2, 0, 1, 3]).amax(-1);
    let rows = x.layer_norm(-1, 1e-5).slice([0..2, 0..3, 1..5]) + table.gather(ids, 0);
    let (best, at) = rows.top_k(2, -1, onetrip::SortOrder::Descending);
    let joined =
        layers.concat([best, best.flip(0)], 2).pad([(0, 1), (1, 0), (0, 0)], f32::INFINITY);
    let drawn =
        layers.random_normal::<f32>([4, 2], 7, 1).matmul(layers.random_uniform([2, 4], 7, 2));
    let classes =
        drawn.cross_entropy(layers.upload(&[0_i32, 3, 1, 2]), onetrip::ClassLoss::default());
    layers.outputs((
        windows,
        joined.cumsum(1),
        at,
        classes,
        layers.arange(0_i32, 9, 2).cast::<f32>(),
    ));
    let bytes = layers.to_bytes().await.expect("a program saves");
    let files = [bytes, decoder(&device).0.to_bytes().await.expect("a program saves")];
    // A checksum would end a load before the graph is read.
    files.iter().map(|file| without_checksums(file)).collect()
}

/// Damages a file: bits, numbers of its header, copies of its parts, its length.
fn damage(file: &[u8], rng: &mut Rng) -> Vec<u8> {
    const NUMBERS: [&str; 9] = [
        "0",
        "1",
        "7",
        "-1",
        "4294967295",
        "18446744073709551615",
        "1e308",
        "1152921504606846976",
        "null",
    ];
    let mut bytes = file.to_vec();
    let header = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize + 8;
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len().min(header));
        match rng.below(8) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes.truncate(1 + rng.below(bytes.len())),
            2 => bytes[rng.below(8)] = rng.below(256) as u8,
            3 => {
                let part = bytes[at..(at + rng.below(40)).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                // Another number in place of one of the document.
                let digits = |byte: &u8| byte.is_ascii_digit();
                let Some(start) = bytes[at..].iter().position(digits).map(|more| at + more) else {
                    continue;
                };
                let len = bytes[start..].iter().take_while(|byte| digits(byte)).count();
                let number = NUMBERS[rng.below(NUMBERS.len())].bytes();
                bytes.splice(start..start + len, number);
            }
        }
        if bytes.len() < 9 {
            break;
        }
    }
    // Most damage keeps the length of the header true, so that it is read on.
    if rng.below(4) > 0 && bytes.len() > file.len() / 2 && bytes.len() >= 8 {
        let len = (header + bytes.len()).saturating_sub(file.len() + 8) as u64;
        bytes[..8].copy_from_slice(&len.to_le_bytes());
    }
    bytes
}

#[tokio::test]
async fn damaged_files_are_errors_or_programs() {
    let usual = if std::env::var_os("CI").is_some() { IN_CI } else { USUAL };
    let count = std::env::var("ONETRIP_DAMAGED_FILES").ok().and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(usual);
    let (files, device, begun) = (files().await, Device::cpu(), Instant::now());
    let (mut rng, mut loaded, mut tried) = (Rng(0x9e37_79b9), 0, 0);
    for file in &files {
        Program::load_bytes(&device, file.clone()).await.unwrap();
    }
    while tried < count && (count >= 1_000_000 || begun.elapsed() < LONGEST) {
        let damaged = damage(&files[rng.below(files.len())], &mut rng);
        tried += 1;
        let Ok(file) = Weights::from_bytes(damaged) else { continue };
        if Program::describe(&file).is_err() {
            continue;
        }
        loaded += u64::from(Program::load_with(&device, &file, Default::default()).await.is_ok());
    }
    println!("{loaded} of {tried} damaged files are programs still, in {:?}", begun.elapsed());
    assert!(loaded > tried / 100, "{loaded} of {tried}: the damage is found before the graph is");
}

#[tokio::test]
async fn each_shorter_file_is_an_error() {
    for file in files().await {
        for len in 0..file.len() {
            let cut = Weights::from_bytes(file[..len].to_vec());
            let program = match cut {
                Ok(cut) => Program::load_with(&Device::cpu(), &cut, Default::default()).await,
                Err(error) => Err(error),
            };
            assert!(program.is_err(), "{len} of {} bytes", file.len());
        }
    }
}
