//! The histogram intersection kernel `k(x, y) = sum_d min(x(d), y(d))`.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let (exec, x) = (Executor::new(0)?, array![[0.0], [1.0], [2.0]]);
//! let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
//! let y = array![[0.0], [1.0], [3.0]];
//! let solution = columns.solve(&exec, 1e-6, y.view(), Solve::default())?;
//! let mean = ShapeFunctions::new(&exec, &columns, solution.alpha.view())?;
//! let predicted = mean.predict(&exec, &HistogramMatrix::dense(array![[1.5]].view()))?;
//! assert!((predicted[[0, 0]] - 2.0).abs() < 1e-4);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! Source: Rodner, Freytag, Bodesheim, Fröhlich and Denzler, *Large-scale Gaussian process
//! inference with generalized histogram intersection kernels*, IJCV 2016; equation numbers below
//! are of that paper. Blocks of its matrix itself (eq. 5) are those of
//! [`AdditiveKernel::Intersection`](crate::kernels::AdditiveKernel::Intersection).
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `sort` | one column in ascending order | section 4.1 |
//! | `column` | one column in the encoding that costs least for its values | section 4.1 |
//! | `columns` | [`SortedColumns`]: every column sorted once | section 4.1 |
//! | `update` | [`SortedColumns::insert`], [`SortedColumns::remove`]: online updates | none |
//! | `levels` | where to cut a column into a few levels | section 4.2 |
//! | `panel`, `scan` | right-hand sides side by side, and the passes over a column | eq. 9 |
//! | `coded_columns` | columns of one-byte codes, a table of each | eq. 9 |
//! | `coded_rows` | columns of few values, read row by row | eq. 9 |
//! | `product` | [`SortedColumns::product`]: `K V` without `K` | eq. 9 |
//! | `shape` | [`ShapeFunctions`]: the exact piecewise-linear `f_d`, tables A and B | eqs. 6 to 8 |
//! | `knot_ranges` | where the knots of each column are, among those of all | none |
//! | `lookup` | [`LookupTable`]: the table T and its certified error | eq. 10, theorem 1 |
//! | `stored_minima` | [`StoredMinima`]: the minima of all pairs in two bytes each, for products | none |
//! | `cubic` | [`SortedColumns::cubic_product`], [`CubicFunctions`]: the kernel of cubic splines | none |
//! | `transform` | [`Transform`]: the functions of generalised kernels | eqs. 14 to 17 |
//! | `transformed_columns` | [`SortedColumns::transformed`]: these kernels on the same order | eqs. 14 to 17 |
//! | `transformed_rows` | [`transform_rows`]: rows as these kernels see them | eqs. 14 to 17 |
//! | `spread` | [`SortedColumns::spreads`]: robust scales of the columns | none |
//! | `forms` | [`SortedColumns::quadratic_forms`]: `v^T K v` by dimension | section 6 |
//! | `knots` | [`KnotProjection`]: the projection on knots that preconditions | none |
//! | `coordinate` | [`CoordinateDescent`]: one weight after the other, on tables | section 9.5 |
//! | `low_rank` | [`LowRankInverse`]: the inverse that a low-rank factor gives | none |

mod coded_columns;
mod coded_rows;
mod column;
mod columns;
mod coordinate;
mod cubic;
mod forms;
mod knot_ranges;
mod knots;
mod levels;
mod lookup;
mod low_rank;
mod panel;
mod product;
mod scan;
mod shape;
mod solve;
mod sort;
mod spread;
mod stored_minima;
mod transform;
mod transformed_columns;
mod transformed_rows;
mod update;

pub use columns::SortedColumns;
pub use cubic::CubicFunctions;
pub use lookup::{Interpolation, LookupTable};
pub use shape::ShapeFunctions;
pub use solve::{Solution, Solve};
pub use transform::Transform;
// For the bindings of Python, which has the iteration around these steps; no part of the interface.
#[doc(hidden)]
pub use {
    coordinate::CoordinateDescent,
    knots::KnotProjection,
    low_rank::LowRankInverse,
    stored_minima::StoredMinima,
    transformed_rows::{TransformedRows, transform_rows},
};
