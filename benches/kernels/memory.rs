//! Work whose floor is memory: maps, movements, reductions and rows of many shapes.

use std::error::Error;

use onetrip::{Tensor, f16};

use super::reference::{Number, Random, check};
use super::{Bench, Work};

const MANY: usize = 8192 * 8192;

/// Records a case over one operand.
type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;

/// What is computed of a tensor of a shape.
struct Case {
    name: &'static str,
    shape: &'static [usize],
    /// Elements of the result.
    results: usize,
    record: Record,
    /// Allowed error, and one element of the result from all of the operand.
    tolerance: f64,
    exact: fn(&[f32], usize) -> f64,
}

const CASES: &[Case] = &[
    Case {
        name: "relu_64e6",
        shape: &[64_000_000],
        results: 64_000_000,
        record: |x| x.relu(),
        tolerance: 0.0,
        exact: |x, i| f64::from(x[i]).max(0.0),
    },
    Case {
        name: "add_row_16384x4095",
        shape: &[16_384, 4_095],
        results: 16_384 * 4_095,
        record: |x| x + x.slice(&[(0..1, 1), (0..4_095, 1)]),
        tolerance: 1e-6,
        exact: |x, i| f64::from(x[i]) + f64::from(x[i % 4_095]),
    },
    Case {
        name: "add_column_8192",
        shape: &[8_192, 8_192],
        results: MANY,
        record: |x| x + x.slice(&[(0..8_192, 1), (0..1, 1)]),
        tolerance: 1e-6,
        exact: |x, i| f64::from(x[i]) + f64::from(x[i / 8_192 * 8_192]),
    },
    Case {
        name: "transpose_8192",
        shape: &[8_192, 8_192],
        results: MANY,
        record: |x| x.transpose(),
        tolerance: 0.0,
        exact: |x, i| f64::from(x[i % 8_192 * 8_192 + i / 8_192]),
    },
    Case {
        name: "transpose_8191_relu",
        shape: &[8_191, 8_191],
        results: 8_191 * 8_191,
        record: |x| x.transpose().relu(),
        tolerance: 0.0,
        exact: |x, i| f64::from(x[i % 8_191 * 8_191 + i / 8_191]).max(0.0),
    },
    Case {
        name: "permute_32x1024x16x64_heads",
        shape: &[32, 1_024, 16, 64],
        results: 1 << 25,
        record: |x| x.permute([0, 2, 1, 3]),
        tolerance: 0.0,
        exact: |x, i| {
            let (d, s, h, n) = (i % 64, i / 64 % 1_024, i / 65_536 % 16, i >> 20);
            f64::from(x[((n * 1_024 + s) * 16 + h) * 64 + d])
        },
    },
    Case {
        name: "permute_256x512x512_last_first",
        shape: &[256, 512, 512],
        results: 1 << 26,
        record: |x| x.permute([2, 0, 1]),
        tolerance: 0.0,
        exact: |x, i| f64::from(x[(i & 0x1ffff) * 512 + (i >> 17)]),
    },
    Case {
        name: "sum_axis0_8192",
        shape: &[8_192, 8_192],
        results: 8_192,
        record: |x| x.sum(0),
        tolerance: 1e-4,
        exact: |x, i| (0..8_192).map(|k| f64::from(x[k * 8_192 + i])).sum(),
    },
    Case {
        name: "sum_axis1_8192",
        shape: &[8_192, 8_192],
        results: 8_192,
        record: |x| x.sum(1),
        tolerance: 1e-4,
        exact: |x, i| x[i * 8_192..][..8_192].iter().map(|&x| f64::from(x)).sum(),
    },
    Case {
        name: "sum_8e6x8",
        shape: &[8_000_000, 8],
        results: 8_000_000,
        record: |x| x.sum(1),
        tolerance: 1e-5,
        exact: |x, i| x[i * 8..][..8].iter().map(|&x| f64::from(x)).sum(),
    },
    Case {
        name: "sum_axis0_8e6x8",
        shape: &[8_000_000, 8],
        results: 8,
        record: |x| x.sum(0),
        tolerance: 1e-2,
        exact: |x, i| (0..8_000_000).map(|k| f64::from(x[k * 8 + i])).sum(),
    },
    Case {
        name: "softmax_1e6x8",
        shape: &[1_000_000, 8],
        results: 8_000_000,
        record: |x| x.softmax(-1),
        tolerance: 1e-6,
        exact: |x, i| softmax(x, i, i / 8 * 8, 8, 1),
    },
    Case {
        name: "softmax_1e6x33",
        shape: &[1_000_000, 33],
        results: 33_000_000,
        record: |x| x.softmax(-1),
        tolerance: 1e-6,
        exact: |x, i| softmax(x, i, i / 33 * 33, 33, 1),
    },
    Case {
        name: "softmax_8x1e6",
        shape: &[8, 1_000_000],
        results: 8_000_000,
        record: |x| x.softmax(-1),
        tolerance: 1e-6,
        exact: |x, i| softmax(x, i, i / 1_000_000 * 1_000_000, 1_000_000, 1),
    },
    Case {
        name: "softmax_512x100003",
        shape: &[512, 100_003],
        results: 512 * 100_003,
        record: |x| x.softmax(-1),
        tolerance: 1e-6,
        exact: |x, i| softmax(x, i, i / 100_003 * 100_003, 100_003, 1),
    },
    Case {
        name: "softmax_axis0_4096",
        shape: &[4_096, 4_096],
        results: 4_096 * 4_096,
        record: |x| x.softmax(0),
        tolerance: 1e-6,
        exact: |x, i| softmax(x, i, i % 4_096, 4_096, 4_096),
    },
    Case {
        name: "softmax_4095",
        shape: &[4_095, 4_095],
        results: 4_095 * 4_095,
        record: |x| x.softmax(-1),
        tolerance: 1e-6,
        exact: |x, i| softmax(x, i, i / 4_095 * 4_095, 4_095, 1),
    },
    Case {
        name: "log_softmax_4096",
        shape: &[4_096, 4_096],
        results: 4_096 * 4_096,
        record: |x| x.log_softmax(-1),
        tolerance: 1e-5,
        exact: |x, i| softmax(x, i, i / 4_096 * 4_096, 4_096, 1).ln(),
    },
    Case {
        name: "rms_norm_4096",
        shape: &[4_096, 4_096],
        results: 4_096 * 4_096,
        record: |x| x.rms_norm(-1, 1e-5),
        tolerance: 1e-5,
        exact: |x, i| {
            let row = x[i / 4_096 * 4_096..][..4_096].iter();
            let square = row.map(|&x| f64::from(x).powi(2)).sum::<f64>() / 4_096.0;
            f64::from(x[i]) / (square + 1e-5).sqrt()
        },
    },
    Case {
        name: "layer_norm_16384x1024",
        shape: &[16_384, 1_024],
        results: 1 << 24,
        record: |x| x.layer_norm(-1, 1e-5),
        tolerance: 1e-5,
        exact: |x, i| {
            let row = || x[i / 1_024 * 1_024..][..1_024].iter().map(|&x| f64::from(x));
            let mean = row().sum::<f64>() / 1_024.0;
            let variance = row().map(|x| (x - mean).powi(2)).sum::<f64>() / 1_024.0;
            (f64::from(x[i]) - mean) / (variance + 1e-5).sqrt()
        },
    },
];

/// Element `i` of the softmax along the `len` elements from `start` on, `stride` apart.
fn softmax(x: &[f32], i: usize, start: usize, len: usize, stride: usize) -> f64 {
    let row = (0..len).map(|k| f64::from(x[start + k * stride]).exp());
    f64::from(x[i]).exp() / row.sum::<f64>()
}

impl Bench {
    /// All of them.
    pub async fn memory(&self) -> Result<(), Box<dyn Error>> {
        let data = Random::new(8).floats(MANY);
        for case in CASES.iter().filter(|case| self.wants(case.name)) {
            let elements: usize = case.shape.iter().product();
            let x = &data[..elements];
            let on_x = self.resident(x, case.shape)?;
            let bytes = Work::Bytes(4.0 * (elements + case.results) as f64);
            let y = self.case(case.name, bytes, |b| (case.record)(b.bind(&on_x))).await?;
            check(case.name, y, case.tolerance, |i| (case.exact)(x, i))?;
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
