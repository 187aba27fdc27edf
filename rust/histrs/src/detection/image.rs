//! An image as planes of single precision, and its smaller sizes.

use ndarray::{ArrayView3, Axis};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;

/// The channels of an image, one plane after the other.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) planes: Vec<Vec<f32>>,
}

impl Image {
    /// Takes an image of the shape (rows, columns, channels).
    pub(super) fn new(pixels: ArrayView3<'_, f32>) -> Result<Self> {
        let (rows, columns, n_channels) = pixels.dim();
        if rows == 0 || columns == 0 || n_channels == 0 {
            let expected = "an image has at least one row, one column and one channel";
            return Err(Error::parameter("the number of pixels", 0, expected));
        }
        let mut planes = Vec::new();
        for channel in 0..n_channels {
            let plane = pixels.index_axis(Axis(2), channel);
            for ((row, column), &value) in plane.indexed_iter() {
                if !value.is_finite() {
                    let value = f64::from(value);
                    return Err(Error::NotFinite { name: "image", row, column, value });
                }
            }
            let mut values = memory::with_capacity(rows * columns)?;
            values.extend(plane.iter());
            planes.push(values);
        }
        Ok(Self { rows, columns, planes })
    }

    /// The means of two by two pixels; an odd last row or column stands for itself.
    pub(super) fn halved(&self) -> Result<Self> {
        let (rows, columns) = (self.rows.div_ceil(2), self.columns.div_ceil(2));
        let mut planes = Vec::new();
        for plane in &self.planes {
            let mut out = memory::with_capacity(rows * columns)?;
            for row in 0..rows {
                let top = &plane[2 * row * self.columns..][..self.columns];
                let below = (2 * row + 1).min(self.rows - 1);
                let bottom = &plane[below * self.columns..][..self.columns];
                out.extend((0..columns).map(|column| {
                    let (left, right) = (2 * column, (2 * column + 1).min(self.columns - 1));
                    0.25 * ((top[left] + top[right]) + (bottom[left] + bottom[right]))
                }));
            }
            planes.push(out);
        }
        Ok(Self { rows, columns, planes })
    }

    /// The image at a scale, in `rows x columns` pixels, by triangular weights as wide as a pixel of
    /// the coarser of the two.
    pub(super) fn resized(&self, scale: f64, rows: usize, columns: usize) -> Result<Self> {
        if scale == 1.0 && (rows, columns) == (self.rows, self.columns) {
            return Ok(self.clone());
        }
        let across = taps(self.columns, columns, scale)?;
        let down = taps(self.rows, rows, scale)?;
        let mut planes = Vec::new();
        for plane in &self.planes {
            let mut wide = memory::filled(0.0, rows * self.columns)?;
            for (taps, out) in down.iter().zip(wide.chunks_exact_mut(self.columns)) {
                for (weight, &row) in taps.weights.iter().zip(&taps.pixels) {
                    let source = &plane[row * self.columns..][..self.columns];
                    for (out, &value) in out.iter_mut().zip(source) {
                        *out += weight * value;
                    }
                }
            }
            let mut out = memory::with_capacity(rows * columns)?;
            for row in wide.chunks_exact(self.columns) {
                out.extend(across.iter().map(|Taps { pixels, weights }| {
                    (weights[0] * row[pixels[0]] + weights[1] * row[pixels[1]])
                        + (weights[2] * row[pixels[2]] + weights[3] * row[pixels[3]])
                }));
            }
            planes.push(out);
        }
        Ok(Self { rows, columns, planes })
    }
}

/// The pixels of the source that a pixel is made of; weights sum to 1. At scales above a half there
/// are at most four.
struct Taps {
    pixels: [usize; 4],
    weights: [f32; 4],
}

fn taps(n_source: usize, n: usize, scale: f64) -> Result<Vec<Taps>> {
    let radius = scale.recip().max(1.0);
    let last = n_source - 1;
    memory::collected((0..n).map(|index| {
        // Pixel i covers i to i + 1.
        let centre = ((index as f64 + 0.5) / scale - 0.5).clamp(0.0, last as f64);
        let first = (centre - radius).floor() + 1.0;
        let at = |k: usize| first + k as f64;
        let weight = |k: usize| {
            let inside = at(k) >= 0.0 && at(k) <= last as f64;
            if inside { (1.0 - (at(k) - centre).abs() / radius).max(0.0) } else { 0.0 }
        };
        let total: f64 = (0..4).map(weight).sum();
        Taps {
            pixels: std::array::from_fn(|k| at(k).clamp(0.0, last as f64) as usize),
            weights: std::array::from_fn(|k| (weight(k) / total) as f32),
        }
    }))
}

/// An image at all scales of one and below, halved once and for all for each octave.
pub(super) struct Octaves(Vec<Image>);

impl Octaves {
    pub(super) fn new(exec: &Executor, image: Image, smallest: f64) -> Result<Self> {
        let mut octaves = vec![image];
        let mut scale = 0.5;
        while scale >= smallest {
            exec.check()?;
            let Some(last) = octaves.last() else { break };
            let next = last.halved()?;
            octaves.push(next);
            scale /= 2.0;
        }
        Ok(Self(octaves))
    }

    /// The image at a scale, in `rows x columns` pixels.
    pub(super) fn at(&self, scale: f64, rows: usize, columns: usize) -> Result<Image> {
        let (mut octave, mut ratio) = (0, scale);
        while ratio <= 0.5 && octave + 1 < self.0.len() {
            ratio *= 2.0;
            octave += 1;
        }
        self.0[octave].resized(ratio, rows, columns)
    }
}
