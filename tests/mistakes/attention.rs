//! Queries, keys, values and masks that do not fit.

use onetrip::{Attention, AttentionMask, Causal};

use crate::{refused, zeros};

#[test]
fn attention_over_what_does_not_fit() {
    let rule = "do not fit: they are […, L, E], […, S, E], […, S, Ev] (and broadcast to […, L, S]); `permute` and `reshape` make them so";
    for (k, v, heads) in [([4, 7, 9], [4, 7, 8], 4), ([4, 7, 8], [4, 6, 8], 4)] {
        let all = format!("[[{heads}, 5, 8], {k:?}, {v:?}]");
        let want =
            format!("scaled_dot_product_attention: queries, keys, values (and mask) {all} {rule}");
        refused(&want, |b| {
            let (q, k, v) = (zeros(b, [heads, 5, 8]), zeros(b, k), zeros(b, v));
            b.scaled_dot_product_attention(q, k, v, Attention::default())
        });
    }
}

#[test]
fn heads_of_queries_that_heads_of_keys_do_not_divide() {
    let want = "scaled_dot_product_attention: the number of heads of queries must be a multiple of that of keys and values, not 4 for 3";
    refused(want, |b| {
        let (q, k) = (zeros(b, [2, 4, 5, 8]), zeros(b, [2, 3, 7, 8]));
        b.scaled_dot_product_attention(q, k, k, Attention::default())
    });
    refused(want, |b| {
        let (q, k) = (zeros(b, [4, 5, 8]), zeros(b, [3, 7, 8]));
        b.scaled_dot_product_attention(q, k, k, Attention::default())
    });
}

/// An axis of groups would be the ninth.
#[test]
fn grouped_heads_of_eight_dimensions() {
    let want =
        "scaled_dot_product_attention: 9 dimensions are more than the 8 supported; merge some";
    refused(want, |b| {
        let (q, k) = (zeros(b, [1, 1, 1, 1, 1, 4, 5, 8]), zeros(b, [1, 1, 1, 1, 1, 2, 5, 8]));
        let how = Attention { causal: Causal::TopLeft, ..Attention::default() };
        b.scaled_dot_product_attention(q, k, k, how)
    });
}

#[test]
fn masks_of_attention_that_do_not_broadcast() {
    let named = "scaled_dot_product_attention: mask";
    let how = |mask| Attention { mask: Some(mask), ..Attention::default() };
    let fix = "make it [5, 7], with sizes of 1 where it repeats";
    let want = format!("{named} [4, 7] does not broadcast to the scores [5, 7]; {fix}");
    refused(&want, |b| {
        let (q, k) = (zeros(b, [5, 8]), zeros(b, [7, 8]));
        let mask = AttentionMask::add(b, zeros(b, [4, 7]));
        b.scaled_dot_product_attention(q, k, k, how(mask))
    });
    let fix = "for a mask of keys use `AttentionMask::keys(&batch, mask)` or make it [8, 1, 1, 16]";
    let want = format!("{named} [8, 16] does not broadcast to the scores [8, 12, 16, 16]; {fix}");
    refused(&want, |b| {
        let q = zeros(b, [8, 12, 16, 4]);
        let mask = AttentionMask::keep(b, b.full([8, 16], true));
        b.scaled_dot_product_attention(q, q, q, how(mask))
    });
    // Heads of keys that serve several of queries.
    let fix = "make it [2, 6, 3, 5], with sizes of 1 where it repeats";
    let want = format!("{named} [2, 3, 1, 5] does not broadcast to the scores [2, 6, 3, 5]; {fix}");
    refused(&want, |b| {
        let (q, k) = (zeros(b, [2, 6, 3, 4]), zeros(b, [2, 2, 5, 4]));
        let mask = AttentionMask::add(b, zeros(b, [2, 3, 1, 5]));
        b.scaled_dot_product_attention(q, k, k, how(mask))
    });
    for given in [&[8, 15][..], &[7, 16]] {
        let want = format!(
            "{named} of keys {given:?} does not fit the scores [8, 12, 16, 16]; make it [8, 16]"
        );
        refused(&want, |b| {
            let q = zeros(b, [8, 12, 16, 4]);
            let mask = AttentionMask::keys(b, b.full(given, true));
            b.scaled_dot_product_attention(q, q, q, how(mask))
        });
    }
    // A mask of each query, as large as that of each head would be.
    let fix =
        "`AttentionMask::keep` takes one that differs from head to head or from query to query";
    for (given, heads, of_keys) in [
        (&[2, 4, 6][..], &[2, 4][..], [2, 6]),
        (&[2, 4, 6, 6], &[2, 4], [2, 6]),
        (&[2, 6, 6], &[2], [2, 6]),
    ] {
        let q: Vec<usize> = heads.iter().copied().chain([6, 8]).collect();
        let scores: Vec<usize> = heads.iter().copied().chain([6, 6]).collect();
        let want = format!(
            "{named} of keys {given:?} does not fit the scores {scores:?}; make it {of_keys:?}; {fix}"
        );
        refused(&want, |b| {
            let q = zeros(b, &q[..]);
            let mask = AttentionMask::keys(b, b.full(given, true));
            b.scaled_dot_product_attention(q, q, q, how(mask))
        });
    }
}
