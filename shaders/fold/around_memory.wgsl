// Completes scan.wgsl: what the threads of a row before each combine to, and what all do, through workgroup
// memory. Bindings: none.
struct Around {
    before: State,
    all: State,
}

var<workgroup> around_parts: array<State, 256>;

fn around(value: State, thread: u32, lane: u32) -> Around {
    around_parts[thread] = value;
    workgroupBarrier();
    for (var step = 1u; step < {{width}}u; step <<= 1u) {
        var upto = around_parts[thread];
        if lane >= step {
            upto = merge(around_parts[thread - step * {{stride}}u], upto);
        }
        workgroupBarrier();
        around_parts[thread] = upto;
        workgroupBarrier();
    }
    var before = identity();
    if lane > 0u {
        before = around_parts[thread - {{stride}}u];
    }
    let all = around_parts[thread + ({{width}}u - 1u - lane) * {{stride}}u];
    workgroupBarrier();
    return Around(before, all);
}
