// Completes sort/place.wgsl: in each subgroup, threads vote to find those with an element of the same digit; the
// first of them takes places for all. Bindings: none.
for (var t = thread; t < {{slots}}u; t += 256u) {
    atomicStore(&ranks[t], 0u);
}
workgroupBarrier();
let own = subgroup * {{digits}}u;
let lower = lower_than(invocation);
{{ranks}}
workgroupBarrier();
var here = 0u;
var everywhere = 0u;
if thread < {{digits}}u {
    for (var s = 0u; s < 256u / size; s++) {
        let at = s * {{digits}}u + thread;
        let count = atomicLoad(&ranks[at]);
        atomicStore(&ranks[at], here);
        here += count;
    }
    everywhere = everywhere_in(row, thread);
}
let local = {{local}}.before;
let start = {{start}}.before;
if thread < {{digits}}u {
    for (var s = 0u; s < 256u / size; s++) {
        atomicAdd(&ranks[s * {{digits}}u + thread], local);
    }
    shifts[thread] = start + before(row, thread, tile) - local;
}
workgroupBarrier();
{{places}}
