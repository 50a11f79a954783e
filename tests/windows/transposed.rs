//! Transposed convolutions.

use onetrip::{ConvTranspose1d, ConvTranspose2d};

use crate::{Rng, common, near, run};

/// A transposed convolution's sizes: `[batch, channels, height, width]`, the filters of a group, their height and
/// width.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    x: [usize; 4],
    each: usize,
    window: [usize; 2],
}

impl Sizes {
    fn w(&self) -> [usize; 4] {
        [self.x[1], self.each, self.window[0], self.window[1]]
    }

    /// Elements of the result along an axis: none is possible with less than one.
    fn count(&self, conv: &ConvTranspose2d, axis: usize) -> Option<usize> {
        let reach = (self.window[axis] - 1) * conv.dilation[axis] + 1;
        let all = (self.x[2 + axis] - 1) * conv.stride[axis] + reach + conv.output_padding[axis];
        all.checked_sub(conv.padding[axis].0 + conv.padding[axis].1).filter(|&count| count > 0)
    }
}

/// The scaled filters of all elements, added up where they lie.
fn laid_out(conv: &ConvTranspose2d, sizes: &Sizes, x: &[f32], w: &[f32], bias: &[f32]) -> Vec<f64> {
    let [batch, channels, height, width] = sizes.x;
    let [_, each, rows, columns] = sizes.w();
    let [h, c] = [0, 1].map(|axis| sizes.count(conv, axis).expect("a result"));
    let filters = each * conv.groups;
    let mut out: Vec<f64> = (0..batch * filters * h * c)
        .map(|at| bias.get(at / (h * c) % filters).copied().unwrap_or_default().into())
        .collect();
    let place = |at: usize, i: usize, axis: usize, count: usize| {
        let at = at * conv.stride[axis] + i * conv.dilation[axis];
        at.checked_sub(conv.padding[axis].0).filter(|&at| at < count)
    };
    for (at, &x) in x.iter().enumerate() {
        let (n, channel) = (at / (channels * height * width), at / (height * width) % channels);
        let (y, z) = (at / width % height, at % width);
        let group = channel / (channels / conv.groups);
        for tap in 0..each * rows * columns {
            let (i, j) = (tap / columns % rows, tap % columns);
            let (Some(r), Some(s)) = (place(y, i, 0, h), place(z, j, 1, c)) else { continue };
            let filter = group * each + tap / (rows * columns);
            let w = w[channel * each * rows * columns + tap];
            out[((n * filters + filter) * h + r) * c + s] += f64::from(x) * f64::from(w);
        }
    }
    out
}

fn random(rng: &mut Rng) -> (ConvTranspose2d, Sizes) {
    let groups = [1, 1, 2][rng.below(3)];
    let stride = [0; 2].map(|_| 1 + rng.below(3));
    let dilation = [1 + rng.below(2) * rng.below(3), 1];
    let conv = ConvTranspose2d {
        stride,
        padding: [0; 2].map(|_| (rng.below(4), rng.below(4))),
        output_padding: [0, 1].map(|axis| rng.below(stride[axis].max(dilation[axis]))),
        dilation,
        groups,
        ..ConvTranspose2d::default()
    };
    let x = [1 + rng.below(2), groups * (1 + rng.below(6)), 1 + rng.below(6), 1 + rng.below(6)];
    (conv, Sizes { x, each: 1 + rng.below(3), window: [0; 2].map(|_| 1 + rng.below(5)) })
}

async fn check(conv: ConvTranspose2d, sizes: Sizes, rng: &mut Rng) {
    let [Some(h), Some(c)] = [0, 1].map(|axis| sizes.count(&conv, axis)) else { return };
    let (filters, w_shape) = (sizes.each * conv.groups, sizes.w());
    let (x, w) = (sizes.x.iter().product(), w_shape.iter().product());
    let (x, w, bias) = (rng.numbers(x), rng.numbers(w), rng.numbers(filters));
    let bias = &bias[..[0, filters][rng.below(2)]];
    let want = laid_out(&conv, &sizes, &x, &w, bias);
    for device in &common::devices().await {
        let what = format!("{conv:?} of {sizes:?} on {}", device.info().name);
        let (dims, got, _) = run(device, |b| {
            let (x, w) = (b.upload_shaped(&x, sizes.x), b.upload_shaped(&w, w_shape));
            let bias = (!bias.is_empty()).then(|| b.upload(bias).id());
            b.conv_transpose2d(x, w, bias, conv)
        })
        .await;
        assert_eq!(dims, [sizes.x[0], filters, h, c], "{what}");
        near(&what, &got, &want, 1e-5);
    }
}

#[tokio::test]
async fn random_layouts() {
    let mut rng = Rng(21);
    for _ in 0..12 {
        let (conv, sizes) = random(&mut rng);
        check(conv, sizes, &mut rng).await;
    }
}

/// More is left out before the first result than there is: what follows are zeros, as many as were asked for.
#[tokio::test]
async fn all_elements_left_out() {
    for device in &common::devices().await {
        for (size, want) in [(1, vec![0.5]), (2, vec![0.5, 6.5, 0.5, 0.5])] {
            let (dims, got, _) = run(device, |b| {
                let x = b.upload_shaped(&[2.0], [1, 1, 1]);
                let w = b.upload_shaped(&[5.0, 3.0][..size], [1, 1, size]);
                let bias = b.upload(&[0.5]);
                let conv = ConvTranspose1d {
                    padding: [(2, 0)],
                    output_padding: [2],
                    dilation: [3],
                    ..ConvTranspose1d::default()
                };
                b.conv_transpose1d(x, w, bias, conv)
            })
            .await;
            assert_eq!((dims, got), (vec![1, 1, want.len()], want));
        }
    }
}
