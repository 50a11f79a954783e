// A reduction in which one thread walks along the elements of a result, its neighbours along
// those of the neighbouring results. Where there are parts, each takes every element that is as many further as there are parts, so
// that neighbours stay close where results are few. The few elements of a window are written out.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results),
// then the inputs. Partial results are laid out as [parts, results].
// Workgroup: 64 threads. Dispatch: ⌈results · parts / 64⌉ workgroups, in any grid.
{{prelude}}

{{state}}

{{functions}}

fn element(i: u32{{base_parameters}}) -> {{element_type}} {
    {{element}}
}

fn write(id: u32, result: u32, state: State) {
    {{write}}
}

@compute @workgroup_size(64)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = ({{workgroup}}) * 64u + thread;
    if id >= {{ids}} {
        return;
    }
    let result = id % {{results}};
    let part = id / {{results}};
    let step = {{parts}};
    let count = ({{length}} - min(part, {{length}}) + step - 1u) / step;
    {{bases}}

    // Four independent chains of combinations hide their latency.
    var a = identity();
    var b = identity();
    var c = identity();
    var d = identity();
    {{walk}}
    write(id, result, merge(merge(a, b), merge(c, d)));
}
