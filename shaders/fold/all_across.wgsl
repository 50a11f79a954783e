// Completes fold/all_subgroup.wgsl where more threads share a row than has the least subgroup. Bindings: none.
let segment = min(size, {{width}}u);
if thread % segment == 0u {
    {{name}}_parts[thread / segment] = all;
}
workgroupBarrier();
let count = {{width}}u / segment;
let first = thread / {{width}}u * count;
all = {{name}}_parts[first];
for (var k = 1u; k < count; k++) {
    let other = {{name}}_parts[first + k];
    all = {{merge}};
}
