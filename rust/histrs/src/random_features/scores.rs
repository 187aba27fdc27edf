//! Linear scores of random features, of which no more than a few rows exist at a time.

use std::f64::consts::PI;

use ndarray::{Array2, ArrayView2};
use pulp::Simd;

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::matrix::{HistogramMatrix, check_columns};
use crate::memory;
use crate::random_features::exp_chi2::{ExpChi2Features, Projecting, ROWS, converted};
use crate::random_features::hadamard::{MIN_SIZE, signed_hadamard};
use crate::random_features::structured::{Plan, SHARED_ROUNDS};
use crate::random_features::trigonometry::SineCosine;
use crate::simd::{AlignedVec, Real, vectorized};

/// Rows whose features meet a coefficient while it is in a register, and outputs whose coefficients
/// meet a feature.
const GROUP: usize = 4;
const OUTPUTS: usize = 4;
/// Projections whose cosines and sines are in the first-level cache for all outputs.
const PIECE: usize = 256;

impl ExpChi2Features {
    /// The scores `sum_j coefficients[k, j] z_j(x) + intercepts[k]` of some rows, where `z` is
    /// [`Self::transform`]; one row for each of `x`.
    ///
    /// The features of a few rows exist at a time, and with one output only one cosine a projection:
    /// `a cos(v) + b sin(v) = r cos(v - w)` with `a + ib = r exp(iw)`.
    ///
    /// # Errors
    ///
    /// As [`Self::transform`]; [`Error::Shape`](crate::Error::Shape) when there is not a coefficient
    /// for each feature, or an intercept for each output.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::chi2::AdditiveMap;
    /// use histrs::random_features::ExpChi2Features;
    /// use histrs::{Executor, HistogramMatrix};
    /// use ndarray::{Array2, array};
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[0.2_f64, 0.8, 0.0], [0.5, 0.0, 0.5]];
    /// let x = HistogramMatrix::dense(x.view());
    /// let signs = Array2::ones((3, 16));
    /// let features = ExpChi2Features::structured(AdditiveMap::chebyshev(4)?, 3, signs.view(), 5, 1.0)?;
    /// let coefficients = Array2::from_shape_fn((1, 10), |(_, j)| j as f64);
    /// let scores = features.scores(&exec, &x, coefficients.view(), &[0.5])?;
    /// let exact = features.transform(&exec, &x)?.dot(&coefficients.t()) + 0.5;
    /// assert!((&scores - &exact).iter().all(|error| error.abs() < 1e-12));
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn scores<T: Real>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
        coefficients: ArrayView2<'_, f64>,
        intercepts: &[f64],
    ) -> Result<Array2<T>> {
        check_columns("the number of columns of X", x, self.n_columns)?;
        let cure = "give a coefficient for each feature";
        let (n_outputs, n_coefficients) = coefficients.dim();
        let what = "the number of columns of the coefficients";
        check_length(what, n_coefficients, self.n_features(), cure)?;
        check_length(
            "the number of intercepts",
            intercepts.len(),
            n_outputs,
            "give one for each output",
        )?;
        self.map.check(exec, x)?;
        let mut out = memory::zero_matrix((x.n_rows(), n_outputs))?;
        if out.is_empty() {
            return Ok(out);
        }
        if self.n_projections == 0 {
            for mut scores in out.rows_mut() {
                scores.iter_mut().zip(intercepts).for_each(|(score, &b)| *score = T::from_f64(b));
            }
            return Ok(out);
        }
        let readout = Readout::<T>::new(self, coefficients)?;
        let flat = memory::flat_mut(&mut out)?;
        match self.projection_of(exec, x)? {
            Projecting::Structured(signs) => {
                let (map, signs) = (&self.map, &converted(signs.view())?);
                let (n_projections, sine_cosine) = (self.n_projections, readout.sine_cosine);
                let plan = Plan { map, signs, n_projections, sine_cosine };
                exec.for_chunks(flat, ROWS * n_outputs, |block, out| {
                    let (plan, readout, start) = (&plan, &readout, block * ROWS);
                    structured_scores(plan, readout, intercepts, x, start, out)
                })?;
            }
            Projecting::Rows(rows) => {
                exec.for_chunks(flat, ROWS * n_outputs, |block, out| {
                    let projected = rows.project(block * ROWS, out.len() / n_outputs)?;
                    let (projected, readout) = (&projected, &readout);
                    dense_scores(projected, readout, intercepts, out)
                })?;
            }
        }
        Ok(out)
    }
}

/// What is made of projections, in the element type of the data.
struct Readout<T> {
    sine_cosine: SineCosine<T>,
    n_outputs: usize,
    /// Projections, rounded up to whole vectors of every instruction set.
    padded: usize,
    weights: Weights<T>,
}

