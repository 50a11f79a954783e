// A matrix product, batched: a workgroup computes a tile of {{bm}} × {{bn}} elements, a thread
// {{tm}} × {{tn}} of them in registers, from tiles of both operands in workgroup memory. The next tiles are on
// their way from memory while the threads multiply the last ones.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial sums), then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈m / {{bm}}⌉ · ⌈n / {{bn}}⌉ · batch · parts workgroups, in any grid.
{{prelude}}

{{functions}}

// Both tiles with k outermost, in fours.
var<workgroup> x_tile: array<vec4<{{ty}}>, {{x_quads}}>;
var<workgroup> w_tile: array<vec4<{{ty}}>, {{w_quads}}>;

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    {{locate}}
    {{bases}}

    let tx = {{tx}};
    let ty = {{ty_index}};
    {{accumulators}}
    {{places}}
    var next_k = first_k;
    {{stage}}
    {{fetch}}
    {{put}}
    workgroupBarrier();
    loop {
        next_k += {{bk}}u;
        if next_k < end_k {
            {{fetch}}
        }
        {{multiply}}
        if next_k >= end_k {
            break;
        }
        {{turn}}
        {{put}}
        workgroupBarrier();
    }

    let row = first_row + ty * 4u;
    let column = first_column + tx * 4u;
    {{stores}}
}
