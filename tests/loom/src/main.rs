//! Runs pieces of the crate in every order that the steps of a few threads may have, under loom. What is wrong in one
//! of them (a wake-up that is lost, memory that two use at once, what never comes back, a thread that waits for ever)
//! ends it.

mod base;
mod error;
mod exec;

mod budget;
mod pool;
mod team;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The checks of one piece: a name, the limit of interruptions at places where threads need not wait, and a function.
type Checks = &'static [(&'static str, Option<usize>, fn())];

/// Makes the checks whose names contain the first argument.
fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (place, checks) in
        [("budget", budget::CHECKS), ("pool", pool::CHECKS), ("team", team::CHECKS)]
    {
        for &(name, interruptions, check) in checks {
            let name = format!("{place}: {name}");
            if name.contains(&wanted) {
                let begun = Instant::now();
                let orders = in_every_order(interruptions, check);
                println!("{name}: {orders} orders, {:.1} s", begun.elapsed().as_secs_f64());
            }
        }
    }
}

/// Returns the number of orders. Ends the process if `check` fails in one.
fn in_every_order(interruptions: Option<usize>, check: fn()) -> usize {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = interruptions;
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    model.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        check();
    });
    orders.load(Ordering::Relaxed)
}