enum Weights<T> {
    /// Of one output, phases in units of 2 pi and amplitudes.
    Cosines { offsets: AlignedVec<T>, amplitudes: AlignedVec<T> },
    /// Of each output the coefficients of the cosines, then those of the sines.
    Both(AlignedVec<T>),
}

impl<T: Real> Readout<T> {
    fn new(features: &ExpChi2Features, coefficients: ArrayView2<'_, f64>) -> Result<Self> {
        let (n_outputs, n) = (coefficients.nrows(), features.n_projections);
        let padded = n.next_multiple_of(MIN_SIZE);
        let amplitude = features.amplitude();
        let weights = if n_outputs == 1 {
            let mut offsets = AlignedVec::zeros(padded)?;
            let mut amplitudes = AlignedVec::zeros(padded)?;
            for j in 0..n {
                let (a, b) = (coefficients[[0, j]], coefficients[[0, n + j]]);
                offsets[j] = T::from_f64(-b.atan2(a) / (2.0 * PI));
                amplitudes[j] = T::from_f64(amplitude * a.hypot(b));
            }
            Weights::Cosines { offsets, amplitudes }
        } else {
            let mut both = AlignedVec::zeros(n_outputs * 2 * padded)?;
            let halves = coefficients.rows().into_iter();
            for (own, out) in halves.zip(both.chunks_exact_mut(2 * padded)) {
                for (j, &value) in own.iter().enumerate() {
                    let at = if j < n { j } else { padded + j - n };
                    out[at] = T::from_f64(amplitude * value);
                }
            }
            Weights::Both(both)
        };
        let sine_cosine = SineCosine::new(features.phase_scale(), 1.0);
        Ok(Self { sine_cosine, n_outputs, padded, weights })
    }

    /// Adds to the scores of rows the parts of some projections of each, from the `first` on. A row
    /// has `size` numbers in `projected`, of which only existing projections count.
    #[inline(always)]
    fn add<S: Simd>(
        &self,
        simd: S,
        first: usize,
        projected: &[T],
        size: usize,
        tile: &mut [T],
        scores: &mut [f64],
    ) {
        let count = size.min(self.padded - first);
        let rows = projected.chunks_exact(size);
        match &self.weights {
            Weights::Cosines { offsets, amplitudes } => {
                let (offsets, amplitudes) = (&offsets[first..], &amplitudes[first..]);
                for (row, score) in rows.zip(scores) {
                    let sum = self.sine_cosine.sum_of_cosines(
                        simd,
                        &row[..count],
                        &offsets[..count],
                        &amplitudes[..count],
                    );
                    *score += sum.to_f64();
                }
            }
            Weights::Both(both) => {
                for start in (0..count).step_by(PIECE) {
                    let width = PIECE.min(count - start);
                    for (row, tile) in rows.clone().zip(tile.chunks_exact_mut(2 * PIECE)) {
                        let (cosines, sines) = tile.split_at_mut(PIECE);
                        let (cosines, sines) = (&mut cosines[..width], &mut sines[..width]);
                        self.sine_cosine.write(simd, &row[start..start + width], cosines, sines);
                    }
                    self.add_products(simd, both, first + start, width, tile, scores);
                }
            }
        }
    }

    /// Adds to the scores the products of a tile of features and their coefficients.
    #[inline(always)]
    fn add_products<S: Simd>(
        &self,
        simd: S,
        both: &[T],
        first: usize,
        width: usize,
        tile: &[T],
        scores: &mut [f64],
    ) {
        let coefficients = |k: usize| {
            let own = &both[2 * self.padded * k..][..2 * self.padded];
            [&own[first..][..width], &own[self.padded + first..][..width]]
        };
        let n_outputs = self.n_outputs;
        let mut k = 0;
        while k + OUTPUTS <= n_outputs {
            let own = core::array::from_fn(|i| coefficients(k + i));
            let sums = products::<T, S, OUTPUTS>(simd, own, tile);
            for (i, sums) in sums.iter().enumerate() {
                let scores = scores[k + i..].iter_mut().step_by(n_outputs);
                scores.zip(sums).for_each(|(score, sum)| *score += sum.to_f64());
            }
            k += OUTPUTS;
        }
        for k in k..n_outputs {
            let [sums] = products::<T, S, 1>(simd, [coefficients(k)], tile);
            let scores = scores[k..].iter_mut().step_by(n_outputs);
            scores.zip(sums).for_each(|(score, sum)| *score += sum.to_f64());
        }
    }
}

