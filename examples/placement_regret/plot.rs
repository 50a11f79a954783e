//! Times over sizes as an SVG: both sides, what Auto took, and where each rule goes to the GPU.

use std::fmt::Write as _;

use onetrip::Backend;

use super::report::{Choice, Measured};

/// The width of a page on which the plot is shown in its own size.
const WIDTH: f64 = 800.0;
const LEGEND: f64 = 40.0;
const PANEL: [f64; 2] = [WIDTH / 2.0, 290.0];
/// The margins of a panel around its plot: left, right, above and below.
const MARGINS: [f64; 4] = [64.0, 14.0, 32.0, 48.0];
const LINE: f64 = 17.0;

const CPU: &str = "#b8541a";
const GPU: &str = "#2563ab";
const INK: &str = "#1f2328";
const FAINT: &str = "#636c76";
const GRID: &str = "#e3e6ea";

/// Some graphs of one family that differ in their size.
struct Panel {
    family: &'static str,
    /// Part of the label of each.
    label: &'static str,
    title: &'static str,
    size: &'static str,
}

const PANELS: [Panel; 4] = [
    Panel { family: "chain", label: "4 ops on", title: "4 cheap operations", size: "elements" },
    Panel {
        family: "dear chain",
        label: "16 dear ops on",
        title: "16 dear operations",
        size: "elements",
    },
    Panel {
        family: "resident chain",
        label: "4 ops on",
        title: "4 cheap operations on residents",
        size: "elements",
    },
    Panel { family: "product", label: "·", title: "Matrix product", size: "rows and columns" },
];

impl Panel {
    fn of<'a>(&self, measured: &'a [Measured]) -> Vec<&'a Measured> {
        let is_resident = self.family.starts_with("resident");
        let fits = |one: &&Measured| {
            let label = &one.label;
            one.family == self.family
                && label.contains(self.label)
                && label.contains("resident") == is_resident
        };
        measured.iter().filter(fits).collect()
    }
}

