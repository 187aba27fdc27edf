//! Every public function on empty, single, huge and meaningless arguments: a result or an error, never
//! a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::common::*;
use histrs::chi2::{AdditiveMap, column_ranges};
use histrs::clustering::{KMeansParameters, k_means, nearest_centers};
use histrs::detection::{
    Cells, Filter, Part, PartModel, distance_transform, hog_pyramid, placements,
};
use histrs::distances::{DistanceKernel, DistanceScores, Norm, Shape, StoredDistances};
use histrs::intersection::{
    CoordinateDescent, CubicFunctions, Interpolation, KnotProjection, LookupTable, LowRankInverse,
    ShapeFunctions, Solve, SortedColumns, StoredMinima, Transform, transform_rows,
};
use histrs::kernels::{
    AdditiveKernel, chi2_distances, cubic_spline_gram, exp_chi2_gram, minmax_distances, minmax_gram,
};
use histrs::levels::{LevelCodes, level_codes};
use histrs::model::{Model, Scratch};
use histrs::moments::{LassoParameters, LassoProblem, Penalty, group_lasso_path};
use histrs::ndarray::{Array, Array2, Array3, Dimension, IntoDimension, ShapeBuilder, array};
use histrs::neighborhood::{Labels, needed_prototypes};
use histrs::quantization::{
    Codebooks, Metric, Quantizer, QuantizerParameters, candidate_values, code_scores,
    code_scores_into, code_sums, decode, decode_into, encode, encode_into, neighbors,
    neighbors_in_lists,
};
use histrs::random_features::ExpChi2Features;
use histrs::sparse_maps::{Selection, SparseAdditiveMap, column_quantiles, sparse_codes};
use histrs::spd::{
    Dispersion, MeanParameters, Shrinkage, airm_distances, airm_paired, compression_loss,
    dispersion_mean, jbld_distances, jbld_paired, mean_gradient, signal_covariances,
    tangent_vectors,
};
use histrs::svm::{
    ColumnUnits, Line, LineMut, LineNorm, Loss, SgdParameters, Targets, epoch, scores, scores_into,
    simplex_maximum,
};
use histrs::transport::{
    Barycenter, Cost, Costs, Relaxation, RelaxedSinkhorn, Sinkhorn, check_masses, emd_distances,
    emd_pairs, emd_plan, histogram_compression_loss, relaxed_distances, sinkhorn_barycenters,
    sinkhorn_distances, sinkhorn_pairs,
};
use histrs::{CsrView, Error, Executor, HistogramMatrix, Real, Stop};
use proptest::prelude::*;

/// Rows or columns of an array that has none of the other.
const MANY: usize = 1 << 12;
/// Numbers that no array is as long as: products of two of them wrap.
const HUGE: [usize; 4] = [1 << 48, 1 << 62, (1 << 63) + 1, usize::MAX];
const WILD: [f64; 14] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    f64::MIN,
    -1.0,
    -0.0,
    0.0,
    f64::MIN_POSITIVE,
    5e-324,
    1e-200,
    1e200,
    1e18,
    f32::MAX as f64,
];

/// Draws arguments that fit each other, but for some.
struct Args {
    random: Random,
    /// Rows, others, columns, outputs.
    sizes: [usize; 4],
    /// How many of a hundred numbers are wild.
    wild: usize,
    /// Whether some lengths are wrong.
    ill_shaped: bool,
}

