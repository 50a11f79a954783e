//! Chains: binary operations one after another whose results in between have one reader.

use super::Compiler;
use crate::base::dtype::Ty;
use crate::exec::cpu::tape::{Arg, Instruction, LinkArg, LinkRange, MOST_LINKS, TapeOp};
use crate::exec::cpu::vectors::links::Link;
use crate::expr::ExprNode;

impl Compiler<'_> {
    /// Appends `node` to the last instruction, if the two are a chain and nothing else reads that instruction's result.
    /// Removes the instruction, and returns the chain with the register that it wrote.
    pub(super) fn extend_chain(&mut self, node: ExprNode) -> Option<(TapeOp, Arg)> {
        let ExprNode::Binary(op, x, y) = node else { return None };
        let &Instruction { op: last, out } = self.instructions.last()?;
        let [from_x, from_y] = [x, y].map(|r| self.args[r.index()] == out);
        let (result, other) = if from_x { (x, y) } else { (y, x) };
        let reads = u32::from(from_x) + u32::from(from_y);
        let is_read_here_alone = reads > 0 && self.readers[result.index()] == reads;
        if !is_read_here_alone || !matches!(out, Arg::Register(_)) {
            return None;
        }
        let link = Link::of(op, from_x)?;
        let (from, range) = self.as_chain(last)?;
        self.spread(other);
        let arg =
            if reads == 2 { LinkArg::Result } else { self.link_arg(self.args[other.index()]) };
        self.links.push((link, arg));
        self.instructions.pop();
        Some((TapeOp::Chain(from, LinkRange { count: range.count + 1, ..range }), out))
    }

    /// Makes the last instruction a chain that can grow, whose links are the last of all. Returns its first argument and the
    /// range of its links.
    fn as_chain(&mut self, last: TapeOp) -> Option<(Arg, LinkRange)> {
        match last {
            TapeOp::Chain(from, links) => (links.count < MOST_LINKS).then_some((from, links)),
            TapeOp::Binary(op, Ty::F32, x, y) => {
                let from_x = !matches!(self.link_arg(x), LinkArg::Constant(_));
                let (from, other) = if from_x { (x, y) } else { (y, x) };
                let link = Link::of(op, from_x)?;
                let arg = if x == y { LinkArg::Result } else { self.link_arg(other) };
                self.links.push((link, arg));
                Some((from, LinkRange { first: self.links.len() - 1, count: 1 }))
            }
            _ => None,
        }
    }

    /// Returns `arg` as an operand of a link: the constant or the lane of each long stretch, if its register holds such.
    fn link_arg(&self, arg: Arg) -> LinkArg {
        /// Fewest elements of a stretch that is worth a pass of its own.
        const SHORTEST_PASS: usize = 256;
        let Arg::Register(register) = arg else { return LinkArg::Lanes(arg) };
        if let Ok(at) = self.constants.binary_search_by_key(&register, |&(at, _)| at) {
            return LinkArg::Constant(f32::from_bits(self.constants[at].1));
        }
        let is_long = self.inner.len >= SHORTEST_PASS;
        match self.inner.spread.iter().find(|(_, to)| is_long && *to == register) {
            Some(&(from, _)) => LinkArg::Stretches(from),
            None => LinkArg::Lanes(arg),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::operands::BoundInput;
    use crate::exec::cpu::tape::{Machine, Span, Tape};
    use crate::expr::reference::{LaneValue, LeafValues, evaluate};
    use crate::expr::{Builder, E};

    const LEN: usize = 300;

    impl Tape {
        fn links_of(&self, op: TapeOp) -> &[(Link, LinkArg)] {
            if let TapeOp::Chain(_, links) = op { self.links(links) } else { &[] }
        }
    }

    /// Compares the tape of a function of four operands with the reference in `f64`, and returns the tape. The operands are
    /// small whole numbers, infinities and NaN, so that no operation rounds.
    fn check(function: impl for<'b> Fn([E<'b>; 4]) -> E<'b>) -> Tape {
        let numbers = [0.0, -0.0, 1.0, -3.0, 2.0, f32::INFINITY, -1.0, f32::NAN, 3.0];
        let lanes: [Vec<f32>; 4] =
            [1, 2, 5, 7].map(|step| (0..LEN).map(|at| numbers[(at * step + at / 9) % 9]).collect());
        let bits = lanes.each_ref().map(|lanes| bytemuck::cast_slice(lanes));
        let inputs = bits.map(|words| Some(BoundInput::Memory(words)));
        let builder = Builder::default();
        let root = function([0, 1, 2, 3].map(|operand| builder.load(operand, Ty::F32))).r();
        let expr = builder.finish();
        let tape = Tape::compile(&expr, &[root], &[], &inputs);
        let mut machine = Machine::new(&tape);
        let span = Span { inputs: &inputs, start: 0, len: LEN, acc: &[] };
        machine.run(&span);
        for (at, &got) in machine.root(0, &span).iter().enumerate() {
            let loads = lanes.each_ref().map(|lanes| LaneValue::F(f64::from(lanes[at])));
            let leaves = LeafValues { loads: &loads, ..LeafValues::default() };
            let Some(LaneValue::F(want)) = evaluate(&expr, root, leaves) else {
                panic!("no value")
            };
            let got = f32::from_bits(got);
            let same = f64::from(got).to_bits() == want.to_bits();
            assert!(same || (got.is_nan() && want.is_nan()), "{at}: {got} for {want}");
        }
        tape
    }

    #[test]
    fn operations_with_one_reader_are_chains() {
        let tape = check(|[a, b, c, d]| {
            let mut t = a * b;
            for _ in 0..3 {
                t = (a.literal(2.0) - (t + c)).max(-9.0);
                t = (t * t - d).min(a).max(b);
            }
            d.min(t)
        });
        assert_eq!(tape.instructions.len(), 2, "23 links, 16 in a chain");
        assert_eq!(tape.links.len(), 23);
        assert!(tape.constants.is_empty(), "links hold their constants themselves");
    }

    #[test]
    fn results_with_two_readers_have_lanes() {
        let tape = check(|[a, b, c, d]| {
            let t = a * b - c;
            (t + d).max(t) * (t - 1.0)
        });
        let lengths: Vec<usize> =
            tape.instructions.iter().map(|it| tape.links_of(it.op).len()).collect();
        assert_eq!(lengths, [2, 2, 2], "{tape:?}");
        check(|[a, b, _, d]| (a + a) * (b - b).max(d) + (a * a).min(a));
        check(|[a, b, c, _]| (a.literal(2.0) - a) * b - (c.literal(-3.0) * c).min(a.literal(1.0)));
    }
}
