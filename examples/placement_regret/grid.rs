//! The graphs: families of work that people do, from sizes where nothing pays to sizes where only a GPU does.

use onetrip::{Attention, Conv2d, Device, GpuCommandBatch, Resident, Result, Tensor};

/// One graph of the grid.
pub struct Case {
    pub family: &'static str,
    /// The position along the axis of the plot: elements or the side of a product.
    pub size: f64,
    pub work: Work,
}

/// The work of a graph.
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
    /// softmax(q·kᵀ)·v, as one operation or as three.
    Attention {
        heads: usize,
        length: usize,
        width: usize,
        fused: bool,
    },
    /// As many filters as channels, 3 × 3, over squares, then relu.
    Conv {
        batch: usize,
        channels: usize,
        side: usize,
        resident: bool,
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
    /// Rows looked up in an uploaded table, then two dense layers.
    Embed {
        rows: usize,
        ids: usize,
    },
    /// Products, of which a row is added to the sums of `n` elements.
    Tail {
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
        for fused in [false, true] {
            add("attention", heads * length, Work::Attention { heads, length, width: 64, fused });
        }
    }
    for (batch, channels, side) in [
        (1, 8, 16),
        (1, 16, 32),
        (1, 64, 28),
        (1, 64, 56),
        (8, 64, 56),
        (8, 128, 28),
        (16, 256, 14),
    ] {
        for resident in [false, true] {
            let work = Work::Conv { batch, channels, side, resident };
            add("conv", batch * channels * side * side, work);
        }
    }
    for side in [128, 512, 1024, 2048] {
        for n in [10_000, 300_000, 3_000_000, 20_000_000] {
            add("mixed", n, Work::Apart { n, side });
            add("mixed", n, Work::Funnel { n, side });
            if side > 128 && n > 10_000 {
                add("mixed", n, Work::Tail { n, side });
            }
        }
    }
    for rows in [1000, 30_000, 300_000] {
        for ids in [64, 512, 4096] {
            add("mixed", rows, Work::Embed { rows, ids });
        }
    }
    cases
}

impl Work {
    pub fn record(&self, device: &Device) -> Result<Recorded> {
        let batch = GpuCommandBatch::new(device);
        let mut recorder = Recorder { device, batch: &batch, kept: Vec::new() };
        recorder.work(self)?;
        let kept = recorder.kept;
        Ok(Recorded { batch, _kept: kept })
    }
}

struct Recorder<'a> {
    device: &'a Device,
    batch: &'a GpuCommandBatch,
    kept: Vec<Resident<f32>>,
}

impl<'a> Recorder<'a> {
    fn input(&self, dims: &[usize], resident: bool) -> Result<Tensor<'a, f32>> {
        let count: usize = dims.iter().product();
        let data: Vec<f32> = if count > 1_000_000 {
            vec![0.25; count]
        } else {
            (0..count).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect()
        };
        if !resident {
            return Ok(self.batch.upload_shaped(data, dims));
        }
        let resident = self.device.resident(&data, dims)?;
        Ok(self.batch.bind(&resident))
    }

    /// Leaves a result where it is made, or brings it back.
    fn output(&mut self, y: Tensor<'a, f32>, resident: bool) {
        if resident {
            let kept = self.batch.keep(y);
            self.kept.push(kept);
        } else {
            self.batch.download(y);
        }
    }

    fn chain(mut x: Tensor<'a, f32>, ops: usize, dear: bool) -> Tensor<'a, f32> {
        let b = x.batch();
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
                (Self::chain(x, ops, dear), resident)
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
            Work::Attention { heads, length, width, fused } => {
                let dims = [heads, length, width];
                let [q, k, v] = [
                    self.input(&dims, false)?,
                    self.input(&dims, false)?,
                    self.input(&dims, false)?,
                ];
                let b = &mut self.batch;
                if fused {
                    (b.scaled_dot_product_attention(q, k, v, Attention::default()), false)
                } else {
                    let k = b.transpose(k);
                    let weights = b.matmul(q, k).scale(0.125).softmax(-1);
                    (b.matmul(weights, v), false)
                }
            }
            Work::Conv { batch, channels, side, resident } => {
                let x = self.input(&[batch, channels, side, side], resident)?;
                let w = self.input(&[channels, channels, 3, 3], resident)?;
                let conv = Conv2d { padding: [(1, 1); 2], ..Conv2d::default() };
                let y = self.batch.conv2d(x, w, None, conv);
                (self.batch.relu(y), false)
            }
            Work::Apart { n, side } => {
                let x = self.input(&[n], false)?;
                let y = Self::chain(x, 4, false);
                self.output(y, false);
                let w = self.input(&[side, side], false)?;
                (self.batch.matmul(w, w), false)
            }
            Work::Funnel { n, side } => {
                let columns = n.div_ceil(side).max(side);
                let x = self.input(&[columns, side], false)?;
                let folded = Self::chain(x, 4, false).sum(0);
                let w = self.input(&[side, side], false)?;
                let w = self.batch.add(w, folded);
                let w = self.batch.matmul(w, w);
                (self.batch.matmul(w, w), false)
            }
            Work::Embed { rows, ids } => {
                let table = self.input(&[rows, 256], false)?;
                let ids: Vec<u32> = (0..ids).map(|at| (at * 7919 % rows) as u32).collect();
                let ids = self.batch.upload(&ids);
                let mut x = self.batch.embedding(table, ids);
                for sizes in [[256, 1024], [1024, 1024]] {
                    let w = self.input(&sizes, true)?;
                    x = self.batch.matmul(x, w);
                    x = self.batch.relu(x);
                }
                (x, false)
            }
            Work::Tail { n, side } => {
                let w = self.input(&[side, side], true)?;
                let row = self.batch.matmul(w, w).matmul(w).mean(0);
                let x = self.input(&[n.div_ceil(side), side], false)?;
                let sums = Self::chain(x, 4, false).sum(0);
                (self.batch.add(sums, row), false)
            }
        };
        self.output(y, resident);
        Ok(())
    }
}
