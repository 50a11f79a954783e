//! Layers, losses and windows of what does not fit.

use onetrip::{
    CellWeights, ClassLoss, Conv1d, Conv2d, ConvTranspose2d, Corners, GpuCommandBatch,
    LossReduction, LstmState, MAX_RANK, Pool1d, Pool2d, Recurrence, Rotary,
};

use crate::{HAND_OVER, foreign, misshaped, refused, refused_call, zeros};

#[test]
fn transposed_convolutions_and_sizes() {
    refused(
        "conv_transpose2d: w must be [channels, filters / groups, height, width], not [3, 4]",
        |b| {
            let (x, w) = (zeros(b, [1, 3, 4, 4]), zeros(b, [3, 4]));
            b.conv_transpose2d(x, w, None, ConvTranspose2d::default())
        },
    );
    refused(
        "conv_transpose2d: output_padding must be less than the stride or the dilation, not 2",
        |b| {
            let (x, w) = (zeros(b, [1, 3, 4, 4]), zeros(b, [3, 4, 2, 2]));
            let conv = ConvTranspose2d { output_padding: [0, 2], ..ConvTranspose2d::default() };
            b.conv_transpose2d(x, w, None, conv)
        },
    );
    refused(&misshaped("conv_transpose2d: bias", "[3]", "[4]"), |b| {
        let (x, w, bias) = (zeros(b, [1, 3, 4, 4]), zeros(b, [3, 4, 2, 2]), zeros(b, [3]));
        b.conv_transpose2d(x, w, bias, ConvTranspose2d::default())
    });
    let size = 1_usize << 62;
    refused(
        &format!(
            "conv_transpose2d: shape [4, 2, 3, {size}] has more elements than can be addressed; split it"
        ),
        |b| {
            let (x, w) = (zeros(b, [1, 4, 2, 2]), zeros(b, [4, 2, 3, 1]));
            let conv = ConvTranspose2d { stride: [1, size], ..ConvTranspose2d::default() };
            b.conv_transpose2d(x, w, None, conv)
        },
    );
    refused("resize_nearest: size must be 1 to 16777216, not [0, 2]", |b| {
        b.resize_nearest(zeros(b, [3, 3]), [0, 2])
    });
    refused("resize_nearest: size must be 1 to 16777216, not [2, 16777217]", |b| {
        b.resize_nearest(zeros(b, [3, 3]), [2, (1 << 24) + 1])
    });
    refused(
        "resize_nearest: size must be 1 to 16777216, not [1, 0], by the factors [0.5, 0.2]",
        |b| b.resize_nearest(zeros(b, [3, 3]), [0.5, 0.2]),
    );
    refused("resize_bilinear: factors must be over 0 and finite, not [2.0, NaN]", |b| {
        b.resize_bilinear(zeros(b, [3, 3]), [2.0, f64::NAN], Corners::HalfPixel)
    });
    refused("resize_bilinear: x must be […, height, width], not [3]", |b| {
        b.resize_bilinear(zeros(b, [3]), [1, 2], Corners::Aligned)
    });
}

fn cell(b: &GpuCommandBatch, gates: usize, input: usize, size: usize) -> CellWeights<f32> {
    let (input, hidden) = ([gates * size, input], [gates * size, size]);
    CellWeights::new(b, zeros(b, input), zeros(b, hidden))
}

