// A state that merges: the greatest element and Σ e^(x − greatest). Equal greatest values need no scaling,
// which also keeps ∞ − ∞ out. Bindings: none.
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
    let scale = p_exp_nonpositive(-abs(a.greatest - b.greatest));
    if a.greatest > b.greatest {
        return State(greatest, a.sum + b.sum * scale);
    }
    return State(greatest, a.sum * scale + b.sum);
}
