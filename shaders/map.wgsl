// An elementwise kernel: a thread computes four neighbours, or more fours that lie 1024 elements apart.
//
// Bindings: 0 the parameters; then the outputs, then the inputs, in elements or in fours.
// Workgroup: 256 threads. Dispatch: ⌈elements / {{group}}⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

struct Quad {
    {{fields}}
}

fn load(i: u32) -> Quad {
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

@compute @workgroup_size(256)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    let i = id * {{group}}u + thread * 4u;
    if i >= {{elements}} {
        return;
    }
    {{quads}}
    {{tell}}
}
