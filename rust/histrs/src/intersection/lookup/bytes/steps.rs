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
    /// Whether values of a column have a second part.
    pub(super) finer: Vec<bool>,
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
    /// The steps with the fewest second parts for which the root mean square error of no output is
    /// above its limit; none where there are none.
    pub(in crate::intersection::lookup) fn within(
        fits: &[Fitted],
        limits: &[f64],
    ) -> Result<Option<Self>> {
        let with_first = |order: &[usize], n: usize| {
            let mut finer = memory::filled(false, fits.len())?;
            order[..n].iter().for_each(|&column| finer[column] = true);
            Self::new(fits, limits.len(), finer)
        };
        let coarse = with_first(&[], 0)?;
        if coarse.is_within(limits) {
            return Ok(Some(coarse));
        }
        let order = coarse.by_gain(fits, limits)?;
        let mut best = with_first(&order, order.len())?;
        if !best.is_within(limits) {
            return Ok(None);
        }
        // Each second part makes every error less: where they suffice is found by halving.
        let (mut too_few, mut enough) = (0, order.len());
        while enough - too_few > 1 {
            let n = usize::midpoint(too_few, enough);
            let steps = with_first(&order, n)?;
            if steps.is_within(limits) {
                (enough, best) = (n, steps);
            } else {
                too_few = n;
            }
        }
        Ok(Some(best))
    }

    fn is_within(&self, limits: &[f64]) -> bool {
        self.moments.iter().zip(limits).all(|(moments, &limit)| moments.rms() <= limit)
    }

    /// The columns, those first whose second part takes most off the mean squares, as fractions of
    /// what these may be.
    fn by_gain(&self, fits: &[Fitted], limits: &[f64]) -> Result<Vec<usize>> {
        let gain = |(Fitted(fit), &fewer): (&Fitted, &u8)| -> f64 {
            let outputs = fit.outputs.iter().zip(&self.tops).zip(limits);
            let gains = outputs.map(|((output, top), limit)| {
                let exponent = top.saturating_sub(fewer.into());
                let [coarse, fine] = [1, 2].map(|n| output.moments(exponent, n).variance);
                (coarse - fine) / (limit * limit).max(f64::MIN_POSITIVE)
            });
            gains.sum()
        };
        let gains: Vec<f64> = memory::collected(fits.iter().zip(&self.halvings).map(gain))?;
        let mut order: Vec<usize> = memory::collected(0..fits.len())?;
        order.sort_by(|&a, &b| gains[b].total_cmp(&gains[a]));
        Ok(order)
    }

    /// Of values of one byte, and of two in the columns that are to be finer.
    fn new(fits: &[Fitted], n_outputs: usize, finer: Vec<bool>) -> Result<Self> {
        let mut tops = memory::filled(i32::MIN, n_outputs)?;
        for Fitted(fit) in fits {
            for (top, output) in tops.iter_mut().zip(&fit.outputs) {
                *top = output.exponent.map_or(*top, |exponent| exponent.max(*top));
            }
        }
        let mut error_bound = memory::filled(0.0_f64, n_outputs)?;
        let mut moments = memory::filled(Moments::default(), n_outputs)?;
        let mut halvings = memory::with_capacity(fits.len())?;
        for (Fitted(fit), &finer) in fits.iter().zip(&finer) {
            let n_parts = 1 + usize::from(finer);
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
        Ok(Self { finer, tops, halvings, error_bound, moments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of 60 values whose functions are larger and larger.
    fn fits(n_columns: usize) -> Vec<Fitted> {
        let knots: Vec<f64> = (0..61).map(f64::from).collect();
        let counts = [1; 60];
        let column = |d: usize| {
            let size = 1.0 + d as f64 / n_columns as f64;
            let values = Array2::from_shape_fn((61, 2), |(i, output)| {
                size * (((i * 37 + d * 11) % 61 * i.min(1)) as f64 + output as f64 * i as f64)
            });
            fit_column(&knots, 1.0, &values, (&counts, 60)).unwrap().unwrap()
        };
        (0..n_columns).map(column).collect()
    }

    fn errors(steps: &Steps) -> Vec<f64> {
        steps.moments.iter().map(|moments| moments.rms()).collect()
    }

    #[test]
    fn as_few_columns_are_finer_as_the_limits_allow() {
        let fits = fits(30);
        let all = |finer| Steps::new(&fits, 2, vec![finer; 30]).unwrap();
        let (coarse, fine) = (errors(&all(false)), errors(&all(true)));
        let between = |t: f64| -> Vec<f64> {
            coarse.iter().zip(&fine).map(|(c, f)| (t * c * c + (1.0 - t) * f * f).sqrt()).collect()
        };
        let mut before = 0;
        for t in [1.0, 0.9, 0.6, 0.3, 0.1, 0.0] {
            let limits: Vec<f64> = between(t).iter().map(|limit| limit * (1.0 + 1e-12)).collect();
            let steps = Steps::within(&fits, &limits).unwrap().unwrap();
            assert!(errors(&steps).iter().zip(&limits).all(|(e, l)| e <= l), "{t}");
            let n_finer = steps.finer.iter().filter(|&&finer| finer).count();
            assert!(n_finer >= before && (t < 1.0 || n_finer == 0), "{t}: {n_finer}");
            before = n_finer;
            // With one less, that of least gain, some output would be off by more.
            let order = all(false).by_gain(&fits, &limits).unwrap();
            assert!(order[..n_finer].iter().all(|&column| steps.finer[column]));
            if n_finer > 0 {
                let mut fewer = steps.finer.clone();
                fewer[order[n_finer - 1]] = false;
                let fewer = errors(&Steps::new(&fits, 2, fewer).unwrap());
                assert!(fewer.iter().zip(&limits).any(|(error, limit)| error > limit), "{t}");
            }
            let without = all(false).error_bound;
            assert!(steps.error_bound.iter().zip(&without).all(|(some, none)| some <= none));
        }
        assert_eq!(before, 30);
        let impossible: Vec<f64> = fine.iter().map(|limit| 0.99 * limit).collect();
        assert!(Steps::within(&fits, &impossible).unwrap().is_none());
    }
}
