//! Work whose floor is memory: maps, movements, reductions and rows of many shapes.

use std::error::Error;

use onetrip::{GpuCommandBatch, Tensor, f16};

use self::Exact::{Element, Row, Sum};
use super::reference::{Number, Random, check};
use super::{Bench, Work};

const MANY: usize = 8192 * 8192;

/// Records a case over one operand.
type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;

/// The exact value of an element of the result.
enum Exact {
    /// A function of all of the operand and of the element's position.
    Element(fn(&[f32], usize) -> f64),
    /// A function of the element of the operand and of its row along an axis.
    Row(usize, fn(f64, &[f64]) -> f64),
    /// The sum along an axis.
    Sum(usize),
}

/// A name, the shape of the operand, what is recorded, the allowed error, and what is exact.
type Case = (&'static str, &'static [usize], Record, f64, Exact);

const CASES: &[Case] = &[
    ("relu_64e6", &[64_000_000], |x| x.relu(), 0.0, Element(|x, i| f64::from(x[i]).max(0.0))),
    (
        "add_row_16384x4095",
        &[16_384, 4_095],
        |x| x + x.slice(&[(0..1, 1), (0..4_095, 1)]),
        1e-6,
        Element(|x, i| f64::from(x[i]) + f64::from(x[i % 4_095])),
    ),
    (
        "add_column_8192",
        &[8_192, 8_192],
        |x| x + x.slice(&[(0..8_192, 1), (0..1, 1)]),
        1e-6,
        Element(|x, i| f64::from(x[i]) + f64::from(x[i / 8_192 * 8_192])),
    ),
    (
        "transpose_8192",
        &[8_192, 8_192],
        |x| x.transpose(),
        0.0,
        Element(|x, i| f64::from(x[i % 8_192 * 8_192 + i / 8_192])),
    ),
    (
        "transpose_8191_relu",
        &[8_191, 8_191],
        |x| x.transpose().relu(),
        0.0,
        Element(|x, i| f64::from(x[i % 8_191 * 8_191 + i / 8_191]).max(0.0)),
    ),
    (
        "permute_32x1024x16x64_heads",
        &[32, 1_024, 16, 64],
        |x| x.permute([0, 2, 1, 3]),
        0.0,
        Element(|x, i| {
            let (d, s, h, n) = (i % 64, i / 64 % 1_024, i / 65_536 % 16, i >> 20);
            f64::from(x[((n * 1_024 + s) * 16 + h) * 64 + d])
        }),
    ),
    (
        "permute_256x512x512_last_first",
        &[256, 512, 512],
        |x| x.permute([2, 0, 1]),
        0.0,
        Element(|x, i| f64::from(x[(i & 0x1ffff) * 512 + (i >> 17)])),
    ),
    ("sum_axis0_8192", &[8_192, 8_192], |x| x.sum(0), 1e-4, Sum(0)),
    ("sum_axis1_8192", &[8_192, 8_192], |x| x.sum(1), 1e-4, Sum(1)),
    ("sum_8e6x8", &[8_000_000, 8], |x| x.sum(1), 1e-5, Sum(1)),
    ("sum_axis0_8e6x8", &[8_000_000, 8], |x| x.sum(0), 1e-2, Sum(0)),
    ("softmax_1e6x8", &[1_000_000, 8], |x| x.softmax(-1), 1e-6, Row(1, softmax)),
    ("softmax_1e6x33", &[1_000_000, 33], |x| x.softmax(-1), 1e-6, Row(1, softmax)),
    ("softmax_8x1e6", &[8, 1_000_000], |x| x.softmax(-1), 1e-6, Row(1, softmax)),
    ("softmax_512x100003", &[512, 100_003], |x| x.softmax(-1), 1e-6, Row(1, softmax)),
    ("softmax_axis0_4096", &[4_096, 4_096], |x| x.softmax(0), 1e-6, Row(0, softmax)),
    ("softmax_4095", &[4_095, 4_095], |x| x.softmax(-1), 1e-6, Row(1, softmax)),
    (
        "log_softmax_4096",
        &[4_096, 4_096],
        |x| x.log_softmax(-1),
        1e-5,
        Row(1, |x, row| softmax(x, row).ln()),
    ),
    ("rms_norm_4096", &[4_096, 4_096], |x| x.rms_norm(-1, 1e-5), 1e-5, Row(1, rms_norm)),
    (
        "layer_norm_16384x1024",
        &[16_384, 1_024],
        |x| x.layer_norm(-1, 1e-5),
        1e-5,
        Row(1, layer_norm),
    ),
];

