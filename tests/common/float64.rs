//! Results beside calculations in `f64`.

/// Checks that results are those of `f64` but for rounding.
#[track_caller]
pub fn near(case: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{case}");
    for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
        let got = f64::from(got);
        let fits = got == want
            || (got.is_nan() && want.is_nan())
            || (got - want).abs() <= tolerance * (1.0 + want.abs());
        assert!(fits, "{case}: element {at} is {got}, not {want}");
    }
}

/// The positions of the elements of each window along an axis, if they are not border.
pub fn places(
    [len, size, step, dilation]: [usize; 4],
    (before, after): (usize, usize),
) -> Vec<Vec<Option<usize>>> {
    let reach = (size - 1) * dilation + 1;
    let count = (len + before + after - reach) / step + 1;
    let place = |at: usize| at.checked_sub(before).filter(|&at| at < len);
    (0..count).map(|w| (0..size).map(|i| place(w * step + i * dilation)).collect()).collect()
}
