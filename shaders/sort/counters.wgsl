// Completes sort/place.wgsl: each thread counts its neighbouring elements by digit. Bindings: none.
var counts = vec4<u32>();
{{ranks}}
let around = {{around}};
let all = around.all;
let locals = vec4<u32>(0u, all.x, all.x + all.y, all.x + all.y + all.z);
if thread < 4u {
    var start = 0u;
    for (var d = 0u; d < thread; d++) {
        start += everywhere_in(row, d);
    }
    shifts[thread] = start + before(row, thread, tile) - locals[thread];
}
workgroupBarrier();
{{places}}