/// A picture of all panels.
pub fn svg(measured: &[Measured]) -> String {
    let rows = PANELS.len().div_ceil(2);
    let height = LEGEND + PANEL[1] * rows as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"{INK}\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    legend(&mut svg);
    for (at, panel) in PANELS.iter().enumerate() {
        let graphs = panel.of(measured);
        if graphs.len() > 1 {
            let corner = [PANEL[0] * (at % 2) as f64, LEGEND + PANEL[1] * (at / 2) as f64];
            draw(&mut svg, panel, &graphs, &Axes::of(&graphs, corner));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String) {
    let (y, mut x) = (22.0, MARGINS[0]);
    for (color, name) in [(CPU, "CPU"), (GPU, "GPU")] {
        curve(svg, color, &[(x, y), (x + 26.0, y)]);
        text(svg, (x + 32.0, y + 5.0), "start", INK, name);
        x += 80.0;
    }
    circle(svg, (x + 6.0, y));
    text(svg, (x + 18.0, y + 5.0), "start", INK, "Auto's choice");
    x += 128.0;
    dashes(svg, [(x, y - 9.0), (x, y + 9.0)]);
    text(svg, (x + 10.0, y + 5.0), "start", INK, "from here on a rule takes the GPU");
}

fn draw(svg: &mut String, panel: &Panel, graphs: &[&Measured], axes: &Axes) {
    axes.frame(svg, panel);
    let switches = switches(graphs, axes);
    let [top, bottom] = axes.down();
    switches.iter().for_each(|(x, _)| dashes(svg, [(*x, top), (*x, bottom)]));
    let points = |time: &dyn Fn(&Measured) -> f64| -> Vec<(f64, f64)> {
        graphs.iter().map(|one| axes.at(one.size, time(one))).collect()
    };
    curve(svg, CPU, &points(&|one| one.cpu));
    curve(svg, GPU, &points(&|one| one.gpu));
    points(&|one| one.auto.seconds).into_iter().for_each(|at| circle(svg, at));
    // Labels stand where rising curves leave room: to the left of each, the lower the farther to the right.
    for ((x, names), row) in switches.iter().zip(1..) {
        let at = (x - 5.0, top + LINE * f64::from(row));
        text(svg, at, "end", FAINT, names);
    }
}

/// The sizes at which rules go from the CPU to the GPU, from left to right, with the names of those rules.
fn switches(graphs: &[&Measured], axes: &Axes) -> Vec<(f64, String)> {
    let on = |choice: &Choice, side| choice.backend == side;
    let mut switches: Vec<(f64, String)> = Vec::new();
    for pair in graphs.windows(2) {
        let rules = pair[0].rules.iter().zip(&pair[1].rules);
        let names: Vec<&str> = rules
            .filter(|((_, from), (_, to))| on(from, Backend::Cpu) && on(to, Backend::Gpu))
            .map(|((name, _), _)| *name)
            .collect();
        if !names.is_empty() {
            let (x, _) = axes.at((pair[0].size * pair[1].size).sqrt(), axes.y[0]);
            switches.push((x, names.join(", ")));
        }
    }
    switches
}

/// Axes of one panel, both logarithmic.
struct Axes {
    corner: [f64; 2],
    x: [f64; 2],
    y: [f64; 2],
}

impl Axes {
    fn of(graphs: &[&Measured], corner: [f64; 2]) -> Self {
        let (mut x, mut y) = ([f64::INFINITY, 0.0], [f64::INFINITY, 0.0]);
        for one in graphs {
            x = [one.size.min(x[0]), one.size.max(x[1])];
            for seconds in [one.cpu, one.gpu, one.auto.seconds] {
                y = [seconds.min(y[0]), seconds.max(y[1])];
            }
        }
        // Room for circles at the ends.
        let wider = |[low, high]: [f64; 2]| {
            let room = (high / low).powf(0.04);
            [low / room, high * room]
        };
        Self { corner, x: wider(x), y: wider(y) }
    }

    /// The ends of the plot along x.
    fn across(&self) -> [f64; 2] {
        [self.corner[0] + MARGINS[0], self.corner[0] + PANEL[0] - MARGINS[1]]
    }

    fn down(&self) -> [f64; 2] {
        [self.corner[1] + MARGINS[2], self.corner[1] + PANEL[1] - MARGINS[3]]
    }

    fn at(&self, size: f64, seconds: f64) -> (f64, f64) {
        let part = |v: f64, [low, high]: [f64; 2]| (v / low).ln() / (high / low).ln().max(1e-9);
        let ([left, right], [top, bottom]) = (self.across(), self.down());
        let x = left + part(size, self.x) * (right - left);
        (x, bottom - part(seconds, self.y) * (bottom - top))
    }

    /// A line for each power of ten, with what stands beside it.
    fn frame(&self, svg: &mut String, panel: &Panel) {
        let ([left, right], [top, bottom]) = (self.across(), self.down());
        let _ = writeln!(
            svg,
            "<text x=\"{left}\" y=\"{}\" font-size=\"15\" font-weight=\"bold\">{}</text>",
            top - 10.0,
            panel.title
        );
        for power in powers_of_ten(self.y) {
            let (_, y) = self.at(self.x[0], 10_f64.powi(power));
            line(svg, GRID, [(left, y), (right, y)]);
            text(svg, (left - 7.0, y + 4.5), "end", INK, &time_of(power));
        }
        for power in powers_of_ten(self.x) {
            let (x, _) = self.at(10_f64.powi(power), self.y[0]);
            line(svg, GRID, [(x, top), (x, bottom)]);
            text(svg, (x, bottom + LINE), "middle", INK, &size_of(power));
        }
        line(svg, FAINT, [(left, top), (left, bottom)]);
        line(svg, FAINT, [(left, bottom), (right, bottom)]);
        let below = ((left + right) / 2.0, bottom + 2.0 * LINE);
        text(svg, below, "middle", FAINT, panel.size);
    }
}

fn powers_of_ten([low, high]: [f64; 2]) -> std::ops::RangeInclusive<i32> {
    low.log10().ceil() as i32..=high.log10().floor() as i32
}

/// 10 to `power` seconds.
fn time_of(power: i32) -> String {
    let (unit, zero) = match power {
        ..=-7 => ("ns", -9),
        -6..=-4 => ("µs", -6),
        -3..=-1 => ("ms", -3),
        0.. => ("s", 0),
    };
    format!("{} {unit}", 10_f64.powi(power - zero))
}

fn size_of(power: i32) -> String {
    match power {
        ..4 => format!("{}", 10_f64.powi(power)),
        4.. => format!("10<tspan dy=\"-5\" font-size=\"10\">{power}</tspan>"),
    }
}

/// On white, so that what lies behind does not cross it.
fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, color: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\" stroke=\"white\" \
         stroke-width=\"3\" paint-order=\"stroke\">{text}</text>"
    );
}

fn curve(svg: &mut String, color: &str, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
        points.join(" ")
    );
}

fn circle(svg: &mut String, (x, y): (f64, f64)) {
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"none\" stroke=\"{INK}\" \
         stroke-width=\"1.4\"/>"
    );
}

fn line(svg: &mut String, color: &str, [(x1, y1), (x2, y2)]: [(f64, f64); 2]) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\"/>"
    );
}

fn dashes(svg: &mut String, [(x1, y1), (x2, y2)]: [(f64, f64); 2]) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{FAINT}\" \
         stroke-dasharray=\"4 3\"/>"
    );
}
