// A row normalisation: a thread a row, for short rows and for rows that lie across memory.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: 64 threads. Dispatch: ⌈rows / 64⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

fn element(j: u32{{base_parameters}}) -> f32 {
    {{element}}
}

fn write(j: u32, acc: f32{{base_parameters}}) {
    {{write}}
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = ((group.z * groups.y + group.y) * groups.x + group.x) * 64u + thread;
    if row >= {{rows}} {
        return;
    }
    {{bases}}
    {{passes}}
    {{outputs}}
}
