// An elementwise kernel over a multiple of four elements: a thread computes four neighbours.
//
// Bindings: 0 the parameters; then the outputs, then the inputs, in elements or in fours.
// Workgroup: 256 threads. Dispatch: ⌈elements / 1024⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let quad = ((group.z * groups.y + group.y) * groups.x + group.x) * 256u + thread;
    if quad >= {{quads}} {
        return;
    }
    let i = quad * 4u;
    {{loads}}
    {{results}}
    {{stores}}
}
