// Completes row/row.wgsl for layer norm: mean and Σ (x − mean)², merged as by Chan, Golub and LeVeque (1979).
// Bindings: none.
struct State {
    count: f32,
    mean: f32,
    square: f32,
}

fn identity() -> State {
    return State(0f, 0f, 0f);
}

fn merge(a: State, b: State) -> State {
    let count = a.count + b.count;
    let part = b.count / max(count, 1f);
    let d = b.mean - a.mean;
    return State(count, a.mean + d * part, a.square + b.square + d * d * a.count * part);
}

fn add(a: State, x: f32) -> State {
    return merge(a, State(1f, x, 0f));
}

fn add4(a: State, x: vec4<f32>) -> State {
    let mean = 0.25f * ((x.x + x.y) + (x.z + x.w));
    let d = x - vec4<f32>(mean);
    return merge(a, State(4f, mean, dot(d, d)));
}
