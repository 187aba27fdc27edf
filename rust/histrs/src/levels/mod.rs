//! Rows whose columns are coded as levels: sums, look-ups and quadratic forms of their indicators.
//!
//! With `H` the matrix that has a column for each level of each column of the data, 1 where a row is
//! at the level, [`LevelCodes`] computes `H' W H` ([`LevelCodes::co_occurrence`]), `H' V`
//! ([`LevelCodes::sums`]), `H T` ([`LevelCodes::scores`]) and the diagonal of `H Q H'`
//! ([`LevelCodes::forms`]). These are all that a linear model on functions of levels needs of the
//! rows: the normal equations, the residuals, the predictions and the leverages.
//!
//! # Examples
//!
//! Two columns of three rows, with two and three levels:
//!
//! ```
//! use histrs::{Executor, levels::LevelCodes};
//! use ndarray::array;
//!
//! let exec = Executor::new(2)?;
//! let codes = array![[0, 1, 1], [2, 0, 2]];
//! let levels = LevelCodes::new(codes.view(), &[2, 3])?;
//! let counts = levels.co_occurrence(&exec, None)?;
//! assert_eq!(counts.row(1), array![0.0, 2.0, 1.0, 0.0, 1.0]);
//! # Ok::<(), histrs::Error>(())
//! ```

mod co_occurrence;
mod codes;
mod forms;
mod tables;

pub use codes::LevelCodes;
