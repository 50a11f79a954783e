//! Times over sizes as an SVG: both sides, what Auto took, and where each rule changes its mind.

use std::fmt::Write as _;
use std::time::Duration;

use onetrip::Backend;

use super::report::Measured;
use super::timing::milliseconds;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 56.0;
const CPU: &str = "#c2662d";
const GPU: &str = "#2f6db3";

/// Axes of one panel, both logarithmic.
struct Axes {
    left: f64,
    x: [f64; 2],
    y: [f64; 2],
}

impl Axes {
    fn of(panel: &[&Measured], left: f64) -> Self {
        let mut axes = Self { left, x: [f64::INFINITY, 0.0], y: [f64::INFINITY, 0.0] };
        for one in panel {
            axes.x = [axes.x[0].min(one.size), axes.x[1].max(one.size)];
            let [low, high] = [one.cpu.min(one.gpu), one.cpu.max(one.gpu)];
            axes.y = [axes.y[0].min(low), axes.y[1].max(high)];
        }
        axes
    }

    fn at(&self, size: f64, seconds: f64) -> (f64, f64) {
        let part = |v: f64, [low, high]: [f64; 2]| (v / low).ln() / (high / low).ln().max(1e-9);
        let x = self.left + MARGIN + part(size, self.x) * (WIDTH - 1.5 * MARGIN);
        (x, HEIGHT - MARGIN - part(seconds, self.y) * (HEIGHT - 2.0 * MARGIN))
    }
}

/// A panel each for some families of one shape.
pub fn svg(measured: &[Measured]) -> String {
    let panels: [(&str, &str); 4] = [
        ("chain", "4 ops on"),
        ("dear chain", "16 dear ops on"),
        ("resident chain", "4 ops on"),
        ("product", "·"),
    ];
    let (width, height) = (WIDTH * panels.len() as f64, HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (at, (family, label)) in panels.into_iter().enumerate() {
        let fits = |one: &&Measured| {
            let resident = one.label.contains("resident") == family.starts_with("resident");
            one.family == family && one.label.contains(label) && resident
        };
        let panel: Vec<&Measured> = measured.iter().filter(fits).collect();
        draw(&mut svg, &panel, family, WIDTH * at as f64);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, panel: &[&Measured], title: &str, left: f64) {
    if panel.len() < 2 {
        return;
    }
    let axes = Axes::of(panel, left);
    let text = |svg: &mut String, x: f64, y: f64, color: &str, text: &str| {
        let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" fill=\"{color}\">{text}</text>");
    };
    text(svg, left + MARGIN, 20.0, "black", &format!("{title}: time over size"));
    text(svg, left + MARGIN, 36.0, CPU, "CPU");
    text(svg, left + MARGIN + 36.0, 36.0, GPU, "GPU");
    text(svg, left + MARGIN + 72.0, 36.0, "black", "○ Auto");
    for (color, time) in
        [(CPU, (|one: &Measured| one.cpu) as fn(&Measured) -> f64), (GPU, |one: &Measured| one.gpu)]
    {
        let points: Vec<String> = panel
            .iter()
            .map(|one| axes.at(one.size, time(one)))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let points = points.join(" ");
        let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\"/>");
    }
    for one in panel {
        let (x, y) = axes.at(one.size, one.auto.seconds);
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"black\"/>"
        );
    }
    for rule in 0..3 {
        switches(svg, panel, &axes, rule);
    }
    let bottom = HEIGHT - MARGIN + 16.0;
    for one in [panel[0], panel[panel.len() - 1]] {
        let (x, _) = axes.at(one.size, axes.y[0]);
        text(svg, x - 12.0, bottom, "black", &format!("{:.0e}", one.size));
    }
    for seconds in axes.y {
        let (_, y) = axes.at(axes.x[0], seconds);
        text(
            svg,
            left + 8.0,
            y,
            "black",
            &format!("{} ms", milliseconds(Duration::from_secs_f64(seconds))),
        );
    }
}

/// Where a rule goes from one side to the other.
fn switches(svg: &mut String, panel: &[&Measured], axes: &Axes, rule: usize) {
    for pair in panel.windows(2) {
        let [before, after] = [pair[0], pair[1]].map(|one| one.rules[rule].1.backend);
        if before == Backend::Cpu && after == Backend::Gpu {
            let (x, _) = axes.at((pair[0].size * pair[1].size).sqrt(), axes.y[0]);
            let (top, bottom) = (MARGIN, HEIGHT - MARGIN);
            let name = pair[0].rules[rule].0;
            let y = top + 12.0 * rule as f64;
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"gray\" \
                 stroke-dasharray=\"3\"/><text x=\"{:.1}\" y=\"{y}\" fill=\"gray\">{name}</text>",
                x + 3.0
            );
        }
    }
}
