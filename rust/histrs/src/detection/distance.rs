//! The best location of a part on a spring: generalised distance transforms.

use ndarray::{Array2, ArrayView2};

use crate::error::{Error, Result};
use crate::memory;

/// The locations at which a transform is wanted, along one axis: `start`, `start + step`, ...
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) n: usize,
}

/// Returns `max_q [ scores(q) - b . (q - p) - a . (q - p)^2 ]` at every location `p`, and its `q`.
///
/// The deformation is `[b_y, a_y, b_x, a_x]`; the squares are of each coordinate. Of several best
/// locations the first is taken, along `x` within the best of each row. Time is linear in the number of
/// locations.
///
/// # Errors
///
/// [`Error::Parameter`] unless `a` is positive and all is finite.
///
/// # Examples
///
/// ```
/// use histrs::detection::distance_transform;
/// use ndarray::array;
///
/// let scores = array![[0.0_f32, 0.0, 0.0, 8.0]];
/// let (best, locations) = distance_transform(scores.view(), [0.0, 1.0, 0.0, 1.0])?;
/// assert_eq!(best, array![[0.0, 4.0, 7.0, 8.0]]);
/// assert_eq!(locations[[0, 1]], [0, 3]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn distance_transform(
    scores: ArrayView2<'_, f32>,
    deformation: [f64; 4],
) -> Result<(Array2<f64>, Array2<[i32; 2]>)> {
    check_deformation(deformation)?;
    let (rows, columns) = scores.dim();
    let scores = scores.as_standard_layout();
    let grid = |n| Grid { start: 0, step: 1, n };
    let found =
        transform(memory::flat(&scores)?, rows, columns, deformation, grid(rows), grid(columns))?;
    let shape = |_| Error::Internal("a transform has the shape of its scores");
    Ok((
        Array2::from_shape_vec((rows, columns), found.values).map_err(shape)?,
        Array2::from_shape_vec((rows, columns), found.locations).map_err(shape)?,
    ))
}

/// Fails unless springs pull back.
pub(super) fn check_deformation(deformation: [f64; 4]) -> Result<()> {
    for (i, value) in deformation.into_iter().enumerate() {
        if !value.is_finite() || (i % 2 == 1 && value <= 0.0) {
            let expected = "a deformation is finite, and its curvatures are positive";
            return Err(Error::parameter("deformation", value, expected));
        }
    }
    Ok(())
}

/// The values of a transform on a grid, row by row, and where each is from.
pub(super) struct Transform {
    pub(super) values: Vec<f64>,
    pub(super) locations: Vec<[i32; 2]>,
}

/// Transforms along `x`, then along `y`.
pub(super) fn transform(
    scores: &[f32],
    rows: usize,
    columns: usize,
    [linear_y, square_y, linear_x, square_x]: [f64; 4],
    down: Grid,
    across: Grid,
) -> Result<Transform> {
    let n = down.n * across.n;
    let mut found =
        Transform { values: memory::filled(0.0, n)?, locations: memory::filled([0, 0], n)? };
    if n == 0 || rows * columns == 0 {
        found.values.fill(f64::NEG_INFINITY);
        return Ok(found);
    }
    let mut envelope = Envelope::new(rows.max(columns))?;
    // The transform along x, a column after the other, as the second pass reads it.
    let mut half = memory::filled(0.0, rows * across.n)?;
    let mut from = memory::filled(0_i32, rows * across.n)?;
    let mut line = memory::filled(0.0, rows.max(columns))?;
    for (y, scores) in scores.chunks_exact(columns).enumerate() {
        for (out, &score) in line.iter_mut().zip(scores) {
            *out = f64::from(score);
        }
        envelope.build(&line[..columns], linear_x, square_x);
        envelope.read(linear_x, square_x, across, |x, value, location| {
            half[x * rows + y] = value;
            from[x * rows + y] = location as i32;
        });
    }
    for x in 0..across.n {
        envelope.build(&half[x * rows..][..rows], linear_y, square_y);
        envelope.read(linear_y, square_y, down, |y, value, location| {
            found.values[y * across.n + x] = value;
            found.locations[y * across.n + x] = [location as i32, from[x * rows + location]];
        });
    }
    Ok(found)
}

/// The largest of the lines `p -> g_q + 2 a q p`, of which the location `q` has the slope `2 a q`.
///
/// With `g_q = s_q - a q^2 - b q` the transform at `p` is the largest line there less `a p^2 - b p`.
struct Envelope {
    /// The lines that are the largest somewhere, in the order of their slopes.
    lines: Vec<(f64, usize)>,
    /// Where each takes over from the one before.
    starts: Vec<f64>,
    /// One over differences of locations.
    inverse: Vec<f64>,
}

impl Envelope {
    fn new(n: usize) -> Result<Self> {
        Ok(Self {
            lines: memory::with_capacity(n)?,
            starts: memory::with_capacity(n)?,
            inverse: memory::collected((0..n).map(|k| 1.0 / k as f64))?,
        })
    }

    fn build(&mut self, scores: &[f64], linear: f64, square: f64) {
        self.lines.clear();
        self.starts.clear();
        let half = 0.5 / square;
        for (q, &score) in scores.iter().enumerate() {
            let location = q as f64;
            let height = score - (square * location + linear) * location;
            let mut start = f64::NEG_INFINITY;
            while let (Some(&(last, from)), Some(&since)) = (self.lines.last(), self.starts.last())
            {
                start = (last - height) * self.inverse[q - from] * half;
                if start > since {
                    break;
                }
                self.lines.pop();
                self.starts.pop();
                start = f64::NEG_INFINITY;
            }
            self.lines.push((height, q));
            self.starts.push(start);
        }
    }

    fn read(&self, linear: f64, square: f64, grid: Grid, mut write: impl FnMut(usize, f64, usize)) {
        let mut line = 0;
        for k in 0..grid.n {
            let p = (grid.start + grid.step * k as i64) as f64;
            while self.starts.get(line + 1).is_some_and(|&start| start < p) {
                line += 1;
            }
            let (height, q) = self.lines[line];
            let value = height + 2.0 * square * q as f64 * p - (square * p - linear) * p;
            write(k, value, q);
        }
    }
}
