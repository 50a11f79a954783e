// An elementwise kernel: a thread computes four neighbours, or more fours that lie 1024 elements apart.
//
// Bindings: 0 the parameters; then the outputs, then the inputs, in elements or in fours.
// Workgroup: 256 threads. Dispatch: ⌈elements / {{group}}⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

{{quad}}

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
