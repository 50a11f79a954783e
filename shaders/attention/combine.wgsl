// Combines the partial results of an attention whose keys were cut into parts; they lie as [parts, batch, queries, out + 2]:
// the sums of weighted values, then the greatest score and the sum of the weights.
//
// Bindings: 0 the parameters; then the outputs, the inputs and the partial results.
// Workgroup: 256 threads, a result each. Dispatch: ⌈results / 256⌉ workgroups, in any grid.
{{prelude}}

fn weight(d: f32) -> f32 {
    return select(exp2({{unit}}d), d, (bitcast<u32>(d) & 0x7fffffffu) > 0x7f800000u);
}

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
    let column = id % {{out}};
    let query = id / {{out}};
    let row = query % {{queries}};
    let batch = query / {{queries}};
    let size = {{out}} + 2u;
    var greatest = {{least}};
    var acc = 0f;
    var total = 0f;
    for (var part = 0u; part < {{parts}}; part++) {
        let at = (part * {{rows}} + query) * size;
        let here = bitcast<f32>({{scratch}}[at + size - 2u]);
        let most = max(greatest, here);
        let before = weight(greatest - most);
        let now = weight(here - most);
        acc = acc * before + bitcast<f32>({{scratch}}[at + column]) * now;
        total = total * before + bitcast<f32>({{scratch}}[at + size - 1u]) * now;
        greatest = most;
    }
    acc = select(acc / total, 0f, total == 0f);
    {{bases}}
    {{each}}
}
