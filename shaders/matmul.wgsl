// A matrix product, batched: a workgroup computes a tile of {{bm}} × {{bn}} elements, a thread
// {{tm}} × {{tn}} of them in registers, from tiles of both operands in workgroup memory.
//
// Bindings: 0 the parameters; then the outputs, then the inputs.
// Workgroup: {{threads}} threads. Dispatch: ⌈m / {{bm}}⌉ · ⌈n / {{bn}}⌉ · batch workgroups, in any grid.
{{prelude}}

{{functions}}

// Elements outside a matrix are zero.
fn load_x(row: u32, k: u32{{base_parameters}}) -> {{ty}} {
    if row >= {{m}} || k >= {{k}} {
        return {{ty}}(0);
    }
    {{load_x}}
}

fn load_w(k: u32, column: u32{{base_parameters}}) -> {{ty}} {
    if k >= {{k}} || column >= {{n}} {
        return {{ty}}(0);
    }
    {{load_w}}
}

fn store(row: u32, column: u32, acc: {{ty}}{{base_parameters}}) {
    if row >= {{m}} || column >= {{n}} {
        return;
    }
    {{store}}
}

fn store_four(row: u32, column: u32, acc: vec4<{{ty}}>{{base_parameters}}) {
    store(row, column, acc.x{{base_arguments}});
    store(row, column + 1u, acc.y{{base_arguments}});
    store(row, column + 2u, acc.z{{base_arguments}});
    store(row, column + 3u, acc.w{{base_arguments}});
}

// Both tiles with k outermost, in fours.
var<workgroup> x_tile: array<vec4<{{ty}}>, {{x_quads}}>;
var<workgroup> w_tile: array<vec4<{{ty}}>, {{w_quads}}>;

@compute @workgroup_size({{threads}})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = (group.z * groups.y + group.y) * groups.x + group.x;
    if id >= {{tiles}} {
        return;
    }
    // Tiles go in bands of eight rows, so that what is read stays in the cache.
    let rows = {{tile_rows}};
    let columns = {{tile_columns}};
    let batch = id / (rows * columns);
    let tile = id % (rows * columns);
    let band = tile / (8u * columns) * 8u;
    let height = min(rows - band, 8u);
    let in_band = tile % (8u * columns);
    let first_row = (band + in_band % height) * {{bm}}u;
    let first_column = (in_band / height) * {{bn}}u;
    {{bases}}

    let tx = thread % {{tx}}u;
    let ty = thread / {{tx}}u;
    {{accumulators}}

    // The next tiles are on their way from memory while this thread computes with the last ones.
    {{places}}
    var next_k = 0u;
    {{fetch}}
    while next_k < {{k}} {
        {{put}}
        workgroupBarrier();
        next_k += {{bk}}u;
        {{fetch}}
        for (var k = 0u; k < {{bk}}u; k++) {
            {{multiply}}
        }
        workgroupBarrier();
    }

    let row = first_row + ty * {{row_step}}u;
    let column = first_column + tx * 4u;
    {{stores}}
}
