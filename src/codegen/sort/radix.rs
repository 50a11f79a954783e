//! Sorts by digits of the keys, the least first (LSD radix sort): for each digit, tiles count theirs, the counts
//! are summed up, and each element moves to its place among those of its digit.

use super::keys::SortKernel;
use crate::codegen::Dispatch;
use crate::codegen::group_fold::GroupFold;
use crate::codegen::kernel::template::{fill, holes, indent, shader};
use crate::codegen::kernel::{KernelBuilder, THREADS};
use crate::cost::Subgroups;
use crate::ops::key_bits;
use crate::plan::{SortForm, SortSchedule};

/// The dispatches of a sort by digits, three a digit.
pub(super) fn lower<'a>(
    sort: &SortKernel,
    kernel: &dyn Fn() -> KernelBuilder<'a>,
) -> Vec<Dispatch> {
    let SortSchedule::Digits { bits, votes } = sort.schedule else { return Vec::new() };
    let subgroups = kernel().limits.subgroups.filter(|_| votes);
    let radix = Radix::new(sort, bits, subgroups);
    let passes = 0..radix.passes;
    let of = |pass| [radix.count(kernel(), pass), radix.sum(kernel()), radix.place(kernel(), pass)];
    passes.flat_map(of).collect()
}

struct Radix<'s> {
    sort: &'s SortKernel,
    /// The subgroups whose votes find the elements of equal digits.
    votes: Option<Subgroups>,
    /// Bits of a digit.
    bits: u32,
    /// Elements of a tile that a thread takes.
    keys: usize,
    tiles: usize,
    passes: u32,
    /// The lowest bit in which keys differ.
    low: u32,
}

impl<'s> Radix<'s> {
    fn new(sort: &'s SortKernel, bits: u32, votes: Option<Subgroups>) -> Self {
        let differing = key_bits(sort.dtype);
        let (tile, passes) = (sort.schedule.tile(), (differing.len() as u32).div_ceil(bits));
        let (keys, tiles) = (tile / THREADS, sort.rows.len.div_ceil(tile));
        Self { sort, votes, bits, keys, tiles, passes, low: differing.start }
    }

    fn digits(&self) -> usize {
        1 << self.bits
    }

    fn tile(&self) -> usize {
        THREADS * self.keys
    }

    fn elements(&self) -> usize {
        self.sort.rows.count() * self.sort.rows.len
    }

    /// The place in the scratch memory of the keys that a pass other than the last leaves. Where positions are wanted,
    /// they follow the keys.
    fn left_by(&self, pass: u32) -> usize {
        let parts = if self.sort.positions { 2 } else { 1 };
        (pass as usize % 2) * parts * self.elements()
    }

    /// The place of the counts, as [rows, digits, tiles], and behind them the sums, as [rows, digits].
    fn counts(&self) -> [usize; 2] {
        let counts = self.elements() * if self.sort.positions { 4 } else { 2 };
        [counts, counts + self.sort.rows.count() * self.digits() * self.tiles]
    }

    /// Binds the inputs of the first pass and the scratch memory, whose name it gives, and the outputs in the last if
    /// the kernel `writes` them.
    fn bind(&self, kernel: &mut KernelBuilder<'_>, pass: u32, writes: bool) -> String {
        if writes && pass + 1 == self.passes {
            self.sort.rows.bind_outputs(kernel);
        }
        let scratch = kernel.bind_scratch(true);
        if pass == 0 {
            self.sort.rows.bind_prologue(kernel);
        }
        scratch
    }

    /// The functions `fetch` and, if wanted, `position`, of the elements that the pass before left.
    fn source(
        &self,
        kernel: &mut KernelBuilder<'_>,
        pass: u32,
        scratch: &str,
        positions: bool,
    ) -> String {
        let load = |name: &str, from: &str, len: &str| {
            format!(
                "fn {name}(row: u32, j: u32) -> u32 {{\n    \
                 return {scratch}[{from} + row * {len} + j];\n}}\n"
            )
        };
        let (mut text, mut position) = (String::new(), String::new());
        if pass == 0 {
            text = self.sort.fetch(kernel);
            position = "fn position(row: u32, j: u32) -> u32 {\n    return j;\n}\n".to_string();
        } else {
            let from = self.left_by(pass - 1);
            let (keys, len) = (kernel.size(from), kernel.size(self.sort.rows.len));
            text.push_str(&load("fetch", &keys, &len));
            if positions {
                let from = kernel.size(from + self.elements());
                position = load("position", &from, &len);
            }
        }
        if positions { [text, position].join("\n") } else { text }
    }

