//! The stride phases of windows along an axis.
//!
//! If windows move by s elements, a layout has the elements at 0, s, 2s … as neighbours, then those at 1, 1 + s …: one
//! *stride phase* follows the other, as in a polyphase filter. A window moves by one element within each.

use smallvec::SmallVec;

use crate::base::shape::Window;

/// The stride phases that windows along an axis reach.
#[derive(Clone, Debug)]
pub(crate) struct StridePhases {
    pub window: Window,
    /// The first element of each phase, in ascending order.
    pub firsts: SmallVec<[usize; 4]>,
}

impl StridePhases {
    pub fn of(window: Window) -> Self {
        let Window { size, step, dilation } = window;
        let mut firsts: SmallVec<[usize; 4]> = (0..size).map(|k| k * dilation % step).collect();
        firsts.sort_unstable();
        firsts.dedup();
        Self { window, firsts }
    }

    /// The number of phases.
    pub fn count(&self) -> usize {
        self.firsts.len()
    }

    /// Elements of a phase that so many windows cover.
    pub fn covered(&self, windows: usize) -> usize {
        let Window { size, step, dilation } = self.window;
        windows + (size - 1) * dilation / step
    }

    /// The number of the phase that has the element at `coordinate`, and the element's position in it; `None` if no window
    /// reaches it.
    pub fn position(&self, coordinate: usize) -> Option<[usize; 2]> {
        let step = self.window.step;
        let phase = self.firsts.binary_search(&(coordinate % step)).ok()?;
        Some([phase, coordinate / step])
    }

    /// The same of an element of a window, counted from the window's first.
    pub fn of_element(&self, element: usize) -> [usize; 2] {
        self.position(element * self.window.dilation).expect("a window reaches its own elements")
    }
}
