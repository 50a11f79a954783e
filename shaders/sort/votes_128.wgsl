// Completes sort/place.wgsl: sets of threads of a subgroup of at most 128. Bindings: none.
alias Mask = vec4<u32>;

fn ballot(vote: bool) -> Mask {
    return subgroupBallot(vote);
}

fn members(mask: Mask) -> u32 {
    let counts = countOneBits(mask);
    return (counts.x + counts.y) + (counts.z + counts.w);
}

fn lowest(mask: Mask) -> u32 {
    for (var word = 0u; word < 3u; word++) {
        if mask[word] != 0u {
            return word * 32u + firstTrailingBit(mask[word]);
        }
    }
    return 96u + firstTrailingBit(mask.w);
}

fn lower_than(invocation: u32) -> Mask {
    let bits = clamp(vec4<i32>(i32(invocation)) - vec4<i32>(0, 32, 64, 96), vec4<i32>(0), vec4<i32>(32));
    let some = (vec4<u32>(1u) << vec4<u32>(min(bits, vec4<i32>(31)))) - vec4<u32>(1u);
    return select(some, vec4<u32>(0xffffffffu), bits == vec4<i32>(32));
}
