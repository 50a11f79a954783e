// Completes scan.wgsl: what the threads of a row before each combine to, and what all do, through subgroups.
// Bindings: none.
struct Around {
    before: State,
    all: State,
}

fn around(value: State, thread: u32, size: u32) -> Around {
    let segment = min(size, {{width}}u);
    let place = thread % segment;
    var upto = value;
    for (var step = 1u; step < segment; step <<= 1u) {
        let other = subgroupShuffleUp(upto, step);
        if place >= step {
            upto = merge(other, upto);
        }
    }
    let previous = subgroupShuffleUp(upto, 1u);
    var before = identity();
    if place > 0u {
        before = previous;
    }
    {{all}}
}