#[test]
fn recurrent_layers() {
    let (forwards, both) =
        (Recurrence::default(), Recurrence { bidirectional: true, ..Recurrence::default() });
    let batch_first = Recurrence { batch_first: true, ..forwards };
    refused(
        "lstm: the number of steps must be at most 1048576; hand the states on from part to part, not 1048577",
        |b| {
            let (x, cell) = (zeros(b, [(1 << 20) + 1, 0, 3]), cell(b, 4, 3, 5));
            b.lstm(x, &[cell], None, forwards).0
        },
    );
    refused("lstm: the number of cells must be two for each layer, not 1", |b| {
        let (x, cell) = (zeros(b, [7, 2, 3]), cell(b, 4, 3, 5));
        b.lstm(x, &[cell], None, both).0
    });
    refused(
        "gru: x must be [steps, batch, width] (one sequence: `unsqueeze(1)`), not [7, 3]",
        |b| {
            let (x, cell) = (zeros(b, [7, 3]), cell(b, 3, 3, 5));
            b.gru(x, &[cell], None, forwards).0
        },
    );
    // The message is about x where both weights fit but for its width.
    let wide = |x: &str, given: &str, wanted: &str, weights: &str, width: usize| {
        format!(
            "{x} of shape {given}, where the other shapes ask for {wanted}; input weights of shape {weights} take inputs \
             of width {width}: change the width of the inputs, or the weights"
        )
    };
    let of_embedding = " (the width of an `embedding` is the last axis of its table)";
    refused(&wide("lstm: x", "[7, 2, 3]", "[7, 2, 4]", "[20, 4]", 4), |b| {
        let (x, cell) = (zeros(b, [7, 2, 3]), cell(b, 4, 4, 5));
        b.lstm(x, &[cell], None, forwards).0
    });
    let wide_embedding = wide("gru: x", "[2, 7, 50]", "[2, 7, 8]", "[15, 8]", 8) + of_embedding;
    refused(&wide_embedding, |b| {
        let (table, ids, how) = (zeros(b, [8, 50]), b.full([2, 7], 0_u32), batch_first);
        b.gru(b.embedding(table, ids), &[cell(b, 3, 8, 5)], None, how).0
    });
    refused(&wide("gru_cell: x", "[2, 3]", "[2, 4]", "[15, 4]", 4), |b| {
        let (x, h) = (zeros(b, [2, 3]), zeros(b, [2, 5]));
        b.gru_cell(x, h, cell(b, 3, 4, 5))
    });
    // The second layer takes what the first gives.
    let before = "gru: result of the layer before";
    refused(&wide(before, "[7, 2, 5]", "[7, 2, 3]", "[18, 3]", 3), |b| {
        let (x, cells) = (zeros(b, [7, 2, 3]), [cell(b, 3, 3, 5), cell(b, 3, 3, 6)]);
        b.gru(x, &cells, None, forwards).0
    });
    refused(&wide(before, "[2, 7, 5]", "[2, 7, 3]", "[18, 3]", 3), |b| {
        let (x, cells) = (zeros(b, [2, 7, 3]), [cell(b, 3, 3, 5), cell(b, 3, 3, 6)]);
        b.gru(x, &cells, None, batch_first).0
    });
    // One cell for both layers, though its weights might be those of a GRU, swapped.
    let before = "lstm: result of the layer before";
    refused(&wide(before, "[7, 2, 6]", "[7, 2, 8]", "[24, 8]", 8), |b| {
        let (x, cell) = (zeros(b, [7, 2, 8]), cell(b, 4, 8, 6));
        b.lstm(x, &[cell; 2], None, forwards).0
    });
    refused(&misshaped("lstm: state", "[2, 2, 5]", "[1, 2, 5]"), |b| {
        let (x, h, cell) = (zeros(b, [7, 2, 3]), zeros(b, [2, 2, 5]), cell(b, 4, 3, 5));
        b.lstm(x, &[cell], Some(LstmState::new(b, h, h)), forwards).0
    });
    refused(&misshaped("gru: state", "[1, 3, 5]", "[1, 2, 5]"), |b| {
        let (x, h, cell) = (zeros(b, [7, 2, 3]), zeros(b, [1, 3, 5]), cell(b, 3, 3, 5));
        b.gru(x, &[cell], h, forwards).0
    });
    refused(&misshaped("gru: state", "[1, 2, 6]", "[1, 2, 5]"), |b| {
        let (x, h, cell) = (zeros(b, [7, 2, 3]), zeros(b, [1, 2, 6]), cell(b, 3, 3, 5));
        b.gru(x, &[cell], h, forwards).0
    });
    let of_input = "gru_cell: bias of the inputs (the first of two, PyTorch's `bias_ih`)";
    refused(&misshaped(of_input, "[5]", "[15]"), |b| {
        let (x, h) = (zeros(b, [2, 3]), zeros(b, [2, 5]));
        let (input, hidden) = (zeros(b, [15, 3]), zeros(b, [15, 5]));
        b.gru_cell(x, h, CellWeights::with_bias(b, input, hidden, [zeros(b, [5]); 2]))
    });
    let of_hidden = "lstm: bias of the hidden state (the second of two, PyTorch's `bias_hh`)";
    refused(&misshaped(of_hidden, "[15]", "[20]"), |b| {
        let (input, hidden) = (zeros(b, [20, 3]), zeros(b, [20, 5]));
        let bias = [zeros(b, [20]), zeros(b, [15])];
        let weights = CellWeights::with_bias(b, input, hidden, bias);
        b.lstm(zeros(b, [7, 2, 3]), &[weights], None, forwards).0
    });
}

