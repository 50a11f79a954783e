//! Memory over time: the bytes in use at each kernel, and the values of each buffer one after the other.

use std::fmt::Write as _;

use super::data::{Memory, Part};
use super::drawn::Drawn;
use super::markup::{Attribute, Markup};
use super::words::{percent, value};
use crate::base::units::{bytes, count};

/// Buffers that are drawn, the largest first.
const LANES: usize = 24;
/// Values of one buffer that are drawn; neighbours are joined if there are more.
const TENANTS: usize = 64;
/// Steps of the curve of bytes in use.
const COLUMNS: usize = 400;

/// A stay in a buffer.
#[derive(Clone)]
struct Tenant {
    /// The first and the last kernel of the part, or one past it.
    life: (usize, usize),
    bytes: u64,
    /// The value, if it is no memory for partial results.
    value: Option<usize>,
}

/// A buffer with those who have it, in order.
pub(super) struct Lane {
    name: String,
    bytes: u64,
    tenants: Vec<Tenant>,
}

/// The memory of one part.
pub(super) fn memory(out: &mut Markup, drawn: &Drawn<'_>, part: &Part) {
    let lanes = lanes(part);
    let used = used(part, &lanes);
    let most = used.iter().copied().max().unwrap_or(0);
    let at = used.iter().position(|&bytes| bytes == most).unwrap_or(0);
    let when = if at < part.kernels.len() {
        format!("in kernel {}", part.kernels.start + at + 1)
    } else {
        "at the end".to_owned()
    };
    out.element("p", &[], |out| {
        out.leaf("strong", &[], format_args!("peak {}", bytes(part.peak_bytes)));
        let buffers = count(part.buffers.len() as u64, "shared buffer");
        let most = bytes(most);
        out.text(format_args!(
            ": {buffers}, kept results and residents. At most {most} are in use at once, {when}."
        ));
    });
    if lanes.is_empty() {
        return;
    }
    curve(out, &used, part.peak_bytes, most);
    for lane in lanes.iter().take(LANES) {
        draw(out, drawn, part, lane);
    }
    if lanes.len() > LANES {
        let rest = lanes[LANES..].iter().map(|lane| lane.bytes).fold(0, u64::saturating_add);
        let more = lanes.len() - LANES;
        out.leaf("p", &[("class", &"soft")], format_args!("{more} smaller: {}", bytes(rest)));
    }
}

/// The number of columns: one a kernel, and one for the results.
fn columns(part: &Part) -> usize {
    part.kernels.len() + 1
}

/// The buffers, the largest first. Data of the caller takes no memory of the run.
pub(super) fn lanes(part: &Part) -> Vec<Lane> {
    let lane = |name: String, bytes| Lane { name, bytes, tenants: Vec::new() };
    let buffers = part.buffers.iter().zip(1..);
    let mut lanes: Vec<Lane> =
        buffers.map(|(&bytes, number)| lane(format!("buffer {number}"), bytes)).collect();
    for (at, stored) in part.values.iter().enumerate() {
        let tenant = |life| Tenant { life, bytes: stored.bytes, value: Some(at) };
        let whole = (0, part.kernels.len());
        let (name, life) = match (stored.memory, stored.life) {
            (Memory::Caller, _) | (Memory::Buffer(_) | Memory::Kept, None) => continue,
            (Memory::Buffer(buffer), Some(life)) => {
                lanes[buffer].tenants.push(tenant(life));
                continue;
            }
            (Memory::Resident, _) => ("resident", whole),
            (Memory::Kept, Some((first, _))) => ("kept result", (first, part.kernels.len())),
        };
        lanes.push(Lane { tenants: vec![tenant(life)], ..lane(name.to_owned(), stored.bytes) });
    }
    for &(kernel, buffer, bytes) in &part.scratch {
        lanes[buffer].tenants.push(Tenant { life: (kernel, kernel), bytes, value: None });
    }
    for lane in &mut lanes {
        lane.tenants.sort_by_key(|tenant| tenant.life);
    }
    lanes.sort_by_key(|lane| std::cmp::Reverse(lane.bytes));
    lanes
}

/// The bytes in use in each column.
pub(super) fn used(part: &Part, lanes: &[Lane]) -> Vec<u64> {
    let mut change = vec![(0_u64, 0_u64); columns(part) + 1];
    for Tenant { life: (first, last), bytes, .. } in lanes.iter().flat_map(|lane| &lane.tenants) {
        change[*first].0 = change[*first].0.saturating_add(*bytes);
        change[last + 1].1 = change[last + 1].1.saturating_add(*bytes);
    }
    let mut now = 0_u64;
    let mut used = Vec::with_capacity(columns(part));
    for (more, less) in &change[..columns(part)] {
        now = now.saturating_sub(*less).saturating_add(*more);
        used.push(now);
    }
    used
}

