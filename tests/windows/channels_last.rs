//! Chains of convolutions over small images, which the cores store channels last.

use onetrip::{BufferId, Conv2d, Device, GpuCommandBatch, Tensor};

use crate::convolution::{Sizes, convolved};
use crate::sliding::depthwise;
use crate::{Rng, near};

/// Inverted residual blocks: a depthwise convolution between two of 1 × 1 filters.
#[derive(Clone, Debug)]
struct InvertedResiduals {
    /// Images, channels, height and width.
    x: [usize; 4],
    /// Channels between the convolutions of each block.
    wide: usize,
    windows: Conv2d,
    /// Height and width of windows.
    size: [usize; 2],
    blocks: usize,
    /// The step of the windows of the first and the last block. Others have that of `windows`.
    outer_step: usize,
    after: After,
}

/// The operations after the convolutions of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Nothing,
    /// A bias for each channel and a clip.
    BiasAndClip,
    /// An operation that is no chain of sums, products and bounds.
    Sigmoid,
}

/// The filters of a block, and the bias of its wide channels.
struct Filters {
    expand: Vec<f32>,
    bias: Vec<f32>,
    windows: Vec<f32>,
    project: Vec<f32>,
}

impl InvertedResiduals {
    /// The depthwise convolution of a block.
    fn conv(&self, block: usize) -> Conv2d {
        let windows = Conv2d { groups: self.wide, ..self.windows };
        let stride = [self.outer_step; 2];
        if [0, self.blocks - 1].contains(&block) { Conv2d { stride, ..windows } } else { windows }
    }

    fn filters(&self, rng: &mut Rng) -> Vec<Filters> {
        let &Self { x: [_, channels, ..], wide, size: [height, width], .. } = self;
        let one = |_| Filters {
            expand: rng.numbers(wide * channels),
            bias: rng.numbers(wide),
            windows: rng.numbers(wide * height * width),
            project: rng.numbers(channels * wide),
        };
        (0..self.blocks).map(one).collect()
    }

    fn finished(&self, sum: f64, bias: f32) -> f32 {
        (match self.after {
            After::Nothing => sum,
            After::BiasAndClip => (sum + f64::from(bias)).clamp(-1.0, 1.5),
            After::Sigmoid => 1.0 / (1.0 + (-sum).exp()),
        }) as f32
    }

    /// The results in double precision but for what is between convolutions, and the largest sum of sizes.
    fn expected(&self, x: &[f32], all: &[Filters]) -> (Vec<f64>, f64) {
        let mut sizes = Sizes { x: self.x, filters: self.wide, window: [1, 1] };
        let (mut x, mut largest) = (x.to_vec(), 1.0_f64);
        for (block, filters) in all.iter().enumerate() {
            let conv = self.conv(block);
            let image = sizes.x;
            let sums = convolved(&Conv2d::default(), &sizes, &x, &filters.expand, &[]);
            largest = sums.iter().fold(largest, |most, sum| most.max(sum.1));
            let pixels = image[2] * image[3];
            let wide = sums
                .iter()
                .enumerate()
                .map(|(at, sum)| self.finished(sum.0, filters.bias[at / pixels % self.wide]));
            let (wide, dims): (Vec<f32>, _) =
                (wide.collect(), [image[0], self.wide, image[2], image[3]]);
            let (sums, most) = depthwise(dims, 1, self.size, &conv, &wide, &filters.windows);
            largest = largest.max(most);
            let pixels = sums.len() / (image[0] * self.wide);
            let narrow = sums
                .iter()
                .enumerate()
                .map(|(at, &sum)| self.finished(sum, filters.bias[at / pixels % self.wide]));
            let narrow: Vec<f32> = narrow.collect();
            let count = |axis: usize| {
                let reach = (self.size[axis] - 1) * conv.dilation[axis] + 1;
                let (before, after) = conv.padding[axis];
                (image[2 + axis] + before + after - reach) / conv.stride[axis] + 1
            };
            let dims = [image[0], self.wide, count(0), count(1)];
            let project = Sizes { x: dims, filters: image[1], window: [1, 1] };
            let sums = convolved(&Conv2d::default(), &project, &narrow, &filters.project, &[]);
            largest = sums.iter().fold(largest, |most, sum| most.max(sum.1));
            let has_skip = image[2..] == dims[2..];
            let skip = |at: usize| if has_skip { f64::from(x[at]) } else { 0.0 };
            let out = sums.iter().enumerate().map(|(at, sum)| (sum.0 + skip(at)) as f32);
            x = out.collect();
            sizes.x = [image[0], image[1], dims[2], dims[3]];
        }
        (x.into_iter().map(f64::from).collect(), largest)
    }

