//! Reductions over windows: a thread makes several results that follow each other along an axis, and loads the elements
//! that their windows share once.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::axes::ReduceAxes;
use crate::plan::step_parts::{OperandSource, StepContext, StepOperand};

/// Numbers of results that a thread may make.
const COUNTS: [usize; 3] = [2, 4, 8];

/// Elements of the windows of one thread, at most: all are written out.
const TAKEN: usize = 200;

/// Threads from which on a large GPU gains by each doing more.
const BUSY: usize = 1 << 13;

/// The cost of finding the position of a thread, and the cost of each of its results to the others since threads are
/// fewer, in loads: by the depthwise convolutions and pools of BENCHMARKS on an H200.
const POSITION: f64 = 4.0;
const LANE: f64 = 1.0 / 3.0;

/// The results of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WindowLanes {
    /// The outer axis along which they follow each other; it has at least as many results.
    pub axis: usize,
    pub count: usize,
}

/// An element in the window of a lane.
#[derive(Clone, Copy)]
pub(crate) struct WindowElement {
    pub element: usize,
    pub lane: usize,
}

/// The elements of the windows of one thread.
pub(crate) struct ThreadWindows<'r> {
    pub axes: &'r ReduceAxes,
    pub lanes: WindowLanes,
    /// The elements that the lanes cover in each operand, each once, in the order of memory.
    pub covered: Vec<BTreeMap<i64, WindowElement>>,
}

impl<'r> ThreadWindows<'r> {
    /// Elements of a window up to which all are written out in the kernel's text.
    pub const WRITTEN_OUT: usize = 64;

    /// The cheapest number of results a thread, if it is cheaper than one.
    pub fn cheapest(axes: &'r ReduceAxes, context: &StepContext<'_>) -> Option<WindowLanes> {
        let ReduceAxes { inner, outer, .. } = axes;
        if !(1..=Self::WRITTEN_OUT).contains(&inner.len()) {
            return None;
        }
        let operands = context.operands;
        let with = |axis, count| Self::new(axes, WindowLanes { axis, count });
        let fits = |windows: &Self| {
            let WindowLanes { axis, count } = windows.lanes;
            count <= outer.dims[axis]
                && count * inner.len() <= TAKEN
                && outer.len() / count >= BUSY
                && (inner.rank() > 1 || windows.overlap(operands))
        };
        // The last axis last, since along it neighbouring threads read neighbours.
        let last = outer.rank() - 1;
        let all = (0..last).rev().chain([last]);
        let all = all.flat_map(|axis| COUNTS.map(|count| with(axis, count))).filter(fits);
        let costs = all.map(|windows| (windows.cost(operands), windows.lanes));
        let (cost, cheapest) = costs.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        (cost < with(last, 1).cost(operands)).then_some(cheapest)
    }

    pub fn new(axes: &'r ReduceAxes, lanes: WindowLanes) -> Self {
        let mut windows = Self { axes, lanes, covered: Vec::new() };
        windows.covered = (0..axes.main.len()).map(|map| windows.cover(map)).collect();
        windows
    }

    /// The cost of one result, in loads.
    fn cost(&self, operands: &[StepOperand]) -> f64 {
        let WindowLanes { axis, count } = self.lanes;
        let dim = self.axes.outer.dims[axis];
        let maps = 0..self.axes.main.len();
        let loads: usize = maps
            .filter(|&map| self.is_value(operands, map))
            .map(|map| self.covered[map].len())
            .sum();
        let threads = dim.div_ceil(count) as f64 / dim as f64;
        (loads as f64 + POSITION) * threads + LANE * count as f64
    }

    fn is_value(&self, operands: &[StepOperand], map: usize) -> bool {
        matches!(operands[self.axes.main[map]].source, OperandSource::Value(_))
    }

    /// True if windows of neighbouring lanes share elements.
    fn overlap(&self, operands: &[StepOperand]) -> bool {
        let WindowLanes { axis, count } = self.lanes;
        let all = count * self.axes.inner.len();
        (0..self.axes.main.len()).any(|map| {
            let moves = self.axes.outer.strides[map][axis] != 0;
            moves && self.is_value(operands, map) && self.covered[map].len() < all
        })
    }

    /// The offset of an element from the first of lane 0 in the operand of `map`.
    pub fn offset(&self, map: usize, at: WindowElement) -> i64 {
        let coordinates = self.coordinates(at);
        let strides = self.strides(map);
        coordinates
            .iter()
            .zip(strides)
            .fold(0, |at, (&c, s)| at.wrapping_add(s.wrapping_mul(c as i64)))
    }

    /// The coordinates of an element: along the axes of the windows and along the lanes.
    pub fn coordinates(
        &self,
        WindowElement { element, lane }: WindowElement,
    ) -> SmallVec<[usize; 4]> {
        let dims = &self.axes.inner.dims;
        let mut coordinates = SmallVec::from_elem(lane, dims.len() + 1);
        let mut rest = element;
        for (coordinate, dim) in coordinates.iter_mut().zip(dims).rev() {
            (*coordinate, rest) = (rest % dim, rest / dim);
        }
        coordinates
    }

    /// The strides of `map` along these coordinates.
    pub fn strides(&self, map: usize) -> impl Iterator<Item = i64> {
        let along = self.axes.outer.strides[map][self.lanes.axis];
        self.axes.inner.strides[map].iter().copied().chain([along])
    }

    /// All elements of all lanes.
    pub fn all(&self) -> impl Iterator<Item = WindowElement> {
        let count = self.lanes.count;
        let elements = 0..self.axes.inner.len();
        elements
            .flat_map(move |element| (0..count).map(move |lane| WindowElement { element, lane }))
    }

    fn cover(&self, map: usize) -> BTreeMap<i64, WindowElement> {
        let mut covered = BTreeMap::new();
        for at in self.all() {
            covered.entry(self.offset(map, at)).or_insert(at);
        }
        covered
    }
}
