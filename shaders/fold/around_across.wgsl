// Completes fold/around_subgroup.wgsl where more threads share a row than has the least subgroup. Bindings: none.
if place == segment - 1u {
    around_parts[thread / segment] = upto;
}
workgroupBarrier();
let count = {{width}}u / segment;
let first = thread / {{width}}u * count;
var all = identity();
var earlier = identity();
for (var k = 0u; k < count; k++) {
    if first + k == thread / segment {
        earlier = all;
    }
    all = merge(all, around_parts[first + k]);
}
workgroupBarrier();
return Around(merge(earlier, before), all);
