//! Work that can be done as one batch or as one call per operation.

use onetrip::{Device, GpuCommandBatch, Result, RunStats, Tensor};

/// One operation on a matrix, with the operands that it brings along.
pub enum Step {
    Scale(f32),
    AddScalar(f32),
    Relu,
    Sigmoid,
    /// x·w, with the shape of `w`.
    MatMul(Vec<f32>, [usize; 2]),
    /// x + b, b along the rows.
    AddRow(Vec<f32>),
}

impl Step {
    fn record<'b>(&self, batch: &'b GpuCommandBatch, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        match self {
            Self::Scale(factor) => batch.scale(x, *factor),
            Self::AddScalar(addend) => batch.add_scalar(x, *addend),
            Self::Relu => batch.relu(x),
            Self::Sigmoid => batch.sigmoid(x),
            Self::MatMul(w, shape) => {
                let w = batch.upload_shaped(w, *shape);
                batch.matmul(x, w)
            }
            Self::AddRow(b) => {
                let b = batch.upload(b);
                batch.add(x, b)
            }
        }
    }

    /// Elements that are uploaded beside x.
    fn operand(&self) -> usize {
        match self {
            Self::MatMul(operand, _) | Self::AddRow(operand) => operand.len(),
            _ => 0,
        }
    }
}

/// A matrix and what is to be done to it.
pub struct Work {
    pub name: String,
    rows: usize,
    x: Vec<f32>,
    pub steps: Vec<Step>,
}

/// Traffic between host and device in one pass over the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub round_trips: u64,
    pub bytes: u64,
}

impl Work {
    /// `ops` elementwise operations, one after the other.
    pub fn chain(ops: usize, elements: usize) -> Self {
        let step = |index| match index % 4 {
            0 => Step::Scale(1.25),
            1 => Step::AddScalar(-0.5),
            2 => Step::Relu,
            _ => Step::Sigmoid,
        };
        Self {
            name: format!("chain of {ops}"),
            rows: 1,
            x: numbers(elements),
            steps: (0..ops).map(step).collect(),
        }
    }

    /// relu(x·W + b), as three operations.
    pub fn layer(rows: usize, inputs: usize, outputs: usize) -> Self {
        let scaled = |n: usize, by: f32| numbers(n).iter().map(|v| v * by).collect();
        Self {
            name: format!("relu(x·W + b), [{rows}, {inputs}]·[{inputs}, {outputs}]"),
            rows,
            x: numbers(rows * inputs),
            steps: vec![
                Step::MatMul(scaled(inputs * outputs, 1.0 / inputs as f32), [inputs, outputs]),
                Step::AddRow(scaled(outputs, 1.0)),
                Step::Relu,
            ],
        }
    }

    /// Elements of the input.
    pub fn elements(&self) -> usize {
        self.x.len()
    }

    /// Everything in one batch, from host memory to host memory.
    pub async fn batched(&self, device: &Device) -> Result<Vec<f32>> {
        Ok(self.batched_counted(device).await?.0)
    }

    /// As [`batched`](Self::batched), with what the run counted.
    pub async fn batched_counted(&self, device: &Device) -> Result<(Vec<f32>, RunStats)> {
        let batch = GpuCommandBatch::new(device);
        let x = batch.upload_shaped(&self.x, self.shape(self.x.len()));
        let y = self.steps.iter().fold(x, |x, step| step.record(&batch, x));
        batch.execute().await?;
        Ok((batch.read(y).await?, batch.stats().clone()))
    }

    /// The same as one call per operation, each from host memory to host memory.
    pub async fn per_op(&self, device: &Device) -> Result<Vec<f32>> {
        let mut values = self.x.clone();
        for step in &self.steps {
            values = device
                .eval(|batch| {
                    let x = batch.upload_shaped(&values, self.shape(values.len()));
                    step.record(batch, x)
                })
                .await?;
        }
        Ok(values)
    }

    /// The traffic of [`per_op`](Self::per_op): each step its operands up and its result down.
    pub fn per_op_traffic(&self) -> Traffic {
        let mut elements = self.x.len();
        let mut moved = 0;
        for step in &self.steps {
            moved += elements + step.operand();
            if let Step::MatMul(_, [_, outputs]) = step {
                elements = self.rows * outputs;
            }
            moved += elements;
        }
        Traffic { round_trips: self.steps.len() as u64, bytes: 4 * moved as u64 }
    }

    fn shape(&self, elements: usize) -> [usize; 2] {
        [self.rows, elements / self.rows]
    }
}

impl From<&RunStats> for Traffic {
    fn from(stats: &RunStats) -> Self {
        Self { round_trips: stats.submits, bytes: stats.bytes_up + stats.bytes_down }
    }
}

/// `n` numbers in −½ … ½, the same each time.
pub fn numbers(n: usize) -> Vec<f32> {
    let hash = |i: usize| (i as u32).wrapping_mul(2_654_435_761);
    (0..n).map(|i| hash(i) as f32 / u32::MAX as f32 - 0.5).collect()
}
