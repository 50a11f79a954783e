struct State {
    key: u32,
    position: u32,
}

fn identity() -> State {
    return State(0u, 4294967295u);
}

fn merge(a: State, b: State) -> State {
    if a.key > b.key || (a.key == b.key && a.position < b.position) {
        return a;
    }
    return b;
}

fn key(x: {{ty}}) -> u32 {
    {{key}}
}

fn accept(a: State, x: {{ty}}, i: u32) -> State {
    let k = key(x);
    let better = {{later}};
    return State(select(a.key, k, better), select(a.position, i, better));
}