#[test]
fn weights_of_recurrent_layers() {
    let forwards = Recurrence::default();
    let of_lstm = "hidden weights (4 gates i, f, g and o, one below the other)";
    let of_gru = "hidden weights (3 gates r, z and n, one below the other)";
    let says = |of: &str, given: &str, wanted: &str, fix: &str| {
        format!("{of} of shape {given}, where the other shapes ask for {wanted}; {fix}")
    };
    let fix = "this is a weight of a GRU, which has 3 gates";
    refused_call(&says(&format!("lstm_cell: {of_lstm}"), "[15, 5]", "[20, 5]", fix), |b| {
        let (x, h, cell) = (zeros(b, [2, 3]), zeros(b, [2, 5]), cell(b, 3, 3, 5));
        b.lstm_cell(x, LstmState::new(b, h, h), cell);
    });
    // The weights of 3 inputs and width 5, in several orders.
    let (input, hidden) = ([15, 3], [15, 5]);
    let (swap, transpose) = ("the input weights are of that shape: swap both", "`transpose` it");
    let swap_and_turn = "swap both weights, and `transpose` both";
    let swap_and_turn_this = "swap both weights, and `transpose` this one";
    let swap_and_turn_other = "swap both weights, and `transpose` the other";
    let (any, lstm) =
        ("change this shape, or the others", "this is a weight of an LSTM, which has 4 gates");
    let (hidden_weights, input_weights) =
        (format!("gru: {of_gru}"), "gru: input weights".to_owned());
    for ([w, r], of, given, wanted, fix) in [
        ([hidden, input], &hidden_weights, "[15, 3]", "[15, 5]", swap),
        ([input, [5, 15]], &hidden_weights, "[5, 15]", "[15, 5]", transpose),
        ([[3, 15], hidden], &input_weights, "[3, 15]", "[15, 3]", transpose),
        ([[3, 15], [5, 15]], &hidden_weights, "[5, 15]", "[15, 5]", "`transpose` both weights"),
        ([[5, 15], [3, 15]], &hidden_weights, "[3, 15]", "[15, 5]", swap_and_turn),
        ([[5, 15], input], &hidden_weights, "[15, 3]", "[15, 5]", swap_and_turn_other),
        ([hidden, [3, 15]], &hidden_weights, "[3, 15]", "[15, 5]", swap_and_turn_this),
        // The weights of an LSTM, turned, swapped, and both.
        ([[3, 20], [5, 20]], &hidden_weights, "[5, 20]", "[15, 5]", lstm),
        ([[20, 5], [20, 3]], &hidden_weights, "[20, 3]", "[15, 5]", lstm),
        ([[5, 20], [3, 20]], &hidden_weights, "[3, 20]", "[15, 5]", lstm),
        // One of them, beside one of a GRU that is turned.
        ([[3, 20], [5, 15]], &input_weights, "[3, 20]", "[15, 3]", lstm),
        // Nothing explains both: the shapes alone are told.
        ([[7, 15], [5, 15]], &hidden_weights, "[5, 15]", "[15, 5]", any),
        // The hidden weights twice, or inputs of another width: the message is not about x.
        ([hidden, hidden], &input_weights, "[15, 5]", "[15, 3]", any),
        ([[15, 7], [15, 4]], &hidden_weights, "[15, 4]", "[12, 4]", any),
        ([[24, 3], [24, 6]], &hidden_weights, "[24, 6]", "[18, 6]", lstm),
        ([[20, 3], hidden], &input_weights, "[20, 3]", "[15, 3]", lstm),
        // Four times the width of the inputs is no number of gates.
        ([[12, 3], [6, 2]], &input_weights, "[12, 3]", "[6, 3]", any),
    ] {
        refused(&says(of, given, wanted, fix), |b| {
            let weights = CellWeights::new(b, zeros(b, w), zeros(b, r));
            b.gru(zeros(b, [7, 2, 3]), &[weights], None, forwards).0
        });
    }
    // The state tells the width where both weights are those of the input.
    refused(&says(&hidden_weights, "[15, 3]", "[15, 5]", any), |b| {
        let weights = CellWeights::new(b, zeros(b, input), zeros(b, input));
        b.gru(zeros(b, [7, 2, 3]), &[weights], zeros(b, [1, 2, 5]), forwards).0
    });
}

