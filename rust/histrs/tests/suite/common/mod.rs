//! Samples in every layout, and definitions written straight from `k(x, y) = sum_d min(x_d, y_d)`.
//!
//! No definition here shares code with the crate.

mod definitions;
pub(crate) mod saved;
pub(crate) mod sorted;

use std::sync::OnceLock;

use histrs::kernels::AdditiveKernel;
use histrs::{CsrView, Element, Executor, HistogramMatrix};
use ndarray::{Array2, ArrayView2, s};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

pub(crate) use definitions::*;

/// Scales that leave room for sums in double precision.
pub(crate) const SCALES: &[f64] = &[1e-300, 1e-30, 1.0, 1.0, 1e30, 1e150];
/// Scales that leave room for sums in single precision.
pub(crate) const SINGLE_SCALES: &[f64] = &[1e-20, 1.0, 1.0, 1e20];

const N_ROWS: &[usize] = &[0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 300, 301];
const N_COLUMNS: &[usize] = &[0, 1, 2, 3, 4, 5, 7, 8, 9, 10];
const N_OUTPUTS: &[usize] = &[0, 1, 2, 3, 8, 9, 16, 17, 33];

/// A configuration of `cases` cases that writes no files; the cases are the same in every run
/// unless `PROPTEST_RNG_SEED` says otherwise.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    ProptestConfig { cases, failure_persistence: None, rng_seed, ..default }
}

/// The executor that most tests share.
pub(crate) fn exec() -> &'static Executor {
    &executors()[1]
}

/// Executors of 1, 2 and 7 threads.
pub(crate) fn executors() -> &'static [Executor; 3] {
    static EXECUTORS: OnceLock<[Executor; 3]> = OnceLock::new();
    EXECUTORS.get_or_init(|| [1, 2, 7].map(|n_threads| Executor::new(n_threads).unwrap()))
}

/// The crate's own matrix of the intersection kernel.
pub(crate) fn gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> histrs::Result<Array2<T>> {
    AdditiveKernel::Intersection.gram(exec, x, y)
}

/// The generator SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform on `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform on `0..n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Histograms of mass 1, some bins empty.
pub(crate) fn histograms(n: usize, d: usize, seed: u64) -> Array2<f64> {
    let mut random = Random(seed);
    let mut x = Array2::from_shape_fn((n, d), |_| (random.unit() - 0.3).max(0.0) + 0.0);
    for mut row in x.rows_mut() {
        row[random.below(d)] += 0.5;
        let mass = row.sum();
        row /= mass;
    }
    x
}

/// What the entries of a column look like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Zeros,
    Constant,
    /// Small integers in every row.
    Ties(usize),
    /// A different value in every row.
    Distinct,
    /// A zero in a part of the rows, different values in the others.
    Holes(f64),
    /// A few values in a few rows.
    RareTies,
    /// Values over thirteen decades.
    HeavyTail,
    /// Values that agree in all but their last digits.
    Close,
    /// Half the rows share a value, the others differ.
    Atom,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        1 => Just(Kind::Zeros),
        1 => Just(Kind::Constant),
        5 => (1_usize..12).prop_map(Kind::Ties),
        4 => Just(Kind::Distinct),
        3 => (0.05..0.95).prop_map(Kind::Holes),
        3 => Just(Kind::RareTies),
        2 => Just(Kind::HeavyTail),
        1 => Just(Kind::Close),
        2 => Just(Kind::Atom),
    ]
}

/// A matrix of histograms in the making.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) n_rows: usize,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) scale: f64,
    /// Whether some rows are copies of others.
    pub(crate) duplicates: bool,
    pub(crate) seed: u64,
}

