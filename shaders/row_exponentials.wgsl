// Completes row.wgsl for softmax and its logarithm: the greatest element and Σ e^(x − greatest). Equal
// greatest values need no scaling, which also keeps ∞ − ∞ out. Bindings: none.
struct State {
    greatest: f32,
    sum: f32,
}

fn identity() -> State {
    return State(-p_inf(), 0f);
}

fn merge(a: State, b: State) -> State {
    let greatest = p_max(a.greatest, b.greatest);
    if a.greatest == b.greatest {
        return State(greatest, a.sum + b.sum);
    }
    let scale = p_exp(-abs(a.greatest - b.greatest));
    if a.greatest > b.greatest {
        return State(greatest, a.sum + b.sum * scale);
    }
    return State(greatest, a.sum * scale + b.sum);
}

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
