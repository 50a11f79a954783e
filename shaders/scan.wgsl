// A scan: some threads of a workgroup share a row, and some rows share a workgroup. Each thread takes four
// neighbouring elements at a time.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes what parts of rows
// combine to, laid out as [rows, parts]), then the inputs.
// Workgroup: 256 threads. Dispatch: ⌈rows / {{group_rows}}⌉ · parts workgroups, in any grid.
{{prelude}}

{{state}}

{{functions}}

fn element(j: u32{{base_parameters}}) -> {{element_type}} {
    {{element}}
}

// Elements 4·i to 4·i + 3 of a row; the identity from `end` fours on.
fn four(i: u32, end: u32{{base_parameters}}) -> vec4<{{type}}> {
    {{four}}
}

{{write}}

{{around}}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    {{builtins}}
) {
    {{thread}}
    let id = {{workgroup}};
    let place = (id / {{parts}}) * {{group_rows}}u + {{slot}};
    // Threads without a row go along, since barriers wait for them, with nothing to do.
    let row = min(place, {{rows}} - 1u);
    let fours = select(0u, {{fours}}, place < {{rows}});
    let part = {{part}};
    let start = min(part * {{chunk}}, fours);
    let end = min(start + {{chunk}}, fours);
    {{bases}}
    var carry = identity();
    {{carry}}
    var next = four(start + lane, end{{base_arguments}});
    for (var round = 0u; round < {{chunk}}; round += {{width}}u) {
        let x = next;
        let i = start + round + lane;
        next = four(i + {{width}}u, end{{base_arguments}});
        let b = merge(x.x, x.y);
        let c = merge(b, x.z);
        let d = merge(c, x.w);
        {{round}}
    }
    {{finish}}
}