#[test]
fn states_of_recurrent_layers() {
    let forwards = Recurrence::default();
    let says = |of: &str, given: &[usize], wanted: &str, fix: &str| {
        format!("{of}: state of shape {given:?}, where the other shapes ask for {wanted}; {fix}")
    };
    let (reshape, transpose, permute) =
        ("`reshape` it", "`transpose` it", "`permute([1, 0, 2])` it");
    let (repeat, any) = ("`broadcast_to` repeats it", "change this shape, or the others");
    // Sequences of a batch of 2, a state of width 5.
    for (given, cells, fix) in [
        (&[5][..], 1, repeat),
        (&[2, 5], 1, reshape),
        (&[2, 1, 5], 1, reshape),
        (&[1, 5], 1, repeat),
        (&[1, 5, 2], 1, transpose),
        (&[5, 2], 1, any),
        (&[1, 2, 5], 3, repeat),
        (&[2, 3, 5], 3, permute),
        (&[], 1, repeat),
        (&[2, 2, 5], 1, any),
    ] {
        refused(&says("gru", given, &format!("[{cells}, 2, 5]"), fix), |b| {
            let layers: Vec<_> = (0..cells).map(|at| cell(b, 3, [3, 5][at.min(1)], 5)).collect();
            b.gru(zeros(b, [7, 2, 3]), &layers, zeros(b, given), forwards).0
        });
    }
    for (given, batch, fix) in [
        (&[5][..], 2, repeat),
        (&[5], 1, reshape),
        (&[1, 2, 5], 2, reshape),
        (&[2, 1, 5], 2, reshape),
        (&[5, 2], 2, transpose),
        (&[3, 5], 2, any),
    ] {
        refused(&says("gru_cell", given, &format!("[{batch}, 5]"), fix), |b| {
            b.gru_cell(zeros(b, [batch, 3]), zeros(b, given), cell(b, 3, 3, 5))
        });
    }
}

#[test]
fn positions_and_slices() {
    refused("rotary: the size of the last axis must be even, not 5", |b| {
        b.rotary(zeros(b, [4, 5]), Rotary::default())
    });
    refused("rotary: base must be finite and greater than 0, not 0", |b| {
        b.rotary(zeros(b, [4, 6]), Rotary { base: 0.0, ..Rotary::default() })
    });
    refused(
        "rotary: cannot broadcast [5] to [2, 4]: only sizes of 1 can grow; `unsqueeze` adds one",
        |b| b.rotary(zeros(b, [2, 4, 6]), Rotary::at(b, zeros(b, [5]))),
    );
    refused(
        "replace_slice: slice 3..5 does not lie in axis 1 of [2, 4]; it needs start <= end <= 4",
        |b| b.replace_slice(zeros(b, [2, 4]), zeros(b, [2, 2]), 1, 3),
    );
    refused(
        "replace_slice: [3, 2] does not fit [2, 4]: all axes but axis 1 must be equal; `slice` or `pad` one of them",
        |b| b.replace_slice(zeros(b, [2, 4]), zeros(b, [3, 2]), 1, 0),
    );
    refused(
        "replace_slice: axis 2 is out of range for shape [2, 4], which has 2 axes; it may be -2 to 1",
        |b| {
            let x = zeros(b, [2, 4]);
            b.replace_slice(x, x, 2, 0)
        },
    );
}