    fn follow<'b>(&self, x: Tensor<'b, f32>, bias: Tensor<'b, f32>) -> Tensor<'b, f32> {
        match self.after {
            After::Nothing => x,
            After::BiasAndClip => (x + bias).clip(-1.0, 1.5),
            After::Sigmoid => x.sigmoid(),
        }
    }

    fn record<'b>(&self, x: Tensor<'b, f32>, all: &[Filters]) -> Tensor<'b, f32> {
        let batch = x.batch();
        let &Self { x: [_, channels, ..], wide, size: [height, width], .. } = self;
        let plain = Conv2d::default();
        all.iter().enumerate().fold(x, |x, (block, filters)| {
            let bias = batch.upload_shaped(&filters.bias, [wide, 1, 1]);
            let expand = batch.upload_shaped(&filters.expand, [wide, channels, 1, 1]);
            let y = self.follow(x.conv2d(expand, None, plain), bias);
            let windows = batch.upload_shaped(&filters.windows, [wide, 1, height, width]);
            let y = self.follow(y.conv2d(windows, None, self.conv(block)), bias);
            let project = batch.upload_shaped(&filters.project, [channels, wide, 1, 1]);
            let y = y.conv2d(project, None, plain);
            if batch.shape(x) == batch.shape(y) { x + y } else { y }
        })
    }

    /// Checks the results, and how many values are stored channels last.
    async fn check(&self, rng: &mut Rng, stored: usize) {
        let filters = self.filters(rng);
        let x = rng.numbers(self.x.iter().product());
        let batch = GpuCommandBatch::new(&Device::cpu());
        let result = self.record(batch.upload_shaped(&x, self.x).relu(), &filters);
        result.download();
        let text = format!("{:#}", batch.explain().expect("a plan"));
        assert_eq!(text.matches("B, channels last").count(), stored, "{self:?}\n{text}");
        batch.execute().await.expect("a run");
        let x: Vec<f32> = x.iter().map(|x| x.max(0.0)).collect();
        let (want, largest) = self.expected(&x, &filters);
        let got = batch.read(result).await.expect("what was downloaded");
        near(&format!("{self:?}"), &got, &want, 2e-6 * largest);
    }
}

fn windows(stride: usize, padding: usize) -> Conv2d {
    Conv2d { stride: [stride; 2], padding: [(padding, padding); 2], ..Conv2d::default() }
}

#[tokio::test]
async fn chains_over_images_of_any_size() {
    let mut rng = Rng(41);
    for after in [After::Nothing, After::BiasAndClip, After::Sigmoid] {
        for size in [3, 5, 2] {
            let chain = InvertedResiduals {
                x: [1 + rng.below(3), 2 + rng.below(9), 3 + rng.below(12), 2 + rng.below(6)],
                wide: 32 + rng.below(60),
                windows: windows(1, size / 2),
                size: [size; 2],
                blocks: 1,
                outer_step: 1,
                after,
            };
            chain.check(&mut rng, 2).await;
        }
    }
}

#[tokio::test]
async fn blocks_one_after_the_other_keep_their_order() {
    let mut rng = Rng(42);
    let chain = InvertedResiduals {
        x: [2, 24, 17, 14],
        wide: 48,
        windows: windows(1, 1),
        size: [3; 2],
        blocks: 3,
        outer_step: 2,
        after: After::BiasAndClip,
    };
    // Two values of each block, and those between two blocks.
    chain.check(&mut rng, 8).await;
    // Values whose sum is a result keep their order.
    InvertedResiduals { x: [2, 24, 9, 7], outer_step: 1, ..chain }.check(&mut rng, 6).await;
}

#[tokio::test]
async fn windows_of_other_steps_dilations_and_borders() {
    let mut rng = Rng(43);
    let uneven = Conv2d { padding: [(0, 2), (3, 1)], ..Conv2d::default() };
    let dilated = Conv2d { dilation: [2, 1], ..windows(1, 2) };
    for conv in [uneven, dilated, windows(2, 1), windows(3, 4)] {
        for size in [[3, 3], [2, 4], [5, 3]] {
            let x = [2, 3, 8, 5];
            let (blocks, outer_step, after) = (1, conv.stride[0], After::BiasAndClip);
            let chain =
                InvertedResiduals { x, wide: 33, windows: conv, size, blocks, outer_step, after };
            chain.check(&mut rng, 2).await;
        }
    }
}

