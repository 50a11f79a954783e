// Sorts short rows, one or several a workgroup.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: 256 threads. Dispatch: ⌈rows / {{group_rows}}⌉ workgroups, in any grid.
{{prelude}}

{{fetch}}

{{write}}

{{bitonic}}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let first = ({{workgroup}}) * {{group_rows}}u;
    for (var t = thread; t < {{total}}u; t += 256u) {
        let row = first + t / {{span}}u;
        let j = t % {{span}}u;
        // The padding comes after every element.
        var key = 0xffffffffu;
        if row < {{rows}} && j < {{len}} {
            key = fetch(row, j);
        }
        keys[t] = key;
        positions[t] = j;
    }
    sort(thread);
    for (var t = thread; t < {{total}}u; t += 256u) {
        let row = first + t / {{span}}u;
        let j = t % {{span}}u;
        if row < {{rows}} && j < {{count}} {
            write(row, j, keys[t], positions[t]);
        }
    }
}
