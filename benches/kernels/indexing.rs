//! Look-ups and additions by random indices.

use std::error::Error;

use onetrip::{GpuCommandBatch, Tensor};

use super::reference::{Random, check};
use super::{Bench, Work};

/// Records a case over a table and indices.
type Record = for<'b> fn(Tensor<'b, f32>, Tensor<'b, u32>) -> Tensor<'b, f32>;

/// The element of a table that an element of the result is.
type Place = fn(&[u32], usize) -> usize;

/// A name, the shapes of the table and of the indices, the axis that they are of, what is recorded, and what is exact.
type Case = (&'static str, [usize; 2], &'static [usize], usize, Record, Place);

const CASES: &[Case] = &[
    (
        "embedding_50257x1024_32x512",
        [50_257, 1024],
        &[32, 512],
        0,
        |x, i| x.embedding(i),
        |at, i| at[i / 1024] as usize * 1024 + i % 1024,
    ),
    (
        "embedding_500000x128_500000",
        [500_000, 128],
        &[500_000],
        0,
        |x, i| x.embedding(i),
        |at, i| at[i / 128] as usize * 128 + i % 128,
    ),
    (
        "gather_columns_8192x8192_8192",
        [8192, 8192],
        &[8192],
        1,
        |x, i| x.gather(i, 1),
        |at, i| i / 8192 * 8192 + at[i % 8192] as usize,
    ),
    (
        "take_along_axis1_16384x4096",
        [16_384, 4096],
        &[16_384, 4096],
        1,
        |x, i| x.take_along_axis(i, 1),
        |at, i| i / 4096 * 4096 + at[i] as usize,
    ),
    (
        "take_along_axis0_8192x4096",
        [8192, 4096],
        &[8192, 4096],
        0,
        |x, i| x.take_along_axis(i, 0),
        |at, i| at[i] as usize * 4096 + i % 4096,
    ),
];

/// Tensors, and how many updates are added to rows of them.
const SCATTERS: &[(&str, [usize; 2], usize)] = &[
    ("scatter_add_50257x1024_16384", [50_257, 1024], 16_384),
    ("scatter_add_1e6_1e7", [1_000_000, 1], 10_000_000),
];

/// Integers from numbers in −1..1, all below `below`.
fn indices(unit: &[f32], below: usize) -> Vec<u32> {
    let scaled = |u: f32| ((f64::from(u) * 0.5 + 0.5) * below as f64) as u32;
    unit.iter().map(|&u| scaled(u).min(below as u32 - 1)).collect()
}

impl Bench {
    /// All of them.
    pub async fn indexing(&self) -> Result<(), Box<dyn Error>> {
        self.look_ups().await?;
        self.scatters().await
    }

    async fn look_ups(&self) -> Result<(), Box<dyn Error>> {
        for &(name, table, shape, axis, record, place) in CASES {
            if !self.wants(name) {
                continue;
            }
            let mut random = Random::new(12);
            let x = random.floats(table[0] * table[1]);
            let indices = indices(&random.floats(shape.iter().product()), table[axis]);
            let (on_x, on_i) = (self.resident(&x, &table)?, self.resident(&indices, shape)?);
            // Elements looked up are read and written once, indices are read once.
            let batch = GpuCommandBatch::new(&self.device);
            let y = record(batch.bind(&on_x), batch.bind(&on_i));
            let results = y.shape().map_or(0, |shape| shape.elements());
            let bytes = Work::Bytes(4.0 * (2 * results + indices.len()) as f64);
            let y = self.case(name, bytes, |b| record(b.bind(&on_x), b.bind(&on_i)));
            check(name, y.await?, 0.0, |i| f64::from(x[place(&indices, i)]))?;
        }
        Ok(())
    }

    /// Updates added to rows of a tensor, several to some of them.
    async fn scatters(&self) -> Result<(), Box<dyn Error>> {
        for &(name, [rows, width], count) in SCATTERS.iter().filter(|case| self.wants(case.0)) {
            let mut random = Random::new(13);
            let (x, updates) = (random.floats(rows * width), random.floats(count * width));
            let places = indices(&random.floats(count), rows);
            let on_x = self.resident(&x, &[rows, width])?;
            let on_updates = self.resident(&updates, &[count, width])?;
            let on_places = self.resident(&places, &[count])?;
            // The tensor is read and written once, updates and places are read once.
            let bytes = Work::Bytes(4.0 * ((2 * rows + count) * width + count) as f64);
            let y = self.case(name, bytes, |b| {
                b.bind(&on_x).scatter_add(b.bind(&on_places), b.bind(&on_updates), 0)
            });
            check(name, y.await?, 1e-4, |i| {
                let (row, column) = (i / width, i % width);
                let here = places.iter().enumerate().filter(|&(_, &place)| place as usize == row);
                let added: f64 = here.map(|(at, _)| f64::from(updates[at * width + column])).sum();
                f64::from(x[i]) + added
            })?;
        }
        Ok(())
    }
}
