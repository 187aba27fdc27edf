//! Covariance matrices of signals.

use ndarray::{Array3, ArrayView2, ArrayView3, Axis};
use pulp::Simd;

use crate::error::{Error, Result, from_name};
use crate::exec::Executor;
use crate::memory;
use crate::simd::{AlignedVec, Element, vectorized};
use crate::spd::lanes::{Interleaved, TILE, vectors};
use crate::spd::ldl::add_products;

/// Numbers of a piece of a trial that is kept in the cache, and the fewest times in it.
const PIECE: usize = 1 << 13;
const FEWEST_TIMES: usize = 64;
/// Parts that the trials are cut into.
const PARTS: usize = 64;

/// The weight of the multiple of the identity that a covariance is mixed with.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Shrinkage {
    /// The same for every trial, in `0..=1`.
    Fixed(f64),
    /// Oracle approximating shrinkage (Chen, Wiesel, Eldar and Hero 2010, eq. 23).
    Oas,
    /// Ledoit and Wolf 2004, lemma 3.4.
    LedoitWolf,
}

from_name! { Shrinkage, "estimator", "use \"scm\", \"oas\", \"lwf\" or a number in [0, 1]",
    "scm" => Fixed(0.0),
    "oas" => Oas,
    "lwf" => LedoitWolf,
}

/// The result of [`signal_covariances`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SignalCovariances<T> {
    /// The matrices, of shape `(n, p, p)`.
    pub covariances: Array3<T>,
    /// Trial and channel where a signal is constant.
    pub flat: Vec<(usize, usize)>,
}

/// The covariance matrices `(1 - s) C + s tr(C)/p I`, `C = sum_t (x_t - m)(x_t - m)^T / n_times`,
/// of trials of shape `(n, p, n_times)`.
///
/// # Errors
///
/// [`Error::SignalNotFinite`] at the first value that is not finite, [`Error::SignalTooLarge`]
/// where squares overflow, [`Error::Shape`] when there are fewer than two times.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::{Shrinkage, signal_covariances}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[0.0, 2.0, 4.0, 2.0], [1.0, 0.0, 1.0, 0.0]]];
/// let c = signal_covariances(&exec, x.view(), Shrinkage::Fixed(0.0))?.covariances;
/// assert_eq!(c, array![[[2.0, 0.0], [0.0, 0.25]]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn signal_covariances<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    shrinkage: Shrinkage,
) -> Result<SignalCovariances<T>> {
    let (n, p, n_times) = x.dim();
    if n_times < 2 {
        let what = "the number of times of a trial";
        let cure = "a covariance takes at least two samples";
        return Err(Error::Shape { what, found: n_times, expected: 2, cure });
    }
    if let Shrinkage::Fixed(weight) = shrinkage
        && !(0.0..=1.0).contains(&weight)
    {
        let expected = "a weight in [0, 1]";
        return Err(Error::parameter("shrinkage", weight, expected));
    }
    let mut covariances = memory::zeros((n, p, p))?;
    if covariances.is_empty() {
        return Ok(SignalCovariances { covariances, flat: Vec::new() });
    }
    let size = n.div_ceil(PARTS).max(1);
    let parts =
        exec.map_ranges(n, size, |trials| covariances_of_part(exec, x, shrinkage, trials))?;
    let out = memory::flat_mut(&mut covariances)?;
    let mut flat = Vec::new();
    for (part, out) in parts.into_iter().zip(out.chunks_mut(size * p * p)) {
        out.copy_from_slice(&part.covariances);
        flat.extend(part.flat);
    }
    Ok(SignalCovariances { covariances, flat })
}