#[test]
fn weights_of_classes() {
    refused("cross_entropy: weight must be [classes], not [3]", |b| {
        let how = ClassLoss::weighted(b, zeros(b, [3]));
        b.cross_entropy(zeros(b, [2, 4]), b.full([2], 0), how)
    });
    refused("cross_entropy_with: weight must be [classes], not [1, 4]", |b| {
        let x = zeros(b, [2, 4]);
        b.cross_entropy_with(x, x, ClassLoss::weighted(b, zeros(b, [1, 4])))
    });
}

#[test]
fn normalizations_of_channels() {
    refused(&misshaped("batch_norm: mean", "[4]", "[3]"), |b| {
        let (x, four, three) = (zeros(b, [2, 3, 8]), zeros(b, [4]), zeros(b, [3]));
        b.batch_norm(x, four, three, None, None, 1e-5)
    });
    refused("instance_norm: x must be [batch, channels, …], not [3]", |b| {
        b.instance_norm(zeros(b, [3]), None, None, 1e-5)
    });
    refused(
        "group_norm: 6 channels of [2, 6] cannot be cut into 4 groups of one size; the groups must divide the channels",
        |b| b.group_norm(zeros(b, [2, 6]), 4, None, None, 1e-5),
    );
    refused(&misshaped("group_norm: bias", "[2]", "[6]"), |b| {
        b.group_norm(zeros(b, [2, 6]), 2, None, zeros(b, [2]), 1e-5)
    });
    refused("l2_normalize: epsilon must be finite and not negative, not -1", |b| {
        b.l2_normalize(zeros(b, [2, 6]), 0, -1.0)
    });
}

#[test]
fn convolutions() {
    let conv = Conv2d { groups: 2, ..Conv2d::default() };
    let must = |channels: usize, given: usize| {
        format!(
            "x is [batch, channels, height, width], and must have {channels} channels for these filters, not {given}"
        )
    };
    refused(
        &format!(
            "conv2d: filters [4, 3, 3, 3] in 2 groups do not fit [1, 3, 8, 8]: {}",
            must(6, 3)
        ),
        |b| b.conv2d(zeros(b, [1, 3, 8, 8]), zeros(b, [4, 3, 3, 3]), None, conv),
    );
    refused(
        "conv2d: filters [3, 2, 3, 3] in 2 groups do not fit [1, 4, 8, 8]: the first axis of w must be a multiple of the groups",
        |b| b.conv2d(zeros(b, [1, 4, 8, 8]), zeros(b, [3, 2, 3, 3]), None, conv),
    );
    let fix = "channels-last becomes that by `permute([0, 3, 1, 2])`";
    let misfit = "filters [2, 3, 3, 3] do not fit [2, 5, 4, 3]";
    refused(&format!("conv2d: {misfit}: {}; {fix}", must(3, 5)), |b| {
        b.conv2d(zeros(b, [2, 5, 4, 3]), zeros(b, [2, 3, 3, 3]), None, Conv2d::default())
    });
    let misfit = "filters [3, 2, 3, 3] do not fit [2, 5, 4, 3]";
    refused(&format!("conv_transpose2d: {misfit}: {}; {fix}", must(3, 5)), |b| {
        let (x, w) = (zeros(b, [2, 5, 4, 3]), zeros(b, [3, 2, 3, 3]));
        b.conv_transpose2d(x, w, None, ConvTranspose2d::default())
    });
    refused(
        "conv1d: filters [2, 3, 3] do not fit [2, 8, 3]: x is [batch, channels, length], and must have 3 channels for these filters, not 8; channels-last becomes that by `permute([0, 2, 1])`",
        |b| b.conv1d(zeros(b, [2, 8, 3]), zeros(b, [2, 3, 3]), None, Conv1d::default()),
    );
    refused(
        "conv2d: x must be [batch, channels, height, width] (one image: `unsqueeze(0)`), not [3, 8, 8]",
        |b| b.conv2d(zeros(b, [3, 8, 8]), zeros(b, [4, 3, 3, 3]), None, Conv2d::default()),
    );
    refused(
        "conv1d: x must be [batch, channels, length] (one sequence: `unsqueeze(0)`), not [3, 8]",
        |b| b.conv1d(zeros(b, [3, 8]), zeros(b, [4, 3, 3]), None, Conv1d::default()),
    );
    refused("conv2d: x must be [batch, channels, height, width], not [8]", |b| {
        b.conv2d(zeros(b, [8]), zeros(b, [4, 3, 3, 3]), None, Conv2d::default())
    });
    refused("conv1d: w must be [filters, channels / groups, size], not [4, 3]", |b| {
        b.conv1d(zeros(b, [1, 3, 8]), zeros(b, [4, 3]), None, Conv1d::default())
    });
    refused(&misshaped("conv1d: bias", "[1]", "[4]"), |b| {
        let (x, w, bias) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3, 1]), zeros(b, [1]));
        b.conv1d(x, w, bias, Conv1d::default())
    });
    refused("conv2d: groups must be at least 1, not 0", |b| {
        let (x, w) = (zeros(b, [1, 3, 8, 8]), zeros(b, [4, 3, 3, 3]));
        b.conv2d(x, w, None, Conv2d { groups: 0, ..conv })
    });
    refused("conv1d: stride must be at least 1, not 0", |b| {
        let (x, w) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3, 1]));
        b.conv1d(x, w, None, Conv1d { stride: [0], ..Conv1d::default() })
    });
    refused(
        "conv1d: a window that reaches over 9 elements does not fit into axis 2 of [1, 3, 8], padding included; use a smaller window, or pad the axis",
        |b| {
            let (x, w) = (zeros(b, [1, 3, 8]), zeros(b, [4, 3, 5]));
            b.conv1d(x, w, None, Conv1d { dilation: [2], ..Conv1d::default() })
        },
    );
    refused(&format!("conv1d: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.conv1d(zeros(b, [1, 3, 8]), foreign(), None, Conv1d::default())
    });
}

