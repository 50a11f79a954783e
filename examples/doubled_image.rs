//! The network of the demo page that doubles images, as a program file. It is `esrgan-slim` of the npm package
//! `@upscalerjs/esrgan-slim` (MIT).
//! `cargo run --release --features safetensors --example doubled_image -- package/models/x2 PROGRAM`

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use onetrip::{Conv2d, Device, GpuCommandBatch, Tensor};
use serde_json::Value;

/// The side of the image, in pixels.
const SIDE: usize = 128;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(model), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err(
            "usage: doubled_image MODEL PROGRAM: the folder with model.json, and the file to write"
                .into(),
        );
    };
    let weights = Weights::read(&model)?;
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let image = batch.input::<f32>("image", [1, 3, SIDE, SIDE]);
    network(&weights, image)?.named("doubled");
    batch.save(&program).await?;
    println!("saved {} bytes", std::fs::metadata(program)?.len());
    Ok(())
}

/// The doubled image [1, 3, 2·side, 2·side] of an image [1, 3, side, side]; both go from 0 to 255.
fn network<'b>(
    weights: &Weights,
    image: Tensor<'b, f32>,
) -> Result<Tensor<'b, f32>, Box<dyn Error>> {
    let conv = |name: &str, x: Tensor<'b, f32>| weights.conv(name, x);
    let batch = image.batch();
    let first = conv("F_m1", image)?;
    let mut x = conv("F_0", first)?;
    let mut blocks = Vec::new();
    for block in 1..=2 {
        let grown = conv(&format!("F_{block}_1"), x)?.relu();
        x = conv(&format!("LFF_{block}"), batch.concat([x, grown], 1))? + x;
        blocks.push(x);
    }
    x = conv("GFF_1", batch.concat(blocks, 1))?;
    x = conv("GFF_2", x)? + first;
    x = conv("UPN1", x)?.relu();
    x = conv("UPN2", x)?.relu();
    x = conv("UPN3", x)?.resize_nearest([2 * SIDE, 2 * SIDE]);
    Ok(conv("SR", x)?.clip(0.0, 255.0))
}

/// Elements, and their shape.
type Weight = (Vec<f32>, Vec<usize>);

/// Weights in the format of TensorFlow.js.
struct Weights(HashMap<String, Weight>);

impl Weights {
    fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let read = |file: &str| {
            std::fs::read(folder.join(file))
                .map_err(|error| format!("{}: {error}", folder.join(file).display()))
        };
        let model: Value = serde_json::from_slice(&read("model.json")?)?;
        let mut tensors = HashMap::new();
        for group in model["weightsManifest"].as_array().ok_or("model.json has no weights")? {
            let mut bytes = Vec::new();
            for path in group["paths"].as_array().into_iter().flatten() {
                bytes.extend(read(path.as_str().ok_or("a path is no text")?)?);
            }
            let mut data = bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word));
            for weight in group["weights"].as_array().into_iter().flatten() {
                let name = weight["name"].as_str().unwrap_or_default();
                if weight["dtype"] != "float32" || !weight["quantization"].is_null() {
                    return Err(format!("the weight {name} is not of f32").into());
                }
                let shape: Vec<usize> = serde_json::from_value(weight["shape"].clone())?;
                let count = shape.iter().product();
                let values: Vec<f32> = data.by_ref().take(count).collect();
                if values.len() < count {
                    return Err(format!("the data end in the weight {name}").into());
                }
                tensors.insert(name.to_owned(), (values, shape));
            }
        }
        Ok(Self(tensors))
    }

    fn get(&self, name: &str) -> Result<&Weight, Box<dyn Error>> {
        self.0.get(name).ok_or_else(|| format!("there is no weight {name}").into())
    }

    /// The convolution `name` of `x`, which keeps the size of the image.
    fn conv<'b>(&self, name: &str, x: Tensor<'b, f32>) -> Result<Tensor<'b, f32>, Box<dyn Error>> {
        let (kernel, shape) = self.get(&format!("{name}/kernel"))?;
        let &[height, width, inputs, outputs] = &shape[..] else {
            return Err(format!("the kernel of {name} has shape {shape:?}").into());
        };
        let bias = &self.get(&format!("{name}/bias"))?.0;
        // [height, width, inputs, outputs] becomes [outputs, inputs, height, width].
        let mut turned = vec![0.0; kernel.len()];
        for (at, &value) in kernel.iter().enumerate() {
            let (place, input, output) =
                (at / outputs / inputs, at / outputs % inputs, at % outputs);
            turned[(output * inputs + input) * height * width + place] = value;
        }
        let batch = x.batch();
        let kernel = batch
            .upload_shaped(turned, [outputs, inputs, height, width])
            .named(&format!("{name}/kernel"));
        let bias = batch.upload(bias.clone()).named(&format!("{name}/bias"));
        let padding = [height / 2, width / 2].map(|side| (side, side));
        Ok(x.conv2d(kernel, bias, Conv2d { padding, ..Conv2d::default() }))
    }
}