vectorized!(
    fn covariances_of_part<S: Simd, T: Element>(
        simd: S,
        exec: &Executor,
        x: ArrayView3<'_, T>,
        shrinkage: Shrinkage,
        trials: std::ops::Range<usize>,
    ) -> Result<PartResult<T>> {
        let (_, p, n_times) = x.dim();
        let lanes = S::F64_LANES;
        let times = (PIECE / p.max(1)).max(FEWEST_TIMES).min(n_times).next_multiple_of(lanes);
        // Rows left over in the last tile are zeros.
        let rows = p.next_multiple_of(TILE);
        let mut piece = AlignedVec::zeros(rows * times)?;
        let mut squares = memory::filled(0.0, times)?;
        let mut means = memory::filled(0.0, p)?;
        let mut moments = memory::filled(0.0, p * p)?;
        let mut covariances = memory::with_capacity(trials.len() * p * p)?;
        let mut flat = Vec::new();
        for trial in trials {
            exec.check()?;
            let signals = x.index_axis(Axis(0), trial);
            for (channel, mean) in means.iter_mut().enumerate() {
                let found = look(trial, channel, &signals)?;
                *mean = found.mean;
                if found.is_flat {
                    flat.push((trial, channel));
                }
            }
            moments.fill(0.0);
            let mut fourth = 0.0;
            for start in (0..n_times).step_by(times) {
                let here = times.min(n_times - start);
                centre(&signals, &means, start, here, times, &mut piece);
                let width = here.next_multiple_of(lanes);
                add_squares(simd, p, times, width, &piece, &mut moments);
                if shrinkage == Shrinkage::LedoitWolf {
                    fourth += fourth_moment(p, times, here, &piece, &mut squares);
                }
            }
            let scale = 1.0 / n_times as f64;
            let mut is_finite = true;
            for i in 0..p {
                for j in 0..=i {
                    moments[i * p + j] *= scale;
                    is_finite &= T::from_f64(moments[i * p + j]).to_f64().is_finite();
                }
            }
            if !is_finite {
                return Err(Error::SignalTooLarge { trial });
            }
            let weight = match shrinkage {
                Shrinkage::Fixed(weight) => weight,
                Shrinkage::Oas => oas(p, n_times, &moments),
                Shrinkage::LedoitWolf => ledoit_wolf(p, n_times, &moments, fourth),
            };
            let trace: f64 = (0..p).map(|i| moments[i * p + i] / p as f64).sum();
            for i in 0..p {
                for j in 0..p {
                    let value = (1.0 - weight) * moments[i.max(j) * p + i.min(j)];
                    let identity = if i == j { weight * trace } else { 0.0 };
                    covariances.push(T::from_f64(value + identity));
                }
            }
        }
        Ok(PartResult { covariances, flat })
    }
);

struct PartResult<T> {
    covariances: Vec<T>,
    flat: Vec<(usize, usize)>,
}

struct Look {
    mean: f64,
    is_flat: bool,
}

/// The mean of a signal, and whether it is constant; fails where it is not finite.
#[inline(always)]
fn look<T: Element>(trial: usize, channel: usize, signals: &ArrayView2<'_, T>) -> Result<Look> {
    let signal = signals.row(channel);
    let first = signal.first().map_or(0.0, |x| x.to_f64());
    let mut sums = [0.0; 8];
    let mut differs = [false; 8];
    if let Some(values) = signal.as_slice() {
        let chunks = values.chunks_exact(8);
        for (k, x) in chunks.remainder().iter().enumerate() {
            sums[k] += x.to_f64();
            differs[k] |= x.to_f64() != first;
        }
        for chunk in chunks {
            for k in 0..8 {
                sums[k] += chunk[k].to_f64();
                differs[k] |= chunk[k].to_f64() != first;
            }
        }
    } else {
        for (k, x) in signal.iter().enumerate() {
            sums[k % 8] += x.to_f64();
            differs[k % 8] |= x.to_f64() != first;
        }
    }
    let sum: f64 = sums.iter().sum();
    if !sum.is_finite() {
        let bad = signal.iter().map(|x| x.to_f64()).enumerate().find(|(_, x)| !x.is_finite());
        return Err(match bad {
            Some((time, value)) => {
                Error::SignalNotFinite { name: "X", trial, channel, time, value }
            }
            None => Error::SignalTooLarge { trial },
        });
    }
    Ok(Look { mean: sum / signal.len() as f64, is_flat: !differs.contains(&true) })
}