#[test]
fn windows() {
    let none = "does not fit into axis";
    refused(
        &format!(
            "unfold: a window that reaches over 5 elements {none} 0 of [4], padding included; use a smaller window, or pad the axis"
        ),
        |b| b.unfold(zeros(b, [4]), 0, 5, 1),
    );
    refused("unfold: step must be at least 1, not 0", |b| b.unfold(zeros(b, [4]), -1, 2, 0));
    refused(
        "unfold: axis 1 is out of range for shape [4], which has 1 axis; it may be -1 to 0",
        |b| b.unfold(zeros(b, [4]), 1, 2, 1),
    );
    refused("unfold: 9 dimensions are more than the 8 supported; merge some", |b| {
        b.unfold(zeros(b, [2; MAX_RANK]), 1, 2, 1)
    });
    refused(&format!("unfold: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.unfold(foreign::<f32>(), 1, 2, 1)
    });
    let pool = Pool2d { padding: [(0, 0), (1, 0)], dilation: [1, 2], ..Pool2d::new([2, 3]) };
    refused(
        &format!(
            "max_pool2d: a window that reaches over 5 elements {none} 2 of [1, 2, 3], padding included; use a smaller window, or pad the axis"
        ),
        |b| b.max_pool2d(zeros(b, [1, 2, 3]), pool),
    );
    refused("avg_pool2d: x must be […, height, width], not [3]", |b| {
        b.avg_pool2d(zeros(b, [3]), pool)
    });
    refused("max_pool1d: size must be at least 1, not 0", |b| {
        b.max_pool1d(zeros(b, [3]), Pool1d::new([0]))
    });
    refused("avg_pool1d: dilation must be at least 1, not 0", |b| {
        b.avg_pool1d(zeros(b, [3]), Pool1d { dilation: [0], ..Pool1d::default() })
    });
    refused(&format!("max_pool1d: this id belongs to another batch; {HAND_OVER}"), |b| {
        b.max_pool1d(foreign::<f32>(), Pool1d::default())
    });
    refused(
        &format!(
            "max_pool1d: shape [{}] has more elements than can be addressed; split it",
            3 + (1_usize << 40)
        ),
        |b| b.max_pool1d(zeros(b, [3]), Pool1d { padding: [(1 << 40, 0)], ..Pool1d::default() }),
    );
    refused("adaptive_avg_pool2d: size must be at least 1, not [2, 0]", |b| {
        b.adaptive_avg_pool2d(zeros(b, [3, 3]), [2, 0])
    });
    refused(
        "adaptive_avg_pool2d: size must be at most 16777216 where windows differ in more than 16 ways, not 16777217",
        |b| b.adaptive_avg_pool2d(zeros(b, [3, 3]), [(1 << 24) + 1, 1]),
    );
    refused("global_avg_pool: x must be [batch, channels, …], not [3, 3]", |b| {
        b.global_avg_pool(zeros(b, [3, 3]))
    });
}

