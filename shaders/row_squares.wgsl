// Completes row.wgsl for RMS norm: Σ x². Bindings: none.
struct State {
    square: f32,
}

fn identity() -> State {
    return State(0f);
}

fn merge(a: State, b: State) -> State {
    return State(a.square + b.square);
}

fn add(a: State, x: f32) -> State {
    return State(a.square + x * x);
}

fn add4(a: State, x: vec4<f32>) -> State {
    return State(a.square + dot(x, x));
}
