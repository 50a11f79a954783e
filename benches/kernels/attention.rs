//! Attention, of whole sequences and of one query.

use std::error::Error;

use onetrip::{Attention, Causal, DType};

use crate::reference::{Number, Random, check};
use crate::{Bench, Work, f16};

/// Batch, heads of queries and of keys, queries, keys, width.
struct Shape {
    batch: usize,
    heads: [usize; 2],
    queries: usize,
    keys: usize,
    width: usize,
}

impl Shape {
    fn sides(&self) -> [[usize; 4]; 3] {
        let Self { batch, heads, queries, keys, width } = *self;
        let key = [batch, heads[1], keys, width];
        [[batch, heads[0], queries, width], key, key]
    }

    fn flops(&self, causal: bool) -> f64 {
        let Self { batch, heads, queries, keys, width } = *self;
        let all = 4.0 * (batch * heads[0] * queries) as f64 * (keys * width) as f64;
        if causal { all / 2.0 } else { all }
    }
}

const fn shape([batch, heads, served, queries, keys, width]: [usize; 6]) -> Shape {
    Shape { batch, heads: [heads, served], queries, keys, width }
}

impl Bench {
    pub async fn attention(&self) -> Result<(), Box<dyn Error>> {
        let cases = [
            ("8x16x1024x64", shape([8, 16, 16, 1024, 1024, 64]), Causal::None),
            ("causal_8x16x1024x64", shape([8, 16, 16, 1024, 1024, 64]), Causal::TopLeft),
            ("2x16x2048x128", shape([2, 16, 16, 2048, 2048, 128]), Causal::None),
            ("one_query_8x16x4096x64", shape([8, 16, 16, 1, 4096, 64]), Causal::None),
            ("one_query_8x32of8x4096x128", shape([8, 32, 8, 1, 4096, 128]), Causal::None),
        ];
        for (name, shape, causal) in cases {
            self.attend::<f32>(name, &shape, causal, 2e-6).await?;
            self.attend::<f16>(name, &shape, causal, 1e-3).await?;
        }
        Ok(())
    }

    async fn attend<T: Number>(
        &self,
        name: &str,
        shape: &Shape,
        causal: Causal,
        tolerance: f64,
    ) -> Result<(), Box<dyn Error>> {
        let name = format!("attention_{}_{name}", T::DTYPE);
        if !self.wants(&name) {
            return Ok(());
        }
        let mut random = Random::new(11);
        let sides = shape.sides();
        let data: [Vec<T>; 3] = sides.map(|side| random.numbers(side.iter().product()));
        let resident = |at: usize| self.resident(&data[at], &sides[at]);
        let (q, k, v) = (resident(0)?, resident(1)?, resident(2)?);
        let how = Attention { causal, ..Attention::default() };
        let work = if shape.queries == 1 {
            let elements: usize = sides.iter().flat_map(|s| [s.iter().product::<usize>()]).sum();
            let size = if T::DTYPE == DType::F16 { 2.0 } else { 4.0 };
            Work::Bytes(size * elements as f64)
        } else {
            Work::Flops(shape.flops(causal != Causal::None))
        };
        let y = self.case(&name, work, |b| {
            b.scaled_dot_product_attention(b.bind(&q), b.bind(&k), b.bind(&v), how)
        });
        let y = y.await?.map(|y| y.into_iter().map(|y| y.float() as f32).collect());
        check(&name, y, tolerance, |i| exact(&data, shape, causal, i))
    }
}

/// Element `i` of the result.
fn exact<T: Number>(data: &[Vec<T>; 3], shape: &Shape, causal: Causal, i: usize) -> f64 {
    let Shape { heads: [heads, served], queries, keys, width, .. } = *shape;
    let (column, row) = (i % width, i / width % queries);
    let head = i / (width * queries);
    let key_head = head / heads * served + head % heads / (heads / served);
    let [q, k, v] = data;
    let q = &q[(head * queries + row) * width..][..width];
    let seen = if causal == Causal::None { keys } else { row + 1 };
    let place = |key: usize| (key_head * keys + key) * width;
    let score = |key: usize| {
        let k = &k[place(key)..][..width];
        let sum: f64 = q.iter().zip(k).map(|(q, k)| q.float() * k.float()).sum();
        (sum / (width as f64).sqrt()).exp()
    };
    let weights: Vec<f64> = (0..seen).map(score).collect();
    let sum: f64 = (0..seen).map(|key| weights[key] * v[place(key) + column].float()).sum();
    sum / weights.iter().sum::<f64>()
}
