// A reduction over windows in which one thread makes {{count}} results that follow each other along an axis, and loads what their
// windows share once. Its neighbours make those of the neighbouring results. The last threads along the axis start where all of
// theirs are inside, and write those that no other does.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: 64 threads. Dispatch: ⌈threads / 64⌉ workgroups, in any grid.
{{prelude}}

{{state}}

{{functions}}

@compute @workgroup_size(64)
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = ({{workgroup}}) * 64u + thread;
    if id >= {{ids}} {
        return;
    }
    {{bases}}
    {{loads}}
    {{walk}}
    {{write}}
}