    /// The function `digit` of a key.
    fn digit(&self, kernel: &mut KernelBuilder<'_>, pass: u32) -> String {
        let shift = kernel.size((self.low + pass * self.bits) as usize);
        let most = self.digits() - 1;
        format!("fn digit(key: u32) -> u32 {{\n    return (key >> {shift}) & {most}u;\n}}\n")
    }

    fn label(&self, what: &str, pass: u32) -> String {
        format!(" ({what} of digit {} of {})", pass + 1, self.passes)
    }

    /// The count of each digit in each tile.
    fn count(&self, mut kernel: KernelBuilder<'_>, pass: u32) -> Dispatch {
        let scratch = self.bind(&mut kernel, pass, false);
        let groups = self.sort.rows.count() * self.tiles;
        let [counts, _] = self.counts();
        let holes = holes! {
            source: self.source(&mut kernel, pass, &scratch, false),
            digit: self.digit(&mut kernel, pass), start: self.sort.each_group(&mut kernel, groups),
            digits: self.digits(), tile: self.tile(), scratch, tiles: kernel.size(self.tiles),
            len: kernel.size(self.sort.rows.len), counts: kernel.size(counts),
        };
        kernel.dispatch(shader!("sort/count.wgsl"), &holes, &self.label("count", pass), groups)
    }

    /// The sum of the counts of each row and digit before each tile, and of all of them.
    fn sum(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
        let scratch = kernel.bind_scratch(true);
        let group_fold =
            GroupFold { width: THREADS, stride: 1, subgroups: kernel.limits.subgroups };
        let groups = self.sort.rows.count() * self.digits();
        let [counts, sums] = self.counts();
        let (builtins, thread) = group_fold.numbering();
        let holes = holes! {
            state: sum("u32", "0u"), around: group_fold.around(), builtins, thread,
            around_own: group_fold.around_of("own", "thread"),
            start: self.sort.each_group(&mut kernel, groups), scratch,
            tiles: kernel.size(self.tiles), counts: kernel.size(counts), sums: kernel.size(sums),
        };
        kernel.dispatch(shader!("sort/sum.wgsl"), &holes, " (sums)", groups)
    }

    /// The elements in the places that the sums say, or in the outputs.
    fn place(&self, mut kernel: KernelBuilder<'_>, pass: u32) -> Dispatch {
        let scratch = self.bind(&mut kernel, pass, true);
        let sort = self.sort;
        let groups = sort.rows.count() * self.tiles;
        let [counts, sums] = self.counts();
        let last = pass + 1 == self.passes;
        let group_fold = self.group_fold();
        let (builtins, thread) = group_fold.numbering();
        let holes = holes! {
            source: self.source(&mut kernel, pass, &scratch, sort.positions),
            digit: self.digit(&mut kernel, pass), write: self.write(&mut kernel, pass, &scratch),
            ranking: self.ranking(group_fold), builtins, thread,
            start: sort.each_group(&mut kernel, groups), load: self.load(),
            rank: self.rank(group_fold), exchange: self.exchange(), digits: self.digits(),
            tile: self.tile(), scratch, tiles: kernel.size(self.tiles),
            len: kernel.size(sort.rows.len),
            wanted: kernel.size(if last { sort.count } else { sort.rows.len }),
            counts: kernel.size(counts), sums: kernel.size(sums),
        };
        kernel.dispatch(shader!("sort/place.wgsl"), &holes, &self.label("places", pass), groups)
    }

    fn group_fold(&self) -> GroupFold {
        GroupFold { width: THREADS, stride: 1, subgroups: self.votes }
    }

    /// The function `write`, which puts an element where the next pass finds it, or into the outputs.
    fn write(&self, kernel: &mut KernelBuilder<'_>, pass: u32, scratch: &str) -> String {
        if pass + 1 == self.passes {
            return self.sort.write(kernel);
        }
        let (to, len) = (self.left_by(pass), kernel.size(self.sort.rows.len));
        let keys = kernel.size(to);
        let mut body = format!("let at = row * {len} + j;\n{scratch}[{keys} + at] = key;\n");
        if self.sort.positions {
            let positions = kernel.size(to + self.elements());
            body += &format!("{scratch}[{positions} + at] = position;\n");
        }
        let body = indent(&body);
        format!("fn write(row: u32, j: u32, key: u32, position: u32) {{\n{body}}}\n")
    }

    /// The texts that `each` makes of the numbers of a thread's elements.
    fn each(&self, each: impl Fn(usize) -> String) -> String {
        (0..self.keys).map(each).collect()
    }

