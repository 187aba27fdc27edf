//! Random features of `exp(-gamma chi2(x, y))`.

use std::f64::consts::PI;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView1, ArrayView2};
use pulp::{Simd, WithSimd};

use crate::chi2::AdditiveMap;
use crate::error::{Error, GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::matrix::{HistogramMatrix, check_columns};
use crate::memory;
use crate::random::Random;
use crate::random_features::hadamard::MIN_SIZE;
use crate::random_features::structured::{Buffers, Plan, SHARED_ROUNDS};
use crate::random_features::trigonometry::SineCosine;
use crate::simd::{AlignedVec, Real, dispatch};

/// Rows in a block.
pub(super) const ROWS: usize = 128;

/// Cosines and sines of random projections of the features of an [`AdditiveMap`], whose inner
/// products are near `exp(-gamma chi2(x, y))` (algorithm 1, with `sqrt(2/D)`, which it leaves out).
///
/// The features of the map exist for one row at a time only where the projection is structured, and
/// for a block of rows otherwise.
#[derive(Debug, Clone)]
pub struct ExpChi2Features {
    pub(super) map: AdditiveMap,
    pub(super) n_columns: usize,
    pub(super) n_projections: usize,
    gamma: f64,
    pub(super) projection: Projection,
}

#[derive(Debug, Clone)]
pub(super) enum Projection {
    /// Signs of each round.
    Structured(Array2<i8>),
    /// A matrix with a row for each feature of the map.
    Dense(Array2<f64>),
}

impl ExpChi2Features {
    /// Projections by three rounds of random signs and Walsh-Hadamard transforms,
    /// `H D_3 H D_2 H D_1 / n`, in blocks of `n` projections that share the first two.
    ///
    /// The first rows of `signs` are `D_1` and `D_2`, each further row is `D_3` of a block. Shared
    /// rounds flatten any vector, and are left to one block to turn: the error of the kernel is
    /// that of blocks with three rounds of their own.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when the numbers of rows or columns of `signs` do not fit,
    /// [`Error::Parameter`] unless all are 1 or -1 and `gamma` is positive and
    /// finite.
    pub fn structured(
        map: AdditiveMap,
        n_columns: usize,
        signs: ArrayView2<'_, i8>,
        n_projections: usize,
        gamma: f64,
    ) -> Result<Self> {
        let size = Self::structured_size(&map, n_columns);
        let cure = "draw signs for the size of the features";
        check_length("the number of columns of the signs", signs.ncols(), size, cure)?;
        let rounds = SHARED_ROUNDS + n_projections.div_ceil(size);
        check_length("the number of rows of the signs", signs.nrows(), rounds, cure)?;
        if let Some(&bad) = signs.iter().find(|sign| sign.unsigned_abs() != 1) {
            let expected = "signs are 1 or -1";
            return Err(Error::parameter("a sign", bad, expected));
        }
        let projection = Projection::Structured(signs.to_owned());
        Self::new(map, n_columns, n_projections, gamma, projection)
    }

    /// Projections by three rounds of signs that are drawn from a seed, see
    /// [`structured`](Self::structured).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `gamma` is positive and finite, [`Error::OutOfMemory`].
    pub fn with_seed(
        map: AdditiveMap,
        n_columns: usize,
        n_projections: usize,
        gamma: f64,
        seed: u64,
    ) -> Result<Self> {
        let size = Self::structured_size(&map, n_columns);
        let n_rounds = SHARED_ROUNDS.saturating_add(n_projections.div_ceil(size));
        let mut signs = memory::zero_matrix((n_rounds, size))?;
        let mut random = Random(seed);
        signs.mapv_inplace(|_| if random.bits() >> 63 == 0 { 1 } else { -1 });
        Self::new(map, n_columns, n_projections, gamma, Projection::Structured(signs))
    }

    /// Projections by a matrix with a row for each feature of the map.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when it has another number of rows, [`Error::Parameter`] unless `gamma` is
    /// positive and finite.
    pub fn dense(
        map: AdditiveMap,
        n_columns: usize,
        matrix: ArrayView2<'_, f64>,
        gamma: f64,
    ) -> Result<Self> {
        let expected = memory::size::<f64>(&[n_columns, map.n_components()])?;
        let cure = "give a row for each feature of the map";
        check_length("the number of rows of the projection", matrix.nrows(), expected, cure)?;
        let projection = Projection::Dense(matrix.to_owned());
        Self::new(map, n_columns, matrix.ncols(), gamma, projection)
    }

    fn new(
        map: AdditiveMap,
        n_columns: usize,
        n_projections: usize,
        gamma: f64,
        projection: Projection,
    ) -> Result<Self> {
        if !(gamma > 0.0 && gamma < f64::INFINITY) {
            let expected = "it must be positive and finite";
            return Err(Error::parameter("gamma", gamma, expected));
        }
        Ok(Self { map, n_columns, n_projections, gamma, projection })
    }

    /// Size of the Walsh-Hadamard transform: the least power of 2 that holds the features, or the largest
    /// number where no power of 2 does.
    #[must_use]
    pub fn structured_size(map: &AdditiveMap, n_columns: usize) -> usize {
        let n_features = n_columns.saturating_mul(map.n_components());
        n_features.checked_next_power_of_two().unwrap_or(usize::MAX).max(MIN_SIZE)
    }

    /// The random features of some rows: the cosines of all projections, then their sines.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`] or [`Error::NotFinite`] at the first bad entry, [`Error::Shape`] when
    /// `x` has another number of columns.
    pub fn transform<T: Real>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<T>> {
        let shape = (x.n_rows(), self.n_features());
        memory::filled_by(shape, |out| self.transform_into(exec, x, out))
    }

    /// The random features of some rows, one row after the other in `out`.
    ///
    /// # Errors
    ///
    /// As [`Self::transform`]; [`Error::Shape`] when `out` has another length.
    pub fn transform_into<T: Real>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
        out: &mut [T],
    ) -> Result<()> {
        check_columns("the number of columns of X", x, self.n_columns)?;
        self.map.check(exec, x)?;
        let width = self.n_features();
        check_length(OUTPUT, out.len(), memory::size::<T>(&[x.n_rows(), width])?, GIVE_WHOLE_ROWS)?;
        let sine_cosine = SineCosine::new(self.phase_scale(), self.amplitude());
        match &self.projection {
            Projection::Structured(signs) => {
                let signs = &converted(signs.view())?;
                let (map, n_projections) = (&self.map, self.n_projections);
                let plan = Plan { map, signs, n_projections, sine_cosine };
                exec.for_chunks(out, ROWS.saturating_mul(width), |block, out| {
                    dispatch(StructuredRows { plan: &plan, x, start: block * ROWS, out })
                })
            }
            Projection::Dense(matrix) => {
                let matrix = matrix.mapv(|w| T::from_f64(w));
                exec.for_chunks(out, ROWS.saturating_mul(width), |block, out| {
                    let n_rows = out.len() / width;
                    let projected = self.project_rows(x, block * ROWS, n_rows, &matrix)?;
                    dispatch(DenseRows { projected: &projected, sine_cosine, out })
                })
            }
        }
    }

    /// Number of features: a cosine and a sine of each projection.
    #[must_use]
    pub fn n_features(&self) -> usize {
        2 * self.n_projections
    }

    /// From the projection of a row to phases in units of 2 pi: `Omega` has variance `2 gamma`.
    pub(super) fn phase_scale(&self) -> f64 {
        let scale = (2.0 * self.gamma).sqrt() / (2.0 * PI);
        match &self.projection {
            Projection::Structured(signs) => scale / signs.ncols() as f64,
            Projection::Dense(_) => scale,
        }
    }

    pub(super) fn amplitude(&self) -> f64 {
        (1.0 / self.n_projections as f64).sqrt()
    }

    /// The projections of some rows, by the matrix in the element type of the data.
    pub(super) fn project_rows<T: Real>(
        &self,
        x: &HistogramMatrix<'_, T>,
        start: usize,
        n_rows: usize,
        matrix: &Array2<T>,
    ) -> Result<Array2<T>> {
        let features = self.map_rows(x, start, n_rows)?;
        let mut projected = memory::zero_matrix((n_rows, self.n_projections))?;
        general_mat_mul(T::one(), &features, matrix, T::zero(), &mut projected);
        Ok(projected)
    }

    /// The features of the map of some rows.
    fn map_rows<T: Real>(
        &self,
        x: &HistogramMatrix<'_, T>,
        start: usize,
        n_rows: usize,
    ) -> Result<Array2<T>> {
        let width = self.n_columns * self.map.n_components();
        let mut features = memory::zero_matrix((n_rows, width))?;
        dispatch(MappedRows { map: &self.map, x, start, features: &mut features })?;
        Ok(features)
    }
}

