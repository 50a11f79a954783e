// Completes row/row.wgsl for softmax and its logarithm, with fold/log_sum_exp.wgsl. Bindings: none.
//
// A NaN among the elements goes into the sum, and stays there: what `max` makes of one in `greatest` is up to the device. So
// does ∞ − ∞: with ∞, all results are NaN.
fn add(a: State, x: f32) -> State {
    return merge(a, State(x, select(1f, x, p_is_nan(x))));
}

fn add4(a: State, x: vec4<f32>) -> State {
    let greatest = max(a.greatest, max(max(x.x, x.y), max(x.z, x.w)));
    let origin = select(greatest, 0f, greatest == -p_inf());
    let d = x - vec4<f32>(origin);
    let low = p_exp_nonpositive(d.x) + p_exp_nonpositive(d.y);
    let high = p_exp_nonpositive(d.z) + p_exp_nonpositive(d.w);
    let sum = a.sum * p_exp_nonpositive(a.greatest - origin) + (low + high);
    let nan = (p_faint(x.x) + p_faint(x.y)) + (p_faint(x.z) + p_faint(x.w));
    return State(greatest, select(sum, nan, p_is_nan(nan)));
}
