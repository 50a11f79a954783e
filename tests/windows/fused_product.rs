//! Depthwise windows over the results of a 1 × 1 convolution, which the cores compute block by block without storing them.

use onetrip::{Conv2d, Device, GpuCommandBatch};

use crate::sliding::depthwise;
use crate::{Rng, near};

#[derive(Debug)]
struct Block {
    /// Images, channels, height and width.
    x: [usize; 4],
    /// Channels of the widened images.
    wide: usize,
    /// Elements of a window along either axis, the step and the border.
    size: usize,
    step: usize,
    padding: [(usize, usize); 2],
}

/// The numbers of a block.
struct Numbers {
    x: Vec<f32>,
    expand: Vec<f32>,
    bias: Vec<f32>,
    filters: Vec<f32>,
}

impl Block {
    fn conv(&self) -> Conv2d {
        let &Self { wide, step, padding, .. } = self;
        Conv2d { groups: wide, stride: [step; 2], padding, ..Conv2d::default() }
    }

    fn numbers(&self, rng: &mut Rng) -> Numbers {
        let &Self { x, wide, size, .. } = self;
        Numbers {
            x: rng.numbers(x.iter().product()),
            expand: rng.numbers(wide * x[1]),
            bias: rng.numbers(wide),
            filters: rng.numbers(wide * size * size),
        }
    }

    /// The results, and the sum of sizes, in double precision but for the widened images.
    fn expected(&self, numbers: &Numbers) -> (Vec<f64>, f64) {
        let &Self { x: [images, channels, height, width], wide, size, .. } = self;
        let n = height * width;
        let widened = |at: usize| {
            let (image, filter, pixel) = (at / n / wide, at / n % wide, at % n);
            let term = |c: usize| {
                let x = numbers.x[(image * channels + c) * n + pixel].max(0.0);
                f64::from(numbers.expand[filter * channels + c]) * f64::from(x)
            };
            let sum: f64 = (0..channels).map(term).sum();
            (sum + f64::from(numbers.bias[filter])).clamp(-0.5, 2.0) as f32
        };
        let widened: Vec<f32> = (0..images * wide * n).map(widened).collect();
        let dims = [images, wide, height, width];
        depthwise(dims, 1, [size; 2], &self.conv(), &widened, &numbers.filters)
    }

    /// The results of a run. The widened images are stored if they are a result themselves.
    async fn results(&self, numbers: &Numbers, stored: bool) -> Vec<f32> {
        let &Self { x: dims @ [_, channels, ..], wide, size, .. } = self;
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(&numbers.x, dims).relu();
        let expand = batch.upload_shaped(&numbers.expand, [wide, channels, 1, 1]);
        let widened = batch.conv2d(x, expand, batch.upload(&numbers.bias), Conv2d::default());
        let widened = widened.clip(-0.5, 2.0);
        if stored {
            widened.download();
        }
        let filters = batch.upload_shaped(&numbers.filters, [wide, 1, size, size]);
        // A step that follows may use the memory of the block's input again.
        let windows = widened.conv2d(filters, None, self.conv()).relu();
        let result = batch.concat(&[windows, windows], 0);
        batch.download(result);
        let program = batch.compile().await.expect("a program");
        let profile = program.profile(()).await.expect("a run");
        let mut products = profile.kernels.iter().filter(|kernel| kernel.form == "matmul");
        let is_timed = products.any(|product| product.time.is_some());
        assert_eq!(is_timed, stored, "{self:?}: a product that is not stored has no time");
        batch.execute().await.expect("a run");
        batch.read(result).await.expect("what was downloaded")
    }
}

async fn check(block: Block, rng: &mut Rng) {
    let numbers = block.numbers(rng);
    let joined = block.results(&numbers, false).await;
    let stored = block.results(&numbers, true).await;
    let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert!(bits(&joined) == bits(&stored), "{block:?}: results differ where images are stored");
    let (want, largest) = block.expected(&numbers);
    let want: Vec<f64> = want.into_iter().map(|x| x.max(0.0)).collect();
    near(&format!("{block:?}"), &joined, &[&want[..], &want].concat(), 1e-6 * largest);
}

#[tokio::test]
async fn images_of_any_size_are_widened_where_windows_read_them() {
    let mut rng = Rng(31);
    for _ in 0..10 {
        let block = Block {
            x: [1 + rng.below(3), 1 + rng.below(5), 45 + rng.below(12), 45 + rng.below(30)],
            wide: 65 + rng.below(20),
            size: [3, 5][rng.below(2)],
            step: 1 + rng.below(2),
            padding: [0; 2].map(|_| (rng.below(3), rng.below(3))),
        };
        check(block, &mut rng).await;
    }
}

#[tokio::test]
async fn large_images_are_widened_in_bands() {
    let mut rng = Rng(32);
    for (step, above) in [(1, 1), (2, 0), (2, 2)] {
        let padding = [(above, 1), (1, 2)];
        let block = Block { x: [2, 2, 83, 75], wide: 60, size: 3, step, padding };
        check(block, &mut rng).await;
    }
}

#[tokio::test]
async fn last_columns_of_deep_products_are_the_same_in_any_block() {
    let mut rng = Rng(33);
    // One pixel follows the last whole panel of 16 or 48.
    for (x, wide) in [([1, 66, 25, 73], 80), ([1, 65, 83, 75], 60)] {
        check(Block { x, wide, size: 3, step: 2, padding: [(1, 1); 2] }, &mut rng).await;
    }
}
