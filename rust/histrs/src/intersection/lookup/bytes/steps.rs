//! The steps that the bytes of a table count: a power of two for each output, times one for each
//! column.

use ndarray::Array2;

use crate::error::Result;
use crate::intersection::lookup::bytes::fit::Fit;
use crate::intersection::lookup::moments::Moments;
use crate::memory;

/// Columns have steps of at least `2^-MOST_HALVINGS` times the largest.
pub(super) const MOST_HALVINGS: i32 = 8;

/// Fits a column, where single precision has a scale for it, to values before they are multiplied
/// by its weight.
pub(in crate::intersection::lookup) fn fit_column(
    knots: &[f64],
    weight: f64,
    values: &Array2<f64>,
    rows: (&[usize], usize),
) -> Result<Option<Fitted>> {
    let mut knots = memory::copied(knots)?;
    if weight > 0.0 {
        knots.iter_mut().for_each(|knot| *knot /= weight);
    }
    // Tiny or huge weights may leave no knots to tell apart.
    if !knots.windows(2).all(|pair| pair[0] < pair[1]) || knots.iter().any(|x| !x.is_finite()) {
        return Ok(None);
    }
    Ok(Fit::new(&knots, memory::flat(values)?, values.ncols(), rows)?.map(Fitted))
}

/// A column that is fitted.
#[derive(Debug, Clone)]
pub(in crate::intersection::lookup) struct Fitted(pub(super) Fit);

/// The steps that fitted columns are counted in.
#[derive(Debug, Clone)]
pub(in crate::intersection::lookup) struct Steps {
    pub(super) n_parts: usize,
    /// The largest exponent of every output; `i32::MIN` where all columns are 0.
    pub(super) tops: Vec<i32>,
    /// Powers of two that the steps of a column are smaller by.
    pub(super) halvings: Vec<u8>,
    /// What a score is never off by more than.
    pub(in crate::intersection::lookup) error_bound: Vec<f64>,
    /// What scores of the training rows are off by.
    pub(in crate::intersection::lookup) moments: Vec<Moments>,
}

impl Steps {
    /// Of values of one byte, or of two.
    pub(in crate::intersection::lookup) fn new(
        fits: &[Fitted],
        n_outputs: usize,
        n_parts: usize,
    ) -> Result<Self> {
        let mut tops = memory::filled(i32::MIN, n_outputs)?;
        for Fitted(fit) in fits {
            for (top, output) in tops.iter_mut().zip(&fit.outputs) {
                *top = output.exponent.map_or(*top, |exponent| exponent.max(*top));
            }
        }
        let mut error_bound = memory::filled(0.0_f64, n_outputs)?;
        let mut moments = memory::filled(Moments::default(), n_outputs)?;
        let mut halvings = memory::with_capacity(fits.len())?;
        for Fitted(fit) in fits {
            let least =
                fit.outputs.iter().zip(&tops).filter_map(|(o, top)| Some(top - o.exponent?));
            let fewer = least.fold(MOST_HALVINGS, i32::min);
            for (output, found) in fit.outputs.iter().enumerate() {
                let exponent = tops[output].saturating_sub(fewer);
                error_bound[output] += found.error(exponent, n_parts);
                moments[output].add(found.moments(exponent, n_parts));
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 8
            halvings.push(fewer as u8);
        }
        for error in &mut error_bound {
            // The errors are rounded as they are added up, and the score once.
            *error *= 1.0 + f64::EPSILON * (fits.len() as f64 + 64.0);
        }
        Ok(Self { n_parts, tops, halvings, error_bound, moments })
    }
}