impl Args {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let sizes = [(); 4].map(|()| [0, 1, 1, 2, 2, 3, 4, 5, 9, 17][random.below(10)]);
        let wild = [0, 0, 5, 30, 100][random.below(5)];
        let ill_shaped = random.below(4) == 0;
        Self { random, sizes, wild, ill_shaped }
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len())]
    }

    fn flag(&mut self) -> bool {
        self.any(&[false, true])
    }

    fn is_wild(&mut self) -> bool {
        self.random.below(100) < self.wild
    }

    fn size(&mut self, usual: usize) -> usize {
        if self.ill_shaped && self.random.below(6) == 0 {
            return self.any(&[0, 1, 2, usual + 1]);
        }
        usual
    }

    /// A number that the caller chooses.
    fn number(&mut self, usual: f64) -> f64 {
        if self.is_wild() { self.any(&WILD) } else { usual }
    }

    /// A whole number that the caller chooses.
    fn count(&mut self, usual: usize) -> usize {
        if !self.is_wild() {
            return usual;
        }
        let huge = self.any(&HUGE);
        self.any(&[0, 1, 2, huge, huge])
    }

    /// Iterations, which take time.
    fn steps(&mut self) -> usize {
        self.any(&[0, 1, 2, 30])
    }

    fn value<T: Real>(&mut self) -> T {
        T::from_f64(if self.is_wild() { self.any(&WILD) } else { self.random.unit() + 0.01 })
    }

    fn array<T: Real, D: Dimension>(&mut self, shape: impl IntoDimension<Dim = D>) -> Array<T, D> {
        let mut shape = shape.into_dimension();
        shape.slice_mut().iter_mut().for_each(|size| *size = self.size(*size));
        if self.ill_shaped && shape.size() == 0 && self.flag() {
            let empty = shape.slice().iter().position(|size| *size == 0).unwrap();
            for (axis, size) in shape.slice_mut().iter_mut().enumerate() {
                if axis != empty && self.random.below(3) == 0 {
                    *size = MANY;
                    break;
                }
            }
        }
        let columns_first = self.flag();
        Array::from_shape_simple_fn(shape.set_f(columns_first), || self.value())
    }

    fn vector<T: Real>(&mut self, n: usize) -> Vec<T> {
        (0..self.size(n)).map(|_| self.value()).collect()
    }

    /// Numbers that add up to 1 where nothing is wild.
    fn shares(&mut self, n: usize) -> Vec<f64> {
        let shares = self.vector::<f64>(n);
        let sum: f64 = shares.iter().sum();
        shares.into_iter().map(|share| share / sum).collect()
    }

    /// Rows of so many columns, of mass 1 where nothing is wild, dense or sparse.
    fn rows<T: Real>(&mut self, n: usize, d: usize) -> Stored<T> {
        let mut x = self.array::<f64, _>((n, d));
        for mut row in x.rows_mut() {
            let sum = row.sum();
            if self.wild == 0 {
                row.mapv_inplace(|x| x / sum);
            }
        }
        let layout = self.any(&[Layout::Rows, Layout::Gaps, Layout::Csr, Layout::Scattered]);
        Stored::new(&x.mapv(T::from_f64), layout, self.random.bits())
    }

    /// Covariances.
    fn stack<T: Real>(&mut self, n: usize, d: usize) -> Array3<T> {
        let mut x = self.array::<T, _>((n, d, d));
        if x.dim().1 == x.dim().2 && !x.is_empty() {
            for mut matrix in x.outer_iter_mut() {
                let half = matrix.to_owned();
                matrix.assign(&half.dot(&half.t()));
                matrix.diag_mut().mapv_inplace(|x| x + T::from_f64(0.1));
            }
        }
        x
    }

    /// Whole numbers, most of them below `limit`.
    fn whole(&mut self, n: usize, limit: usize) -> Vec<i64> {
        let n = self.size(n);
        (0..n)
            .map(|_| {
                if self.is_wild() {
                    self.any(&[-1, i64::MIN, i64::MAX, limit as i64, 1 << 40])
                } else {
                    self.random.below(limit) as i64
                }
            })
            .collect()
    }

    fn labels(&mut self, n: usize) -> Vec<i64> {
        self.whole(n, 2)
    }

    /// Where the parts of `d` columns begin and end.
    fn offsets(&mut self, parts: usize, d: usize) -> Vec<i64> {
        let mut inner = self.whole(parts.saturating_sub(1), d + 1);
        inner.sort_unstable();
        [vec![0], inner, vec![self.size(d) as i64]].concat()
    }

    fn order(&mut self, n: usize) -> Vec<i64> {
        self.whole(n, n)
    }

    fn pairs(&mut self, n: usize, m: usize) -> Vec<(usize, usize)> {
        (0..self.size(3))
            .map(|_| {
                let pair = (self.random.below(n), self.random.below(m));
                (self.count(pair.0), self.count(pair.1))
            })
            .collect()
    }

    /// A cost matrix.
    fn ground(&mut self, d: usize) -> Array2<f64> {
        let mut m = self.array((d, d));
        m.diag_mut().fill(0.0);
        m
    }

    fn codes<C: TryFrom<usize> + Copy>(&mut self, n: usize, m: usize, limit: usize) -> Array2<C> {
        let shape = (self.size(n), self.size(m));
        Array2::from_shape_simple_fn(shape, || {
            let code = if self.is_wild() { 255 } else { self.random.below(limit) };
            C::try_from(code).ok().unwrap()
        })
    }

    fn additive_map(&mut self, d: usize) -> histrs::Result<AdditiveMap> {
        match self.random.below(3) {
            0 => {
                let columns = self.any(&[1, d]);
                AdditiveMap::rational(self.array((3, columns)).view())
            }
            1 => AdditiveMap::chebyshev(self.count(3)),
            _ => AdditiveMap::periodic(self.count(3), self.number(0.5)),
        }
    }

    fn transform(&mut self) -> Transform {
        let (exponent, unit) = (self.number(0.5), self.number(1.0));
        self.any(&[
            Transform::Identity,
            Transform::Power { exponent },
            Transform::Exponential { exponent },
            Transform::PowerSlope { exponent, unit },
        ])
    }

    /// A model from a file, some bytes of which are others.
    fn model(&mut self) -> histrs::Result<Model> {
        let file = if self.flag() { saved::File::additive() } else { saved::File::table() };
        let mut bytes = file.bytes();
        while self.is_wild() && self.wild < 100 {
            let place = self.random.below(bytes.len());
            bytes[place] = self.random.bits() as u8;
        }
        Model::from_bytes(&saved::sealed(bytes))
    }

    fn filter(&mut self, blocks: usize, codes: usize) -> histrs::Result<Filter> {
        let shape = (1 + self.random.below(3), 1 + self.random.below(9), blocks, codes);
        Filter::new(self.array(shape).view())
    }

    fn part_model(&mut self, blocks: usize, codes: usize) -> histrs::Result<PartModel> {
        let mut model = PartModel::new();
        let n_parts = self.random.below(3);
        for _ in 0..self.random.below(3) {
            let mut parts = Vec::new();
            for _ in 0..self.size(n_parts) {
                let deformation = [0.0, 1.0, 0.0, 1.0].map(|usual| self.number(usual));
                let anchor = self.whole(2, 3);
                let anchor = std::array::from_fn(|k| anchor.get(k).copied().unwrap_or(i64::MIN));
                parts.push(Part::new(self.filter(blocks, codes)?, anchor, deformation));
            }
            let root = self.filter(blocks, codes)?;
            let bias = self.number(0.5);
            model.push(root, bias, parts)?;
        }
        let _ = model.n_parts();
        Ok(model)
    }

    fn sinkhorn(&mut self) -> Sinkhorn {
        let (reg, again, tol) = (self.number(0.1), self.number(0.1), self.number(1e-6));
        Sinkhorn::new(reg)
            .with_reg(again)
            .with_tol(tol)
            .with_max_iter(self.steps())
            .with_regularized(self.flag())
            .with_potentials(self.flag())
    }
}

/// The precision of the rows: code of the other is the same, and takes as long to compile again.
type T = f64;

