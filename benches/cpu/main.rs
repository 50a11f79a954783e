//! The CPU: the cases that peers have too, and kernel forms beside the same work by hand.
//!
//! ```text
//! cargo bench --bench cpu --features blocking [-- part of a case's name]
//! cargo bench --bench cpu --features blocking -- --by-hand [part of a case's name]
//! cargo bench --bench cpu --features blocking -- --by-type [part of a case's name]
//! python3 benches/peers/cpu_in_turns.py
//! ```
//!
//! The first prints `case <name> <slices_ms> <in_place_ms> <first_ms>`: borrowed slices in and a vector out; inputs that
//! lie with the engine and a result that is viewed; the first run, from numbers in memory. Results are compared with
//! float64 at sampled positions where that is cheap. Without `--bench`, as `cargo test` calls it, cases run once, and
//! those that would take long do not. The others are described in `by_hand` and `by_type`. The script compares the cases with ONNX
//! Runtime: it calls `--worker <case>`, which obeys lines on the standard input.

#[path = "../networks/all.rs"]
mod all_networks;
mod by_hand;
mod by_type;
mod cases;
#[path = "../common/chain.rs"]
mod chain;
#[path = "../networks/mod.rs"]
mod networks;
#[path = "../common/random.rs"]
mod random;
mod subject;
#[path = "../../examples/common/timing.rs"]
#[expect(dead_code, reason = "shared with benches that measure one thing at a time")]
mod timing;

use std::error::Error;
use std::io::{BufRead, stdin};
use std::time::Duration;

use cases::Case;
use pico_args::Arguments;
use subject::{Subject, Way};
use timing::milliseconds;

/// The length of a measurement of one way.
const TIME: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = Arguments::from_env();
    let time = if arguments.contains("--bench") { TIME } else { Duration::ZERO };
    if let Some(name) = arguments.opt_value_from_str::<_, String>("--worker")? {
        return worker(&named(&name)?);
    }
    let (by_hand, by_type) = (arguments.contains("--by-hand"), arguments.contains("--by-type"));
    let rest = arguments.finish();
    let filter = rest.iter().filter_map(|part| part.to_str()).find(|part| !part.starts_with('-'));
    let filter = filter.unwrap_or_default();
    if by_hand {
        return by_hand::run(filter);
    }
    if by_type {
        return by_type::run(filter, TIME);
    }
    let once = time.is_zero();
    for case in cases::all() {
        if case.name.contains(filter) && !(once && case.long) {
            measure(&case, time)?;
        }
    }
    Ok(())
}

fn named(name: &str) -> Result<Case, String> {
    let mut all = cases::all().into_iter();
    all.find(|case| case.name == name).ok_or_else(|| format!("there is no case {name}"))
}

fn measure(case: &Case, time: Duration) -> Result<(), Box<dyn Error>> {
    let mut subject = Subject::new(case)?;
    subject.check()?;
    if time.is_zero() {
        println!("case {} {}", case.name, milliseconds(subject.first));
        return Ok(());
    }
    let slices = subject.median(Way::Slices, time)?;
    let in_place = subject.median(Way::InPlace, time)?;
    let [slices, in_place, first] = [slices, in_place, subject.first].map(milliseconds);
    println!("case {} {slices} {in_place} {first}", case.name);
    Ok(())
}

/// Runs a case once, prints the time in milliseconds, and answers each line with a line: `slices <seconds>` and
/// `in_place <seconds>` with a median, `peak` with the peak of memory in KiB, `save <file>` with the number of elements.
fn worker(case: &Case) -> Result<(), Box<dyn Error>> {
    let mut subject = Subject::new(case)?;
    println!("{}", subject.first.as_secs_f64() * 1e3);
    for line in stdin().lock().lines() {
        let line = line?;
        let (what, argument) = line.split_once(' ').unwrap_or((&line, ""));
        let seconds = || argument.parse().map(Duration::from_secs_f64);
        let median = match what {
            "slices" => subject.median(Way::Slices, seconds()?)?,
            "in_place" => subject.median(Way::InPlace, seconds()?)?,
            "peak" => {
                println!("{}", peak()?);
                continue;
            }
            "save" => {
                let results = subject.results()?.concat();
                std::fs::write(
                    argument,
                    results.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>(),
                )?;
                println!("{}", results.len());
                continue;
            }
            _ => return Err(format!("no command: {line}").into()),
        };
        println!("{}", median.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// The peak of this process's memory in KiB.
fn peak() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.ok_or("the system does not tell the peak of memory")?.trim().parse()?)
}
