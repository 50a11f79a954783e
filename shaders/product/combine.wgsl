// Adds the partial sums of a matrix product whose k was cut into parts; they lie as [parts, batch, m, n].
//
// Bindings: 0 the parameters; then the outputs, the inputs and the partial sums.
// Workgroup: 256 threads, a result each. Dispatch: ⌈results / 256⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = ({{workgroup}}) * 256u + thread;
    if id >= {{results}} {
        return;
    }
    var acc = {{ty}}();
    for (var part = 0u; part < {{parts}}; part++) {
        acc += bitcast<{{ty}}>({{scratch}}[part * {{results}} + id]);
    }
    let column = id % {{n}};
    let row = id / {{n}} % {{m}};
    let batch = id / ({{n}} * {{m}});
    {{bases}}
    {{each}}
}
