// An elementwise kernel: a thread computes four elements, 256 apart, so that neighbouring
// threads touch neighbouring elements.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: 256 threads. Dispatch: ⌈elements / 1024⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

fn compute(i: u32) {
    {{compute}}
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = ((group.z * groups.y + group.y) * groups.x + group.x) * 1024u + thread;
    for (var k = 0u; k < 4u; k++) {
        let i = first + k * 256u;
        if i < {{elements}} {
            compute(i);
        }
    }
}
