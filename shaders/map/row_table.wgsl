// An elementwise kernel that looks up in rows of a table: a workgroup computes {{group}} neighbours of a row, a thread fours of them that
// lie {{apart}} elements apart. What it looks up lies in one row of the table, which goes through workgroup memory {{piece}} elements at a time.
//
// Bindings: 0 the parameters; then the outputs, then the inputs, in elements or in fours.
// Workgroup: {{threads}} threads. Dispatch: rows · ⌈elements of a row / {{group}}⌉ workgroups, in any grid.
{{prelude}}

{{functions}}

{{quad}}

{{held}}

// The element at a place in the row if it is in the piece that begins at `first`, else what there was before.
fn taken(place: u32, first: u32, before: {{ty}}) -> {{ty}} {
    let here = place - first;
    let element = held(min(here, {{piece}}u - 1u));
    return select(before, {{element}}, here < {{piece}}u);
}

fn take(quad: Quad, first: u32) -> vec4<{{ty}}> {
    return vec4<{{ty}}>(
        taken(quad.places.x, first, quad.{{fetched}}.x),
        taken(quad.places.y, first, quad.{{fetched}}.y),
        taken(quad.places.z, first, quad.{{fetched}}.z),
        taken(quad.places.w, first, quad.{{fetched}}.w),
    );
}

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    if id >= {{groups}} {
        return;
    }
    let row = id / {{parts}};
    let own_column = id % {{parts}} * {{group}}u + thread * 4u;
    {{quads}}
    {{start}}
    {{pieces}}
    {{done_stores}}
    {{tell}}
}
