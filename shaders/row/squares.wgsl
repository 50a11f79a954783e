// Completes row/row.wgsl for RMS norm and L2 normalisation: Σ x², twice, as p_squares scales it. Bindings: none.
struct State {
    near: f32,
    far: f32,
}

fn identity() -> State {
    return State(0f, 0f);
}

fn merge(a: State, b: State) -> State {
    return State(a.near + b.near, a.far + b.far);
}

fn add(a: State, x: f32) -> State {
    let squares = p_squares(x);
    return State(a.near + squares.x, a.far + squares.y);
}

fn add4(a: State, x: vec4<f32>) -> State {
    let near = x * 0x1p42f;
    let far = x * 0x1p-74f;
    return State(a.near + dot(near, near), a.far + dot(far, far));
}