#[tokio::test]
async fn images_that_gain_nothing_or_leave_the_run_keep_their_order() {
    let mut rng = Rng(44);
    let (windows, size, after) = (windows(1, 1), [3; 2], After::BiasAndClip);
    let few = InvertedResiduals {
        x: [1, 4, 7, 7],
        wide: 16,
        windows,
        size,
        blocks: 1,
        outer_step: 1,
        after,
    };
    few.check(&mut rng, 0).await;
    InvertedResiduals { x: [1, 4, 20, 18], wide: 40, ..few }.check(&mut rng, 0).await;

    let batch = GpuCommandBatch::new(&Device::cpu());
    let mut upload =
        |dims: [usize; 4]| batch.upload_shaped(rng.numbers(dims.iter().product()), dims);
    let [x, expand] = [upload([1, 4, 7, 7]), upload([40, 4, 1, 1])];
    let [filters, project] = [upload([40, 1, 3, 3]), upload([4, 40, 1, 1])];
    let wide = x.conv2d(expand, None, Conv2d::default());
    let y = wide.conv2d(filters, None, Conv2d { groups: 40, ..windows });
    let y = y.conv2d(project, None, Conv2d::default());
    y.download();
    let stored = |batch: &GpuCommandBatch| {
        batch.explain().expect("a plan").to_string().matches("B, channels last").count()
    };
    assert_eq!(stored(&batch), 2);
    wide.download();
    assert_eq!(stored(&batch), 0, "the wide images are a result");
}

/// The results of `record` over a wide image, between two products of `filters`. If the wide image is a result itself, it
/// keeps its layout.
async fn narrowed(
    device: &Device,
    numbers: &[Vec<f32>; 3],
    is_kept: bool,
    record: impl Fn(&GpuCommandBatch, Tensor<'_, f32>) -> BufferId<f32>,
) -> Vec<f32> {
    const WIDE: usize = 40;
    let batch = GpuCommandBatch::new(device);
    let [x, expand, project] = numbers;
    let x = batch.upload_shaped(x, [2, 4, 6, 5]);
    let wide = x.conv2d(batch.upload_shaped(expand, [WIDE, 4, 1, 1]), None, Conv2d::default());
    let windows = record(&batch, wide);
    let project = batch.upload_shaped(project, [4, WIDE, 1, 1]);
    let result = batch.conv2d(windows, project, None, Conv2d::default());
    result.download();
    if is_kept {
        wide.download();
    }
    let text = batch.explain().expect("a plan").to_string();
    assert_eq!(text.contains("B, channels last"), !is_kept, "{text}");
    batch.execute().await.expect("a run");
    batch.read(result).await.expect("what was downloaded")
}

fn of_any_layout(rng: &mut Rng) -> [Vec<f32>; 3] {
    [2 * 4 * 30, 40 * 4, 4 * 40].map(|count| rng.numbers(count))
}

#[tokio::test]
async fn views_of_one_resident_are_kept_as_filters_of_their_own() {
    let (device, mut rng) = (Device::cpu(), Rng(45));
    let numbers = of_any_layout(&mut rng);
    let data = rng.numbers(40 * 4 * 3);
    // Rows 0 and 1 of the filters, rows 0 and 2, and all rows.
    for rows in [(0..2, 1), (0..3, 2), (0..4, 1)] {
        let filters = device.resident(&data, [40, 1, 4, 3]).expect("a shape that fits");
        let record = |batch: &GpuCommandBatch, wide: Tensor<'_, f32>| {
            let ranges = [(0..40, 1), (0..1, 1), rows.clone(), (0..3, 1)];
            let conv = Conv2d { groups: 40, ..windows(1, 1) };
            let one = wide.conv2d(batch.bind(&filters).slice(ranges), None, conv);
            // Another view of the same resident, in the same run.
            let ranges = [(0..40, 1), (0..1, 1), (0..rows.0.end, rows.1), (0..3, 1)];
            let ranges = ranges.map(|(range, step)| (range, -step));
            let other = wide.conv2d(batch.bind(&filters).slice(ranges), None, conv);
            (one + other * 0.5).id()
        };
        let want = narrowed(&device, &numbers, true, record).await;
        let want: Vec<f64> = want.into_iter().map(f64::from).collect();
        for _ in 0..3 {
            let got = narrowed(&device, &numbers, false, record).await;
            near(&format!("rows {rows:?}"), &got, &want, 1e-4);
        }
    }
}

#[tokio::test]
async fn windows_along_the_width_may_come_first() {
    let (device, mut rng) = (Device::cpu(), Rng(46));
    let numbers = of_any_layout(&mut rng);
    let filters = rng.numbers(40 * 3 * 2);
    let record = |batch: &GpuCommandBatch, wide: Tensor<'_, f32>| {
        let windows = wide.unfold(3, 2, 1).unfold(2, 3, 1);
        let filters = batch.upload_shaped(&filters, [1, 40, 1, 1, 2, 3]);
        (windows * filters).sum([4, 5]).id()
    };
    let want = narrowed(&device, &numbers, true, record).await;
    let want: Vec<f64> = want.into_iter().map(f64::from).collect();
    near("windows", &narrowed(&device, &numbers, false, record).await, &want, 1e-4);
}
