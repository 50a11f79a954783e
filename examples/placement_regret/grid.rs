//! The graphs: families of work that people do, from sizes where nothing pays to sizes where only a GPU does.

use onetrip::{BufferId, Device, GpuCommandBatch, Resident, Result};

/// One graph of the grid.
pub struct Case {
    pub family: &'static str,
    /// What the plot has along its axis: elements or the side of a product.
    pub size: f64,
    pub work: Work,
}

/// What a graph does.
#[derive(Clone, Copy)]
pub enum Work {
    /// `ops` operations on `n` elements; every second one transcendental if `dear`.
    Chain {
        ops: usize,
        n: usize,
        dear: bool,
        resident: bool,
    },
    /// `[m, k] · [k, n]`
    Product {
        m: usize,
        n: usize,
        k: usize,
        resident: bool,
    },
    /// Dense layers with relu between them.
    Mlp {
        batch: usize,
        layers: &'static [usize],
        resident: bool,
    },
    Softmax {
        rows: usize,
        columns: usize,
        resident: bool,
    },
    LayerNorm {
        rows: usize,
        columns: usize,
        resident: bool,
    },
    Sum {
        n: usize,
        resident: bool,
    },
    SumRows {
        rows: usize,
        columns: usize,
    },
    /// softmax(q·kᵀ)·v
    Attention {
        heads: usize,
        length: usize,
        width: usize,
    },
    /// Cheap work on `n` elements beside a square product of `side`, which do not meet.
    Apart {
        n: usize,
        side: usize,
    },
    /// Cheap work on `n` elements, cut down to a square of `side` that is multiplied with itself.
    Funnel {
        n: usize,
        side: usize,
    },
}

/// A recorded graph, with what it holds on to.
pub struct Recorded {
    pub batch: GpuCommandBatch,
    _kept: Vec<Resident<f32>>,
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |family, size: usize, work| cases.push(Case { family, size: size as f64, work });
    let sizes = [100, 1000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000, 100_000_000];
    for n in sizes {
        for ops in [1, 2, 4, 8, 16] {
            add("chain", n, Work::Chain { ops, n, dear: false, resident: false });
        }
        for ops in [1, 4, 16] {
            add("dear chain", n, Work::Chain { ops, n, dear: true, resident: false });
            add("resident chain", n, Work::Chain { ops, n, dear: false, resident: true });
        }
    }
    for n in [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096] {
        for resident in [false, true] {
            add("product", n, Work::Product { m: n, n, k: n, resident });
        }
    }
    for m in [1, 4, 8, 32, 64] {
        for n in [64, 256, 1024, 2048, 4096] {
            for resident in [false, true] {
                add("thin product", n, Work::Product { m, n, k: n, resident });
            }
        }
    }
    let networks: [&[usize]; 3] = [&[64, 64, 10], &[784, 512, 256, 10], &[1024, 1024, 1024, 1024]];
    for layers in networks {
        for batch in [1, 8, 64, 256, 1024] {
            for resident in [false, true] {
                add("mlp", batch, Work::Mlp { batch, layers, resident });
            }
        }
    }
    for rows in [4, 16, 64, 256, 512, 1024, 2048, 4096, 16_384] {
        for resident in [false, true] {
            let columns = 512;
            add("softmax", rows * columns, Work::Softmax { rows, columns, resident });
            add("layer norm", rows * columns, Work::LayerNorm { rows, columns, resident });
        }
    }
    for n in [1000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000] {
        for resident in [false, true] {
            add("reduction", n, Work::Sum { n, resident });
        }
        add("reduction", n, Work::SumRows { rows: n / 100, columns: 100 });
    }
    for (heads, length) in
        [(1, 32), (1, 128), (4, 64), (4, 128), (4, 256), (8, 256), (8, 512), (16, 512), (16, 1024)]
    {
        add("attention", heads * length, Work::Attention { heads, length, width: 64 });
    }
    for side in [128, 512, 1024, 2048] {
        for n in [10_000, 300_000, 3_000_000, 20_000_000] {
            add("mixed", n, Work::Apart { n, side });
            add("mixed", n, Work::Funnel { n, side });
        }
    }
    cases
}

