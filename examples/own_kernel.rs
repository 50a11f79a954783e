//! A kernel of one's own in WGSL, with the same function for the CPU: Conway's game of life on a torus, many
//! generations in one trip.
//!
//! Run with `cargo run --release --example own_kernel`; `ONETRIP_BACKEND=cpu` or `=gpu` overrides the choice.

use onetrip::{Device, GpuCommandBatch, Result, Tensor, Wgsl};

const SIDE: usize = 16;
/// A glider is where it was, shifted by one cell along both axes, after four.
const GENERATIONS: usize = 12;

const LIFE: &str = "
const SIDE = 16u;

@group(0) @binding(0) var<storage, read> cells: array<u32>;
@group(0) @binding(1) var<storage, read_write> next: array<u32>;

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if at.x >= SIDE || at.y >= SIDE { return; }
    var alive = 0u;
    for (var k = 0u; k < 9u; k++) {
        let row = (at.y + k / 3u + SIDE - 1u) % SIDE;
        alive += cells[row * SIDE + (at.x + k % 3u + SIDE - 1u) % SIDE];
    }
    let cell = at.y * SIDE + at.x;
    next[cell] = u32(alive == 3u || (alive == 4u && cells[cell] == 1u));
}";

fn life(cells: &[u32], next: &mut [u32]) {
    for (cell, next) in next.iter_mut().enumerate() {
        let (row, column) = (cell / SIDE, cell % SIDE);
        let near = |k: usize| {
            let row = (row + k / 3 + SIDE - 1) % SIDE;
            cells[row * SIDE + (column + k % 3 + SIDE - 1) % SIDE]
        };
        let alive: u32 = (0..9).map(near).sum();
        *next = u32::from(alive == 3 || alive == 4 && cells[cell] == 1);
    }
}

fn generation<'b>(batch: &'b GpuCommandBatch, cells: Tensor<'b, u32>) -> Tensor<'b, u32> {
    let groups = SIDE.div_ceil(8) as u32;
    let kernel = Wgsl::new(LIFE).input(cells).groups([groups, groups, 1]).on_cpu(life);
    batch.wgsl(kernel, [SIDE, SIDE])
}

#[tokio::main]
async fn main() -> Result<()> {
    let device = Device::auto().await?;
    let mut cells = vec![0_u32; SIDE * SIDE];
    for (row, column) in [(0, 1), (1, 2), (2, 0), (2, 1), (2, 2)] {
        cells[row * SIDE + column] = 1;
    }
    let batch = GpuCommandBatch::new(&device);
    let first = batch.upload_shaped(&cells, [SIDE, SIDE]);
    let last = (0..GENERATIONS).fold(first, |cells, _| generation(&batch, cells));
    // Kernels of one's own stand among other operations.
    let shift = GENERATIONS / 4;
    let was = batch.slice(first, [0..3, 0..3]);
    let is = batch.slice(last, [shift..shift + 3, shift..shift + 3]);
    let same = batch.eq(was, is).all(..);
    batch.download(last);
    batch.download(same);
    batch.execute().await?;
    for row in batch.read(last).await?.chunks(SIDE) {
        println!("{}", row.iter().map(|&cell| [" .", " #"][cell as usize]).collect::<String>());
    }
    println!(
        "after {GENERATIONS} generations the glider is the same: {}",
        batch.read(same).await?[0]
    );
    println!("{}", batch.stats());
    Ok(())
}
