// An elementwise kernel with operands whose neighbours in memory do not lie along the result's last
// axis, but along another: such operands go through a tile in workgroup memory, {{side}} of the one axis by
// {{side}} of the other, so that reads and writes both touch neighbours.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: {{threads}} threads. Dispatch: a workgroup a tile, in any grid.
{{prelude}}

{{functions}}

{{loads}}

{{tiles}}

fn compute(c: u32, j: u32{{parameters}}) {
    {{compute}}
}

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    if id >= {{count}} {
        return;
    }
    // The axis of the operands' neighbours has {{across}} elements, the last one {{along}}.
    let line = id / (({{along}} + {{last}}u) / {{side}}u);
    let first_j = (id % (({{along}} + {{last}}u) / {{side}}u)) * {{side}}u;
    let rest = line / (({{across}} + {{last}}u) / {{side}}u);
    let first_c = (line % (({{across}} + {{last}}u) / {{side}}u)) * {{side}}u;
    {{bases}}
    let column = thread % {{side}}u;
    let row = thread / {{side}}u;
    {{fill}}
    workgroupBarrier();
    for (var k = row; k < {{side}}u; k += {{lines}}u) {
        let c = first_c + k;
        let j = first_j + column;
        if c < {{across}} && j < {{along}} {
            compute(c, j{{arguments}});
        }
    }
}