/// Writes `here` times of the signals about their means, `times` numbers per row; zeros follow.
#[inline(always)]
fn centre<T: Element>(
    signals: &ArrayView2<'_, T>,
    means: &[f64],
    start: usize,
    here: usize,
    times: usize,
    piece: &mut [f64],
) {
    for ((row, signal), &mean) in piece.chunks_exact_mut(times).zip(signals.rows()).zip(means) {
        let (own, rest) = row.split_at_mut(here);
        rest.fill(0.0);
        match signal.as_slice() {
            Some(values) => {
                for (to, x) in own.iter_mut().zip(&values[start..start + here]) {
                    *to = x.to_f64() - mean;
                }
            }
            None => {
                for (to, x) in own.iter_mut().zip(signal.iter().skip(start)) {
                    *to = x.to_f64() - mean;
                }
            }
        }
    }
}

/// Adds the products of the rows of a piece to the lower triangle of `moments`.
#[inline(always)]
fn add_squares<S: Simd>(
    simd: S,
    p: usize,
    times: usize,
    width: usize,
    piece: &[f64],
    moments: &mut [f64],
) {
    for i in (0..p).step_by(TILE) {
        let left = rows::<S>(i, times, width, piece);
        for j in (0..=i).step_by(TILE) {
            let right = rows::<S>(j, times, width, piece);
            let mut sums = [[simd.splat_f64s(0.0); TILE]; TILE];
            add_products(simd, width / S::F64_LANES, left.map(Interleaved), right, &mut sums);
            for r in 0..TILE.min(p - i) {
                for c in 0..TILE {
                    if j + c <= i + r {
                        moments[(i + r) * p + j + c] += simd.reduce_sum_f64s(sums[r][c]);
                    }
                }
            }
        }
    }
}

/// The rows of a tile.
#[inline(always)]
fn rows<S: Simd>(first: usize, times: usize, width: usize, piece: &[f64]) -> [&[S::f64s]; TILE] {
    core::array::from_fn(|r| vectors::<S>(&piece[(first + r) * times..][..width]))
}

/// `sum_t |x_t - m|^4` over a piece.
#[inline(always)]
fn fourth_moment(p: usize, times: usize, here: usize, piece: &[f64], squares: &mut [f64]) -> f64 {
    let squares = &mut squares[..here];
    squares.fill(0.0);
    for row in piece.chunks_exact(times).take(p) {
        for (square, &x) in squares.iter_mut().zip(row) {
            *square += x * x;
        }
    }
    squares.iter().map(|square| square * square).sum()
}

/// The trace over `p`, and the sum of the squares of all entries.
fn trace_and_square(p: usize, moments: &[f64]) -> (f64, f64) {
    let (mut trace, mut square) = (0.0, 0.0);
    for i in 0..p {
        trace += moments[i * p + i] / p as f64;
        for j in 0..=i {
            let twice = if i == j { 1.0 } else { 2.0 };
            square += twice * moments[i * p + j] * moments[i * p + j];
        }
    }
    (trace, square)
}

fn oas(p: usize, n_times: usize, moments: &[f64]) -> f64 {
    let (trace, square) = trace_and_square(p, moments);
    let (alpha, p) = (square / (p * p) as f64, p as f64);
    let spread = (n_times as f64 + 1.0) * (alpha - trace * trace / p);
    if spread > 0.0 { ((alpha + trace * trace) / spread).min(1.0) } else { 1.0 }
}

fn ledoit_wolf(p: usize, n_times: usize, moments: &[f64], fourth: f64) -> f64 {
    let (trace, square) = trace_and_square(p, moments);
    let (n, p) = (n_times as f64, p as f64);
    let spread = (square - p * trace * trace) / p;
    let error = ((fourth / n - square) / (n * p)).min(spread);
    if error > 0.0 { error / spread } else { 0.0 }
}
