//! The place of each node of a graph on paper: rows by the longest way from a source, an order with few crossings, then
//! positions as near to the neighbours as the order allows (a least-squares fit by pooling adjacent violators).

/// Nodes of one row; more go to further rows.
const WIDEST: usize = 6;
/// Rows that a line crosses between other nodes; a longer one goes straight.
const LONGEST: usize = 24;
/// Sweeps over all rows, to order and to place.
const SWEEPS: usize = 8;

/// Sizes on paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub node: f64,
    /// The room of a line that passes between nodes.
    pub line: f64,
    pub gap: f64,
}

/// Where everything is: positions across are of middles, rows are counted from 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub nodes: Vec<(f64, usize)>,
    /// For each line, the points on its way, from its first node to its last.
    pub lines: Vec<Vec<(f64, usize)>>,
    pub width: f64,
    pub rows: usize,
}

/// A node, or the point at which a line crosses a row.
struct Point {
    is_node: bool,
    row: usize,
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// Lays out `count` nodes. Each line leads from a node to a later one.
pub(super) fn layout(count: usize, lines: &[(usize, usize)], sizes: Sizes) -> Layout {
    let node = |row| Point { is_node: true, row, x: 0.0, above: Vec::new(), below: Vec::new() };
    let mut points: Vec<Point> = rows(count, lines).into_iter().map(node).collect();
    let ways: Vec<Vec<usize>> = lines.iter().map(|&line| way(&mut points, line)).collect();
    let last = points.iter().map(|point| point.row + 1).max().unwrap_or(0);
    let mut table: Vec<Vec<usize>> = vec![Vec::new(); last];
    for (at, point) in points.iter().enumerate() {
        table[point.row].push(at);
    }
    order(&mut points, &mut table);
    place(&mut points, &table, sizes);
    let half = |point: &Point| if point.is_node { sizes.node } else { sizes.line } / 2.0;
    let left = points.iter().map(|point| point.x - half(point)).fold(f64::INFINITY, f64::min);
    let right = points.iter().map(|point| point.x + half(point)).fold(left, f64::max);
    let of = |at: usize| (points[at].x - left, points[at].row);
    Layout {
        nodes: (0..count).map(of).collect(),
        lines: ways.iter().map(|way| way.iter().map(|&at| of(at)).collect()).collect(),
        width: if count == 0 { 0.0 } else { right - left },
        rows: last,
    }
}

/// The row of each node.
fn rows(count: usize, lines: &[(usize, usize)]) -> Vec<usize> {
    let mut row = vec![0; count];
    let mut sorted = lines.to_vec();
    sorted.sort_unstable();
    for &(from, to) in &sorted {
        row[to] = row[to].max(row[from] + 1);
    }
    // A source stands just above its first reader.
    let mut first_reader = vec![None; count];
    let mut is_source = vec![true; count];
    for &(from, to) in lines {
        is_source[to] = false;
        let first = first_reader[from].unwrap_or(row[to]);
        first_reader[from] = Some(row[to].min(first));
    }
    for node in (0..count).filter(|&node| is_source[node]) {
        row[node] = first_reader[node].map_or(0, |first| first - 1);
    }
    // Rows with too many nodes become several.
    let mut taken = vec![0; row.iter().max().map_or(0, |last| last + 1)];
    let nth: Vec<usize> = row
        .iter()
        .map(|&row| {
            taken[row] += 1;
            (taken[row] - 1) / WIDEST
        })
        .collect();
    let mut begins = Vec::with_capacity(taken.len());
    let mut next = 0;
    for nodes in taken {
        begins.push(next);
        next += nodes.div_ceil(WIDEST);
    }
    row.iter().zip(nth).map(|(&row, nth)| begins[row] + nth).collect()
}

/// The points of a line: its ends, and one for each row between.
fn way(points: &mut Vec<Point>, (from, to): (usize, usize)) -> Vec<usize> {
    let between = points[from].row + 1..points[to].row;
    let mut way = vec![from];
    if between.len() <= LONGEST {
        for row in between {
            points.push(Point { is_node: false, row, x: 0.0, above: vec![], below: vec![] });
            way.push(points.len() - 1);
        }
        way.push(to);
        for step in way.windows(2) {
            points[step[0]].below.push(step[1]);
            points[step[1]].above.push(step[0]);
        }
    } else {
        way.push(to);
    }
    way
}

/// Orders each row by the mean place of the neighbours, downwards and upwards in turn.
fn order(points: &mut [Point], table: &mut [Vec<usize>]) {
    let number = |points: &mut [Point], row: &[usize]| {
        row.iter().enumerate().for_each(|(nth, &at)| points[at].x = nth as f64);
    };
    table.iter().for_each(|row| number(points, row));
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let rows: Vec<usize> =
            if down { (0..table.len()).collect() } else { (0..table.len()).rev().collect() };
        for row in rows {
            let key = |at: usize| {
                let point = &points[at];
                mean(points, if down { &point.above } else { &point.below }).unwrap_or(point.x)
            };
            let mut keyed: Vec<(f64, usize)> = table[row].iter().map(|&at| (key(at), at)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            table[row] = keyed.into_iter().map(|(_, at)| at).collect();
            number(points, &table[row]);
        }
    }
}

/// Places the points of each row near their neighbours, in the order of the row.
fn place(points: &mut [Point], table: &[Vec<usize>], sizes: Sizes) {
    let width = |point: &Point| if point.is_node { sizes.node } else { sizes.line };
    for row in table {
        let whole: f64 = row.iter().map(|&at| width(&points[at]) + sizes.gap).sum();
        let mut x = -whole / 2.0;
        for &at in row {
            let room = width(&points[at]) + sizes.gap;
            points[at].x = x + room / 2.0;
            x += room;
        }
    }
    for sweep in 0..SWEEPS {
        for turn in 0..table.len() {
            let row = &table[if sweep % 2 == 0 { turn } else { table.len() - 1 - turn }];
            let mut room = 0.0;
            let mut wanted = Vec::with_capacity(row.len());
            let mut before = 0.0;
            for &at in row {
                let point = &points[at];
                room += (before + width(point)) / 2.0 + sizes.gap;
                before = width(point);
                let near = [mean(points, &point.above), mean(points, &point.below)];
                let sides = near.iter().flatten().count();
                let near: f64 = near.iter().flatten().sum();
                wanted.push((if sides == 0 { point.x } else { near / sides as f64 }, room));
            }
            for (&at, x) in row.iter().zip(fitted(&wanted)) {
                points[at].x = x;
            }
        }
    }
}

/// The positions nearest to the wanted ones (in squares) of which no two are nearer than their rooms differ.
fn fitted(wanted: &[(f64, f64)]) -> Vec<f64> {
    // Runs that touch: the sum of what they want without their rooms, and their number.
    let mut runs: Vec<(f64, usize)> = Vec::new();
    for &(x, room) in wanted {
        runs.push((x - room, 1));
        while let [.., before, last] = &mut runs[..]
            && before.0 / before.1 as f64 > last.0 / last.1 as f64
        {
            *before = (before.0 + last.0, before.1 + last.1);
            runs.pop();
        }
    }
    let starts = runs.iter().flat_map(|&(sum, n)| std::iter::repeat_n(sum / n as f64, n));
    starts.zip(wanted).map(|(start, (_, room))| start + room).collect()
}

fn mean(points: &[Point], near: &[usize]) -> Option<f64> {
    let sum: f64 = near.iter().map(|&at| points[at].x).sum();
    (!near.is_empty()).then(|| sum / near.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { node: 100.0, line: 10.0, gap: 10.0 };

    #[test]
    fn nothing_and_one_node() {
        assert_eq!(layout(0, &[], SIZES), Layout::default());
        let one = layout(1, &[], SIZES);
        assert_eq!((one.nodes, one.width, one.rows), (vec![(50.0, 0)], 100.0, 1));
    }

    #[test]
    fn a_chain_is_straight_and_a_source_stands_above_its_reader() {
        // 0 → 1 → 2 → 4, and 3 → 4.
        let made = layout(5, &[(0, 1), (1, 2), (2, 4), (3, 4)], SIZES);
        let rows: Vec<usize> = made.nodes.iter().map(|node| node.1).collect();
        assert_eq!(rows, [0, 1, 2, 2, 3]);
        let x: Vec<f64> = made.nodes.iter().map(|node| node.0).collect();
        assert!((x[0] - x[2]).abs() < 1.0 && (x[1] - x[2]).abs() < 1.0, "{x:?}");
        assert!((x[4] - (x[2] + x[3]) / 2.0).abs() < 20.0, "{x:?}");
    }

    #[test]
    fn nodes_of_a_row_never_overlap_and_lines_lead_down() {
        let mut seed = 7_u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for count in [2, 3, 10, 60, 200] {
            let lines: Vec<(usize, usize)> =
                (1..count).flat_map(|to| [(next(to), to), (next(to), to)]).collect();
            let made = layout(count, &lines, SIZES);
            for (a, one) in made.nodes.iter().enumerate() {
                for other in made.nodes[a + 1..].iter().filter(|other| other.1 == one.1) {
                    assert!((one.0 - other.0).abs() > 109.9, "{one:?} {other:?}");
                }
                assert!(one.0 >= 49.9 && one.0 <= made.width - 49.9);
            }
            for (line, way) in lines.iter().zip(&made.lines) {
                assert_eq!(
                    (way.first(), way.last()),
                    (Some(&made.nodes[line.0]), Some(&made.nodes[line.1]))
                );
                assert!(way.windows(2).all(|step| step[0].1 < step[1].1));
            }
        }
    }

    #[test]
    fn the_fit_is_the_least_squares_one() {
        assert_eq!(fitted(&[(0.0, 10.0), (50.0, 20.0)]), [0.0, 50.0]);
        assert_eq!(fitted(&[(0.0, 10.0), (0.0, 20.0)]), [-5.0, 5.0]);
        assert_eq!(fitted(&[(9.0, 10.0), (0.0, 20.0), (0.0, 30.0)]), [-7.0, 3.0, 13.0]);
    }
}
