// Completes row/row.wgsl and reduce/group.wgsl: a fold over the threads of a row, through workgroup memory.
// Bindings: none.
var<workgroup> {{name}}_parts: array<{{type}}, 256>;

fn all_{{name}}(value: {{type}}, thread: u32, lane: u32) -> {{type}} {
    {{name}}_parts[thread] = value;
    workgroupBarrier();
    for (var half = {{width}}u / 2u; half > 0u; half >>= 1u) {
        if lane < half {
            let other = {{name}}_parts[thread + half * {{stride}}u];
            {{name}}_parts[thread] = {{merge_memory}};
        }
        workgroupBarrier();
    }
    return {{name}}_parts[thread - lane * {{stride}}u];
}
