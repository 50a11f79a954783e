//! Einstein's summation, made of views, products and sums.

use crate::base::dtype::Numeric;
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::ops::{Label, Subscripts};
use crate::record::Refusal;

/// A tensor whose axes have labels, none of them twice.
struct Term<'b, T> {
    x: Tensor<'b, T>,
    axes: Vec<(Label, usize)>,
}

impl<T: Numeric> Term<'_, T> {
    fn size(&self, label: Label) -> Option<usize> {
        self.axes.iter().find(|(own, _)| *own == label).map(|&(_, size)| size)
    }

    fn has(&self, label: Label) -> bool {
        self.size(label).is_some()
    }
}

/// Einstein's summation.
impl GpuCommandBatch {
    /// Einstein's summation by NumPy's rules: `subscripts` names the axes of each operand and, after `->`, those of the
    /// result; letters that the result lacks are summed over. `"bij,bjk->bik"` is a batched matrix product, `"ii->i"` a
    /// diagonal, `"...i->..."` a sum over the last axis. Sizes of 1 broadcast. It is a mistake if the subscripts cannot be
    /// read, do not fit an operand, or give one letter two sizes.
    ///
    /// Two operands at a time become one: a matrix product where both have axes of their own, else an
    /// elementwise product, summed. Of more than two, those go first whose product takes the fewest multiplications.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.full([8, 5, 3], 1.0_f32);
    /// let w = batch.full([3, 4], 1.0_f32);
    /// let y = batch.einsum("bti,io->bot", &[x, w]);
    /// assert_eq!(batch.shape(y).unwrap().dims(), [8, 4, 5]);
    /// ```
    #[track_caller]
    pub fn einsum<T: Numeric>(
        &self,
        subscripts: &str,
        operands: impl IntoIterator<Item = impl Operand<T>>,
    ) -> Tensor<'_, T> {
        // Not within the call, nor in a closure: operations that the iterator records are the user's own.
        let mut tensors = Vec::new();
        for x in operands {
            tensors.push(self.operand(self.option("einsum", x)));
        }
        self.composed_of("einsum", |named| {
            named.extend(tensors.iter().map(|tensor| tensor.value()));
            einsum(subscripts, &tensors)
        })
    }
}

registry_rows! {
    "matmul";
    einsum, NUMERIC, "made of views, `matmul`, `mul` and `sum`", SUMMED, "Einstein's summation, with ellipses, diagonals and any number of operands.";
}

fn einsum<'b, T: Numeric>(subscripts: &str, operands: &[Tensor<'b, T>]) -> TensorResult<'b, T> {
    let (mut terms, result) = terms(subscripts, operands)?;
    for at in 0..terms.len() {
        let needed = |label| result.contains(&label) || elsewhere(&terms, &[at], label);
        terms[at] = summed(&terms[at], needed);
    }
    while terms.len() > 1 {
        let [first, second] = cheapest(&terms);
        let needed: Vec<Label> = labels(&terms)
            .filter(|&label| result.contains(&label) || elsewhere(&terms, &[first, second], label))
            .collect();
        let (y, x) = (terms.remove(second), terms.remove(first));
        terms.insert(first, contract(&x, &y, &needed));
    }
    match terms.pop() {
        Some(term) => Ok(in_order(&term, &result)),
        None => Err(MistakeKind::ConcatEmpty.into()),
    }
}

