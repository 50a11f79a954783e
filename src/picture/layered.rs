//! The place of each node of a graph on paper: rows by the longest way from a source, and an order with few crossings.
//! Positions are as near to the neighbours as the order allows: a least-squares fit by pooling adjacent violators.

/// Nodes of one row; more go to further rows.
const WIDEST: usize = 6;
/// Rows that a line crosses between other nodes; a longer one goes straight.
const LONGEST: usize = 24;
/// The weight of a node beside the main way: a source, or a node that only such ones lead to.
const LIGHT: f64 = 0.1;
/// Sweeps over all rows to order their nodes, and to place them.
const ORDERING: usize = 8;
const PLACING: usize = 16;

/// Sizes on paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub node: f64,
    /// The room of a line that passes between nodes.
    pub line: f64,
    pub gap: f64,
}

/// All positions: those across are of middles, and rows are counted from 0.
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
    /// The pull on its neighbours, and its hold against them.
    weight: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// Lays out `count` nodes. Each line leads from a node to a later one.
pub(super) fn layout(count: usize, lines: &[(usize, usize)], sizes: Sizes) -> Layout {
    let node = |(row, is_light)| {
        let weight = if is_light { LIGHT } else { 1.0 };
        Point { is_node: true, row, x: 0.0, weight, above: Vec::new(), below: Vec::new() }
    };
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

/// The row of each node, and true for a node beside the main way.
fn rows(count: usize, lines: &[(usize, usize)]) -> Vec<(usize, bool)> {
    let mut row = vec![0; count];
    let mut sorted = lines.to_vec();
    sorted.sort_unstable();
    for &(from, to) in &sorted {
        row[to] = row[to].max(row[from] + 1);
    }
    let is_light = sink(&mut row, &sorted);
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
    let rows = row.iter().zip(nth).map(|(&row, nth)| begins[row] + nth);
    rows.zip(is_light).collect()
}

/// Moves down to its first reader whatever draws no other line out with it: a source, and a node all of whose operands
/// move and have no other reader. Returns which nodes may move.
fn sink(row: &mut [usize], lines: &[(usize, usize)]) -> Vec<bool> {
    let mut readers = vec![0; row.len()];
    lines.iter().for_each(|&(from, _)| readers[from] += 1);
    let mut moves = vec![true; row.len()];
    let mut first_reader = vec![None; row.len()];
    for &(from, to) in lines {
        moves[to] &= moves[from] && readers[from] == 1;
    }
    let mut upwards = lines.iter().rev().peekable();
    for node in (0..row.len()).rev() {
        while let Some(&(_, to)) = upwards.next_if(|line| line.0 == node) {
            let first = first_reader[node].unwrap_or(row[to]);
            first_reader[node] = Some(row[to].min(first));
        }
        if let (true, Some(first)) = (moves[node], first_reader[node]) {
            row[node] = first - 1;
        }
    }
    moves
}

/// The points of a line: its ends, and one for each row between.
fn way(points: &mut Vec<Point>, (from, to): (usize, usize)) -> Vec<usize> {
    let between = points[from].row + 1..points[to].row;
    let mut way = vec![from];
    if between.len() <= LONGEST {
        for row in between {
            points.push(Point {
                is_node: false,
                row,
                x: 0.0,
                weight: 1.0,
                above: vec![],
                below: vec![],
            });
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
    for sweep in 0..ORDERING {
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
    for sweep in 0..PLACING {
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
                let x = if sides == 0 { point.x } else { near / sides as f64 };
                wanted.push(Wanted { x, weight: point.weight, room });
            }
            for (&at, x) in row.iter().zip(fitted(&wanted)) {
                points[at].x = x;
            }
        }
    }
}

/// A wanted position.
struct Wanted {
    x: f64,
    weight: f64,
    /// The least distance from the begin of the row, if all stand as near as they can.
    room: f64,
}

/// The positions nearest to the wanted ones (in weighted squares) of which no two are nearer than their rooms differ.
fn fitted(wanted: &[Wanted]) -> Vec<f64> {
    // Runs that touch: the mean of what they want without their rooms, their weight, and their number.
    let mut runs: Vec<(f64, f64, usize)> = Vec::new();
    for &Wanted { x, weight, room } in wanted {
        runs.push((x - room, weight, 1));
        while let [.., before, last] = &mut runs[..]
            && before.0 > last.0
        {
            let weight = before.1 + last.1;
            let mean = (before.0 * before.1 + last.0 * last.1) / weight;
            *before = (mean, weight, before.2 + last.2);
            runs.pop();
        }
    }
    let starts = runs.iter().flat_map(|&(mean, _, n)| std::iter::repeat_n(mean, n));
    starts.zip(wanted).map(|(start, wanted)| start + wanted.room).collect()
}

/// The mean position of the neighbours, by weight.
fn mean(points: &[Point], near: &[usize]) -> Option<f64> {
    let weight: f64 = near.iter().map(|&at| points[at].weight).sum();
    let sum: f64 = near.iter().map(|&at| points[at].weight * points[at].x).sum();
    (!near.is_empty()).then(|| sum / weight)
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
    fn a_chain_is_almost_straight_and_a_source_stands_above_its_reader() {
        // 0 → 1 → 2 → 4, and 3 → 4.
        let made = layout(5, &[(0, 1), (1, 2), (2, 4), (3, 4)], SIZES);
        let rows: Vec<usize> = made.nodes.iter().map(|node| node.1).collect();
        assert_eq!(rows, [0, 1, 2, 2, 3]);
        let x: Vec<f64> = made.nodes.iter().map(|node| node.0).collect();
        assert!((x[0] - x[1]).abs() < 1.0 && (x[1] - x[2]).abs() < 20.0, "{x:?}");
        assert!((x[4] - (x[2] + x[3]) / 2.0).abs() < 20.0, "{x:?}");
    }

    #[test]
    fn a_source_and_its_view_move_down_together_unless_another_reads_it() {
        // 0 → 1 → 2 → 5, and 3 → 4 → 5; then 1 reads the source 3 as well.
        let rows = |lines: &[(usize, usize)]| -> Vec<usize> {
            layout(6, lines, SIZES).nodes.iter().map(|node| node.1).collect()
        };
        assert_eq!(rows(&[(0, 1), (1, 2), (2, 5), (3, 4), (4, 5)]), [0, 1, 2, 1, 2, 3]);
        let read_twice = rows(&[(0, 1), (1, 2), (2, 5), (0, 4), (3, 4), (4, 5)]);
        assert_eq!(read_twice, [0, 1, 2, 0, 1, 3]);
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
        let all = |wanted: &[(f64, f64, f64)]| {
            let wanted = wanted.iter().map(|&(x, weight, room)| Wanted { x, weight, room });
            fitted(&wanted.collect::<Vec<_>>())
        };
        assert_eq!(all(&[(0.0, 1.0, 10.0), (50.0, 1.0, 20.0)]), [0.0, 50.0]);
        assert_eq!(all(&[(0.0, 1.0, 10.0), (0.0, 1.0, 20.0)]), [-5.0, 5.0]);
        assert_eq!(all(&[(0.0, 3.0, 10.0), (0.0, 1.0, 20.0)]), [-2.5, 7.5]);
        let three = all(&[(9.0, 1.0, 10.0), (0.0, 1.0, 20.0), (0.0, 1.0, 30.0)]);
        assert_eq!(three, [-7.0, 3.0, 13.0]);
    }
}
