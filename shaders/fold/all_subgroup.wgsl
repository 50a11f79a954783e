// Completes row/row.wgsl and reduce/group.wgsl: a fold over the threads of a row, which are neighbours,
// through subgroups. Bindings: none.
fn all_{{name}}(value: {{type}}, thread: u32, size: u32) -> {{type}} {
    var all = value;
    for (var step = 1u; step < min(size, {{width}}u); step <<= 1u) {
        let other = {{shuffled}};
        all = {{merge}};
    }
    {{across}}
    return all;
}
