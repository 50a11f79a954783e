// A row normalisation: some threads of a workgroup share a row, and some rows share a workgroup.
// Rows that fit stay in the threads' registers, four elements or one in each; longer ones are read
// twice, for their statistics and for the results, by one workgroup or, in two dispatches, by several.
// Long rows that begin anywhere in a vector have edges: up to six elements before and after their vectors.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial
// statistics, laid out as [rows, parts]), then the inputs.
// Workgroup: 256 threads. Dispatch: ⌈rows / {{group_rows}}⌉ · parts workgroups, in any grid.
{{prelude}}

{{functions}}

fn element(j: u32{{base_parameters}}) -> {{vector}} {
    {{element}}
}

{{shared}}

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
    {{bases}}
    {{units}}
    {{body}}
}
