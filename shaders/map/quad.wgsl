struct Quad {
    {{fields}}
}

fn load(i: u32{{parameters}}) -> Quad {
    {{loads}}
    return Quad({{loaded}});
}

struct Done {
    {{done_fields}}
}

fn compute(i: u32, quad: Quad) -> Done {
    {{results}}
    return Done({{done}});
}

fn store(i: u32, done: Done) {
    {{stores}}
}
