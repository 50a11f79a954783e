// A reduction in which the threads of a workgroup together walk along the elements of one result.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results),
// then the inputs. Partial results are laid out as [parts, results].
// Workgroup: 256 threads. Dispatch: results · parts workgroups, in any grid.
{{prelude}}

{{state}}

{{functions}}

fn element(i: u32{{base_parameters}}) -> State {
    {{element}}
}

fn write(id: u32, result: u32, state: State) {
    {{write}}
}

var<workgroup> states: array<State, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = (group.z * groups.y + group.y) * groups.x + group.x;
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
    let rounds = count / 1024u;
    var i = start + thread;
    for (var round = 0u; round < rounds; round++) {
        a = merge(a, element(i{{base_arguments}}));
        b = merge(b, element(i + 256u{{base_arguments}}));
        c = merge(c, element(i + 512u{{base_arguments}}));
        d = merge(d, element(i + 768u{{base_arguments}}));
        i += 1024u;
    }
    for (var rest = rounds * 1024u + thread; rest < count; rest += 256u) {
        a = merge(a, element(start + rest{{base_arguments}}));
    }

    states[thread] = merge(merge(a, b), merge(c, d));
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if thread < half {
            states[thread] = merge(states[thread], states[thread + half]);
        }
        workgroupBarrier();
    }
    if thread == 0u {
        write(id, result, states[0]);
    }
}
