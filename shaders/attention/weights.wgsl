// e to the power of d, as exact as weights need to be; NaN of NaN.
fn weight(d: vec4<f32>) -> vec4<f32> {
    let nan = (bitcast<vec4<u32>>(d) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
    return select(exp2({{unit}}d), d, nan);
}

fn most(v: vec4<f32>) -> f32 {
    return max(max(v.x, v.y), max(v.z, v.w));
}