fn softmax(x: f64, row: &[f64]) -> f64 {
    x.exp() / row.iter().map(|x| x.exp()).sum::<f64>()
}

fn rms_norm(x: f64, row: &[f64]) -> f64 {
    x / (row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64 + 1e-5).sqrt()
}

fn layer_norm(x: f64, row: &[f64]) -> f64 {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    let centred: Vec<f64> = row.iter().map(|x| x - mean).collect();
    rms_norm(x - mean, &centred)
}

impl Exact {
    /// Element `i` of the result for the operand `x` of `shape`.
    fn at(&self, x: &[f32], shape: &[usize], i: usize) -> f64 {
        let row = |axis: usize, outer: usize, inner: usize| {
            let stride: usize = shape[axis + 1..].iter().product();
            let at = move |k: usize| (outer * shape[axis] + k) * stride + inner;
            (0..shape[axis]).map(move |k| f64::from(x[at(k)]))
        };
        let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
        match *self {
            Self::Element(element) => element(x, i),
            Self::Sum(axis) => row(axis, i / stride(axis), i % stride(axis)).sum(),
            Self::Row(axis, of) => {
                let (outer, inner) = (i / stride(axis) / shape[axis], i % stride(axis));
                of(x[i].into(), &row(axis, outer, inner).collect::<Vec<_>>())
            }
        }
    }
}

impl Bench {
    /// All of them.
    pub async fn memory(&self) -> Result<(), Box<dyn Error>> {
        let data = Random::new(8).floats(MANY);
        for (name, shape, record, tolerance, exact) in
            CASES.iter().filter(|case| self.wants(case.0))
        {
            let x = &data[..shape.iter().product()];
            let on_x = self.resident(x, shape)?;
            let batch = GpuCommandBatch::new(&self.device);
            let results = record(batch.bind(&on_x)).shape().map_or(0, |shape| shape.elements());
            let bytes = Work::Bytes(4.0 * (x.len() + results) as f64);
            let y = self.case(name, bytes, |b| record(b.bind(&on_x))).await?;
            check(name, y, *tolerance, |i| exact.at(x, shape, i))?;
        }
        self.argmax(&data[..64_000_000]).await?;
        self.dot(&data).await?;
        self.half(&data[..64_000_000]).await
    }

    async fn argmax(&self, x: &[f32]) -> Result<(), Box<dyn Error>> {
        let on_x = self.resident(x, &[x.len()])?;
        let bytes = Work::Bytes(4.0 * x.len() as f64);
        let at = self.case("argmax_64e6", bytes, |b| b.bind(&on_x).argmax(0)).await?;
        let greatest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = x.iter().position(|&x| x == greatest).unwrap_or_default();
        check("argmax", at.map(|at| vec![at[0] as f32 - first as f32]), 0.0, |_| 0.0)
    }

    async fn dot(&self, data: &[f32]) -> Result<(), Box<dyn Error>> {
        let (x, y) = data.split_at(data.len() / 2);
        let (on_x, on_y) = (self.resident(x, &[x.len()])?, self.resident(y, &[y.len()])?);
        let bytes = Work::Bytes(4.0 * data.len() as f64);
        let sum = self.case("dot_33e6", bytes, |b| b.bind(&on_x).dot(b.bind(&on_y))).await?;
        let exact: f64 = x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
        check("dot", sum, 1e-6 * (x.len() as f64).sqrt(), |_| exact)
    }

    async fn half(&self, data: &[f32]) -> Result<(), Box<dyn Error>> {
        let x: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
        let on_x = self.resident(&x, &[x.len()])?;
        let bytes = Work::Bytes(4.0 * x.len() as f64);
        let y = self.case("relu_f16_64e6", bytes, |b| b.bind(&on_x).relu()).await?;
        let y = y.map(|y| y.into_iter().map(|y| y.float() as f32).collect());
        check("relu_f16", y, 0.0, |i| x[i].float().max(0.0))?;

        let on_x = self.resident(&x[..4_096 * 4_096], &[4_096, 4_096])?;
        let bytes = Work::Bytes(4.0 * 4_096.0 * 4_096.0);
        let y = self.case("softmax_f16_4096", bytes, |b| b.bind(&on_x).softmax(-1)).await?;
        let y = y.map(|y| y.into_iter().map(|y| y.float() as f32).collect());
        check("softmax_f16", y, 1e-6, |i| {
            let row = x[i / 4_096 * 4_096..][..4_096].iter();
            x[i].float().exp() / row.map(|x| x.float().exp()).sum::<f64>()
        })
    }
}
