// Fills the result of a kernel of the user's own with zeros.
//
// Bindings: 0 the parameters, 1 the result.
// Workgroup: {{threads}} threads. Dispatch: ⌈elements / {{threads}}⌉ workgroups, in any grid.
{{prelude}}

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let i = ({{workgroup}}) * {{threads}}u + thread;
    if i < {{elements}} {
        buffer0[i] = {{zero}};
    }
}