/// The operands with their labels, each once, and the labels of the result.
fn terms<'b, T: Numeric>(
    text: &str,
    operands: &[Tensor<'b, T>],
) -> Result<(Vec<Term<'b, T>>, Vec<Label>), Refusal> {
    let shapes: Vec<Shape> = operands.iter().map(|x| x.known_shape()).collect::<Result<_, _>>()?;
    let ranks: Vec<usize> = shapes.iter().map(Shape::rank).collect();
    let subscripts = Subscripts::parse(text, &ranks).map_err(|wrong| {
        let subscripts = text.to_owned();
        MistakeKind::Subscripts { subscripts, at: wrong.at, what: wrong.what }
    })?;
    let mut sizes: Vec<(Label, usize)> = Vec::new();
    for (labels, shape) in subscripts.operands.iter().zip(&shapes) {
        for (&label, &size) in labels.iter().zip(shape.dims()) {
            match sizes.iter_mut().find(|(known, _)| *known == label) {
                None => sizes.push((label, size)),
                Some((_, known)) if *known == 1 => *known = size,
                Some((_, known)) if size == 1 || *known == size => {}
                Some(&mut (_, known)) => {
                    let (subscripts, label) = (text.to_owned(), label.to_string());
                    let sizes = [known, size];
                    return Err(MistakeKind::LabelSizes { subscripts, label, sizes }.into());
                }
            }
        }
    }
    let terms = operands.iter().zip(subscripts.operands).zip(&shapes);
    let terms = terms.map(|((&x, labels), shape)| term(x, &labels, shape, &sizes));
    Ok((terms.collect(), subscripts.result))
}

/// An operand repeated to the sizes of its labels, with the diagonal of axes that share one.
fn term<'b, T: Numeric>(
    x: Tensor<'b, T>,
    labels: &[Label],
    shape: &Shape,
    sizes: &[(Label, usize)],
) -> Term<'b, T> {
    let size = |label: Label, own| {
        sizes.iter().find(|(known, _)| *known == label).map_or(own, |&(_, size)| size)
    };
    let axes = labels.iter().zip(shape.dims());
    let mut axes: Vec<(Label, usize)> =
        axes.map(|(&label, &own)| (label, size(label, own))).collect();
    let full: Shape = axes.iter().map(|&(_, size)| size).collect();
    let mut x = if full == *shape { x } else { x.broadcast_to(full) };
    while let Some([first, second]) = twice(&axes) {
        x = diagonal_of(x, &axes, [first, second]);
        let diagonal = axes.remove(second);
        axes.remove(first);
        axes.push(diagonal);
    }
    Term { x, axes }
}

/// The diagonal of two equal axes, which come last, as one: every n + 1st of their n² elements.
fn diagonal_of<'b, T: Numeric>(
    x: Tensor<'b, T>,
    axes: &[(Label, usize)],
    [first, second]: [usize; 2],
) -> Tensor<'b, T> {
    let n = axes[first].1;
    let others: Vec<usize> = (0..axes.len()).filter(|&a| a != first && a != second).collect();
    let order: Vec<isize> =
        others.iter().chain(&[first, second]).map(|&axis| axis as isize).collect();
    let dims: Vec<usize> = others.iter().map(|&a| axes[a].1).chain([n * n]).collect();
    let mut ranges: Vec<_> = dims.iter().map(|&dim| (0..dim, 1)).collect();
    if let Some((_, step)) = ranges.last_mut() {
        *step = n as isize + 1;
    }
    x.permute(order).reshape(dims).slice(ranges)
}

/// The sum over the axes of labels that are not `needed`.
fn summed<'b, T: Numeric>(term: &Term<'b, T>, needed: impl Fn(Label) -> bool) -> Term<'b, T> {
    let lost = term.axes.iter().enumerate().filter(|(_, (label, _))| !needed(*label));
    let lost: Vec<isize> = lost.map(|(axis, _)| axis as isize).collect();
    let axes = term.axes.iter().copied().filter(|&(label, _)| needed(label)).collect();
    Term { x: if lost.is_empty() { term.x } else { term.x.sum(&lost[..]) }, axes }
}