/// Products of coefficients of some outputs and the features of [`GROUP`] rows.
// Loops, not `array::map`: where that is not inlined, it is called for every vector, and compiled
// without the instructions of the kernel around it.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
fn products<T: Real, S: Simd, const K: usize>(
    simd: S,
    coefficients: [[&[T]; 2]; K],
    tile: &[T],
) -> [[T; GROUP]; K] {
    let mut sums = [[T::splat(simd, T::default()); GROUP]; K];
    for half in 0..2 {
        let len = T::vectors::<S>(coefficients[0][half]).0.len();
        let mut own = [T::vectors::<S>(coefficients[0][half]).0; K];
        for k in 0..K {
            own[k] = &T::vectors::<S>(coefficients[k][half]).0[..len];
        }
        let mut rows = [T::vectors::<S>(tile).0; GROUP];
        for r in 0..GROUP {
            rows[r] = &T::vectors::<S>(&tile[(2 * r + half) * PIECE..][..PIECE]).0[..len];
        }
        for i in 0..len {
            for k in 0..K {
                let coefficient = own[k][i];
                for r in 0..GROUP {
                    sums[k][r] = T::mul_add(simd, coefficient, rows[r][i], sums[k][r]);
                }
            }
        }
    }
    let mut products = [[T::default(); GROUP]; K];
    for k in 0..K {
        for r in 0..GROUP {
            products[k][r] = T::reduce_sum(simd, sums[k][r]);
        }
    }
    products
}

/// Scores with the intercepts, in the element type of the data.
fn write<T: Real>(scores: &[f64], intercepts: &[f64], out: &mut [T]) {
    for ((out, score), intercept) in out.iter_mut().zip(scores).zip(intercepts.iter().cycle()) {
        *out = T::from_f64(score + intercept);
    }
}

vectorized!(
    fn structured_scores<S: Simd, T: Real>(
        simd: S,
        plan: &Plan<'_, T>,
        readout: &Readout<T>,
        intercepts: &[f64],
        x: &HistogramMatrix<'_, T>,
        start: usize,
        out: &mut [T],
    ) -> Result<()> {
        let own = &plan.signs[SHARED_ROUNDS..];
        let (size, n_outputs) = (plan.signs[0].len(), readout.n_outputs);
        let mut values = AlignedVec::zeros(x.n_columns())?;
        let mut features = AlignedVec::zeros(GROUP * size)?;
        let mut projected = AlignedVec::zeros(GROUP * size)?;
        let mut tile = AlignedVec::zeros(GROUP * 2 * PIECE)?;
        let mut scores = memory::filled(0.0, GROUP * n_outputs)?;
        for (group, out) in out.chunks_mut(GROUP * n_outputs).enumerate() {
            let first = start + group * GROUP;
            let n_rows = out.len() / n_outputs;
            for (row, features) in (first..first + n_rows).zip(features.chunks_exact_mut(size)) {
                plan.turn_row(simd, x, row, &mut values, features);
            }
            scores.fill(0.0);
            for (block, signs) in own.iter().enumerate() {
                let first = block * size;
                let needed = size.min(plan.n_projections - first);
                let rows = features.chunks_exact(size).zip(projected.chunks_exact_mut(size));
                for (features, projected) in rows.take(n_rows) {
                    signed_hadamard(simd, signs, Some(features), projected, needed);
                }
                let projected = &projected[..n_rows * size];
                readout.add(simd, first, projected, size, &mut tile, &mut scores);
            }
            write(&scores, intercepts, out);
        }
        Ok(())
    }
);

vectorized!(
    fn dense_scores<S: Simd, T: Real>(
        simd: S,
        projected: &Array2<T>,
        readout: &Readout<T>,
        intercepts: &[f64],
        out: &mut [T],
    ) -> Result<()> {
        let (size, n_outputs) = (readout.padded, readout.n_outputs);
        let mut rows = AlignedVec::zeros(GROUP * size)?;
        let mut tile = AlignedVec::zeros(GROUP * 2 * PIECE)?;
        let mut scores = memory::filled(0.0, GROUP * n_outputs)?;
        for (group, out) in out.chunks_mut(GROUP * n_outputs).enumerate() {
            let n_rows = out.len() / n_outputs;
            let own = projected.rows().into_iter().skip(group * GROUP);
            for (row, padded) in own.zip(rows.chunks_exact_mut(size)).take(n_rows) {
                padded.iter_mut().zip(row).for_each(|(padded, &value)| *padded = value);
            }
            scores.fill(0.0);
            readout.add(simd, 0, &rows[..n_rows * size], size, &mut tile, &mut scores);
            write(&scores, intercepts, out);
        }
        Ok(())
    }
);
