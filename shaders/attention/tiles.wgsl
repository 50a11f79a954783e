// Scaled dot product attention, batched: a workgroup computes {{rows}} × {{columns}} elements of the result, a thread
// {{each}} rows of every eighth four of columns, in registers. {{keys}} keys at a time are scored and weighted by the
// exponentials of their scores, relative to the greatest so far; where that grows, what was summed shrinks (Milakov and
// Gimelshein, 2018; Dao et al., 2022). Scores stay in registers, weights go through workgroup memory.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results), then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈queries / {{rows}}⌉ · ⌈out / {{columns}}⌉ · batch · parts workgroups, in any
// grid.
{{prelude}}

{{functions}}

// A chunk of 32 elements of the queries' width, then of 32 keys' weights: that outermost, in fours of rows. And between,
// numbers of rows that the threads which share them put together.
var<workgroup> x_tile: array<vec4<f32>, {{x_quads}}>;
// A chunk of 32 elements of the keys' width, in fours of keys; then of 32 keys' values.
var<workgroup> w_tile: array<vec4<f32>, {{w_quads}}>;

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    {{locate}}
    {{bases}}

    let tx = thread % 8u;
    let ty = thread / 8u;
    {{state}}
    for (var key = first_key; key < end_key; key += {{keys}}u) {
        {{scores}}
        for (var e = 0u; e < {{width}}; e += 32u) {
            {{fetch_scores}}
            workgroupBarrier();
            {{put_scores}}
            workgroupBarrier();
            {{multiply_scores}}
        }
        {{hide}}
        {{greatest}}
        {{weights}}
        {{add_values}}
    }
    {{totals}}
    {{stores}}
}
