//! The time to plan a thousand operations and to print the plan, for one side and where both are weighed.

use std::time::Duration;

use onetrip::{Curve, Device, DeviceProfile, Explanation, GpuCommandBatch, Result, Tensor};

use crate::timing::{Budget, median};
use crate::workload::numbers;

pub const OPS: usize = 1000;
const SIDE: usize = 8;
const BUDGET: Budget = Budget { least: 9, most: 101, time: Duration::from_secs(1) };

/// Records so many operations on rows of [`SIDE`] numbers.
type Record = fn(Tensor<'_, f32>);

const GRAPHS: [(&str, Record); 5] = [
    ("a chain of elementwise operations", |x| elementwise(x, OPS)),
    ("layers of a product, a bias and a relu", mlp),
    ("residual blocks of a product, a sum, a relu, a softmax and a sum", blocks),
    ("at random, elementwise", |x| at_random(x, 0)),
    ("at random, one in ten a product or a softmax", |x| at_random(x, 100)),
];

/// Prints what each graph takes on the CPU, on the GPU, and on a device that weighs both: planned, and planned and printed.
pub async fn print() -> Result<()> {
    println!("| {OPS} operations, ms | cpu | printed | gpu | printed | both weighed | printed |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let both = Device::builder().without_cache().without_learning().with_profile(divided());
    // Without a GPU there is nothing to weigh.
    let both = both.auto().await.ok().filter(Device::is_gpu);
    let devices = [Some(Device::cpu()), Device::gpu().await.ok(), both];
    let uses: [fn(Explanation); 2] = [drop, |plan| drop(plan.to_string())];
    for (name, record) in GRAPHS {
        print!("| {name}");
        for (device, used) in devices.iter().flat_map(|device| uses.map(|used| (device, used))) {
            match device {
                Some(device) => {
                    print!(" | {:.2}", 1e3 * time(device, record, used).await?.as_secs_f64());
                }
                None => print!(" | –"),
            }
        }
        println!(" |");
    }
    Ok(())
}

/// The median time of planning and of the use of the plan: nothing is compiled or run.
pub async fn time(device: &Device, record: Record, used: fn(Explanation)) -> Result<Duration> {
    let batch = GpuCommandBatch::new(device);
    let x = batch.upload_shaped(numbers(SIDE * SIDE), [SIDE, SIDE]);
    record(x);
    median(BUDGET, async || batch.explain().map(used)).await
}

/// Sides that are slow at different things, so that all of a planner's ways to share out steps are tried.
fn divided() -> DeviceProfile {
    let mut profile = Device::cpu().profile();
    for side in [&mut profile.cpu, &mut profile.gpu] {
        side.memory = Curve::flat(1e7);
        side.arithmetic = Curve::flat(1e6);
        (side.row, side.reduce) = (Curve::flat(1e6), Curve::flat(1e6));
        (side.product, side.thin_product) = (Curve::flat(1e6), Curve::flat(1e6));
    }
    profile.gpu.row = Curve::flat(1e4);
    (profile.cpu.product, profile.cpu.thin_product) = (Curve::flat(1e4), Curve::flat(1e4));
    profile
}

/// Records a chain of so many operations.
pub fn elementwise(x: Tensor<'_, f32>, count: usize) {
    let mut y = x;
    for at in 0..count {
        y = match at % 4 {
            0 => y.scale(1.25),
            1 => y + x,
            2 => y.relu(),
            _ => y * x,
        };
    }
}

fn mlp(mut x: Tensor<'_, f32>) {
    let w = x.batch().upload_shaped(numbers(SIDE * SIDE), [SIDE, SIDE]);
    let b = x.batch().upload(numbers(SIDE));
    for _ in 0..OPS / 3 {
        x = (x.matmul(w) + b).relu();
    }
}

pub fn blocks(mut x: Tensor<'_, f32>) {
    let w = x.batch().upload_shaped(numbers(SIDE * SIDE), [SIDE, SIDE]);
    let b = x.batch().upload(numbers(SIDE));
    for _ in 0..OPS / 5 {
        x = (x.matmul(w) + b).relu().softmax(1) + x;
    }
}

/// Operations on any of the last 16 results, of which so many in a thousand are products or softmaxes.
fn at_random(x: Tensor<'_, f32>, dear: u32) {
    let w = x.batch().upload_shaped(numbers(SIDE * SIDE), [SIDE, SIDE]);
    let mut known = vec![x];
    let mut state = 1_u32;
    let mut below = |end: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % end
    };
    for _ in 0..OPS {
        let oldest = known.len().saturating_sub(16);
        let mut any = || known[oldest + below((known.len() - oldest) as u32) as usize];
        let (a, b) = (any(), any());
        let made = match (below(1000), below(4)) {
            (at, way) if at < dear && way < 2 => a.matmul(w),
            (at, _) if at < dear => a.softmax(1),
            (_, 0) => a + b,
            (_, 1) => a - b,
            (_, 2) => a * b,
            _ => a.tanh(),
        };
        known.push(made);
    }
}
