var<private> part: u32;
var<private> batch_of: u32;

fn store(row: u32, column: u32, acc: vec4<{{ty}}>{{base_parameters}}) {
    if row >= {{m}} { return; }
    let at = ((part * {{count}} + batch_of) * {{m}} + row) * {{n}} + column;
    if column + 0u < {{n}} { {{scratch}}[at + 0u] = bitcast<u32>(acc[0]); }
    if column + 1u < {{n}} { {{scratch}}[at + 1u] = bitcast<u32>(acc[1]); }
    if column + 2u < {{n}} { {{scratch}}[at + 2u] = bitcast<u32>(acc[2]); }
    if column + 3u < {{n}} { {{scratch}}[at + 3u] = bitcast<u32>(acc[3]); }
}
