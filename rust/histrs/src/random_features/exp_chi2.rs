//! Random features of `exp(-gamma chi2(x, y))`.

use std::f64::consts::PI;
use std::sync::OnceLock;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::chi2::AdditiveMap;
use crate::error::{Error, GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::matrix::{CsrView, HistogramMatrix, check_columns};
use crate::memory;
use crate::random::Random;
use crate::random_features::hadamard::MIN_SIZE;
use crate::random_features::structured::{self, Buffers, Plan, SHARED_ROUNDS};
use crate::random_features::trigonometry::SineCosine;
use crate::simd::{AlignedVec, Real, vectorized};

/// Rows in a block.
pub(super) const ROWS: usize = 128;
/// Entries of the largest matrix that is kept for sparse rows: 256 MiB.
const MOST_KEPT: f64 = (1 << 25) as f64;

/// Cosines and sines of random projections of the features of an [`AdditiveMap`], whose inner
/// products are near `exp(-gamma chi2(x, y))` (algorithm 1, with `sqrt(2/D)`, which it leaves out).
///
/// The features of the map exist for one row at a time only where the projection is structured, and
/// for a block of rows otherwise. Of sparse rows only those of non-zeros are projected, if this is
/// less work than a transform; the matrix for it is made once and kept.
#[derive(Debug, Clone)]
pub struct ExpChi2Features {
    pub(super) map: AdditiveMap,
    pub(super) n_columns: usize,
    pub(super) n_projections: usize,
    gamma: f64,
    pub(super) projection: Projection,
    /// The matrix of a structured projection, once sparse rows have asked for it.
    matrix: OnceLock<Array2<f64>>,
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
        let matrix = OnceLock::new();
        Ok(Self { map, n_columns, n_projections, gamma, projection, matrix })
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
        match self.projection_of(exec, x)? {
            Projecting::Structured(signs) => {
                let signs = &converted(signs.view())?;
                let (map, n_projections) = (&self.map, self.n_projections);
                let plan = Plan { map, signs, n_projections, sine_cosine };
                exec.for_chunks(out, ROWS.saturating_mul(width), |block, out| {
                    map_structured_rows(&plan, x, block * ROWS, out)
                })
            }
            Projecting::Rows(rows) => {
                exec.for_chunks(out, ROWS.saturating_mul(width), |block, out| {
                    let projected = rows.project(block * ROWS, out.len() / width)?;
                    map_dense_rows(&projected, sine_cosine, out)
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

    /// How rows are projected.
    pub(super) fn projection_of<'a, 'm, T: Real>(
        &'a self,
        exec: &Executor,
        x: &'a HistogramMatrix<'m, T>,
    ) -> Result<Projecting<'a, 'm, T>> {
        let (map, n_projections) = (&self.map, self.n_projections);
        let by = match (&self.projection, x) {
            (Projection::Dense(matrix), HistogramMatrix::Csr(x)) => Factors::NonZeros(x, matrix),
            (Projection::Dense(matrix), _) => Factors::All(x, matrix.mapv(|w| T::from_f64(w))),
            (Projection::Structured(signs), HistogramMatrix::Csr(x))
                if self.is_sparse(x, signs) =>
            {
                Factors::NonZeros(x, self.matrix_of(exec, signs)?)
            }
            (Projection::Structured(signs), _) => return Ok(Projecting::Structured(signs)),
        };
        Ok(Projecting::Rows(Rows { map, n_projections, by }))
    }

    /// Whether products of the non-zeros and a matrix are fewer than the sums of transforms.
    fn is_sparse<T: Real>(&self, x: &CsrView<'_, T>, signs: &Array2<i8>) -> bool {
        let (size, n_projections) = (signs.ncols() as f64, self.n_projections as f64);
        let of_columns = (self.map.n_components() as f64) * n_projections;
        let of_rows = (x.n_rows() * SHARED_ROUNDS) as f64 * size * size.log2();
        of_columns * (self.n_columns as f64) <= MOST_KEPT
            && of_columns * (x.n_stored() as f64) < of_rows
    }

    /// The matrix of a structured projection.
    fn matrix_of(&self, exec: &Executor, signs: &Array2<i8>) -> Result<&Array2<f64>> {
        if let Some(matrix) = self.matrix.get() {
            return Ok(matrix);
        }
        let n_features = memory::size::<f64>(&[self.n_columns, self.map.n_components()])?;
        let signs = converted(signs.view())?;
        let matrix = structured::matrix(exec, &signs, n_features, self.n_projections)?;
        Ok(self.matrix.get_or_init(|| matrix))
    }
}

/// How rows are projected.
pub(super) enum Projecting<'a, 'm, T> {
    /// By transforms, with these signs.
    Structured(&'a Array2<i8>),
    /// By a matrix.
    Rows(Rows<'a, 'm, T>),
}

/// Rows and a matrix.
pub(super) struct Rows<'a, 'm, T> {
    map: &'a AdditiveMap,
    n_projections: usize,
    by: Factors<'a, 'm, T>,
}

enum Factors<'a, 'm, T> {
    /// All features, and the matrix in the element type of the data.
    All(&'a HistogramMatrix<'m, T>, Array2<T>),
    /// Features of non-zeros.
    NonZeros(&'a CsrView<'m, T>, &'a Array2<f64>),
}

impl<T: Real> Rows<'_, '_, T> {
    /// The projections of some rows.
    pub(super) fn project(&self, start: usize, n_rows: usize) -> Result<Array2<T>> {
        let map = self.map;
        let mut projected = memory::zero_matrix((n_rows, self.n_projections))?;
        match &self.by {
            Factors::All(x, matrix) => {
                let mut features = memory::zero_matrix((n_rows, matrix.nrows()))?;
                map_chi2(map, x, start, &mut features)?;
                general_mat_mul(T::one(), &features, matrix, T::zero(), &mut projected);
            }
            Factors::NonZeros(x, matrix) => {
                project_sparse_rows(map, x, start, matrix, &mut projected)?;
            }
        }
        Ok(projected)
    }
}

vectorized!(
    fn map_structured_rows<S: Simd, T: Real>(
        simd: S,
        plan: &Plan<'_, T>,
        x: &HistogramMatrix<'_, T>,
        start: usize,
        out: &mut [T],
    ) -> Result<()> {
        let mut buffers = Buffers::new(x.n_columns(), plan.signs[0].len())?;
        for (row, out) in (start..).zip(out.chunks_exact_mut(2 * plan.n_projections)) {
            plan.transform_row(simd, x, row, &mut buffers, out);
        }
        Ok(())
    }
);

vectorized!(
    fn map_chi2<S: Simd, T: Real>(
        simd: S,
        map: &AdditiveMap,
        x: &HistogramMatrix<'_, T>,
        start: usize,
        features: &mut Array2<T>,
    ) -> Result<()> {
        let mut values = memory::filled(T::default(), x.n_columns())?;
        let width = features.ncols().max(1);
        for (row, out) in (start..).zip(memory::flat_mut(features)?.chunks_exact_mut(width)) {
            x.copy_row(row, &mut values);
            map.map_values(simd, &values, None, out, values.len());
        }
        Ok(())
    }
);

vectorized!(
    fn project_sparse_rows<S: Simd, T: Real>(
        simd: S,
        map: &AdditiveMap,
        x: &CsrView<'_, T>,
        start: usize,
        matrix: &Array2<f64>,
        projected: &mut Array2<T>,
    ) -> Result<()> {
        let (width, n_columns) = (matrix.ncols().max(1), x.n_columns());
        let matrix = memory::flat(matrix)?;
        let mut sums = memory::filled(0.0, width)?;
        let mut features = Vec::new();
        for (row, out) in (start..).zip(memory::flat_mut(projected)?.chunks_exact_mut(width)) {
            let (columns, values) = x.row_sums_of_duplicates(row);
            let n = values.len();
            memory::resize(&mut features, n * map.n_components(), T::default())?;
            map.map_values(simd, &values, Some(&columns), &mut features, n);
            sums.fill(0.0);
            for (i, &column) in columns.iter().enumerate() {
                let at = column.unsigned_abs() as usize;
                for k in 0..map.n_components() {
                    let weight = features[k * n + i].to_f64();
                    let weights = &matrix[(k * n_columns + at) * width..][..width];
                    sums.iter_mut().zip(weights).for_each(|(sum, w)| *sum += weight * w);
                }
            }
            out.iter_mut().zip(&sums).for_each(|(out, &sum)| *out = T::from_f64(sum));
        }
        Ok(())
    }
);

vectorized!(
    fn map_dense_rows<S: Simd, T: Real>(
        simd: S,
        projected: &Array2<T>,
        sine_cosine: SineCosine<T>,
        out: &mut [T],
    ) -> Result<()> {
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
);

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
