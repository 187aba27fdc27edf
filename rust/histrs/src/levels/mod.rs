//! Rows whose columns are coded as levels: sums, look-ups and quadratic forms of their indicators.
//!
//! ```
//! use histrs::{Executor, levels::LevelCodes};
//! use ndarray::array;
//!
//! let exec = Executor::new(2)?;
//! let codes = array![[0, 1, 1], [2, 0, 2]];
//! let levels = LevelCodes::new(codes.view(), &[2, 3])?;
//! let counts = levels.counts(&exec, None)?;
//! let (f, g) = (array![[0.0], [1.0]], array![[1.0], [2.0], [4.0]]);
//! let sums = counts.normal_matrix(&exec, &[f.view(), g.view()])?;
//! assert_eq!(sums, array![[2.0, 5.0, 2.0], [5.0, 33.0, 9.0], [2.0, 9.0, 3.0]]);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! `H` is the matrix that has a column for each level of each column of the data, 1 where a row is
//! at the level. [`LevelCodes`] computes `H' W H` ([`LevelCodes::counts`]), `H' V`
//! ([`LevelCodes::sums`]), `H T` ([`LevelCodes::scores`]) and the diagonal of `H Q H'`
//! ([`LevelCodes::forms`]). These are all that a linear model on functions of levels needs of the
//! rows, whose codes [`level_codes`] finds: the normal equations, the residuals, the predictions and the leverages.

mod codes;
mod counts;
mod forms;
mod places;
mod tables;

pub use codes::LevelCodes;
pub use counts::LevelCounts;
pub use places::level_codes;
