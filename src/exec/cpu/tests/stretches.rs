//! Operands that are the same within stretches of the innermost axes.

use super::case::{Case, contiguous, floats, view};
use crate::base::dtype::DType;
use crate::expr::Builder;
use crate::plan::{Form, Space};

#[test]
fn links_take_the_lane_of_each_stretch() {
    for stretch in [1, 20, 255, 256, 300, 700, 2049] {
        for [images, channels] in [[1, 1], [2, 5], [3, 70]] {
            let (mut case, b) = (Case::default(), Builder::default());
            let dims = [images, channels, stretch];
            let x = floats(dims.iter().product(), 1);
            let x = case.load(&b, &x, Space::Main, contiguous(&dims));
            let [mean, scale, bias] = [2, 3, 4].map(|seed| {
                let own = view(&dims, &[0, 1, 0], 0);
                case.load(&b, &floats(channels, seed), Space::Main, own)
            });
            let centred = x - mean;
            let y = (centred * (scale * scale) + bias).max(mean);
            // A second reader of a stretch's lanes, and a result of its own.
            let z = mean - centred.exp() * scale;
            case.check(&b, Form::map(&dims), &[(DType::F32, y.r()), (DType::F32, z.r())], 1e-5);
        }
    }
}
