//! Conversions of many truth values, which are bytes in memory and words as lanes.

use multiversion::multiversion;

/// Sets each of `lanes` to 1 or 0 as a byte is true or not. There are as many bytes.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
pub(crate) fn to_lanes(bytes: &[u8], lanes: &mut [u32]) {
    for (lane, &byte) in lanes.iter_mut().zip(bytes) {
        *lane = u32::from(byte != 0);
    }
}

/// Sets each of `bytes` to 1 or 0 as a lane is true or not. There are as many lanes.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
pub(crate) fn to_bools(lanes: &[u32], bytes: &mut [u8]) {
    for (byte, &lane) in bytes.iter_mut().zip(lanes) {
        *byte = u8::from(lane != 0);
    }
}