/// The bytes in use as an area below the line of the peak.
fn curve(out: &mut Markup, used: &[u64], peak: u64, most: u64) {
    let joined = used.len().div_ceil(COLUMNS);
    let bars: Vec<u64> =
        used.chunks(joined).map(|run| run.iter().copied().max().unwrap_or(0)).collect();
    let top = peak.max(most).max(1) as f64;
    let y = |bytes: u64| 102.0 - 100.0 * bytes as f64 / top;
    let mut path = String::from("M0 102");
    for (at, &bytes) in bars.iter().enumerate() {
        let _ = write!(path, "V{:.2}H{}", y(bytes), at + 1);
    }
    path.push_str("V102Z");
    let frame = format!("0 0 {} 102", bars.len());
    let label = format!("bytes in use, kernel by kernel, up to {}", bytes(most));
    let attributes: [Attribute<'_>; 6] = [
        ("xmlns", &"http://www.w3.org/2000/svg"),
        ("class", &"curve"),
        ("viewBox", &frame),
        ("preserveAspectRatio", &"none"),
        ("role", &"img"),
        ("aria-label", &label),
    ];
    out.element("div", &[("class", &"lane")], |out| {
        out.leaf("span", &[("class", &"lane-name")], "in use");
        out.element("svg", &attributes, |out| {
            out.empty("path", &[("class", &"area"), ("d", &path)]);
            let peak = format!("M0 {:.2}H{}", y(peak), bars.len());
            out.empty("path", &[("class", &"peak"), ("d", &peak)]);
        });
    });
}

fn draw(out: &mut Markup, drawn: &Drawn<'_>, part: &Part, lane: &Lane) {
    let columns = columns(part) as f64;
    out.element("div", &[("class", &"lane")], |out| {
        let name = format!("{} · {}", lane.name, bytes(lane.bytes));
        out.leaf("span", &[("class", &"lane-name")], name);
        out.element("div", &[("class", &"stays")], |out| {
            let joined = lane.tenants.len().div_ceil(TENANTS).max(1);
            for run in lane.tenants.chunks(joined) {
                let (first, last) = (run[0].life.0, run.iter().map(|one| one.life.1).max());
                let width = (last.unwrap_or(first) + 1 - first) as f64;
                let place = format!(
                    "left:{};width:{}",
                    percent(first as f64 / columns),
                    percent(width / columns)
                );
                stay(out, drawn, part, run, place);
            }
        });
    });
}

/// One value, or a run of them, as a box in the colour of the kernel that makes it.
fn stay(out: &mut Markup, drawn: &Drawn<'_>, part: &Part, run: &[Tenant], mut style: String) {
    let tenant = &run[0];
    let label = match (run.len(), tenant.value) {
        (1, Some(at)) => format!("v{at}"),
        (1, None) => "parts".to_owned(),
        (many, _) => format!("{many} values"),
    };
    let [first, last] = [tenant.life.0, tenant.life.1].map(|at| part.kernels.start + at + 1);
    let mut title = match (run.len(), tenant.value) {
        (1, Some(at)) => {
            let stored = &part.values[at];
            format!("{} {} at {}", value(at, stored), stored.name, stored.place)
        }
        (1, None) => format!("partial results of kernel {first} ({})", bytes(tenant.bytes)),
        (many, _) => format!("{many} values one after the other"),
    };
    if run.len() == 1 && tenant.value.is_some() {
        let _ = match tenant.life.1 == part.kernels.len() {
            true => write!(title, ", from kernel {first} to the end"),
            false => write!(title, ", from kernel {first} to kernel {last}"),
        };
    }
    let maker = tenant.value.and_then(|at| maker(drawn, part, at));
    let maker = maker.filter(|_| run.len() == 1).map(|kernel| drawn.kernel_item(kernel));
    let id = maker.map(|item| drawn.kernel_id(item)).unwrap_or_default();
    if let Some(item) = maker {
        let _ = write!(style, ";--h:{}", Drawn::hue(item));
    }
    let class = if maker.is_some() { "stay made" } else { "stay" };
    let mut attributes: Vec<Attribute<'_>> =
        vec![("class", &class), ("style", &style), ("title", &title)];
    if !id.is_empty() {
        attributes.push(("data-is", &id));
    }
    out.leaf("span", &attributes, label);
}

/// The kernel that makes a value of a part.
fn maker(drawn: &Drawn<'_>, part: &Part, value: usize) -> Option<usize> {
    part.kernels.clone().find(|&at| drawn.picture.kernels[at].writes.contains(&value))
}
