// Completes sort_small.wgsl and sort_select.wgsl: Batcher's bitonic network (1968) in workgroup memory. Positions
// order equal keys. Bindings: none.
var<workgroup> keys: array<u32, {{total}}>;
var<workgroup> positions: array<u32, {{total}}>;

// Sorts each {{span}} elements; begins and ends with a barrier.
fn sort(thread: u32) {
    workgroupBarrier();
    for (var size = 2u; size <= {{span}}u; size <<= 1u) {
        for (var stride = size >> 1u; stride > 0u; stride >>= 1u) {
            for (var t = thread; t < {{total}}u / 2u; t += 256u) {
                let i = 2u * t - (t & (stride - 1u));
                let k = i + stride;
                let a = keys[i];
                let b = keys[k];
                let p = positions[i];
                let q = positions[k];
                let later = a > b || (a == b && p > q);
                let upwards = (i & size & ({{span}}u - 1u)) == 0u;
                if later == upwards {
                    keys[i] = b;
                    keys[k] = a;
                    positions[i] = q;
                    positions[k] = p;
                }
            }
            workgroupBarrier();
        }
    }
}
