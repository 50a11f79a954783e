//! The results of the grid, in numbers.

use std::fmt;

use onetrip::Backend;

/// The knowledge of Auto.
#[derive(Clone, Copy, PartialEq)]
pub enum Teaching {
    /// Rates from probes.
    None,
    /// Times of runs, too.
    Runs,
}

impl fmt::Display for Teaching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "Auto, untaught",
            Self::Runs => "Auto, taught by runs",
        })
    }
}

/// A graph with its times.
pub struct Measured {
    pub family: &'static str,
    pub label: String,
    pub size: f64,
    pub cpu: f64,
    pub gpu: f64,
    /// For the CPU and the GPU.
    pub predicted: [f64; 2],
    /// With the time of the side that was chosen, where it was one.
    pub auto: Choice,
    /// With that of Auto's own runs.
    pub own: Choice,
    /// True if Auto went more than one way before it was timed.
    pub was_tried: bool,
    /// The times of a graph that Auto shares out over both sides.
    pub both: Option<Both>,
    pub rules: [(&'static str, Choice); 3],
}

/// A side that was chosen, and its seconds.
#[derive(Clone, Copy)]
pub struct Choice {
    pub backend: Backend,
    pub seconds: f64,
}

/// A graph split over both sides.
#[derive(Clone, Copy)]
pub struct Both {
    pub predicted: f64,
    pub seconds: f64,
}

impl Measured {
    fn best(&self) -> f64 {
        self.cpu.min(self.gpu)
    }

    /// Returns true if the sides differ by more than a fifth.
    fn differs(&self) -> bool {
        self.cpu.max(self.gpu) > 1.2 * self.best()
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cpu, gpu] = self.predicted.map(|s| s * 1e6);
        let tried = if self.was_tried { " tried" } else { "" };
        let mark = if self.auto.seconds > 1.2 * self.best() { " ←" } else { "" };
        write!(
            f,
            "{:14} {:32} cpu {:.1} ({cpu:.1}) gpu {:.1} ({gpu:.1}) µs: {} {:.2} own {:.1}{tried}{mark}",
            self.family,
            self.label,
            self.cpu * 1e6,
            self.gpu * 1e6,
            self.both.map_or_else(
                || self.auto.backend.to_string(),
                |both| {
                    format!("both {:.1} ({:.1}) µs", both.seconds * 1e6, both.predicted * 1e6)
                }
            ),
            self.auto.seconds / self.best(),
            self.own.seconds * 1e6,
        )
    }
}

/// The quality of a way to choose on some graphs.
struct Score {
    right: usize,
    decided: usize,
    mean: f64,
    worst: f64,
}

fn score<'a>(
    measured: impl Iterator<Item = &'a Measured>,
    choice: impl Fn(&Measured) -> Choice,
) -> Score {
    let mut score = Score { right: 0, decided: 0, mean: 0.0, worst: 1.0 };
    let mut count = 0;
    for one in measured {
        let ratio = choice(one).seconds / one.best();
        count += 1;
        score.mean += ratio.ln();
        score.worst = score.worst.max(ratio);
        if one.differs() {
            score.decided += 1;
            score.right += usize::from(ratio <= 1.2);
        }
    }
    score.mean = (score.mean / f64::from(count.max(1))).exp();
    score
}

impl Score {
    /// The number of graphs.
    fn line(&self, graphs: usize) -> String {
        let share = 100.0 * self.right as f64 / self.decided.max(1) as f64;
        let Self { mean, worst, .. } = self;
        format!("{graphs} graphs, right {share:.1} %, geometric mean {mean:.2}, worst {worst:.2}")
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { right, decided, mean, worst } = self;
        write!(f, "{right} of {decided} | {mean:.2} | {worst:.2}")
    }
}

/// Tables by family, of Auto and of the rules, and by rule, then the closing line.
pub fn print(measured: &[Measured], teaching: Teaching) {
    let mut families: Vec<&str> = measured.iter().map(|one| one.family).collect();
    families.dedup();
    families.sort_unstable();
    families.dedup();
    println!(
        "\n| graphs | number | {teaching}: right where the sides differ | geometric mean | worst |"
    );
    println!("|---|--:|--:|--:|--:|");
    for family in &families {
        let some = || measured.iter().filter(|one| one.family == *family);
        println!("| {family} | {} | {} |", some().count(), score(some(), |one| one.auto));
    }
    print_rules(measured, &families);
    println!("\n| rule | right where the sides differ | geometric mean | worst |");
    println!("|---|--:|--:|--:|");
    let auto = score(measured.iter(), |one| one.auto);
    println!("| {teaching} | {auto} |");
    for at in 0..3 {
        let Some(first) = measured.first() else { break };
        println!("| {} | {} |", first.rules[at].0, score(measured.iter(), |one| one.rules[at].1));
    }
    let side = |one: &Measured, backend: Backend| Choice {
        backend,
        seconds: if backend == Backend::Cpu { one.cpu } else { one.gpu },
    };
    for backend in [Backend::Cpu, Backend::Gpu] {
        println!("| always {backend} | {} |", score(measured.iter(), |one| side(one, backend)));
    }
    let both: Vec<&Measured> = measured.iter().filter(|one| one.both.is_some()).collect();
    let faster = both.iter().filter(|one| one.auto.seconds < one.best()).count();
    let gain = both.iter().map(|one| (one.auto.seconds / one.best()).ln()).sum::<f64>();
    let gain = (gain / both.len().max(1) as f64).exp();
    println!(
        "\nshared out over both sides: {} graphs, {faster} of them faster than either side, geometric mean {gain:.2} \
         of the better one",
        both.len()
    );
    let tried = measured.iter().filter(|one| one.was_tried).count();
    println!("{teaching}: {tried} graphs were tried in more than one way before they were timed");
    let own = score(measured.iter(), |one| one.own);
    println!("\nby Auto's own runs: {}", own.line(measured.len()));
    println!("placement: {}", auto.line(measured.len()));
}

/// A table of the published rules by family.
fn print_rules(measured: &[Measured], families: &[&str]) {
    let Some(first) = measured.first() else { return };
    let names = first.rules.map(|(name, _)| format!(" {name}: right | geometric mean | worst |"));
    println!("\n| graphs |{}", names.concat());
    println!("|---|{}", "--:|".repeat(3 * names.len()));
    for family in families {
        let of_rule = |at: usize| {
            let some = measured.iter().filter(|one| one.family == *family);
            format!(" {} |", score(some, |one| one.rules[at].1))
        };
        println!("| {family} |{}", (0..names.len()).map(of_rule).collect::<String>());
    }
}
