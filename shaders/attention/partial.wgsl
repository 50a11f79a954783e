fn place(part: u32, batch: u32, row: u32) -> u32 {
    return ((part * {{count}} + batch) * {{queries}} + row) * ({{out}} + 2u);
}

fn store_partial(part: u32, batch: u32, row: u32, column: u32, acc: vec4<f32>) {
    if row >= {{queries}} { return; }
    let at = place(part, batch, row) + column;
    for (var lane = 0u; lane < 4u; lane++) {
        if column + lane < {{out}} { {{scratch}}[at + lane] = bitcast<u32>(acc[lane]); }
    }
}

fn store_sums(part: u32, batch: u32, row: u32, greatest: f32, total: f32) {
    if row >= {{queries}} { return; }
    let at = place(part, batch, row) + {{out}};
    {{scratch}}[at] = bitcast<u32>(greatest);
    {{scratch}}[at + 1u] = bitcast<u32>(total);
}
