// A reduction in which neighbouring threads walk along the elements of one result; some results may
// share a workgroup.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results),
// then the inputs. Partial results are laid out as [parts, results].
// Workgroup: 256 threads. Dispatch: ⌈results · parts / {{group_results}}⌉ workgroups, in any grid.
{{prelude}}

{{state}}

{{functions}}

fn element(i: u32{{base_parameters}}) -> {{element_type}} {
    {{element}}
}

fn write(id: u32, result: u32, state: State) {
    {{write}}
}

{{all}}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    {{builtins}}
) {
    {{thread}}
    let lane = thread % {{width}}u;
    let place = ({{workgroup}}) * {{group_results}}u
        + thread / {{width}}u;
    // Threads without a result go along, since barriers wait for them, with nothing to do.
    let id = min(place, {{ids}} - 1u);
    let units = select(0u, {{length}}, place < {{ids}});
    let result = id % {{results}};
    let start = min((id / {{results}}) * {{chunk}}, units);
    let count = min({{chunk}}, units - start);
    {{bases}}

    // Four independent chains of combinations hide their latency.
    var a = identity();
    var b = identity();
    var c = identity();
    var d = identity();
    let rounds = count / {{round}}u;
    var i = start + lane;
    for (var round = 0u; round < rounds; round++) {
        {{four}}
        i += {{round}}u;
    }
    for (var rest = rounds * {{round}}u + lane; rest < count; rest += {{width}}u) {
        i = start + rest;
        {{one}}
    }
    let state = {{folded}};
    if lane == 0u && place < {{ids}} {
        write(id, result, state);
    }
}
