//! Masses in whole units, of which all histograms have the same number.

use crate::error::Result;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::transport::emd::powers::{exponent, scaled};

/// A mass between 1/2 and 1 is so many bits of units: their sums fit, and no number of that size is
/// rounded.
const BITS: i32 = 60;

/// One histogram: the bins with mass, ascending.
#[derive(Clone, Copy)]
pub(super) struct Histogram<'a> {
    pub(super) bins: &'a [usize],
    pub(super) units: &'a [i64],
    /// Its mass, in that of all.
    pub(super) ratio: f64,
}

/// The rows of a matrix.
pub(super) struct Histograms {
    starts: Vec<usize>,
    bins: Vec<usize>,
    units: Vec<i64>,
    ratios: Vec<f64>,
}

/// The unit of mass.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// The common mass over the power of two above it.
    mass: f64,
    exponent: i32,
}

impl Unit {
    /// That of histograms of this mass.
    pub(super) fn new(mass: f64) -> Self {
        let exponent = exponent(mass);
        Self { mass: scaled(mass, -exponent), exponent }
    }

    /// The exponent of a unit.
    pub(super) fn exponent(self) -> i32 {
        self.exponent - BITS
    }

    /// The units of a histogram.
    pub(super) fn total(self) -> i64 {
        scaled(self.mass, BITS) as i64
    }
}

impl Histograms {
    /// Every row of `x` has the mass of the unit, up to rounding: it is scaled to that exactly.
    pub(super) fn new<T: Element>(x: &HistogramMatrix<'_, T>, unit: Unit) -> Result<Self> {
        let mut all = Self {
            starts: memory::with_capacity(x.n_rows() + 1)?,
            bins: Vec::new(),
            units: Vec::new(),
            ratios: memory::with_capacity(x.n_rows())?,
        };
        all.starts.push(0);
        let mut entries = Vec::new();
        for row in 0..x.n_rows() {
            entries.clear();
            let mut visit = |bin: usize, mass: f64| {
                if mass > 0.0 {
                    entries.push((bin, scaled(mass, -unit.exponent)));
                }
            };
            match x {
                HistogramMatrix::Dense(x) => {
                    x.row(row).iter().enumerate().for_each(|(bin, v)| visit(bin, v.to_f64()));
                }
                HistogramMatrix::Csr(x) => x.for_each_sum(row, visit),
            }
            all.push(&entries, unit)?;
        }
        Ok(all)
    }

    fn push(&mut self, entries: &[(usize, f64)], unit: Unit) -> Result<()> {
        let mass: f64 = entries.iter().map(|entry| entry.1).sum();
        let start = self.units.len();
        for &(bin, own) in entries {
            // Of equal masses the factor is 1, and whole numbers stay whole.
            let units = (scaled(own * (unit.mass / mass), BITS) + 0.5) as i64;
            if units > 0 {
                memory::push(&mut self.bins, bin)?;
                memory::push(&mut self.units, units)?;
            }
        }
        let own = &mut self.units[start..];
        let rounding = unit.total() - own.iter().sum::<i64>();
        if let Some(largest) = own.iter_mut().max() {
            *largest += rounding;
        }
        self.starts.push(self.units.len());
        self.ratios.push(mass / unit.mass);
        Ok(())
    }

    pub(super) fn row(&self, row: usize) -> Histogram<'_> {
        let range = self.starts[row]..self.starts[row + 1];
        let (bins, units) = (&self.bins[range.clone()], &self.units[range]);
        Histogram { bins, units, ratio: self.ratios[row] }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn rows(x: &ndarray::Array2<f64>) -> (Histograms, Unit) {
        let unit = Unit::new(x.row(0).sum());
        (Histograms::new(&HistogramMatrix::dense(x.view()), unit).unwrap(), unit)
    }

    #[test]
    fn whole_masses_are_exact() {
        let (histograms, unit) = rows(&array![[3.0, 0.0, 4.0], [0.0, 7.0, 0.0]]);
        let Histogram { bins, units, ratio } = histograms.row(0);
        assert_eq!((bins, ratio), (&[0, 2][..], 1.0));
        assert_eq!(units, [3, 4].map(|mass: i64| mass << 57));
        assert_eq!(histograms.row(1).units, [unit.total()]);
        assert_eq!(scaled(1.0, unit.exponent()) * unit.total() as f64, 7.0);
    }

    #[test]
    fn all_have_the_same_number_of_units() {
        let x = array![[0.1, 0.2, 0.7], [1e-30, 0.3, 0.7], [0.3, 0.3, 0.400_000_3]];
        for scale in [1e-310, 1e-200, 1.0, 1e300] {
            let (histograms, unit) = rows(&(&x * scale));
            for row in 0..3 {
                let Histogram { units, ratio, .. } = histograms.row(row);
                assert_eq!(units.iter().sum::<i64>(), unit.total());
                assert!((ratio - x.row(row).sum()).abs() < 1e-12);
            }
            // Less than a unit is nothing.
            assert_eq!(histograms.row(1).bins, [1, 2]);
        }
    }
}
