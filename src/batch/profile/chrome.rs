//! A profile in the Trace Event Format of Chrome, which Perfetto reads too.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::{Profile, StageProfile};
use crate::cost::Backend;

/// The tracks, in the order in which they are shown.
const TRACKS: [&str; 3] = ["host", "CPU kernels", "GPU"];
const HOST: usize = 0;
const CPU: usize = 1;
const GPU: usize = 2;

impl Profile {
    /// The profile as a trace for Perfetto (`ui.perfetto.dev`) or `chrome://tracing`: JSON with a track for the host's
    /// stages, one for the host's cores and one for the GPU. The GPU's track is shifted so that its work ends when the
    /// host learned of it, since the two have no common clock.
    #[must_use]
    pub fn to_chrome_trace(&self) -> String {
        trace(self)
    }

    /// Writes [`to_chrome_trace`](Self::to_chrome_trace) to a file.
    ///
    /// # Errors
    /// The errors of [`std::fs::write`].
    pub fn write_trace(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.to_chrome_trace())
    }
}

fn trace(profile: &Profile) -> String {
    let mut events = vec![name("process_name", 0, &profile.device)];
    events.extend(TRACKS.iter().enumerate().map(|(lane, text)| name("thread_name", lane, text)));
    for StageProfile { stage, on_gpu, start, time } in &profile.stages {
        let lane = if *on_gpu { GPU } else { HOST };
        events.push(event(lane, stage, *start, *time, ""));
    }
    for kernel in &profile.kernels {
        let (Some(start), Some(time)) = (kernel.start, kernel.time) else { continue };
        let lane = match kernel.backend {
            Backend::Cpu => CPU,
            Backend::Gpu => GPU,
        };
        let predicted = micros(kernel.predicted);
        let mut detail = format!("\"form\":{},\"predicted_us\":{predicted}", text(kernel.form));
        let _ = write!(detail, ",\"flops\":{},\"bytes\":{}", kernel.flops, kernel.bytes);
        events.push(event(lane, &kernel.kernel, start, time, &detail));
    }
    format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
}

fn name(what: &str, lane: usize, name: &str) -> String {
    let args = text(name);
    format!(
        "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":1,\"tid\":{lane},\"args\":{{\"name\":{args}}}}}"
    )
}

fn event(lane: usize, name: &str, start: Duration, time: Duration, detail: &str) -> String {
    let (name, start, time) = (text(name), micros(start), micros(time));
    format!(
        "{{\"ph\":\"X\",\"name\":{name},\"pid\":1,\"tid\":{lane},\"ts\":{start},\"dur\":{time},\
         \"args\":{{{detail}}}}}"
    )
}

fn micros(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e6)
}

fn text(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => drop(write!(quoted, "\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(text("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }
}
