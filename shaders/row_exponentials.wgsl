// Completes row.wgsl for softmax and its logarithm, with log_sum_exp.wgsl. Bindings: none.
fn lift(x: f32) -> State {
    return State(x, 1f);
}

fn exponential(x: f32, greatest: f32) -> f32 {
    return select(p_exp(x - greatest), 1f, x == greatest);
}

fn lift4(x: vec4<f32>) -> State {
    let g = p_max(p_max(x.x, x.y), p_max(x.z, x.w));
    let low = exponential(x.x, g) + exponential(x.y, g);
    return State(g, low + (exponential(x.z, g) + exponential(x.w, g)));
}
