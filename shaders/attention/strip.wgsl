// Scaled dot product attention of few queries, batched: a workgroup computes {{rows}} whole rows of the result. {{lanes}}
// neighbouring threads are a group, which takes one of the rows and four keys at a time, next to what its neighbours take: they
// sum the scores through their subgroup, and weight the values by the exponentials of these, relative to the greatest that the
// group has seen (Milakov and Gimelshein, 2018). Groups know nothing of each other until they are put together.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial results), then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈queries / {{rows}}⌉ · batch · parts workgroups, in any grid.
{{prelude}}

{{functions}}

// For each group: its greatest score; the row's greatest score and the group's sum of weights; its sums of weighted values.
var<workgroup> greatest_parts: array<f32, {{groups}}>;
var<workgroup> total_parts: array<vec2<f32>, {{groups}}>;
var<workgroup> sum_parts: array<vec4<f32>, {{sum_fours}}>;

@compute @workgroup_size({{threads}})
fn main(
    {{grid}}
    {{numbers}}
) {
    let id = {{workgroup}};
    {{locate}}
    {{bases}}

    {{number}}
    let lane = thread % {{lanes}}u;
    let own = thread / {{lanes}}u;
    let own_row = own % {{rows}}u;
    let query = first_row + own_row;
    {{state}}
    var greatest = {{least}};
    var total = vec4<f32>();
    for (var key = first_key; key < end_key; key += {{keys}}u) {
        let four = key + own / {{rows}}u * 4u;
        {{fetch}}
        {{scores}}
        {{hide}}
        let now = max(greatest, most(s));
        let shrink = weight(vec4<f32>(greatest - now));
        greatest = now;
        s = weight(s - vec4<f32>(now));
        total = fma(total, shrink, s);
        {{add_values}}
    }
    if lane == 0u {
        greatest_parts[own] = greatest;
    }
    workgroupBarrier();
    var all = greatest_parts[own_row];
    for (var other = own_row + {{rows}}u; other < {{groups}}u; other += {{rows}}u) {
        all = max(all, greatest_parts[other]);
    }
    let shrink = weight(vec4<f32>(greatest - all));
    if lane == 0u {
        total_parts[own] = vec2<f32>(all, dot(total, shrink));
    }
    {{leave}}
    workgroupBarrier();
    for (var at = thread; at < {{row_fours}}u; at += {{threads}}u) {
        let row = at / {{fours}}u;
        var sum = sum_parts[at];
        var weights = total_parts[row].y;
        for (var other = {{rows}}u; other < {{groups}}u; other += {{rows}}u) {
            sum += sum_parts[other * {{fours}}u + at];
            weights += total_parts[other + row].y;
        }
        {{store}}
    }
}
