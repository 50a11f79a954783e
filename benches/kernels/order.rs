//! Scans, sorts and random numbers.

use std::error::Error;

use onetrip::SortOrder;

use super::reference::{Random, check};
use super::{Bench, Work};

/// Elements of each case.
const COUNT: usize = 10_000_000;
/// The number of elements selected.
const TOP: usize = 32;

impl Bench {
    /// All of them.
    pub async fn order(&self) -> Result<(), Box<dyn Error>> {
        let x = Random::new(9).floats(COUNT);
        self.scans(&x).await?;
        self.sorts(&x).await?;
        self.random_numbers().await
    }

    async fn scans(&self, x: &[f32]) -> Result<(), Box<dyn Error>> {
        let bytes = || Work::Bytes(8.0 * COUNT as f64);
        let on_x = self.resident(x, &[COUNT])?;
        let sums = self.case("cumsum_1e7", bytes(), |b| b.bind(&on_x).cumsum(0)).await?;
        let mut exact = x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        (1..COUNT).for_each(|i| exact[i] += exact[i - 1]);
        check("cumsum", sums, 0.05, |i| exact[i])?;
        for (axis, name) in [(0, "cumsum_axis0_10000x1000"), (1, "cumsum_axis1_10000x1000")] {
            let on_x = self.resident(x, &[10_000, 1000])?;
            let sums = self.case(name, bytes(), |b| b.bind(&on_x).cumsum(axis)).await?;
            check(name, sums, 0.01, |i| {
                let (row, column) = (i / 1000, i % 1000);
                let at = |k: usize| if axis == 0 { k * 1000 + column } else { row * 1000 + k };
                let count = if axis == 0 { row } else { column };
                (0..=count).map(|k| f64::from(x[at(k)])).sum()
            })?;
        }
        Ok(())
    }

    async fn sorts(&self, x: &[f32]) -> Result<(), Box<dyn Error>> {
        let bytes = || Work::Bytes(8.0 * COUNT as f64);
        let mut order: Vec<u32> = (0..COUNT as u32).collect();
        order.sort_by(|&a, &b| x[a as usize].total_cmp(&x[b as usize]));
        let at = |rank: usize| f64::from(x[order[rank] as usize]);
        let on_x = self.resident(x, &[COUNT])?;
        let sorted =
            self.case("sort_1e7", bytes(), |b| b.bind(&on_x).sort(0, SortOrder::Ascending));
        check("sort", sorted.await?, 0.0, at)?;
        let positions = self
            .case("argsort_1e7", bytes(), |b| b.bind(&on_x).argsort(0, SortOrder::Ascending))
            .await?;
        let values = positions.map(|p| p.into_iter().map(|p| x[p as usize]).collect());
        check("argsort", values, 0.0, at)?;
        let best = self.case("top_k32_1e7", Work::Bytes(4.0 * COUNT as f64), |b| {
            b.bind(&on_x).top_k(TOP, 0, SortOrder::Descending).0
        });
        check("top_k", best.await?, 0.0, |rank| at(COUNT - 1 - rank))?;
        let on_x = self.resident(x, &[10_000, 1000])?;
        let rows = self
            .case("sort_rows_10000x1000", bytes(), |b| b.bind(&on_x).sort(1, SortOrder::Ascending))
            .await?;
        check("sort of rows", rows, 0.0, |i| {
            let mut row = x[i / 1000 * 1000..][..1000].to_vec();
            row.sort_by(f32::total_cmp);
            f64::from(row[i % 1000])
        })
    }

    async fn random_numbers(&self) -> Result<(), Box<dyn Error>> {
        let bytes = || Work::Bytes(4.0 * COUNT as f64);
        self.case("random_uniform_1e7", bytes(), |b| b.random_uniform::<f32>([COUNT], 1, 2))
            .await?;
        self.case("random_normal_1e7", bytes(), |b| b.random_normal::<f32>([COUNT], 1, 2)).await?;
        Ok(())
    }
}
