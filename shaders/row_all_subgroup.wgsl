// Completes row.wgsl: a fold over the threads of a row, which are neighbours, through subgroups. Bindings:
// none.
fn all_{{name}}(value: f32, thread: u32, size: u32) -> f32 {
    var all = value;
    for (var step = 1u; step < min(size, {{width}}u); step <<= 1u) {
        let other = subgroupShuffleXor(all, step);
        all = {{merge}};
    }
    {{across}}
    return all;
}
