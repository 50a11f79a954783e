// Completes row_group.wgsl for the kinds that need the greatest value of a row. Bindings: none.
fn all_max(thread: u32, value: f32) -> f32 {
    partial[thread] = value;
    workgroupBarrier();
    for (var half = {{threads}}u / 2u; half > 0u; half >>= 1u) {
        if thread < half {
            partial[thread] = p_max(partial[thread], partial[thread + half]);
        }
        workgroupBarrier();
    }
    let result = partial[0];
    workgroupBarrier();
    return result;
}
