// Completes sort/small.wgsl and sort/select.wgsl: Batcher's bitonic network (1968) in workgroup memory, two of its
// steps at a time. Positions order equal keys. Bindings: none.
var<workgroup> keys: array<u32, {{total}}>;
var<workgroup> positions: array<u32, {{total}}>;

fn entry(i: u32) -> vec2<u32> {
    return vec2<u32>(keys[i], positions[i]);
}

fn put(i: u32, entry: vec2<u32>) {
    keys[i] = entry.x;
    positions[i] = entry.y;
}

fn is_later(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x > b.x || (a.x == b.x && a.y > b.y);
}

// The two in the order wanted.
fn ordered(a: vec2<u32>, b: vec2<u32>, upwards: bool) -> vec4<u32> {
    return select(vec4<u32>(a, b), vec4<u32>(b, a), is_later(a, b) == upwards);
}

// True if the run of `size` elements that element `i` lies in is to ascend.
fn ascends(i: u32, size: u32) -> bool {
    return (i & size & ({{span}}u - 1u)) == 0u;
}

fn step_once(thread: u32, size: u32, stride: u32) {
    for (var t = thread; t < {{total}}u / 2u; t += 256u) {
        let i = 2u * t - (t & (stride - 1u));
        let pair = ordered(entry(i), entry(i + stride), ascends(i, size));
        put(i, pair.xy);
        put(i + stride, pair.zw);
    }
    workgroupBarrier();
}

// The steps of 2·stride and of stride.
fn step_twice(thread: u32, size: u32, stride: u32) {
    for (var t = thread; t < {{total}}u / 4u; t += 256u) {
        let i = 4u * t - 3u * (t & (stride - 1u));
        let upwards = ascends(i, size);
        let even = ordered(entry(i), entry(i + 2u * stride), upwards);
        let odd = ordered(entry(i + stride), entry(i + 3u * stride), upwards);
        let low = ordered(even.xy, odd.xy, upwards);
        let high = ordered(even.zw, odd.zw, upwards);
        put(i, low.xy);
        put(i + stride, low.zw);
        put(i + 2u * stride, high.xy);
        put(i + 3u * stride, high.zw);
    }
    workgroupBarrier();
}

// Sorts each {{span}} elements; begins and ends with a barrier.
fn sort(thread: u32) {
    workgroupBarrier();
    for (var size = 2u; size <= {{span}}u; size <<= 1u) {
        var stride = size >> 1u;
        if (countTrailingZeros(size) & 1u) == 1u {
            step_once(thread, size, stride);
            stride >>= 1u;
        }
        for (; stride > 0u; stride >>= 2u) {
            step_twice(thread, size, stride >> 1u);
        }
    }
}
