//! Whether rows are histograms of one mass, and fit the cost matrix.

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::simd::Element;
use crate::stop::Stop;

/// Largest part of the mass, of data in double and in single precision, by which rows that are to
/// have one mass may differ.
const ROUNDING: (f64, f64) = (1e-6, 1e-4);

pub(super) fn check_bins(what: &'static str, found: usize, expected: usize) -> Result<()> {
    let cure = "the ground distance has a row for each column of X and a column for each of Y";
    check_length(what, found, expected, cure)
}

/// Fails unless a tolerance can be met.
pub(super) fn check_tol(stop: Stop) -> Result<()> {
    if stop.tol > 0.0 {
        return Ok(());
    }
    let expected = "it must be positive; 1e-9 is as small as double precision is sure to reach";
    Err(Error::parameter("tol", stop.tol, expected))
}

/// Fails unless all rows of `x` and `y` are histograms of one mass, which is returned; without
/// rows it is 1.
///
/// # Errors
///
/// [`Error::Negative`], [`Error::NotFinite`] and [`Error::Mass`] at the first bad entry or row.
pub fn check_masses<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    y: Option<&HistogramMatrix<'_, T>>,
) -> Result<f64> {
    x.check(exec, "X")?;
    let mass = common_mass(exec, "X", x, None)?;
    if let Some(y) = y {
        y.check(exec, "Y")?;
        common_mass(exec, "Y", y, mass)?;
    }
    Ok(mass.unwrap_or(1.0))
}

/// Largest part of the mass that may be missing.
pub(super) fn rounding<T>() -> f64 {
    if size_of::<T>() < size_of::<f64>() { ROUNDING.1 } else { ROUNDING.0 }
}

/// The mass that every row has, up to rounding.
fn common_mass<T: Element>(
    exec: &Executor,
    name: &'static str,
    x: &HistogramMatrix<'_, T>,
    expected: Option<f64>,
) -> Result<Option<f64>> {
    let masses = x.row_sums(exec)?;
    let Some(expected) = expected.or(masses.first().copied()) else { return Ok(None) };
    // Rows divided by their sum in the precision of the data, or rounded to it afterwards.
    let rounding = rounding::<T>();
    let differs = |mass: f64| !((mass - expected).abs() <= rounding * expected && mass > 0.0);
    match masses.iter().position(|&mass| differs(mass)) {
        Some(row) => Err(Error::Mass { name, row, mass: masses[row], expected }),
        None => Ok(Some(expected)),
    }
}
