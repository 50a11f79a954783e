//! The pass *memory*: which values share a buffer.

use crate::cost::Backend;
use crate::plan::execution_plan::Plan;
use crate::plan::step::Scratch;
use crate::plan::step::total;
use crate::plan::value::Home;

/// The steps from which to which a buffer is needed, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub first: usize,
    pub last: usize,
}

impl Life {
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A request for a slot.
#[derive(Clone, Copy)]
enum SlotRequest {
    Value(usize),
    Scratch(usize),
}

/// Gives every value that lives for one run only a slot, and sets the plan's slots and the bytes that a run holds. The
/// largest values choose first, each the first slot that is free for all of its life (greedy by size: Pisarchyk and
/// Lee, 2020).
pub(crate) fn assign(plan: &mut Plan, stored_bytes: &[u64]) {
    let lives = lives(plan);
    let mut tenants: Vec<(u64, Life, SlotRequest)> = Vec::new();
    for (index, value) in plan.values.iter().enumerate() {
        let wants = matches!(value.home, Home::Slot(_) | Home::Upload { slot: Some(_), .. });
        if let (true, Some(life)) = (wants, lives[index]) {
            tenants.push((stored_bytes[index], life, SlotRequest::Value(index)));
        }
    }
    for (at, step) in plan.steps.iter().enumerate() {
        if let Some(scratch) = step.scratch {
            tenants.push((
                scratch.words * 4,
                Life { first: at, last: at },
                SlotRequest::Scratch(at),
            ));
        }
    }
    tenants.sort_by_key(|&(bytes, life, _)| (std::cmp::Reverse(bytes), life.first));

    let mut slots: Vec<(u64, Vec<Life>)> = Vec::new();
    for (bytes, life, tenant) in tenants {
        let free =
            slots.iter().position(|(_, taken)| taken.iter().all(|other| !life.overlaps(*other)));
        let slot = free.unwrap_or_else(|| {
            slots.push((bytes, Vec::new()));
            slots.len() - 1
        });
        slots[slot].1.push(life);
        match tenant {
            SlotRequest::Value(index) => match &mut plan.values[index].home {
                Home::Slot(home) | Home::Upload { slot: Some(home), .. } => *home = slot,
                Home::Upload { slot: None, .. } | Home::Resident(_) | Home::Kept(_) => {}
            },
            SlotRequest::Scratch(at) => {
                if let Some(Scratch { slot: home, .. }) = &mut plan.steps[at].scratch {
                    *home = slot;
                }
            }
        }
    }
    plan.slots = slots.iter().map(|(bytes, _)| *bytes).collect();
    let of = |is_it: fn(Home) -> bool| {
        let values = plan.values.iter().zip(stored_bytes).filter(|(value, _)| is_it(value.home));
        total(values.map(|(_, &bytes)| bytes))
    };
    let bound = of(|home| matches!(home, Home::Resident(_)));
    let kept = of(|home| matches!(home, Home::Kept(_)));
    let held = total(plan.slots.iter().copied().chain([kept]));
    let transfers = match plan.backend {
        Backend::Cpu => 0,
        Backend::Gpu => plan.bytes_up.saturating_add(plan.bytes_down),
    };
    plan.peak_bytes = held.saturating_add(bound);
    plan.held_bytes = held.saturating_add(transfers);
}

/// The steps during which each value must be in memory; uploads are there from the start, results to the end. `None`
/// for a value that no step and no output touches.
pub(crate) fn lives(plan: &Plan) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.values.len()];
    let mut touch = |value: usize, step: usize| {
        let life = lives[value].get_or_insert(Life { first: step, last: step });
        life.first = life.first.min(step);
        life.last = life.last.max(step);
    };
    for (at, step) in plan.steps.iter().enumerate() {
        for output in &step.outputs {
            touch(output.value.index(), at);
        }
        for value in step.reads() {
            touch(value.index(), at);
        }
    }
    for value in plan.downloads.iter().chain(&plan.keeps) {
        touch(value.index(), plan.steps.len());
    }
    for (index, value) in plan.values.iter().enumerate() {
        if let (Home::Upload { .. }, Some(_)) = (value.home, lives[index]) {
            let last = lives[index].map_or(0, |life| life.last);
            lives[index] = Some(Life { first: 0, last });
        }
    }
    lives
}
