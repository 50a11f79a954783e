// Moves the elements of each tile to their places among those of their digit, in the scratch memory or, for the last
// digit, in the outputs. In workgroup memory they are brought in order first, so that neighbours are written together.
//
// Bindings: 0 the parameters; then the outputs if they are written, the scratch memory, and the inputs if the
// keys are made of them.
// Workgroup: 256 threads. Dispatch: rows · tiles workgroups, in any grid.
{{prelude}}

{{source}}

{{digit}}

{{write}}

// The number of elements of the row with the digit in the tiles before; `everywhere_in` counts those of all tiles.
fn before(row: u32, digit: u32, tile: u32) -> u32 {
    return {{scratch}}[{{counts}} + (row * {{digits}}u + digit) * {{tiles}} + tile];
}

fn everywhere_in(row: u32, digit: u32) -> u32 {
    return {{scratch}}[{{sums}} + row * {{digits}}u + digit];
}

var<workgroup> moved: array<u32, {{tile}}>;

// The distance from a place in the order of the tile to that in the order of the row, by digit.
var<workgroup> shifts: array<u32, {{digits}}>;

{{ranking}}

@compute @workgroup_size(256)
fn main(
    {{grid}}
    {{builtins}}
) {
    {{start}}
    {{thread}}
    let row = id / {{tiles}};
    let tile = id % {{tiles}};
    let wanted = {{wanted}};
    let first = tile * {{tile}}u;
    let valid = min({{tile}}u, {{len}} - first);
    {{load}}
    {{rank}}
    {{exchange}}
}
