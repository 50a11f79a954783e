//! Positions of elements: coordinates of a position, and sums of coordinates times strides.

use super::Kernel;
use crate::plan::Axes;

impl Kernel<'_> {
    /// The sum of `start` and coordinates times strides. Strides of 0 and 1 are in the text, all others are
    /// parameters.
    pub fn index(&mut self, start: &str, strides: &[i64], coordinates: &[String]) -> String {
        let mut text = start.to_string();
        for (&stride, coordinate) in strides.iter().zip(coordinates) {
            match stride {
                0 => {}
                1 => {
                    text += &format!(" + {coordinate}");
                }
                _ => {
                    let stride = self.param(stride);
                    text += &format!(" + {coordinate} * {stride}");
                }
            }
        }
        text
    }

    /// Statements that take the row-major position `position` apart, and the names of the coordinates,
    /// which start with `prefix`.
    pub fn coordinates(
        &mut self,
        prefix: &str,
        position: &str,
        dims: &[usize],
    ) -> (String, Vec<String>) {
        if dims.len() == 1 {
            return (String::new(), vec![position.to_string()]);
        }
        let names: Vec<String> = (0..dims.len()).map(|axis| format!("{prefix}{axis}")).collect();
        let mut text = String::new();
        let mut rest = position.to_string();
        for axis in (1..dims.len()).rev() {
            let dim = self.size(dims[axis]);
            text += &format!("let {} = {rest} % {dim};\n", names[axis]);
            let next = if axis == 1 { names[0].clone() } else { format!("{prefix}_rest{axis}") };
            text += &format!("let {next} = {rest} / {dim};\n");
            rest = next;
        }
        (text, names)
    }

    /// Statements that find where each map begins at the row-major position `position` of `axes`, given
    /// its offset, and the names given. Coordinates start with `prefix`.
    pub fn bases(
        &mut self,
        prefix: &str,
        position: &str,
        axes: &Axes,
        offsets: impl Iterator<Item = i64>,
    ) -> (String, Vec<String>) {
        let (mut text, coordinates) = self.coordinates(prefix, position, &axes.dims);
        let mut names = Vec::new();
        for (map, offset) in offsets.enumerate() {
            let start = self.param(offset);
            let base = self.index(&start, &axes.strides[map], &coordinates);
            text += &format!("let base{map} = {base};\n");
            names.push(format!("base{map}"));
        }
        (text, names)
    }
}
