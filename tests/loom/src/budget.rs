//! A run that waits for memory is woken when there is enough, and returned memory is available again.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::thread;

use crate::Checks;
use crate::exec::budget::{Budget, Permit};
use crate::base::sync::Arc;

pub const CHECKS: Checks = &[
    ("who waits is served, and alone", Some(3), who_waits_is_served_and_alone),
    ("all who fit are served", Some(4), all_who_fit_are_served),
    ("who gives up makes room", None, who_gives_up_makes_room),
    ("who is served and does not take it gives back", None, who_does_not_take_it_gives_back),
    ("a wait may move to another task", None, a_wait_may_move_to_another_task),
    ("the last clone gives back", None, the_last_clone_gives_back),
];

const ALL: u64 = 3;

fn admitted(budget: &Budget, bytes: u64) -> Permit {
    block_on(budget.admit(bytes)).expect("it can fit")
}

/// Polls `future` once, for a task that cannot be woken.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Any two ask for more than there is.
fn who_waits_is_served_and_alone() {
    let (budget, memory) = (Budget::new(Some(ALL)), Arc::new(UnsafeCell::new(0)));
    let run = |bytes: u64| {
        let (budget, memory) = (budget.clone(), Arc::clone(&memory));
        move || {
            let _permit = admitted(&budget, bytes);
            // SAFETY: loom fails where another thread is here, or was without this one knowing of it.
            memory.with_mut(|count| unsafe { *count += 1 });
        }
    };
    let others = [2, 3].map(|bytes| thread::spawn(run(bytes)));
    run(2)();
    others.into_iter().for_each(|other| other.join().unwrap());
    drop(admitted(&budget, ALL));
    // SAFETY: as above.
    assert_eq!(memory.with(|count| unsafe { *count }), 3);
}

/// Nobody gives anything back before.
fn all_who_fit_are_served() {
    let budget = Budget::new(Some(ALL));
    let held = admitted(&budget, ALL);
    let run = || {
        let budget = budget.clone();
        thread::spawn(move || admitted(&budget, 1))
    };
    let others = [run(), run()];
    drop(held);
    let served = others.map(|other| other.join().unwrap());
    drop(served);
    drop(admitted(&budget, ALL));
}

fn who_gives_up_makes_room() {
    let budget = Budget::new(Some(ALL));
    let held = admitted(&budget, 2);
    let impatient = budget.clone();
    let impatient = thread::spawn(move || drop(poll_once(pin!(impatient.admit(ALL)))));
    let patient = budget.clone();
    let patient = thread::spawn(move || drop(admitted(&patient, 1)));
    impatient.join().unwrap();
    patient.join().unwrap();
    drop(held);
    drop(admitted(&budget, ALL));
}

fn who_does_not_take_it_gives_back() {
    let budget = Budget::new(Some(ALL));
    let held = admitted(&budget, ALL);
    let impatient = budget.clone();
    let impatient = thread::spawn(move || drop(poll_once(pin!(impatient.admit(2)))));
    drop(held);
    drop(admitted(&budget, ALL));
    impatient.join().unwrap();
    drop(admitted(&budget, ALL));
}

fn a_wait_may_move_to_another_task() {
    let budget = Budget::new(Some(ALL));
    let held = admitted(&budget, ALL);
    let moving = budget.clone();
    let moving = thread::spawn(move || {
        let mut admission = pin!(moving.admit(2));
        if poll_once(admission.as_mut()).is_pending() {
            drop(block_on(admission));
        }
    });
    drop(held);
    moving.join().unwrap();
    drop(admitted(&budget, ALL));
}

fn the_last_clone_gives_back() {
    let budget = Budget::new(Some(ALL));
    let held = admitted(&budget, ALL);
    let holders = [held.clone(), held].map(|held| thread::spawn(move || drop(held)));
    drop(admitted(&budget, ALL));
    holders.into_iter().for_each(|holder| holder.join().unwrap());
}
