// A row normalisation: a workgroup a row. Rows that fit stay in the threads' registers; longer
// ones are evaluated anew in each pass.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: {{threads}} threads. Dispatch: one workgroup a row, in any grid.
{{prelude}}

{{functions}}

fn element(j: u32{{base_parameters}}) -> f32 {
    {{element}}
}

fn write(j: u32, acc: f32{{base_parameters}}) {
    {{write}}
}

var<workgroup> partial: array<f32, {{threads}}>;

{{all_max}}

fn all_sum(thread: u32, value: f32) -> f32 {
    partial[thread] = value;
    workgroupBarrier();
    for (var half = {{threads}}u / 2u; half > 0u; half >>= 1u) {
        if thread < half {
            partial[thread] += partial[thread + half];
        }
        workgroupBarrier();
    }
    let result = partial[0];
    workgroupBarrier();
    return result;
}

@compute @workgroup_size({{threads}})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (group.z * groups.y + group.y) * groups.x + group.x;
    if row >= {{rows}} {
        return;
    }
    {{bases}}
    {{load}}
    {{passes}}
    {{outputs}}
}
