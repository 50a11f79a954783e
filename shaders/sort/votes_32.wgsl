// Completes sort/place.wgsl: sets of threads of a subgroup of at most 32. Bindings: none.
alias Mask = u32;

fn ballot(vote: bool) -> Mask {
    return subgroupBallot(vote).x;
}

fn members(mask: Mask) -> u32 {
    return countOneBits(mask);
}

fn lowest(mask: Mask) -> u32 {
    return firstTrailingBit(mask);
}

fn lower_than(invocation: u32) -> Mask {
    return (1u << invocation) - 1u;
}
