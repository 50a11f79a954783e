// A matrix product on matrix units, batched: a workgroup computes a tile of {{bm}} × {{bn}} elements, a subgroup
// {{wm}} × {{wn}} of them, from tiles of both operands in workgroup memory as f16. The next tiles are on their way
// from memory while the units multiply the last ones.
//
// Bindings: 0 the parameters; then the outputs (or the scratch memory that takes partial sums), then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈m / {{bm}}⌉ · ⌈n / {{bn}}⌉ · batch · parts workgroups, in any grid.
{{prelude}}

{{functions}}

fn four_halves(words: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)));
}

// The eleven leading bits. By a mask, since a driver may take the way to f16 and back for no change.
fn high_part(v: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) & vec4<u32>(0xffffe000u));
}

{{tiles}}
// A square of the result of each subgroup, for its threads to store.
var<workgroup> squares: array<f32, {{squares}}>;

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
    let row = subgroup / {{across}}u * {{wm}}u;
    let column = subgroup % {{across}}u * {{wn}}u;
    {{accumulators}}
    {{places}}
    var next_k = first_k;
    {{fetch}}
    loop {
        {{put}}
        workgroupBarrier();
        next_k += {{bk}}u;
        // In a branch, the loads are issued here, not where they are needed.
        if next_k < end_k {
            {{fetch}}
        }
        {{multiply}}
        // In the middle, so that drivers leave the loop as it is: unrolled, it takes them five times as long.
        if next_k >= end_k {
            break;
        }
        workgroupBarrier();
    }

    let square = subgroup * {{square}}u;
    for (var at = 0u; at < {{count}}u; at++) {
        switch at {
            {{cases}}
            default: {}
        }
        workgroupBarrier();
        let square_row = first_row + row + at / {{wide}}u * {{side}}u;
        let square_column = first_column + column + at % {{wide}}u * {{side}}u;
        for (var quad = lane; quad < {{quads}}u; quad += {{subgroup}}u) {
            let place = square + quad * 4u;
            let value = vec4<f32>(squares[place], squares[place + 1u], squares[place + 2u], squares[place + 3u]);
            store(square_row + quad / {{quads_across}}u, square_column + quad % {{quads_across}}u * 4u, value{{base_arguments}});
        }
        workgroupBarrier();
    }
}
