// A matrix product of {{rows}} rows, batched: a workgroup computes {{columns}} columns of them, its threads sharing k, so
// that each element of the right operand is read once, and next to what the neighbours read.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial sums), then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈n / {{columns}}⌉ · batch · parts workgroups, in any grid.
{{prelude}}

{{functions}}

var<workgroup> partial: array<vec4<{{ty}}>, {{threads}}>;

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    {{locate}}
    {{bases}}

    let slice = {{slice}};
    let column = first_column + {{column}};
    {{accumulators}}
    {{places}}
    for (var k = first_k + slice * 4u; k < end_k; k += {{step}}u) {
        {{multiply}}
    }

    {{results}}
}
