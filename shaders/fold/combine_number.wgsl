alias State = {{ty}};

fn identity() -> State {
    return {{identity}};
}

fn merge(a: State, b: State) -> State {
    return {{merge}};
}

fn accept(a: State, b: {{ty}}, i: u32) -> State {
    return {{merge}};
}
