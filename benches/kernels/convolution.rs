//! Convolutions and what stands around them. A chain of several, each on what the one before made, shows what one takes
//! on the device, apart from what a call does.

use std::error::Error;

use onetrip::{
    Conv2d, Element, GpuCommandBatch, Numeric, Pool2d, Precision, Resident, Tensor, f16,
};

use crate::reference::{Number, Random, check};
use crate::{Bench, Work};

/// Batch, channels (as many as filters), height and width.
const IMAGE: [usize; 4] = [8, 64, 56, 56];
const CHAIN: usize = 16;

/// A layer whose result has the shape of its argument.
struct Layer {
    name: &'static str,
    size: usize,
    groups: usize,
    precision: Precision,
}

impl Layer {
    fn conv(&self) -> Conv2d {
        Conv2d {
            padding: [(self.size / 2, self.size / 2); 2],
            groups: self.groups,
            precision: self.precision,
            ..Conv2d::default()
        }
    }

    fn w(&self) -> [usize; 4] {
        [IMAGE[1], IMAGE[1] / self.groups, self.size, self.size]
    }

    fn flops(&self) -> f64 {
        2.0 * IMAGE.iter().product::<usize>() as f64
            * self.w()[1..].iter().product::<usize>() as f64
    }

    /// The sum at element `at`.
    fn exact<T: Number>(&self, x: &[T], w: &[T], at: usize) -> f64 {
        let [_, channels, height, width] = IMAGE;
        let (image, f, r, c) = (
            at / (channels * height * width),
            at / (height * width) % channels,
            at / width % height,
            at % width,
        );
        let seen = channels / self.groups;
        let first = f / (channels / self.groups) * seen;
        let half = self.size / 2;
        let mut sum = 0.0;
        for s in 0..seen {
            for (i, j) in (0..self.size).flat_map(|i| (0..self.size).map(move |j| (i, j))) {
                let (y, z) = ((r + i).wrapping_sub(half), (c + j).wrapping_sub(half));
                if y < height && z < width {
                    let x = x[((image * channels + first + s) * height + y) * width + z].float();
                    sum += x * w[((f * seen + s) * self.size + i) * self.size + j].float();
                }
            }
        }
        sum
    }
}

impl Bench {
    pub async fn convolutions(&self) -> Result<(), Box<dyn Error>> {
        let layer = |name, size, groups, precision| Layer { name, size, groups, precision };
        self.layers::<f32>(&layer("conv2d_3x3", 3, 1, Precision::Exact), 1e-4).await?;
        self.layers::<f32>(&layer("conv2d_1x1", 1, 1, Precision::Exact), 1e-4).await?;
        self.layers::<f32>(&layer("conv2d_depthwise_3x3", 3, IMAGE[1], Precision::Exact), 1e-5)
            .await?;
        self.layers::<f32>(&layer("conv2d_3x3_split", 3, 1, Precision::Split), 1e-4).await?;
        self.layers::<f16>(&layer("conv2d_3x3_f16", 3, 1, Precision::Exact), 2e-2).await?;
        self.first_layer().await?;
        self.pooling().await
    }

    /// One layer by itself, and a chain of them.
    async fn layers<T: Number>(&self, layer: &Layer, tolerance: f64) -> Result<(), Box<dyn Error>> {
        let mut random = Random::new(21);
        let x: Vec<T> = random.numbers(IMAGE.iter().product());
        let count = layer.w().iter().product();
        let scale = 1.0 / (count as f32 / IMAGE[1] as f32).sqrt();
        let w: Vec<T> = random.floats(count).into_iter().map(|w| T::number(w * scale)).collect();
        let (on_x, on_w) = (self.resident(&x, &IMAGE)?, self.resident(&w, &layer.w())?);
        let name = format!("{}_8x64x56x56", layer.name);
        let y = self.case(&name, Work::Flops(layer.flops()), |b| chain(b, layer, &on_x, &on_w, 1));
        let y = y.await?.map(|y| y.into_iter().map(|y| y.float() as f32).collect());
        check(&name, y, tolerance, |at| layer.exact(&x, &w, at))?;
        let flops = Work::Flops(layer.flops() * CHAIN as f64);
        let name = format!("{name}_times_{CHAIN}");
        self.case(&name, flops, |b| chain(b, layer, &on_x, &on_w, CHAIN)).await?;
        Ok(())
    }

    /// 7 × 7 filters over three channels, every other place.
    async fn first_layer(&self) -> Result<(), Box<dyn Error>> {
        let mut random = Random::new(22);
        let on_x = self.resident(&random.floats(8 * 3 * 224 * 224), &[8, 3, 224, 224])?;
        let on_w = self.resident(&random.floats(64 * 3 * 49), &[64, 3, 7, 7])?;
        let flops = 2.0 * (8 * 64 * 112 * 112 * 3 * 49) as f64;
        let conv = Conv2d { stride: [2, 2], padding: [(3, 3); 2], ..Conv2d::default() };
        self.case("conv2d_7x7_stride_2_8x3x224x224", Work::Flops(flops), |b| {
            b.bind(&on_x).conv2d(b.bind(&on_w), None, conv)
        })
        .await?;
        Ok(())
    }

    async fn pooling(&self) -> Result<(), Box<dyn Error>> {
        let on_x =
            self.resident(&Random::new(23).floats(8 * 64 * 448 * 448), &[8, 64, 448, 448])?;
        let bytes = |share: f64| Work::Bytes(4.0 * (8 * 64 * 448 * 448) as f64 * share);
        let pool = Pool2d { stride: Some([2, 2]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
        self.case("max_pool2d_3x3_8x64x448x448", bytes(1.25), |b| b.bind(&on_x).max_pool2d(pool))
            .await?;
        self.case("global_avg_pool_8x64x448x448", bytes(1.0), |b| b.bind(&on_x).global_avg_pool())
            .await?;
        Ok(())
    }
}

fn chain<'b, T: Element + Numeric>(
    b: &'b GpuCommandBatch,
    layer: &Layer,
    x: &Resident<T>,
    w: &Resident<T>,
    count: usize,
) -> Tensor<'b, T> {
    let (mut y, w) = (b.bind(x), b.bind(w));
    for _ in 0..count {
        y = y.conv2d(w, None, layer.conv());
    }
    y
}
