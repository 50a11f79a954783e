//! Reading the digits from `data/`.

use std::error::Error;
use std::io::Read;

use flate2::read::GzDecoder;
use safetensors::SafeTensors;

use crate::tensors::{Tensors, path};

pub const SIDE: usize = 8;
pub const PIXELS: usize = SIDE * SIDE;
pub const CLASSES: usize = 10;
/// The rows before this one are what the network was trained on.
const FIRST_TEST_ROW: usize = 1437;

/// The rows that the network has not seen.
pub struct Digits {
    /// Row by row, 0 (white) to 1 (black).
    pub pixels: Vec<f32>,
    pub classes: Vec<u32>,
}

impl Digits {
    pub fn load() -> Result<Self, Box<dyn Error>> {
        let mut text = String::new();
        GzDecoder::new(std::fs::File::open(path("digits.csv.gz"))?).read_to_string(&mut text)?;
        let mut digits = Self { pixels: Vec::new(), classes: Vec::new() };
        for line in text.lines().skip(FIRST_TEST_ROW) {
            let fields = line.split(',').map(str::parse).collect::<Result<Vec<f32>, _>>()?;
            let [pixels @ .., class] = &fields[..] else { return Err("an empty row".into()) };
            if pixels.len() != PIXELS {
                return Err(format!("a row of {} pixels", pixels.len()).into());
            }
            digits.pixels.extend(pixels.iter().map(|pixel| pixel / 16.0));
            digits.classes.push(*class as u32);
        }
        Ok(digits)
    }

    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// The digit of `row` as `SIDE` lines of text.
    pub fn picture(&self, row: usize) -> impl Iterator<Item = String> {
        const SHADES: &[u8] = b" .:-=+*#%@";
        let shade = |&pixel: &f32| SHADES[(pixel * (SHADES.len() - 1) as f32) as usize] as char;
        let pixels = &self.pixels[row * PIXELS..][..PIXELS];
        // Twice across, since a character is twice as high as wide.
        pixels.chunks(SIDE).map(move |line| line.iter().map(shade).flat_map(|c| [c, c]).collect())
    }
}

impl Tensors {
    /// An entry of the file's metadata.
    pub fn metadata(&self, key: &str) -> Result<String, Box<dyn Error>> {
        let (_, header) = SafeTensors::read_metadata(&self.0)?;
        let entry = header.metadata().as_ref().and_then(|entries| entries.get(key));
        Ok(entry.ok_or_else(|| format!("the metadata has no {key}"))?.clone())
    }
}
