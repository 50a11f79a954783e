// An elementwise kernel with operands whose neighbours in memory do not lie along the result's last
// axis, but along another: such operands go through a tile in workgroup memory, 32 of the one axis by
// 32 of the other, so that reads and writes both touch neighbours.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: 128 threads. Dispatch: a workgroup a tile, in any grid.
{{prelude}}

{{functions}}

{{loads}}

{{tiles}}

fn compute(c: u32, j: u32{{parameters}}) {
    {{compute}}
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = (group.z * groups.y + group.y) * groups.x + group.x;
    if id >= {{count}} {
        return;
    }
    // The axis of the operands' neighbours has {{across}} elements, the last one {{along}}.
    let line = id / (({{along}} + 31u) / 32u);
    let first_j = (id % (({{along}} + 31u) / 32u)) * 32u;
    let rest = line / (({{across}} + 31u) / 32u);
    let first_c = (line % (({{across}} + 31u) / 32u)) * 32u;
    {{bases}}
    let column = thread % 32u;
    let row = thread / 32u;
    {{fill}}
    workgroupBarrier();
    for (var k = row; k < 32u; k += 4u) {
        let c = first_c + k;
        let j = first_j + column;
        if c < {{across}} && j < {{along}} {
            compute(c, j{{arguments}});
        }
    }
}
