// Fills the result of a kernel of the user's own with zeros.
//
// Bindings: 0 the parameters, 1 the result.
// Workgroup: {{threads}} threads. Dispatch: ⌈elements / {{threads}}⌉ workgroups, in any grid.
{{prelude}}

@compute @workgroup_size({{threads}})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = ((group.z * groups.y + group.y) * groups.x + group.x) * {{threads}}u + thread;
    if i < {{elements}} {
        buffer0[i] = {{zero}};
    }
}
