//! Numbers as people read them.

/// `1 kernel`, `3 kernels`, `2 dispatches`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    let plural = if noun.ends_with("ch") || noun.ends_with('s') { "es" } else { "s" };
    format!("{n} {noun}{}", if n == 1 { "" } else { plural })
}

pub(crate) fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Decimal prefixes, each of a thousand times the one before.
const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];

/// A large number with a decimal prefix.
pub(crate) fn quantity(n: u64) -> String {
    scaled(n as f64, 1000.0, &PREFIXES).trim_end().to_owned()
}

/// A number of `unit` a second, with a decimal prefix.
pub(crate) fn rate(per_second: f64, unit: &str) -> String {
    format!("{}{unit}/s", scaled(per_second, 1000.0, &PREFIXES))
}

pub(crate) fn seconds(s: f64) -> String {
    scaled(s * 1e9, 1000.0, &["ns", "µs", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        assert_eq!(count(1, "dispatch"), "1 dispatch");
        assert_eq!(count(0, "dispatch"), "0 dispatches");
        assert_eq!(count(2, "miss"), "2 misses");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(quantity(2_500_000), "2.5 M");
        assert_eq!(rate(512.0, "B"), "512 B/s");
        assert_eq!(rate(3.2e6, "B"), "3.2 MB/s");
        assert_eq!(rate(6.7e13, "FLOP"), "67.0 TFLOP/s");
        assert_eq!(seconds(0.000_25), "250 µs");
    }
}
