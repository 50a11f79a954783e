// Counts the digits of the keys of each tile of each row.
//
// Bindings: 0 the parameters; then the scratch memory, which takes the counts laid out as [rows, digits, tiles], then the
// inputs if the keys are made of them.
// Workgroup: 256 threads. Dispatch: rows · tiles workgroups, in any grid.
{{prelude}}

{{source}}

{{digit}}

var<workgroup> counts: array<atomic<u32>, {{digits}}>;

@compute @workgroup_size(256)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    {{start}}
    let row = id / {{tiles}};
    let tile = id % {{tiles}};
    for (var d = thread; d < {{digits}}u; d += 256u) {
        atomicStore(&counts[d], 0u);
    }
    workgroupBarrier();
    let first = tile * {{tile}}u;
    let end = min(first + {{tile}}u, {{len}});
    for (var j = first + thread; j < end; j += 256u) {
        atomicAdd(&counts[digit(fetch(row, j))], 1u);
    }
    workgroupBarrier();
    for (var d = thread; d < {{digits}}u; d += 256u) {
        {{scratch}}[{{counts}} + (row * {{digits}}u + d) * {{tiles}} + tile] = atomicLoad(&counts[d]);
    }
}
