// A reduction in which one thread walks along the elements of a result, its neighbours along
// those of the neighbouring results.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results),
// then the inputs. Partial results are laid out as [parts, results].
// Workgroup: 64 threads. Dispatch: ⌈results · parts / 64⌉ workgroups, in any grid.
{{prelude}}

{{state}}

{{functions}}

fn element(i: u32{{base_parameters}}) -> State {
    {{element}}
}

fn write(id: u32, result: u32, state: State) {
    {{write}}
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = ((group.z * groups.y + group.y) * groups.x + group.x) * 64u + thread;
    if id >= {{ids}} {
        return;
    }
    let result = id % {{results}};
    let start = min((id / {{results}}) * {{chunk}}, {{length}});
    let count = min({{chunk}}, {{length}} - start);
    {{bases}}

    // Four independent chains of combinations hide their latency.
    var a = identity();
    var b = identity();
    var c = identity();
    var d = identity();
    let rounds = count / 4u;
    var i = start;
    for (var round = 0u; round < rounds; round++) {
        a = merge(a, element(i{{base_arguments}}));
        b = merge(b, element(i + 1u{{base_arguments}}));
        c = merge(c, element(i + 2u{{base_arguments}}));
        d = merge(d, element(i + 3u{{base_arguments}}));
        i += 4u;
    }
    for (var rest = rounds * 4u; rest < count; rest++) {
        a = merge(a, element(start + rest{{base_arguments}}));
    }
    write(id, result, merge(merge(a, b), merge(c, d)));
}