/// The product of two operands, summed over shared labels that are not `needed`.
fn contract<'b, T: Numeric>(x: &Term<'b, T>, y: &Term<'b, T>, needed: &[Label]) -> Term<'b, T> {
    let shared = |needs: bool| {
        let axes = x.axes.iter().copied();
        axes.filter(move |&(label, _)| y.has(label) && needed.contains(&label) == needs)
    };
    let (batch, summed): (Vec<_>, Vec<_>) = (shared(true).collect(), shared(false).collect());
    let own = |of: &Term<'b, T>, other: &Term<'b, T>| -> Vec<(Label, usize)> {
        of.axes.iter().copied().filter(|&(label, _)| !other.has(label)).collect()
    };
    let (rows, columns) = (own(x, y), own(y, x));
    if !summed.is_empty() && !rows.is_empty() && !columns.is_empty() {
        let left = matrix(x, &batch, &rows, &summed);
        let product = left.matmul(matrix(y, &batch, &summed, &columns));
        let axes = [batch, rows, columns].concat();
        let x = product.reshape(axes.iter().map(|&(_, size)| size).collect::<Shape>());
        return Term { x, axes };
    }
    let all = [&batch[..], &rows, &columns, &summed].concat();
    let product = Term { x: spread(x, &all) * spread(y, &all), axes: all };
    self::summed(&product, |label| !summed.iter().any(|&(lost, _)| lost == label))
}

/// The term as matrices of all `rows` by all `columns`, one for each point of `batch`.
fn matrix<'b, T: Numeric>(
    term: &Term<'b, T>,
    batch: &[(Label, usize)],
    rows: &[(Label, usize)],
    columns: &[(Label, usize)],
) -> Tensor<'b, T> {
    let labels: Vec<Label> =
        [batch, rows, columns].concat().into_iter().map(|(label, _)| label).collect();
    let merged = |axes: &[(Label, usize)]| axes.iter().map(|&(_, size)| size).product();
    let sides = [merged(rows), merged(columns)];
    let dims = batch.iter().map(|&(_, size)| size).chain(sides);
    in_order(term, &labels).reshape(dims.collect::<Shape>())
}

/// The term with an axis for each of `axes`, of size 1 where it has none.
fn spread<'b, T: Numeric>(term: &Term<'b, T>, axes: &[(Label, usize)]) -> Tensor<'b, T> {
    let own: Vec<Label> =
        axes.iter().map(|&(label, _)| label).filter(|&label| term.has(label)).collect();
    let sizes = axes.iter().map(|&(label, _)| term.size(label).unwrap_or(1));
    in_order(term, &own).reshape(sizes.collect::<Shape>())
}

/// The term with its axes in the order of `labels`, which are all of its own.
fn in_order<'b, T: Numeric>(term: &Term<'b, T>, labels: &[Label]) -> Tensor<'b, T> {
    let place = |label: &Label| term.axes.iter().position(|(own, _)| own == label);
    let order: Vec<isize> = labels.iter().filter_map(place).map(|axis| axis as isize).collect();
    term.x.permute(order)
}

fn labels<T>(terms: &[Term<'_, T>]) -> impl Iterator<Item = Label> {
    terms.iter().flat_map(|term| &term.axes).map(|&(label, _)| label)
}

/// Returns true if a term other than those at `these` has `label`.
fn elsewhere<T: Numeric>(terms: &[Term<'_, T>], these: &[usize], label: Label) -> bool {
    terms.iter().enumerate().any(|(at, term)| !these.contains(&at) && term.has(label))
}

/// Two axes of one label, if there are any.
fn twice(axes: &[(Label, usize)]) -> Option<[usize; 2]> {
    (0..axes.len()).find_map(|second| {
        let first = axes[..second].iter().position(|(label, _)| *label == axes[second].0)?;
        Some([first, second])
    })
}

/// The positions of the two terms whose product takes the fewest multiplications, the first such pair.
fn cheapest<T: Numeric>(terms: &[Term<'_, T>]) -> [usize; 2] {
    let mut best = ([0, 1], usize::MAX);
    for second in 1..terms.len() {
        for first in 0..second {
            let (x, y) = (&terms[first], &terms[second]);
            let more = y.axes.iter().filter(|&&(label, _)| !x.has(label));
            let sizes = x.axes.iter().chain(more).map(|&(_, size)| size);
            let cost = sizes.fold(1, usize::saturating_mul);
            if cost < best.1 {
                best = ([first, second], cost);
            }
        }
    }
    best.0
}