/// Functions by name, and a call of them. A name without `::` that follows one with it is of the same type.
type Call = (&'static str, fn(&mut Args) -> histrs::Result<()>);

fn calls() -> Vec<Call> {
    #[allow(unused_mut)]
    let mut calls = calls_of_parts();
    #[cfg(feature = "proptest")]
    calls.push(("histograms spd_matrices ground_distances ranked_tables", |a| {
        use histrs::testing::{ground_distances, histograms, ranked_tables, spd_matrices};
        let [n, m, d, _] = a.sizes;
        let (rows, columns) = (n.min(m)..=n, 0..=d);
        let mut runner = proptest::test_runner::TestRunner::default();
        let mut draw = |strategy: BoxedStrategy<usize>| strategy.new_tree(&mut runner).map(drop);
        let _ = draw(histograms(rows.clone(), columns.clone()).prop_map(|x| x.len()).boxed());
        let _ = draw(spd_matrices(rows.clone(), columns.clone()).prop_map(|x| x.len()).boxed());
        let _ = draw(ground_distances(rows.clone()).prop_map(|x| x.len()).boxed());
        let _ = draw(ranked_tables(rows, columns).prop_map(|x| x.len()).boxed());
        Ok(())
    }));
    calls
}

fn calls_of_parts() -> Vec<Call> {
    vec![
        ("AdditiveMap::rational chebyshev periodic n_components transform_csr", |a| {
            let [n, _, d, _] = a.sizes;
            let map = a.additive_map(d)?;
            let _ = map.n_components();
            let (mut data, mut indices) = (a.vector::<T>(n), vec![0; n]);
            data.truncate(n);
            indices.truncate(data.len());
            let indptr = [vec![0; n], vec![data.len() as i64]].concat();
            let n_columns = a.any(&[1, d, d, i32::MAX as usize]);
            map.transform_csr(exec(), &CsrView::new(&data, &indices, &indptr, n_columns)?).map(drop)
        }),
        ("AdditiveMap::transform", |a| {
            let [n, _, d, _] = a.sizes;
            let x = a.array::<T, _>((n, d));
            a.additive_map(d)?.transform(exec(), x.view()).map(drop)
        }),
        ("AdditiveMap::transform_into", |a| {
            let [n, _, d, _] = a.sizes;
            let (map, x) = (a.additive_map(d)?, a.array::<T, _>((n, d)));
            let mut out = a.vector(3 * n * d);
            map.transform_into(exec(), x.view(), &mut out)
        }),
        ("column_ranges", |a| {
            let [n, _, d, _] = a.sizes;
            column_ranges(exec(), &a.rows::<T>(n, d).view()).map(drop)
        }),
        (
            "DistanceKernel::new gram cross_product slopes StoredDistances::new n_rows n_bytes \
             mean_rest product DistanceScores::new n_outputs evaluate",
            |a| {
                let [n, m, d, k] = a.sizes;
                let norm = a.any(&[Norm::L1, Norm::L2]);
                let shape = if a.flag() { Shape::Laplace } else { Shape::Matern };
                let shapes: Vec<Shape> = a.vector(k).into_iter().map(shape).collect();
                let (weights, amplitudes) = (a.vector(d), a.vector(k + 2));
                let kernel = DistanceKernel::new(norm, a.size(d), weights, shapes, amplitudes)?;
                let (x, y) = (a.array((n, d)), a.array((m, d)));
                kernel.gram(exec(), x.view(), a.flag().then(|| y.view()))?;
                let v: Array2<f64> = a.array((m, k));
                kernel.cross_product(exec(), x.view(), y.view(), v.view())?;
                let singles: Array2<f32> = a.array((m, k));
                let scores =
                    DistanceScores::new(kernel.clone(), y.view(), v.view(), singles.view())?;
                let _ = (scores.n_outputs(), scores.evaluate(exec(), x.view())?);
                if let Ok(stored) = StoredDistances::new(exec(), &kernel, x.view(), a.array((n, m)))
                {
                    let _ = (stored.n_rows(), stored.n_bytes(), stored.mean_rest());
                    stored.product(exec(), a.array((n, k)).view())?;
                }
                kernel.slopes(exec(), x.view(), a.array((n, n)).view()).map(drop)
            },
        ),
        (
            "LevelCodes::new n_rows n_levels counts forms sums scores LevelCounts::normal_matrix",
            |a| {
                let [n, _, d, m] = a.sizes;
                let codes = a.codes::<u16>(d, n, 3);
                let mut n_levels = vec![0; a.size(d)];
                n_levels.iter_mut().for_each(|count| *count = a.count(4));
                let levels = LevelCodes::new(codes.view(), &n_levels)?;
                let (rows, total) = (levels.n_rows().min(n), levels.n_levels().min(100));
                let weights = Array::from_vec(a.vector::<f64>(rows));
                let weights = a.flag().then(|| weights.view());
                let counts = levels.counts(exec(), weights)?;
                let sizes: Vec<usize> = n_levels.iter().map(|&n| a.size(n)).collect();
                let functions: Vec<_> = sizes.into_iter().map(|n| a.array((n, m))).collect();
                let functions: Vec<_> = functions.iter().map(|f| f.view()).collect();
                let _ = counts.normal_matrix(exec(), &functions);
                levels.forms(exec(), a.array((total, total)).view())?;
                levels.sums(exec(), a.array((rows, m)).view())?;
                levels.scores(exec(), a.array((total, m)).view()).map(drop)
            },
        ),
        ("level_codes", |a| {
            let [n, m, d, k] = a.sizes;
            let x = a.array::<T, _>((n, d));
            let cuts: Vec<_> = (0..m.min(5)).map(|_| Array::from_vec(a.vector::<f64>(k))).collect();
            let columns: Vec<_> = cuts.iter().map(|cuts| (a.count(d), cuts.view())).collect();
            level_codes(exec(), x.view(), &columns).map(drop)
        }),
        ("KMeansParameters::with_seed with_n_candidates k_means", |a| {
            let [n, _, d, k] = a.sizes;
            let parameters = KMeansParameters::default()
                .with_seed(a.random.bits())
                .with_max_iter(a.steps())
                .with_tol(a.number(1e-3));
            let parameters =
                if a.flag() { parameters.with_n_candidates(a.count(2)) } else { parameters };
            let (x, k) = (a.array::<T, _>((n, d)), a.count(k));
            k_means(exec(), x.view(), k, parameters).map(drop)
        }),
        ("Stop::new with_tol with_max_iter Solve::with_n_knots SortedColumns::solve", |a| {
            let [n, _, d, k] = a.sizes;
            let columns = SortedColumns::new(exec(), &a.rows::<T>(n, d).view())?;
            let (y, noise, tol) = (a.array((n, k)), a.number(0.1), a.number(1e-6));
            let _ = Stop::new(tol, 9).with_tol(tol).with_max_iter(3);
            let solve = Solve::default().with_tol(tol).with_max_iter(a.steps());
            let solve = if a.flag() { solve.with_n_knots(a.count(4)) } else { solve };
            columns.solve(exec(), noise, y.view(), solve).map(drop)
        }),
        ("nearest_centers", |a| {
            let [n, m, d, _] = a.sizes;
            let (x, centers) = (a.array::<T, _>((n, d)), a.array((m, d)));
            nearest_centers(exec(), x.view(), centers.view()).map(drop)
        }),
        ("distance_transform", |a| {
            let [n, m, ..] = a.sizes;
            let deformation = [0.0, 1.0, 0.0, 1.0].map(|usual| a.number(usual));
            distance_transform(a.array((n, m)).view(), deformation).map(drop)
        }),
        ("hog_pyramid", |a| {
            let [n, m, ..] = a.sizes;
            let planes = a.any(&[1, 3]);
            let image = a.array((4 * n + 1, 4 * m + 1, planes));
            let scales: Vec<f64> = [1.0, 0.5, 0.3].map(|usual| a.number(usual)).to_vec();
            let (cell, padding) = (a.count(4), a.count(1));
            hog_pyramid(exec(), image.view(), cell, &scales, padding).map(drop)
        }),
        ("Filter::new Part::new PartModel::new push n_parts placements", |a| {
            let [n, m, d, k] = a.sizes;
            let shapes = vec![(2 * n, 2 * m), (n, m)];
            let (octave, padding, threshold) = (a.count(1), a.count(0), a.number(0.5));
            let n_cells = a.size(5 * n * m);
            let (width, kind) = (a.size(d), a.random.below(3));
            let model = if kind == 0 { a.part_model(1, d) } else { a.part_model(d, k) }?;
            let features = a.vector(n_cells * width);
            let short = a.codes(n_cells, width, k).into_raw_vec_and_offset().0;
            let long = a.codes(n_cells, width, k).into_raw_vec_and_offset().0;
            let cells = match kind {
                0 => Cells::Features(&features, width),
                1 => Cells::Short(&short, width),
                _ => Cells::Long(&long, width),
            };
            placements(exec(), cells, &shapes, &model, octave, padding, threshold).map(drop)
        }),
        ("Error::out_of_memory", |a| {
            let shape = [a.count(1), a.count(1), a.count(1)];
            Err(Error::out_of_memory::<T>(&shape[..a.random.below(4)]))
        }),
        (
            "most_threads Executor::new on_caller n_threads watch instruction_sets instruction_set",
            |a| {
                let exec =
                    if a.flag() { Executor::new(a.count(1)) } else { Executor::on_caller() }?;
                let _ = (exec.n_threads(), histrs::most_threads());
                let _ = (histrs::instruction_sets(), histrs::instruction_set());
                exec.watch(|| Ok(()), || a.flag())
            },
        ),
        (
            "SortedColumns::new n_rows n_columns n_stored n_bytes maxima row_sums smallest spreads \
             inverse_spreads n_knots quadratic_forms product product_f32 cubic_product \
             cross_product transformed insert remove",
            |a| {
                let [n, m, d, k] = a.sizes;
                let (x, new) = (a.rows::<T>(n, d), a.rows::<T>(m, d));
                let columns = SortedColumns::new(exec(), &x.view())?;
                let (v, single) = (a.array((n, k)), a.array::<T, _>((n, k)));
                let _ = (columns.n_rows(), columns.n_columns(), columns.n_bytes());
                let _ = (columns.n_stored(), columns.smallest(), columns.maxima());
                let _ = (columns.row_sums(exec()), columns.n_knots());
                let _ = (columns.spreads(exec()), columns.inverse_spreads(exec()));
                let _ = columns.quadratic_forms(exec(), v.view());
                let _ = columns.product(exec(), single.view());
                let _ = columns.product_f32(exec(), single.view());
                let _ = columns.cubic_product(exec(), single.view(), a.number(0.5));
                let _ = columns.cross_product(exec(), &new.view(), v.view());
                let (transform, weights) = (a.transform(), a.vector(d));
                let _ = columns.transformed(exec(), &transform, a.flag().then_some(&weights[..]));
                let _ = columns.remove(exec(), &a.order(n));
                columns.insert(exec(), &new.view()).map(drop)
            },
        ),
        ("CoordinateDescent::new n_rows descend", |a| {
            let [n, _, d, k] = a.sizes;
            let columns = SortedColumns::new(exec(), &a.rows::<T>(n, d).view())?;
            let descent = CoordinateDescent::new(exec(), &columns)?;
            let _ = descent.n_rows();
            let (alpha, y, order) = (a.array((n, k)), a.array((n, k)), a.order(n));
            let s = a.vector(n);
            descent.descend(exec(), alpha.view(), y.view(), &s, &order).map(drop)
        }),
        ("CubicFunctions::new n_columns n_outputs column predict", |a| {
            let [n, m, d, k] = a.sizes;
            let columns = SortedColumns::new(exec(), &a.rows::<T>(n, d).view())?;
            let (alpha, slope) = (a.array((n, k)), a.number(0.5));
            let n_knots = a.flag().then(|| a.count(4));
            let functions = CubicFunctions::new(exec(), &columns, alpha.view(), slope, n_knots)?;
            let _ = functions.column(a.count(d));
            let _ = (functions.n_columns(), functions.n_outputs());
            functions.predict(exec(), &a.rows::<T>(m, d).view()).map(drop)
        }),
        (
            "KnotProjection::new of_rows concatenate select n_rows n_features inverse_kernel gram \
             weighted_gram project expand",
            |a| {
                let [n, m, d, k] = a.sizes;
                let columns = SortedColumns::new(exec(), &a.rows::<T>(n, d).view())?;
                let others = SortedColumns::new(exec(), &a.rows::<T>(m, d).view())?;
                let projection = KnotProjection::new(exec(), &columns, a.count(4))?;
                let _ = (projection.n_rows(), projection.inverse_kernel());
                let _ = projection.gram(exec());
                let _ = projection.weighted_gram(exec(), &a.vector(n));
                let _ = projection.project(exec(), a.array((n, k)).view());
                let _ = projection.expand(exec(), a.array((projection.n_features(), k)).view());
                let _ = projection.select(exec(), &a.order(n));
                let of_others = projection.of_rows(exec(), &others)?;
                projection.concatenate(exec(), &of_others).map(drop)
            },
        ),
        ("LookupTable::new compact is_compact error_bound n_bytes predict predict_bytes", |a| {
            let [n, m, d, k] = a.sizes;
            let columns = SortedColumns::new(exec(), &a.rows::<T>(n, d).view())?;
            let (alpha, n_bins) = (a.array::<T, _>((n, k)), a.count(5));
            let kind = a.any(&[Interpolation::Linear, Interpolation::Nearest]);
            let weights = a.vector(n);
            let table = if a.flag() {
                LookupTable::new(exec(), &columns, alpha.view(), n_bins, kind)?
            } else {
                let weights = a.flag().then_some(&weights[..]);
                LookupTable::compact(exec(), &columns, alpha.view(), n_bins, weights)?
            };
            let _ = (table.is_compact(), table.error_bound(), table.n_bytes());
            let _ = table.predict_bytes(exec(), a.codes(m, d, 99).view());
            table.predict(exec(), &a.rows::<T>(m, d).view()).map(drop)
        }),
        ("LowRankInverse::new rank factor_transposed apply apply_f32", |a| {
            let [n, m, _, k] = a.sizes;
            let (factor, root) = (a.array((m, n)), a.array((m, m)));
            let root = a.flag().then_some(root.view());
            let v = a.array((n, k));
            let single = factor.mapv(|x: f64| x as f32);
            let single = LowRankInverse::new(exec(), single.view(), root, a.number(0.5));
            let _ = single.and_then(|single| single.apply_f32(exec(), v.view()));
            let inverse = LowRankInverse::new(exec(), factor.view(), root, a.number(0.5))?;
            let _ = (inverse.rank(), inverse.factor_transposed());
            inverse.apply(exec(), v.view()).map(drop)
        }),
        (
            "ShapeFunctions::new n_columns n_outputs column intercepts_and_slopes predict predict_transformed",
            |a| {
                let [n, m, d, k] = a.sizes;
                let columns = SortedColumns::new(exec(), &a.rows::<T>(n, d).view())?;
                let functions =
                    ShapeFunctions::new(exec(), &columns, a.array::<T, _>((n, k)).view())?;
                let _ = (functions.n_columns(), functions.n_outputs());
                let _ = functions.column(a.count(0)).map(drop);
                let _ = functions.intercepts_and_slopes(a.count(0));
                let (rows, transform, weights) = (a.rows::<T>(m, d), a.transform(), a.vector(d));
                let weights = a.flag().then_some(&weights[..]);
                let _ = functions.predict_transformed(exec(), &rows.view(), &transform, weights);
                functions.predict(exec(), &rows.view()).map(drop)
            },
        ),
        ("StoredMinima::new n_rows n_bytes product", |a| {
            let [n, _, d, k] = a.sizes;
            let stored = StoredMinima::new(exec(), &a.rows::<T>(n, d).view())?;
            let _ = (stored.n_rows(), stored.n_bytes());
            let (minmax, intersection) = (a.number(0.5), a.number(0.5));
            stored.product(exec(), minmax, intersection, a.array((n, k)).view()).map(drop)
        }),
        ("Transform::apply exponent exponent_slope transform_rows", |a| {
            let [n, _, d, _] = a.sizes;
            let transform = a.transform();
            let _ = (transform.apply(a.number(0.5)), transform.exponent());
            let _ = transform.exponent_slope(a.number(0.5));
            let weights = a.vector(d);
            let weights = a.flag().then_some(&weights[..]);
            transform_rows(exec(), &a.rows::<T>(n, d).view(), &transform, weights).map(drop)
        }),
        (
            "AdditiveKernel::name gram chi2_distances exp_chi2_gram minmax_gram minmax_distances \
             cubic_spline_gram",
            |a| {
                let [n, m, d, _] = a.sizes;
                let (x, y) = (a.rows::<T>(n, d), a.rows::<T>(m, d));
                let (x, y) = (x.view(), y.view());
                let y = a.flag().then_some(&y);
                for kernel in AdditiveKernel::ALL {
                    let _ = (kernel.name(), kernel.gram(exec(), &x, y));
                }
                let _ = (chi2_distances(exec(), &x, y), minmax_distances(exec(), &x, y));
                let _ = (exp_chi2_gram(exec(), &x, y, a.number(1.0)), minmax_gram(exec(), &x, y));
                cubic_spline_gram(exec(), &x, y).map(drop)
            },
        ),
        ("HistogramMatrix::dense csr n_rows n_columns check check_finite row_sums", |a| {
            let [n, _, d, _] = a.sizes;
            let x = a.rows::<T>(n, d);
            let x = x.view();
            let _ = (x.n_rows(), x.n_columns(), x.row_sums(exec()));
            let _ = x.check(exec(), "X");
            x.check_finite(exec(), "X")
        }),
        ("CsrView::new n_rows", |a| {
            let [n, _, d, _] = a.sizes;
            let (data, ends) = (a.vector::<T>(n), a.offsets(3, n));
            let indices: Vec<i32> = a.whole(n, d).into_iter().map(|i| i as i32).collect();
            let n_columns = a.count(d);
            CsrView::new(&data, &indices, &ends, n_columns).map(|x| x.n_rows()).map(drop)
        }),
        (
            "LassoParameters::with_start Penalty::new with_l2 with_positive LassoProblem::new \
             n_features n_targets group_lasso_path",
            |a| {
                let [n, _, d, k] = a.sizes;
                let half = a.array::<f64, _>((d, d));
                let gram = if half.is_square() { half.dot(&half.t()) } else { half };
                let (cross, squares, weights) = (a.array((k, d)), a.array(k), a.vector(n));
                let ends = &a.offsets(n, d)[1..];
                let (gram, cross) = (gram.as_standard_layout(), cross.as_standard_layout());
                let problem =
                    LassoProblem::new(gram.view(), cross.view(), squares.view(), ends, &weights)?;
                let _ = (problem.n_features(), problem.n_targets());
                let penalty = Penalty::new(a.number(0.1)).with_l2(a.number(0.1));
                let penalties = [penalty, penalty.with_positive(a.flag())];
                let start = a.array((k, d));
                let parameters = LassoParameters::default()
                    .with_start(a.flag().then_some(start.view()))
                    .with_max_iter(a.steps())
                    .with_tol(a.number(1e-3));
                let n_penalties = a.size(2).min(2);
                let penalties = &penalties[..n_penalties];
                group_lasso_path(exec(), &problem, penalties, parameters).map(drop)
            },
        ),
        ("Labels::new with_weights needed_prototypes", |a| {
            let [n, m, ..] = a.sizes;
            let (of_rows, of_prototypes, weights) = (a.labels(n), a.labels(m), a.vector(n));
            let labels = Labels::new(&of_rows, &of_prototypes);
            let labels = if a.flag() { labels.with_weights(&weights) } else { labels };
            needed_prototypes(exec(), a.array::<T, _>((n, m)).view(), labels).map(drop)
        }),
        ("Codebooks::new n_blocks n_columns encode encode_into decode decode_into", |a| {
            let [n, m, d, k] = a.sizes;
            let metrics =
                [Metric::Euclidean, Metric::Hellinger, Metric::Chi2, Metric::Intersection];
            let metric = a.any(&metrics);
            let offsets = a.offsets(m, d);
            let widest = offsets.windows(2).map(|w| w[1].saturating_sub(w[0])).max();
            let widest = widest.and_then(|w| usize::try_from(w).ok()).unwrap_or(1).min(20);
            let codebooks = a.array::<T, _>((m, k, widest));
            let mut out = a.vector(n * d);
            let codes = a.codes::<u8>(n, m, k);
            let _ = decode(exec(), codes.view(), codebooks.view(), &offsets);
            let _ = decode_into(exec(), codes.view(), codebooks.view(), &offsets, &mut out);
            let codebooks = Codebooks::new(metric, codebooks.view(), &offsets)?;
            let _ = (codebooks.n_blocks(), codebooks.n_columns());
            let x = a.rows(n, d);
            let _ = encode::<T, u8>(exec(), &x.view(), &codebooks);
            let mut long = a.codes::<u16>(n, m, k).into_raw_vec_and_offset().0;
            let _ = encode_into(exec(), &x.view(), &codebooks, &mut long);
            let mut short = codes.into_raw_vec_and_offset().0;
            encode_into(exec(), &x.view(), &codebooks, &mut short)
        }),
        (
            "QuantizerParameters::with_n_codes with_seed Quantizer::fit encode decode index codebooks \
             offsets Index::nearest",
            |a| {
                let [n, m, d, k] = a.sizes;
                let parameters = QuantizerParameters::default()
                    .with_n_codes(a.count(3))
                    .with_seed(a.random.bits())
                    .with_max_iter(a.steps())
                    .with_tol(a.number(1e-3));
                let (x, queries) = (a.array::<T, _>((n, d)), a.array((m, d)));
                let quantizer = Quantizer::fit(exec(), x.view(), a.count(2), parameters)?;
                let _ = (quantizer.codebooks(), quantizer.offsets());
                let codes = quantizer.encode(exec(), queries.view())?;
                quantizer.decode(exec(), codes.view())?;
                let index = quantizer.index(exec(), x.view())?;
                index.nearest(exec(), queries.view(), a.count(k)).map(drop)
            },
        ),
        (
            "neighbors neighbors_in_lists candidate_values code_scores code_scores_into code_sums",
            |a| {
                let [n, m, d, k] = a.sizes;
                let (short, long) = (a.codes::<u8>(n, m, k), a.codes::<u16>(n, m, k));
                let tables = a.array::<T, _>((d, m, k));
                let (biases, n_neighbors) = (a.array(n), a.count(2));
                let biases = a.flag().then_some(biases.view());
                let _ = neighbors(exec(), short.view(), tables.view(), biases, n_neighbors);
                let _ = neighbors(exec(), long.view(), tables.view(), biases, n_neighbors);
                let _ = code_scores(exec(), short.view(), tables.view());
                let starts = a.offsets(m, n);
                let probed = Array2::from_shape_simple_fn((k, m), || a.flag());
                let _ = neighbors_in_lists(
                    exec(),
                    short.view(),
                    tables.view(),
                    biases,
                    &starts,
                    probed.view(),
                    n_neighbors,
                );
                let (rows, queries) = (a.array::<T, _>((n, d)), a.array::<T, _>((k, d)));
                let candidates =
                    Array2::from_shape_simple_fn((k, m), || a.any(&[0, 1, -1, i64::MAX]));
                let _ = candidate_values(
                    exec(),
                    rows.view(),
                    queries.view(),
                    candidates.view(),
                    a.flag(),
                );
                let mut out = a.vector(n * d);
                let _ = code_scores_into(exec(), short.view(), tables.view(), &mut out);
                let _ = code_scores_into(exec(), long.view(), tables.view(), &mut out);
                let (n_codes, weights) = (a.count(k), a.array((n, d)));
                let _ = code_sums(exec(), short.view(), n_codes, weights.view());
                code_sums(exec(), long.view(), n_codes, weights.view()).map(drop)
            },
        ),
        (
            "ExpChi2Features::structured with_seed dense structured_size transform transform_into n_features \
             scores",
            |a| {
                let [n, m, d, k] = a.sizes;
                let (map, n_columns) = (a.additive_map(d)?, a.count(d));
                let size = ExpChi2Features::structured_size(&map, n_columns);
                let features = if a.flag() && size < 1000 {
                    ExpChi2Features::with_seed(map, n_columns, a.count(m), a.number(1.0), 1)?
                } else if a.flag() {
                    let shape = (a.size(3), if size < 1000 { a.size(size) } else { 0 });
                    let signs = Array2::from_shape_simple_fn(shape, || {
                        if a.is_wild() { a.any(&[0, i8::MIN]) } else { 1 }
                    });
                    let n_projections = a.count(m);
                    ExpChi2Features::structured(
                        map,
                        n_columns,
                        signs.view(),
                        n_projections,
                        a.number(1.0),
                    )?
                } else {
                    let width = 3 * d;
                    let matrix = a.array((m, width));
                    ExpChi2Features::dense(map, n_columns, matrix.view(), a.number(1.0))?
                };
                let x = a.rows::<T>(n, d);
                let n_features = features.n_features().min(1000);
                let mut out = a.vector(n * n_features);
                let _ = features.transform_into(exec(), &x.view(), &mut out);
                let (coefficients, intercepts) = (a.array((k, n_features)), a.vector(k));
                let _ = features.scores(exec(), &x.view(), coefficients.view(), &intercepts);
                features.transform(exec(), &x.view()).map(drop)
            },
        ),
        ("SparseAdditiveMap::new transform column_quantiles sparse_codes", |a| {
            let [n, m, d, _] = a.sizes;
            let x = a.rows::<T>(n, d);
            let _ = column_quantiles(exec(), &x.view(), a.count(4));
            let selections = [
                Selection::Nearest,
                Selection::MatchingPursuit,
                Selection::OrthogonalMatchingPursuit,
            ];
            let (k_xz, k_zz, selection) = (a.array((n, m)), a.array((m, m)), a.any(&selections));
            let _ = sparse_codes(exec(), k_xz.view(), k_zz.view(), a.count(2), selection);
            let mut knots = a.vector(2 * d);
            knots.sort_by(f64::total_cmp);
            let offsets = a.offsets(d, 2 * d);
            let kernel = a.any(&AdditiveKernel::ALL);
            let map = SparseAdditiveMap::new(kernel, &knots, &offsets)?;
            map.transform(exec(), &x.view()).map(drop)
        }),
        ("airm_distances airm_paired jbld_distances jbld_paired", |a| {
            let [n, m, d, _] = a.sizes;
            let (x, y, z) = (a.stack::<T>(n, d), a.stack(m, d), a.stack(n, d));
            let y = a.flag().then_some(y.view());
            let _ = airm_distances(exec(), x.view(), y);
            let _ = airm_paired(exec(), x.view(), z.view());
            let _ = jbld_distances(exec(), x.view(), y);
            jbld_paired(exec(), x.view(), z.view()).map(drop)
        }),
        ("compression_loss", |a| {
            let [n, m, d, _] = a.sizes;
            let (x, prototypes) = (a.stack(n, d), a.stack(m, d));
            let (of_rows, of_prototypes, weights) = (a.labels(n), a.labels(m), a.vector(n));
            let labels = Labels::new(&of_rows, &of_prototypes);
            let labels = if a.flag() { labels.with_weights(&weights) } else { labels };
            compression_loss(exec(), x.view(), prototypes.view(), labels, a.number(1.0)).map(drop)
        }),
        ("signal_covariances", |a| {
            let [n, m, d, _] = a.sizes;
            let fixed = Shrinkage::Fixed(a.number(0.1));
            let shrinkage = a.any(&[fixed, Shrinkage::Oas, Shrinkage::LedoitWolf]);
            signal_covariances(exec(), a.array::<T, _>((n, d, m)).view(), shrinkage).map(drop)
        }),
        (
            "MeanParameters::with_start dispersion_mean mean_gradient \
             tangent_vectors",
            |a| {
                let [n, _, d, _] = a.sizes;
                let (x, weights, start) = (a.stack::<T>(n, d), a.vector(n), a.stack(1, d));
                let start = start.outer_iter().next().map(|start| start.to_owned());
                let start = start.unwrap_or_else(|| a.array((d, d)));
                let _ = tangent_vectors(exec(), x.view(), a.flag().then_some(start.view()));
                for dispersion in [Dispersion::Airm, Dispersion::Jbld] {
                    let _ = mean_gradient(exec(), x.view(), &weights, start.view(), dispersion);
                    let parameters = MeanParameters::default()
                        .with_start(a.flag().then_some(start.view()))
                        .with_tol(a.number(1e-6))
                        .with_max_iter(a.steps());
                    let _ = dispersion_mean(exec(), x.view(), &weights, dispersion, parameters);
                }
                Ok(())
            },
        ),
        (
            "SgdParameters::with_margin with_eta with_alpha with_smoothing epoch scores scores_into",
            |a| {
                let [n, _, d, k] = a.sizes;
                let (x, coef) = (a.rows::<T>(n, d), a.array((k, d)));
                let (signs, weights) = (a.array((k, n)), a.array((k, n)));
                let steps = SgdParameters::default()
                    .with_margin(a.number(1.0))
                    .with_eta(a.number(0.1))
                    .with_alpha(a.number(0.1))
                    .with_smoothing(a.number(0.1));
                let order = a.order(n);
                let (signs, weights) = (signs.view(), weights.view());
                let _ = epoch(exec(), &x.view(), signs, weights, &order, coef.view(), steps);
                let (offset, scale) = (a.vector(d), a.vector(d));
                let units = ColumnUnits { offset: &offset, scale: &scale };
                let units = a.any(&[None, Some(units)]);
                let mut out = a.vector(n * k);
                let _ = scores(exec(), &x.view(), units, coef.view());
                scores_into(exec(), &x.view(), units, coef.view(), &mut out)
            },
        ),
        (
            "Targets::new Line::new losses minimise LineMut::new step LineNorm::new \
             simplex_maximum",
            |a| {
                let [n, m, _, k] = a.sizes;
                let narrow =
                    |whole: Vec<i64>| whole.into_iter().map(|i| i as i32).collect::<Vec<_>>();
                let (labels, positive) = (narrow(a.labels(n)), narrow(a.labels(k)));
                let weights = a.vector(n);
                let targets = Targets::new(&labels, &weights, &positive);
                let (mut start, mut end) = (a.array((k, n)), a.array((k, n)));
                let loss = a.any(&[Loss::Hinge, Loss::SquaredHinge, Loss::Logistic]);
                let line = Line::new(start.view(), end.view());
                let _ = line.losses(exec(), loss, &targets, a.array((k, m)).view());
                let norm = LineNorm::new(a.number(1.0), a.number(0.1), a.number(2.0));
                let norms = vec![norm; a.size(k)];
                let _ = line.minimise(exec(), loss, &targets, &norms, &a.vector(k));
                let line = LineMut::new(start.view_mut(), end.view_mut());
                let _ = line.step(exec(), loss, &targets, &a.vector(k), &a.vector(k));
                let (h, b, mut alpha) = (a.array((m, m)), a.vector(m), a.shares(m));
                let (tol, steps) = (a.number(1e-6), a.steps());
                simplex_maximum(exec(), h.view(), &b, &mut alpha, tol, steps).map(drop)
            },
        ),
        ("Barycenter::new with_debiased sinkhorn_barycenters", |a| {
            let [n, _, d, k] = a.sizes;
            let options = Barycenter::new(a.number(0.1))
                .with_tol(a.number(1e-6))
                .with_max_iter(a.steps())
                .with_debiased(a.flag());
            let (x, weights, m) = (a.rows::<T>(n, d), a.array((k, n)), a.ground(d));
            sinkhorn_barycenters(exec(), &x.view(), weights.view(), m.view(), &options).map(drop)
        }),
        ("Costs::of_axes", |a| {
            let [n, m, d, k] = a.sizes;
            let (x, y) = (a.rows::<T>(n, d * k), a.rows(m, d * k));
            let (first, second, weights) = (a.ground(d), a.ground(k), a.array((m, n)));
            let costs = Costs::of_axes(vec![first.view(), second.view()])?;
            let options = Barycenter::new(a.number(0.1)).with_max_iter(a.steps());
            let (x, y) = (x.view(), y.view());
            let _ = sinkhorn_barycenters(exec(), &x, weights.view(), costs.clone(), &options);
            sinkhorn_distances(exec(), &x, Some(&y), costs, &a.sinkhorn()).map(drop)
        }),
        ("histogram_compression_loss", |a| {
            let [n, m, d, _] = a.sizes;
            let (x, prototypes, ground) = (a.rows::<T>(n, d), a.rows(m, d), a.ground(d));
            let (of_rows, of_prototypes, weights) = (a.labels(n), a.labels(m), a.vector(n));
            let labels = Labels::new(&of_rows, &of_prototypes);
            let labels = if a.flag() { labels.with_weights(&weights) } else { labels };
            let mut starts = a.vector(n * m * d);
            histogram_compression_loss(
                exec(),
                [&x.view(), &prototypes.view()],
                labels,
                ground.view(),
                a.number(1.0),
                &a.sinkhorn(),
                a.flag().then_some(&mut starts[..]),
            )
            .map(drop)
        }),
        (
            "Sinkhorn::new with_reg with_regularized with_potentials \
             sinkhorn_distances sinkhorn_pairs check_masses",
            |a| {
                let [n, m, d, _] = a.sizes;
                let (x, y, ground) = (a.rows::<T>(n, d), a.rows(m, d), a.ground(d));
                let (x, y, options) = (x.view(), y.view(), a.sinkhorn());
                let pairs = a.pairs(n, m);
                let starts = a.array((pairs.len(), d));
                let starts = a.flag().then_some(starts.view());
                let m = ground.view();
                let _ = sinkhorn_pairs(exec(), &x, &y, &pairs, starts, m, &options);
                let y = a.flag().then_some(&y);
                let _ = check_masses(exec(), &x, y);
                sinkhorn_distances(exec(), &x, y, m, &options).map(drop)
            },
        ),
        (
            "RelaxedSinkhorn::new with_cost with_potentials \
             relaxed_distances",
            |a| {
                let [n, m, d, _] = a.sizes;
                let (x, y, ground) = (a.rows::<T>(n, d), a.rows(m, d), a.ground(d));
                let penalties = Relaxation::Penalties([a.number(1.0), a.number(1.0)]);
                let mass = Relaxation::Mass(Some(a.number(0.5)));
                let relaxation = a.any(&[penalties, mass, Relaxation::Mass(None)]);
                let cost = a.any(&[Cost::Transport, Cost::Penalized, Cost::Regularized]);
                let options = RelaxedSinkhorn::new(a.number(0.1), relaxation)
                    .with_tol(a.number(1e-6))
                    .with_max_iter(a.steps())
                    .with_cost(cost)
                    .with_potentials(a.flag());
                let (x, y) = (x.view(), y.view());
                let y = a.flag().then_some(&y);
                relaxed_distances(exec(), &x, y, ground.view(), &options).map(drop)
            },
        ),
        ("Model::load", |_| {
            let nowhere = Model::load("/no/such/file");
            assert!(matches!(nowhere, Err(Error::Unreadable { .. })));
            Ok(())
        }),
        (
            "Model::from_bytes n_features n_outputs classes names categories predict predict_proba",
            |a| {
                let model = a.model()?;
                let _ = (model.n_outputs(), model.classes(), model.names());
                let _ = model.categories(a.count(1));
                let x = a.array::<T, _>((a.sizes[0], model.n_features()));
                let _ = model.predict_proba(exec(), x.view());
                model.predict(exec(), x.view()).map(drop)
            },
        ),
        ("Model::score_row proba_row", |a| {
            let model = a.model()?;
            let row = a.vector(model.n_features());
            let (n, k) = (a.size(model.n_outputs()), a.size(3));
            let mut scratch = Scratch::default();
            let _ = model.proba_row(&row, &mut scratch, &mut vec![0.0; k]);
            model.score_row(&row, &mut scratch, &mut vec![0.0; n])
        }),
        ("emd_distances emd_pairs emd_plan", |a| {
            let [n, m, d, _] = a.sizes;
            let (x, y, ground) = (a.rows::<T>(n, d), a.rows(m, d), a.ground(d));
            let (x, y, pairs) = (x.view(), y.view(), a.pairs(n, m));
            let _ = emd_pairs(exec(), &x, &y, &pairs, ground.view());
            let _ = emd_distances(exec(), &x, a.flag().then_some(&y), ground.view());
            let (from, to) = (Array::from_vec(a.shares(n)), Array::from_vec(a.shares(m)));
            let ground = a.array((n, m));
            emd_plan(exec(), from.view(), to.view(), ground.view()).map(drop)
        }),
    ]
}

/// The names of a call, those of methods after their type.
fn names((names, _): &Call) -> Vec<String> {
    let mut last = "";
    let qualified = names.split_whitespace().map(|name| match name.split_once("::") {
        Some((of, _)) => {
            last = of;
            name.to_string()
        }
        None => format!("{last}::{name}"),
    });
    qualified.collect()
}

/// Every public function of some source, likewise; those that stand alone have no type.
fn public_functions(source: &str) -> Vec<String> {
    let (mut of, mut found) = (String::new(), Vec::new());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut makes_fields = false;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("with_fields!(") {
            of = rest.split(|c| !is_word(c)).next().unwrap().to_string();
            makes_fields = true;
        }
        if makes_fields {
            let names = line.split(|c| !is_word(c)).filter(|word| word.starts_with("with_"));
            found.extend(names.filter(|&name| name != "with_fields").map(|n| format!("{of}::{n}")));
            makes_fields = !line.ends_with(");");
        }
        if let Some(header) = line.strip_prefix("impl") {
            let header = header.rsplit(" for ").next().unwrap();
            let start = header.strip_prefix('<').map_or(header, |generic| {
                let mut depth = 1;
                let end = generic.find(|c| {
                    depth += i32::from(c == '<') - i32::from(c == '>');
                    depth == 0
                });
                &generic[end.unwrap() + 1..]
            });
            of = start.trim().split(|c: char| !c.is_alphanumeric()).next().unwrap().to_string();
        }
        let declared = line.trim_start();
        let declared = declared.strip_prefix("pub ").unwrap_or_default();
        let declared = declared.strip_prefix("const ").unwrap_or(declared);
        if let Some(rest) = declared.strip_prefix("fn ").filter(|name| !name.starts_with('$')) {
            let name = rest.split(|c| !is_word(c)).next().unwrap();
            let of = if line.starts_with(' ') { &of[..] } else { "" };
            found.push(format!("{of}::{name}"));
        }
    }
    found
}