#[test]
fn losses_of_what_does_not_fit() {
    refused(
        "mse_loss: shapes [3] and [3, 1] must be equal; use `broadcast_to` to repeat one of them",
        |b| b.mse_loss(zeros(b, [3]), zeros(b, [3, 1]), LossReduction::Mean),
    );
    let want = "cross_entropy: classes of shape [4] do not fit [4, 5, 6]: they need its shape without axis 1, that of the classes; `squeeze` or `reshape` them";
    refused(want, |b| {
        b.cross_entropy(zeros(b, [4, 5, 6]), b.full([4], 0_i32), ClassLoss::default())
    });
    refused("nll_loss: smoothing must be 0 to 1, not 1.5", |b| {
        let (x, classes) = (zeros(b, [4, 5]), b.full([4], 0_u32));
        b.nll_loss(x, classes, ClassLoss { smoothing: 1.5, ..ClassLoss::default() })
    });
    refused(
        "accuracy: axis 2 is out of range for shape [4, 5], which has 2 axes; it may be -2 to 1",
        |b| b.accuracy(zeros(b, [4, 5]), b.full([4], 0_u32), 2),
    );
    refused("huber_loss: delta must be greater than 0, not 0", |b| {
        let x = zeros(b, [3]);
        b.huber_loss(x, x, 0.0, LossReduction::Sum)
    });
    refused("smooth_l1_loss: beta must be 0 or greater, not NaN", |b| {
        let x = zeros(b, [3]);
        b.smooth_l1_loss(x, x, f32::NAN, LossReduction::Sum)
    });
    let want = "cross_entropy_with: this id belongs to another batch; use `keep` and `bind` to hand data from batch to batch";
    refused(want, |b| b.cross_entropy_with(zeros(b, [2]), foreign(), ClassLoss::default()));
}

#[test]
fn weights_of_norms() {
    refused(&misshaped("layer_norm_with: weight", "[47]", "[48]"), |b| {
        let (x, weight, bias) = (zeros(b, [2, 3, 48]), zeros(b, [47]), zeros(b, [48]));
        b.layer_norm_with(x, weight, bias, -1, 1e-5)
    });
    refused(&misshaped("layer_norm_with: bias", "[1, 48]", "[48]"), |b| {
        let (x, weight, bias) = (zeros(b, [48, 2]), zeros(b, [48]), zeros(b, [1, 48]));
        b.layer_norm_with(x, weight, bias, 0, 1e-5)
    });
    refused(&misshaped("rms_norm_with: weight", "[]", "[48]"), |b| {
        b.rms_norm_with(zeros(b, [2, 48]), 1.0, 1, 1e-5)
    });
    let want = "rms_norm_with: epsilon must be finite and not negative, not -1";
    refused(want, |b| b.rms_norm_with(zeros(b, [2, 48]), zeros(b, [48]), 1, -1.0));
}

/// Layers are silent about their parts, whichever of these refuses.
#[test]
fn operations_that_are_made_of_others() {
    let fix = "of no elements has no value; leave the empty case out";
    refused(&format!("accuracy: axis 1 of [3, 0] is empty, and argmax {fix}"), |b| {
        b.accuracy(zeros(b, [3, 0]), b.full([3], 0_u32), 1)
    });
    let rule = "has more elements than can be addressed; split it";
    refused(&format!("random_permutation: shape [4294967296] {rule}"), |b| {
        b.random_permutation(1 << 32, 0, 0)
    });
}