impl Work {
    pub fn record(&self, device: &Device) -> Result<Recorded> {
        let mut recorder =
            Recorder { device, batch: GpuCommandBatch::new(device), kept: Vec::new() };
        recorder.work(self)?;
        Ok(Recorded { batch: recorder.batch, _kept: recorder.kept })
    }
}

struct Recorder<'a> {
    device: &'a Device,
    batch: GpuCommandBatch,
    kept: Vec<Resident<f32>>,
}

impl Recorder<'_> {
    fn input(&mut self, dims: &[usize], resident: bool) -> Result<BufferId<f32>> {
        let count: usize = dims.iter().product();
        let data: Vec<f32> = if count > 1_000_000 {
            vec![0.25; count]
        } else {
            (0..count).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect()
        };
        if !resident {
            return Ok(self.batch.upload_vec(data, dims));
        }
        let resident = self.device.resident(&data, dims)?;
        Ok(self.batch.bind(&resident))
    }

    /// Leaves a result where it is made, or brings it back.
    fn output(&mut self, y: BufferId<f32>, resident: bool) {
        if resident {
            let kept = self.batch.keep(y);
            self.kept.push(kept);
        } else {
            self.batch.download(y);
        }
    }

    fn chain(&mut self, mut x: BufferId<f32>, ops: usize, dear: bool) -> BufferId<f32> {
        let b = &mut self.batch;
        for at in 0..ops {
            x = match at % 4 {
                0 => b.scale(x, 0.9),
                2 if !dear => b.relu(x),
                2 => b.sigmoid(x),
                1 if dear => b.tanh(x),
                3 if dear => b.sin(x),
                _ => b.add_scalar(x, 0.1),
            };
        }
        x
    }

    fn work(&mut self, work: &Work) -> Result<()> {
        let (y, resident) = match *work {
            Work::Chain { ops, n, dear, resident } => {
                let x = self.input(&[n], resident)?;
                (self.chain(x, ops, dear), resident)
            }
            Work::Product { m, n, k, resident } => {
                let x = self.input(&[m, k], false)?;
                let w = self.input(&[k, n], resident)?;
                (self.batch.matmul(x, w), false)
            }
            Work::Mlp { batch, layers, resident } => {
                let mut x = self.input(&[batch, layers[0]], false)?;
                for sizes in layers.windows(2) {
                    let w = self.input(sizes, resident)?;
                    let b = self.input(&sizes[1..], resident)?;
                    x = self.batch.linear(x, w, b);
                    x = self.batch.relu(x);
                }
                (x, false)
            }
            Work::Softmax { rows, columns, resident } => {
                let x = self.input(&[rows, columns], resident)?;
                (self.batch.softmax(x, 1), resident)
            }
            Work::LayerNorm { rows, columns, resident } => {
                let x = self.input(&[rows, columns], resident)?;
                (self.batch.layer_norm(x, 1, 1e-5), resident)
            }
            Work::Sum { n, resident } => {
                let x = self.input(&[n], resident)?;
                (self.batch.sum(x, 0), false)
            }
            Work::SumRows { rows, columns } => {
                let x = self.input(&[rows, columns], false)?;
                (self.batch.sum(x, 1), false)
            }
            Work::Attention { heads, length, width } => {
                let dims = [heads, length, width];
                let [q, k, v] = [
                    self.input(&dims, false)?,
                    self.input(&dims, false)?,
                    self.input(&dims, false)?,
                ];
                let b = &mut self.batch;
                let k = b.transpose(k);
                let scores = b.matmul(q, k);
                let scores = b.scale(scores, 0.125);
                let weights = b.softmax(scores, -1);
                (b.matmul(weights, v), false)
            }
            Work::Apart { n, side } => {
                let x = self.input(&[n], false)?;
                let y = self.chain(x, 4, false);
                self.output(y, false);
                let w = self.input(&[side, side], false)?;
                (self.batch.matmul(w, w), false)
            }
            Work::Funnel { n, side } => {
                let columns = n.div_ceil(side).max(side);
                let x = self.input(&[columns, side], false)?;
                let y = self.chain(x, 4, false);
                let folded = self.batch.sum(y, 0);
                let w = self.input(&[side, side], false)?;
                let w = self.batch.add(w, folded);
                let w = self.batch.matmul(w, w);
                (self.batch.matmul(w, w), false)
            }
        };
        self.output(y, resident);
        Ok(())
    }
}