    /// Statements that load a thread's elements. The padding of a row's last tile counts as its last elements.
    fn load(&self) -> String {
        let keys = self.keys;
        let most = self.digits() - 1;
        let at = |k| match self.votes {
            Some(_) => format!("subgroup * (size * {keys}u) + {k}u * size + invocation"),
            None => format!("thread * {keys}u + {k}u"),
        };
        let positions = self.sort.positions;
        self.each(|k| {
            let mut text = format!(
                "let at{k} = {};\nlet j{k} = first + min(at{k}, valid - 1u);\n\
                 let key{k} = fetch(row, j{k});\n\
                 let digit{k} = select({most}u, digit(key{k}), at{k} < valid);\n",
                at(k)
            );
            if positions {
                text += &format!("let position{k} = position(row, j{k});\n");
            }
            text
        })
    }

    /// The functions that rank elements.
    fn ranking(&self, group_fold: GroupFold) -> String {
        let Some(subgroups) = self.votes else {
            // Counts of four digits.
            return [sum("vec4<u32>", "State()"), group_fold.around()].join("\n");
        };
        let mask = if subgroups.most <= 32 {
            shader!("sort/votes_32.wgsl")
        } else {
            shader!("sort/votes_128.wgsl")
        };
        let bits = (0..self.bits).fold(String::new(), |mut text, bit| {
            text += &format!("let bit{bit} = (digit & {}u) != 0u;\n", 1 << bit);
            text += &format!("let vote{bit} = ballot(bit{bit});\n");
            text += &format!("all = all & select(~vote{bit}, vote{bit}, bit{bit});\n");
            text
        });
        let peers = indent(&format!("var all = ballot(true);\n{bits}return all;\n"));
        format!(
            "{mask}\nfn peers(digit: u32) -> Mask {{\n{peers}}}\n\n\
             var<workgroup> ranks: array<atomic<u32>, {}>;\n\n{}\n{}",
            SortForm::COUNTS,
            sum("u32", "0u"),
            group_fold.around()
        )
    }

    /// Statements that find the place of each element in the order of its tile, and how far from there it is to its
    /// place in the row.
    fn rank(&self, group_fold: GroupFold) -> String {
        if self.votes.is_none() {
            let ranks = self
                .each(|k| format!("let rank{k} = counts[digit{k}];\ncounts[digit{k}] += 1u;\n"));
            let places = self.each(|k| {
                format!("let place{k} = locals[digit{k}] + around.before[digit{k}] + rank{k};\n")
            });
            let around = group_fold.around_of("counts", "thread");
            return fill(shader!("sort/counters.wgsl"), &holes! { ranks, around, places });
        }
        let ranks = self.each(|k| {
            format!(
                "let peers{k} = peers(digit{k});\nlet leader{k} = lowest(peers{k});\n\
                 var taken{k} = 0u;\nif invocation == leader{k} {{\n    \
                 taken{k} = atomicAdd(&ranks[own + digit{k}], members(peers{k}));\n}}\n\
                 let rank{k} = subgroupShuffle(taken{k}, leader{k}) + members(peers{k} & lower);\n"
            )
        });
        let places = self
            .each(|k| format!("let place{k} = rank{k} + atomicLoad(&ranks[own + digit{k}]);\n"));
        let local = group_fold.around_of("here", "thread");
        let start = group_fold.around_of("everywhere", "thread");
        let (slots, digits) = (SortForm::COUNTS, self.digits());
        let holes = holes! { slots, digits, ranks, local, start, places };
        fill(shader!("sort/votes.wgsl"), &holes)
    }

    /// Statements that bring elements in the order of their places, so that neighbours are written together.
    fn exchange(&self) -> String {
        let give = |what: &str| self.each(|k| format!("moved[place{k}] = {what}{k};\n"));
        let take = |what: &str| self.each(|k| format!("let {what}{k} = moved[slot{k}];\n"));
        let slots = self.each(|k| format!("let slot{k} = thread + {}u;\n", k * THREADS));
        let mut text = format!("{slots}{}workgroupBarrier();\n{}", give("key"), take("moved_key"));
        if self.sort.positions {
            text += &format!(
                "workgroupBarrier();\n{}workgroupBarrier();\n{}",
                give("position"),
                take("moved_position")
            );
        }
        text + &self.each(|k| {
            let position =
                if self.sort.positions { format!("moved_position{k}") } else { "0u".to_string() };
            format!(
                "let to{k} = shifts[digit(moved_key{k})] + slot{k};\n\
                 if slot{k} < valid && to{k} < wanted {{\n    \
                 write(row, to{k}, moved_key{k}, {position});\n}}\n"
            )
        })
    }
}

/// The sum of the WGSL type `ty`, from `zero` on, for `around`.
fn sum(ty: &str, zero: &str) -> String {
    format!(
        "alias State = {ty};\n\nfn identity() -> State {{\n    return {zero};\n}}\n\n\
         fn merge(a: State, b: State) -> State {{\n    return a + b;\n}}\n"
    )
}
