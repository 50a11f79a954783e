// Replaces the counts of each digit in each row by their sums over the tiles before, and leaves the sum of all.
//
// Bindings: 0 the parameters; 1 the scratch memory: counts as [rows, digits, tiles], sums as [rows, digits].
// Workgroup: 256 threads. Dispatch: rows · digits workgroups, in any grid.
{{prelude}}

{{state}}

{{around}}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    {{builtins}}
) {
    {{start}}
    {{thread}}
    let first = {{counts}} + id * {{tiles}};
    var carry = 0u;
    for (var round = 0u; round < {{tiles}}; round += 256u) {
        let tile = round + thread;
        var own = 0u;
        if tile < {{tiles}} {
            own = {{scratch}}[first + tile];
        }
        let sums = {{around_own}};
        if tile < {{tiles}} {
            {{scratch}}[first + tile] = carry + sums.before;
        }
        carry += sums.all;
    }
    if thread == 0u {
        {{scratch}}[{{sums}} + id] = carry;
    }
}
