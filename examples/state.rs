//! State that stays on the device from run to run: `cargo run --release --example state`.

use onetrip::{Device, GpuCommandBatch, Result};

/// Numbers in (−1, 1) that look random.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_769) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / (1u64 << 31) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// h ← tanh(x·W + h·U): a recurrent cell that is given a word at a time. Only words go up.
async fn recurrent_cell(device: &Device) -> Result<()> {
    let (inputs, hidden) = (16, 32);
    let weight = |seed, rows| numbers(seed, rows * hidden).iter().map(|w| w / 8.0).collect();
    let [w, u]: [Vec<f32>; 2] = [weight(1, inputs), weight(2, hidden)];
    let w = device.resident(&w, [inputs, hidden])?;
    let u = device.resident(&u, [hidden, hidden])?;
    let state = device.resident(&vec![0.0_f32; hidden], [1, hidden])?;
    let b = GpuCommandBatch::new(device);
    let x = b.input::<f32>("x", [1, inputs]);
    let (w, u, h) = (b.bind(&w), b.bind(&u), b.bind(&state));
    let (from_input, from_state) = (b.matmul(x, w), b.matmul(h, u));
    let h = b.add(from_input, from_state).tanh();
    b.update(&state, h);
    let cell = b.compile().await?;
    for word in 0..20 {
        cell.run([(x, numbers(word, inputs))]).await?;
    }
    println!("recurrent cell after 20 words: {:.4?} …", &state.read().await?[..3]);
    Ok(())
}

/// v ← A·v / ‖A·v‖: the largest eigenvalue of a symmetric matrix.
async fn power_iteration(device: &Device) -> Result<()> {
    let side = 64;
    let noise = numbers(3, side * side);
    let at = |row: usize, column: usize| {
        // Symmetric, with one direction that stands out.
        let shared = noise[row * side + column] + noise[column * side + row];
        shared + if row == column { 4.0 } else { 1.0 }
    };
    let matrix: Vec<f32> = (0..side * side).map(|i| at(i / side, i % side)).collect();
    let matrix = device.resident(&matrix, [side, side])?;
    let vector = device.resident(&vec![1.0_f32; side], [side, 1])?;
    let b = GpuCommandBatch::new(device);
    let (a, v) = (b.bind(&matrix), b.bind(&vector));
    let next = b.matmul(a, v);
    let norm = b.square(next).sum(..).sqrt();
    let unit = b.div(next, norm);
    b.update(&vector, unit);
    b.download(norm);
    let step = b.compile().await?;
    let (mut before, mut steps) = (0.0, 0);
    loop {
        let eigenvalue = step.run(()).await?.read(norm).await?[0];
        steps += 1;
        if (eigenvalue - before).abs() < 1e-5 * eigenvalue || steps == 200 {
            println!("power iteration: {eigenvalue:.4} after {steps} steps");
            return Ok(());
        }
        before = eigenvalue;
    }
}

/// w ← w − η·Xᵀ(X·w − y)·2/n: stochastic gradient descent for y = X·w, a batch of rows at a time.
async fn regression(device: &Device) -> Result<()> {
    let (rows, features) = (32, 8);
    let truth = numbers(5, features);
    let weights = device.resident(&vec![0.0_f32; features], [features, 1])?;
    let b = GpuCommandBatch::new(device);
    let x = b.input::<f32>("x", [rows, features]);
    let y = b.input::<f32>("y", [rows, 1]);
    let w = b.bind(&weights);
    let error = b.matmul(x, w).sub(y);
    let step = b.transpose(x).matmul(error).scale(0.2 * 2.0 / rows as f32);
    let next = b.sub(w, step);
    b.update(&weights, next);
    let train = b.compile().await?;
    for round in 0..300 {
        let data = numbers(100 + round, rows * features);
        let dot = |row: &[f32]| row.iter().zip(&truth).map(|(x, w)| x * w).sum::<f32>();
        let targets: Vec<f32> = data.chunks(features).map(dot).collect();
        train.run([(x, &data), (y, &targets)]).await?;
    }
    let learned = weights.read().await?;
    let worst = learned.iter().zip(&truth).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("regression: weights known to {worst:.1e} after 300 steps");
    assert!(worst < 1e-4, "{learned:?} for {truth:?}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let device = Device::auto().await?;
    println!("{}", device.info());
    recurrent_cell(&device).await?;
    power_iteration(&device).await?;
    regression(&device).await
}