/// Matrices of every size at which a code path changes.
pub(crate) fn sample(scales: &'static [f64]) -> impl Strategy<Value = Sample> {
    let n_columns = prop_oneof![
        9 => prop::sample::select(N_COLUMNS),
        1 => Just(70_usize),
    ];
    let kinds = n_columns.prop_flat_map(|n| {
        // Often all columns alike: groups of coded columns appear whole.
        prop_oneof![
            1 => (0_usize..12).prop_map(move |k| vec![Kind::Ties(k + 1); n]),
            3 => prop::collection::vec(kind(), n),
        ]
    });
    let n_rows = prop_oneof![3 => prop::sample::select(N_ROWS), 1 => Just(300)];
    (n_rows, kinds, prop::sample::select(scales), any::<bool>(), any::<u64>()).prop_map(
        |(n_rows, kinds, scale, duplicates, seed)| {
            // Keeps the quadratic definitions fast.
            let n_rows = if kinds.len() > 10 { n_rows.min(100) } else { n_rows };
            Sample { n_rows, kinds, scale, duplicates, seed }
        },
    )
}

impl Sample {
    /// The matrix, in values that `T` can hold.
    pub(crate) fn matrix<T: Element>(&self) -> Array2<T> {
        let mut random = Random(self.seed);
        let n = self.n_rows;
        let mut x = Array2::zeros((n, self.kinds.len()));
        for (kind, mut column) in self.kinds.iter().zip(x.columns_mut()) {
            let mut order: Vec<usize> = (0..n).collect();
            random.shuffle(&mut order);
            for (value, rank) in column.iter_mut().zip(order) {
                let u = random.unit();
                *value = self.scale
                    * match kind {
                        Kind::Zeros => 0.0,
                        Kind::Constant => 0.75,
                        Kind::Ties(levels) => random.below(levels + 1) as f64,
                        Kind::Distinct => u + 1e-3,
                        Kind::Holes(part) => {
                            if random.unit() < *part {
                                0.0
                            } else {
                                u + 1e-3
                            }
                        }
                        Kind::RareTies => {
                            if u < 0.1 {
                                (1 + random.below(3)) as f64
                            } else {
                                0.0
                            }
                        }
                        Kind::HeavyTail => (30.0 * u - 15.0).exp(),
                        Kind::Close => 1.0 + rank as f64 * f64::EPSILON,
                        Kind::Atom => {
                            if rank % 2 == 0 {
                                0.5
                            } else {
                                u
                            }
                        }
                    };
            }
        }
        if self.duplicates && n > 1 {
            for _ in 0..n / 4 {
                let (from, to) = (random.below(n), random.below(n));
                let row = x.row(from).to_owned();
                x.row_mut(to).assign(&row);
            }
        }
        x.mapv(T::from_f64)
    }
}

/// How a matrix lies in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Layout {
    Rows,
    Columns,
    /// Every second row and column of a larger array that is NaN elsewhere.
    Gaps,
    /// Negative strides.
    Backwards,
    Csr,
    /// CSR with columns in any order, duplicates and stored zeros.
    Scattered,
}

pub(crate) fn dense_layout() -> impl Strategy<Value = Layout> {
    prop::sample::select(&[Layout::Rows, Layout::Columns, Layout::Gaps, Layout::Backwards][..])
}

pub(crate) fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![dense_layout(), Just(Layout::Csr), Just(Layout::Scattered)]
}

pub(crate) fn n_outputs() -> impl Strategy<Value = usize> {
    prop::sample::select(N_OUTPUTS)
}

/// A matrix in some layout.
#[derive(Debug)]
pub(crate) struct Stored<T> {
    layout: Layout,
    dense: Array2<T>,
    n_columns: usize,
    data: Vec<T>,
    indices: Vec<i32>,
    indptr: Vec<i64>,
}

