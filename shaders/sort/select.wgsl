// The first few of each row's order. A workgroup holds the best so far in order at the front of its memory, and
// behind them what has come since and might be better.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes the candidates of parts of rows,
// each a key and a position, laid out as [rows, parts, count]), then the inputs.
// Workgroup: 256 threads. Dispatch: rows · parts workgroups, in any grid.
{{prelude}}

{{fetch}}

{{write}}

{{bitonic}}

var<workgroup> filled: atomic<u32>;
var<workgroup> held: u32;

// The number of held elements, the same for all threads; with barriers.
fn count_held(thread: u32) -> u32 {
    workgroupBarrier();
    if thread == 0u {
        held = atomicLoad(&filled);
    }
    return workgroupUniformLoad(&held);
}

// Sorts the held elements, after padding that comes after every element.
fn settle(thread: u32, used: u32) {
    for (var t = used + thread; t < {{held}}u; t += 256u) {
        keys[t] = 0xffffffffu;
        positions[t] = 0xffffffffu;
    }
    sort(thread);
}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    {{start}}
    let row = id / {{parts}};
    let start = min(id % {{parts}} * {{chunk}}, {{len}});
    let end = min(start + {{chunk}}, {{len}});
    if thread == 0u {
        atomicStore(&filled, 0u);
    }
    workgroupBarrier();
    // Later elements must be less than the last of the best; before there are enough, all are taken.
    var all = true;
    var last = 0u;
    for (var round = 0u; round < {{chunk}}; round += {{round}}u) {
        for (var k = 0u; k < {{round}}u; k += 256u) {
            let j = start + round + k + thread;
            if j < end {
                let key = fetch(row, j);
                if all || key < last {
                    let slot = atomicAdd(&filled, 1u);
                    keys[slot] = key;
                    positions[slot] = position(row, j);
                }
            }
        }
        let now = count_held(thread);
        if now > {{held}}u - {{round}}u {
            settle(thread, now);
            all = false;
            last = keys[{{count}} - 1u];
            if thread == 0u {
                atomicStore(&filled, {{count}});
            }
            workgroupBarrier();
        }
    }
    settle(thread, count_held(thread));
    for (var j = thread; j < {{count}}; j += 256u) {
        write(id, j, keys[j], positions[j]);
    }
}
