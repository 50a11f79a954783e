// Scaled dot product attention on matrix units, batched: a workgroup computes {{rows}} × {{columns}} elements of the result, a
// subgroup {{each}} rows of them, in squares. {{keys}} keys at a time are scored by the units; the scores go through
// workgroup memory, where each row has {{lanes}} threads that weight them by their exponentials, relative to about the
// greatest so far; the units add the weighted values. Only where a score outgrows that by far, what was summed shrinks, so
// that sums seldom leave the units (Milakov and Gimelshein, 2018; Dao et al., 2022). The next keys and values are on
// their way meanwhile.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results), then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈queries / {{rows}}⌉ · batch · parts workgroups, in any grid.
{{prelude}}

{{functions}}

// {{keys}} rows of keys and of values.
var<workgroup> k_tile: array<vec4<f16>, {{k_fours}}>;
var<workgroup> v_tile: array<vec4<f16>, {{v_fours}}>;
// For each subgroup: the scores of a square of rows, or a square of sums; and the weights, or queries.
var<workgroup> scores: array<vec4<f32>, {{score_fours}}>;
var<workgroup> weights: array<vec4<f16>, {{score_fours}}>;

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    @builtin(local_invocation_index) thread: u32,
) {
    let id = {{workgroup}};
    {{locate}}
    {{bases}}

    let subgroup = thread / {{subgroup}}u;
    let lane = thread % {{subgroup}}u;
    let own_rows = first_row + subgroup * {{each}}u;
    let squares = subgroup * {{square_fours}}u;
    // The thread's row in a square, and its fours of it: every {{lanes}} from this on.
    let row = lane / {{lanes}}u;
    let four = lane % {{lanes}}u;
    let row_at = squares + row * {{pitch}}u + four;
    {{queries}}
    {{state}}
    {{places}}
    {{scale}}
    if first_key < end_key {
        let next_key = first_key;
        {{fetch}}
    }
    {{put}}
    workgroupBarrier();
    var key = first_key;
    var next_key = key + {{keys}}u;
    // In a branch, the loads are issued here, not where they are needed.
    if next_key < end_key {
        {{fetch}}
    }
    loop {
        // The number of subgroups with scores above the running maximum.
        var grew = 0f;
        // Left for that before anything of the tile is summed.
        loop {
            {{scores}}
            {{weights}}
            {{add_values}}
            // In the middle, so that drivers leave the loop as it is: unrolled, it takes them four times as long. Where no key
            // is seen, the first tile is of zeros, and all of it hidden.
            if next_key >= end_key {
                break;
            }
            workgroupBarrier();
            key = next_key;
            next_key = key + {{keys}}u;
            {{put}}
            workgroupBarrier();
            if next_key < end_key {
                {{fetch}}
            }
        }
        if grew == 0f {
            break;
        }
        {{scores}}
        {{shrink}}
        workgroupBarrier();
    }
    workgroupBarrier();
    {{stores}}
}