struct StructuredRows<'a, 'm, T> {
    plan: &'a Plan<'a, T>,
    x: &'a HistogramMatrix<'m, T>,
    start: usize,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for StructuredRows<'_, '_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { plan, x, start, out } = self;
        let mut buffers = Buffers::new(x.n_columns(), plan.signs[0].len())?;
        for (row, out) in (start..).zip(out.chunks_exact_mut(2 * plan.n_projections)) {
            plan.transform_row(simd, x, row, &mut buffers, out);
        }
        Ok(())
    }
}

struct MappedRows<'a, 'm, T> {
    map: &'a AdditiveMap,
    x: &'a HistogramMatrix<'m, T>,
    start: usize,
    features: &'a mut Array2<T>,
}

impl<T: Real> WithSimd for MappedRows<'_, '_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { map, x, start, features } = self;
        let mut values = memory::filled(T::default(), x.n_columns())?;
        let width = features.ncols().max(1);
        for (row, out) in (start..).zip(memory::flat_mut(features)?.chunks_exact_mut(width)) {
            x.copy_row(row, &mut values);
            map.map_values(simd, &values, None, out, values.len());
        }
        Ok(())
    }
}

struct DenseRows<'a, T> {
    projected: &'a Array2<T>,
    sine_cosine: SineCosine<T>,
    out: &'a mut [T],
}

impl<T: Real> WithSimd for DenseRows<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { projected, sine_cosine, out } = self;
        let count = projected.ncols();
        let mut padded = AlignedVec::zeros(count.next_multiple_of(T::lanes::<S>()))?;
        for (row, out) in projected.rows().into_iter().zip(out.chunks_exact_mut(2 * count)) {
            for (padded, &value) in padded.iter_mut().zip(row) {
                *padded = value;
            }
            let (cosines, sines) = out.split_at_mut(count);
            sine_cosine.write(simd, &padded, cosines, sines);
        }
        Ok(())
    }
}

/// Signs as numbers, a vector for each round.
pub(super) fn converted<T: Real>(signs: ArrayView2<'_, i8>) -> Result<Vec<AlignedVec<T>>> {
    let round = |signs: ArrayView1<'_, i8>| {
        let mut out = AlignedVec::zeros(signs.len())?;
        for (out, &sign) in out.iter_mut().zip(signs) {
            *out = T::from_f64(f64::from(sign));
        }
        Ok(out)
    };
    signs.rows().into_iter().map(round).collect()
}