fn sources(folder: &Path, visit: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, visit);
        } else if path.ends_with("testing.rs") && !cfg!(feature = "proptest") {
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            visit(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn no_public_function_is_left_out() {
    let mut public = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&folder, &mut |source| public.extend(public_functions(source)));
    assert!(public.len() > 150, "{}", public.len());
    // A function that stands alone may follow the methods of a type.
    let called: Vec<String> = calls().iter().flat_map(names).collect();
    let is_called = |name: &String| {
        let alone = name.starts_with("::");
        called.iter().any(|call| call == name || (alone && call.ends_with(&name[..])))
    };
    let left_out: Vec<_> = public.iter().filter(|name| !is_called(name)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}

/// The functions that panic on the arguments of a seed.
fn that_panic(seed: u64) -> Vec<&'static str> {
    let panics =
        |(_, call): &Call| catch_unwind(AssertUnwindSafe(|| call(&mut Args::new(seed)))).is_err();
    calls().into_iter().filter(panics).map(|(name, _)| name).collect()
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn every_function_gives_an_answer_or_an_error(seed in any::<u64>()) {
        let panicked = that_panic(seed);
        prop_assert!(panicked.is_empty(), "{panicked:#?}");
    }
}

/// A call whose arguments never fit would test nothing but checks.
#[test]
fn every_call_has_arguments_that_fit() {
    for (name, call) in calls() {
        let fits = (0..100).any(|seed| call(&mut Args::new(seed)).is_ok());
        assert!(fits || name == "Error::out_of_memory", "{name}");
    }
}

#[test]
fn matrices_without_rows_are_all_the_same() {
    let x = Array3::<f64>::zeros((1, 0, 0));
    let (x, whitener) = (x.view(), Array2::zeros((0, 0)));
    assert_eq!(airm_distances(exec(), x, None).unwrap(), array![[0.0]]);
    assert_eq!(airm_paired(exec(), x, x).unwrap(), array![0.0]);
    assert_eq!(jbld_distances(exec(), x, Some(x)).unwrap(), array![[0.0]]);
    assert_eq!(jbld_paired(exec(), x, x).unwrap(), array![0.0]);
    assert_eq!(tangent_vectors(exec(), x, None).unwrap().dim(), (1, 0));
    for dispersion in [Dispersion::Airm, Dispersion::Jbld] {
        let found = mean_gradient(exec(), x, &[1.0], whitener.view(), dispersion).unwrap();
        assert_eq!((found.value, found.gradient.dim()), (0.0, (0, 0)));
    }
    let labels = Labels::new(&[0], &[0]);
    assert!(matches!(compression_loss(exec(), x, x, labels, 1.0), Err(Error::Shape { .. })));
}

#[test]
fn sizes_that_no_memory_holds_are_refused() {
    let refused = |error: Error| assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    let pixel = Array3::zeros((1, 1, 1));
    refused(hog_pyramid(exec(), pixel.view(), 1, &[1.0], 1 << 62).unwrap_err());
    let x = array![[0.5, 0.5]];
    for n_components in [(1 << 63) + 1, usize::MAX] {
        let map = AdditiveMap::chebyshev(n_components).unwrap();
        refused(map.transform(exec(), x.view()).unwrap_err());
        refused(map.transform_into(exec(), x.view(), &mut [0.0; 2]).unwrap_err());
        let sparse = CsrView::new(&[0.5, 0.5], &[0, 1], &[0, 2], 2).unwrap();
        refused(map.transform_csr(exec(), &sparse).unwrap_err());
        let signs = Array2::from_elem((3, 8), 1);
        assert_eq!(ExpChi2Features::structured_size(&map, 2), usize::MAX);
        let features = ExpChi2Features::structured(map.clone(), 2, signs.view(), 4, 1.0);
        assert!(matches!(features.unwrap_err(), Error::Shape { .. }));
        refused(ExpChi2Features::dense(map, 2, x.view(), 1.0).unwrap_err());
    }
}

#[test]
fn cells_without_numbers_are_counted() {
    let model = PartModel::new();
    let found = placements(exec(), Cells::Features(&[f32::NAN], 0), &[], &model, 0, 0, 0.0);
    assert!(matches!(found.unwrap_err(), Error::Shape { .. }));
    let found = placements(exec(), Cells::Short(&[1], 0), &[(1, 1)], &model, 0, 0, 0.0);
    assert!(matches!(found.unwrap_err(), Error::Shape { .. }));
    let filter = Filter::new(Array::zeros((1, 1, 1, 1)).view()).unwrap();
    let part = Part::new(filter.clone(), [i64::MIN, 0], [0.0, 1.0, 0.0, 1.0]);
    let refused = PartModel::new().push(filter, 0.0, vec![part]);
    assert!(matches!(refused.unwrap_err(), Error::Parameter { .. }));
}

#[test]
fn a_value_in_the_last_of_many_columns_takes_no_memory_for_the_others() {
    let n_columns = i32::MAX as usize;
    let x = CsrView::new(&[2.0], &[i32::MAX - 1], &[0, 1], n_columns).unwrap();
    let x = HistogramMatrix::csr(x);
    let columns = SortedColumns::new(exec(), &x).unwrap();
    let v = array![[3.0]];
    for table in [
        LookupTable::new(exec(), &columns, v.view(), 100, Interpolation::Linear),
        LookupTable::compact(exec(), &columns, v.view(), 100, None),
    ] {
        let table = table.unwrap();
        assert!(table.n_bytes() < 1 << 20);
        assert!((table.predict(exec(), &x).unwrap()[[0, 0]] - 6.0).abs() <= table.error_bound()[0]);
    }
    let functions = ShapeFunctions::new(exec(), &columns, v.view()).unwrap();
    assert_eq!(functions.predict(exec(), &x).unwrap(), array![[6.0]]);
    assert_eq!(functions.column(n_columns - 2).unwrap().0, [0.0]);
    assert_eq!(functions.column(n_columns - 1).unwrap().0, [0.0, 2.0]);
    assert_eq!(columns.cross_product(exec(), &x, v.view()).unwrap(), array![[6.0]]);
    let splines = CubicFunctions::new(exec(), &columns, v.view(), 0.0, None).unwrap();
    assert_eq!(
        splines.predict(exec(), &x).unwrap(),
        columns.cubic_product(exec(), v.view(), 0.0).unwrap()
    );
}
