//! The reasons why an operation mixes rows, each with its cure.

/// The reason why an operation mixes rows, and the cure, as parts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowsReason {
    pub why: &'static str,
    pub cure: &'static str,
}

pub(super) const ALONG: RowsReason = RowsReason {
    why: "it goes along the axis of rows",
    cure: "give it another axis, name the inputs with rows by `rows_of`",
};
pub(super) const PADS: RowsReason = RowsReason {
    why: "it pads the axis of rows",
    cure: "pad another axis or the data before the run",
};
pub(super) const DIFFERENT_AXES: RowsReason = RowsReason {
    why: "the rows of its operands are along different axes",
    cure: "bring them to one axis by `permute`, name the inputs with rows by `rows_of`",
};
pub(super) const REDUCES: RowsReason = RowsReason {
    why: "of reductions over rows, `sum`, `mean`, `amax` and `amin` can be joined",
    cure: "reduce another axis, name the inputs with rows by `rows_of`",
};
pub(super) const READ_BESIDE_ROWS: RowsReason = RowsReason {
    why: "its result is read beside rows or another reduction",
    cure: "reduce another axis; or make the reduction a program of its own, and its result an input without rows \
           (`rows_of` names those with rows)",
};
pub(super) const AFTER_REDUCTION: RowsReason = RowsReason {
    why: "it changes a reduction over rows, which then cannot be joined",
    cure: "make the reduction the result, and do this with what the run returns",
};
pub(super) const SEARCHES: RowsReason = RowsReason {
    why: "it searches among the rows",
    cure: "give what it searches as an input without rows (`rows_of` names those with rows)",
};
pub(super) const KERNEL: RowsReason = RowsReason {
    why: "it is a custom kernel, which may read any row",
    cure: "write it as operations on tensors, which are traced",
};
pub(super) const KEYS_DEPEND_ON_ROWS: RowsReason = RowsReason {
    why: "its keys or their order depend on rows",
    cure: "put the axis of rows before those of heads, queries and keys",
};
pub(super) const SPLITS: RowsReason = RowsReason {
    why: "it splits the axis of rows",
    cure: "keep that axis whole and reshape the others, name the inputs with rows by `rows_of`",
};
pub(super) const TAKES_SOME: RowsReason = RowsReason {
    why: "it takes some rows, or takes them in another order",
    cure: "do that to another axis or to the data before the run",
};
pub(super) const WALKS_ALONG: RowsReason = RowsReason {
    why: "it walks along the axis of rows",
    cure: "give them by `Recurrence { batch_first: true, .. }`, which makes axis 1 that of time, name the inputs with \
           rows by `rows_of`",
};
pub(super) const JOINS: RowsReason = RowsReason {
    why: "it joins rows with others",
    cure: "join along another axis or before the run",
};
pub(super) const TABLE: RowsReason = RowsReason {
    why: "it takes rows by their positions",
    cure: "give the table as an input without rows (`rows_of` names those with rows)",
};
pub(super) const SHARED_INDICES: RowsReason = RowsReason {
    why: "it reads each row at the indices of all rows",
    cure: "take those of each row by `take_along_axis`, with indices of as many axes as the table (`unsqueeze` adds them)",
};
pub(super) const RECORDED: RowsReason = RowsReason {
    why: "it needs the recorded number of rows",
    cure: "name the inputs with rows by `rows_of`",
};