impl<T: Element> Stored<T> {
    pub(crate) fn new(x: &Array2<T>, layout: Layout, seed: u64) -> Self {
        let (n, d) = x.dim();
        let dense = match layout {
            Layout::Rows => x.clone(),
            Layout::Columns => {
                let mut transposed = Array2::from_elem((d, n), T::default());
                transposed.assign(&x.t());
                transposed.reversed_axes()
            }
            Layout::Gaps => {
                let mut wide = Array2::from_elem((2 * n + 1, 2 * d + 1), T::from_f64(f64::NAN));
                wide.slice_mut(s![1..;2, 1..;2]).assign(x);
                wide
            }
            Layout::Backwards => x.slice(s![..;-1, ..;-1]).to_owned(),
            Layout::Csr | Layout::Scattered => Array2::from_elem((0, 0), T::default()),
        };
        let mut stored = Self {
            layout,
            dense,
            n_columns: d,
            data: Vec::new(),
            indices: Vec::new(),
            indptr: vec![0],
        };
        let mut random = Random(seed);
        for row in x.rows() {
            let mut entries: Vec<(usize, f64)> = Vec::new();
            for (column, value) in row.iter().enumerate() {
                let value = value.to_f64();
                if layout == Layout::Csr {
                    if value != 0.0 {
                        entries.push((column, value));
                    }
                    continue;
                }
                // Halves and quarters add up without rounding.
                let parts: &[f64] = match random.below(4) {
                    0 => &[0.5, 0.25, 0.25],
                    1 => &[0.0, 0.5, 0.5],
                    _ => &[1.0],
                };
                if value != 0.0 || random.unit() < 0.2 {
                    entries.extend(parts.iter().map(|part| (column, part * value)));
                }
            }
            if layout == Layout::Scattered {
                random.shuffle(&mut entries);
            }
            stored.indices.extend(entries.iter().map(|e| e.0 as i32));
            stored.data.extend(entries.iter().map(|e| T::from_f64(e.1)));
            stored.indptr.push(stored.data.len() as i64);
        }
        stored
    }

    pub(crate) fn view(&self) -> HistogramMatrix<'_, T> {
        match self.layout {
            Layout::Csr | Layout::Scattered => HistogramMatrix::csr(
                CsrView::new(&self.data, &self.indices, &self.indptr, self.n_columns).unwrap(),
            ),
            _ => HistogramMatrix::dense(self.dense_view()),
        }
    }

    pub(crate) fn dense_view(&self) -> ArrayView2<'_, T> {
        match self.layout {
            Layout::Gaps => self.dense.slice(s![1..;2, 1..;2]),
            Layout::Backwards => self.dense.slice(s![..;-1, ..;-1]),
            _ => self.dense.view(),
        }
    }
}

/// A right-hand side on `[-1, 1]` with some zeros; some columns have one sign.
pub(crate) fn right_hand_side<T: Element>(n_rows: usize, n_outputs: usize, seed: u64) -> Array2<T> {
    let mut random = Random(seed ^ 0x5555);
    Array2::from_shape_fn((n_rows, n_outputs), |(_, k)| {
        let u = 2.0 * random.unit() - 1.0;
        T::from_f64(match random.below(8) {
            0 => 0.0,
            _ if k % 3 == 2 => u.abs(),
            _ => u,
        })
    })
}

/// Rows to score: training rows, values between, at and beyond those of training, and zeros.
pub(crate) fn rows_to_score(x: &Array2<f64>, n_rows: usize, seed: u64) -> Array2<f64> {
    let mut random = Random(seed ^ 0xaaaa);
    let n = x.nrows();
    Array2::from_shape_fn((n_rows, x.ncols()), |(_, d)| {
        let largest = x.column(d).iter().copied().fold(0.0, f64::max);
        let mut any = || if n > 0 { x[[random.below(n), d]] } else { 0.0 };
        let (a, b) = (any(), any());
        match random.below(7) {
            0 => 0.0,
            1 => a,
            2 => 0.5 * a + 0.5 * b,
            3 => a.next_up(),
            4 => a.next_down().max(0.0),
            5 => 3.0 * largest * random.unit(),
            _ => largest * random.below(101) as f64 / 100.0,
        }
    })
}
