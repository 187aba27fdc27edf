//! Sinkhorn's scaling in the log domain: slower by an exponential for each entry of the kernel,
//! but never out of range.

use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Element, Elementary, dispatch};
use crate::transport::job::Pairing;
use crate::transport::lanes::stride;
use crate::transport::step::{Domain, Step};

/// Logarithm of an empty bin: below everything, and finite.
const NOTHING: f64 = -1e300;

/// [`NOTHING`] in the precision of `T`.
pub(super) fn nothing<T: Element>() -> T {
    T::from_f64(if size_of::<T>() < size_of::<f64>() { -1e30 } else { NOTHING })
}

/// `M / reg`, by rows and by columns.
pub(super) struct Exponents {
    pub(super) n_source: usize,
    pub(super) n_target: usize,
    pub(super) by_source: Vec<f64>,
    pub(super) by_target: Vec<f64>,
}

impl Exponents {
    pub(super) fn new(
        n_source: usize,
        n_target: usize,
        entry: impl Fn(usize, usize) -> f64,
    ) -> Result<Self> {
        let matrix = |n: usize, m: usize, entry: &dyn Fn(usize, usize) -> f64| {
            let mut entries = memory::with_capacity(n * m)?;
            (0..n).for_each(|i| entries.extend((0..m).map(|j| entry(i, j))));
            Ok(entries)
        };
        Ok(Self {
            n_source,
            n_target,
            by_source: matrix(n_source, n_target, &|i, j| entry(i, j))?,
            by_target: matrix(n_target, n_source, &|j, i| entry(i, j))?,
        })
    }

    pub(super) fn entry(&self, i: usize, j: usize) -> f64 {
        self.by_source[i * self.n_target + j]
    }
}

/// Work space of the log domain.
pub(super) struct LogDomain<'a> {
    exponents: &'a Exponents,
    pairing: Pairing,
    /// Potentials of both sides, [`NOTHING`] at empty bins.
    f: AlignedVec<f64>,
    g: AlignedVec<f64>,
    /// `log sum_j exp(g_j - M_ij / reg)`.
    sums: AlignedVec<f64>,
    /// `(f, g)` of the pairs kept.
    kept: Vec<[Vec<f64>; 2]>,
}

impl<'a> LogDomain<'a> {
    pub(super) fn new(exponents: &'a Exponents, pairing: Pairing) -> Result<Self> {
        let zeros = |n_rows: usize| AlignedVec::zeros(n_rows * stride::<f64>());
        Ok(Self {
            exponents,
            pairing,
            f: zeros(exponents.n_source)?,
            g: zeros(exponents.n_target)?,
            sums: zeros(exponents.n_source)?,
            kept: Vec::new(),
        })
    }
}

impl Domain<f64> for LogDomain<'_> {
    fn shape(&self) -> (usize, usize) {
        (self.exponents.n_source, self.exponents.n_target)
    }

    fn step(&mut self, step: Step<'_, f64>) {
        let Step { source, target, potential, residual, unaccelerated, errors, stride, width } =
            step;
        let relaxation = self.pairing.relaxation();
        let Self { exponents, pairing, f, g, sums, .. } = self;
        dispatch(Masked { mass: source, values: potential, out: &mut *f, stride, width });
        if *pairing == Pairing::Equal {
            g.copy_from_slice(f);
        } else {
            let matrix = &exponents.by_target;
            dispatch(LogSums { matrix, values: &*f, out: &mut *g, stride, width });
            dispatch(LogRatio { mass: target, sums: &mut *g, stride, width });
        }
        let matrix = &exponents.by_source;
        dispatch(LogSums { matrix, values: &*g, out: &mut *sums, stride, width });
        dispatch(LogResidual {
            source,
            f: &*f,
            sums: &*sums,
            residual,
            unaccelerated,
            errors,
            relaxation,
            stride,
            width,
        });
    }

    fn keep(&mut self, lane: usize, slot: usize) {
        let column = |x: &[f64]| -> Vec<f64> {
            let empty = |&x: &f64| if x > NOTHING { x } else { f64::NEG_INFINITY };
            x[lane..].iter().step_by(stride::<f64>()).map(empty).collect()
        };
        self.kept.truncate(slot);
        self.kept.push([column(&self.f), column(&self.g)]);
    }

    fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])> {
        let results = self.kept.drain(..).take(n);
        results.map(|[f, g]| (self.exponents.transport(&f, &g), [f, g])).collect()
    }
}

impl Exponents {
    /// `sum_ij T_ij M_ij / reg` of `T = exp(f_i + g_j - M_ij / reg)`.
    pub(super) fn transport(&self, f: &[f64], g: &[f64]) -> f64 {
        let rows = f.iter().zip(self.by_source.chunks_exact(self.n_target.max(1)));
        let row = |(f, row): (&f64, &[f64])| -> f64 {
            row.iter().zip(g).map(|(m, g)| (f + g - m).exp() * m).sum()
        };
        rows.map(row).sum()
    }
}

/// `out = values` where there is mass, else [`nothing`].
pub(super) struct Masked<'a, T> {
    pub(super) mass: &'a [T],
    pub(super) values: &'a [T],
    pub(super) out: &'a mut [T],
    pub(super) stride: usize,
    pub(super) width: usize,
}

impl<T: Elementary> WithSimd for Masked<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { mass, values, out, stride, width } = self;
        let inputs = mass.chunks_exact(stride).zip(values.chunks_exact(stride));
        for ((mass, values), out) in inputs.zip(out.chunks_exact_mut(stride)) {
            for ((&mass, &value), out) in mass[..width].iter().zip(values).zip(out) {
                *out = if mass > T::default() { value } else { nothing() };
            }
        }
    }
}

/// `out_i = log sum_j exp(values_j - matrix_ij)` in every lane.
pub(super) struct LogSums<'a> {
    pub(super) matrix: &'a [f64],
    pub(super) values: &'a [f64],
    pub(super) out: &'a mut [f64],
    pub(super) stride: usize,
    pub(super) width: usize,
}

impl WithSimd for LogSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { matrix, values, out, stride, width } = self;
        let n_columns = values.len() / stride;
        let mut largest = vec![0.0; width];
        let mut sums = vec![0.0; width];
        let rows = out.chunks_exact_mut(stride).zip(matrix.chunks_exact(n_columns.max(1)));
        for (out, exponents) in rows {
            largest.fill(f64::NEG_INFINITY);
            sums.fill(0.0);
            for (values, &exponent) in values.chunks_exact(stride).zip(exponents) {
                raise(&values[..width], exponent, &mut largest);
            }
            for (values, &exponent) in values.chunks_exact(stride).zip(exponents) {
                add_exponentials(&values[..width], exponent, &largest, &mut sums);
            }
            for ((out, &sum), &largest) in out.iter_mut().zip(&sums).zip(&largest) {
                *out = largest + sum.ln_of_normal();
            }
        }
    }
}

#[inline(always)]
fn raise(values: &[f64], exponent: f64, largest: &mut [f64]) {
    for (&value, largest) in values.iter().zip(largest) {
        let value = value - exponent;
        *largest = if value > *largest { value } else { *largest };
    }
}

#[inline(always)]
fn add_exponentials(values: &[f64], exponent: f64, largest: &[f64], sums: &mut [f64]) {
    for ((&value, &largest), sum) in values.iter().zip(largest).zip(sums) {
        *sum += (value - exponent - largest).exp_in_range();
    }
}

/// `sums = log(mass) - sums`, and [`NOTHING`] where there is no mass.
struct LogRatio<'a> {
    mass: &'a [f64],
    sums: &'a mut [f64],
    stride: usize,
    width: usize,
}

impl WithSimd for LogRatio<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { mass, sums, stride, width } = self;
        for (mass, sums) in mass.chunks_exact(stride).zip(sums.chunks_exact_mut(stride)) {
            for (&mass, sum) in mass[..width].iter().zip(sums) {
                let ratio = mass.ln_of_normal() - *sum;
                *sum = if mass > 0.0 { ratio } else { NOTHING };
            }
        }
    }
}

/// What the scaling of the source is to be multiplied by, where that leads, and the L1 error.
struct LogResidual<'a> {
    source: &'a [f64],
    f: &'a [f64],
    sums: &'a [f64],
    residual: &'a mut [f64],
    unaccelerated: &'a mut [f64],
    errors: &'a mut [f64],
    relaxation: f64,
    stride: usize,
    width: usize,
}

impl WithSimd for LogResidual<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { stride, width, .. } = self;
        for at in (0..self.source.len()).step_by(stride) {
            let row = at..at + width;
            log_residual_of_row(
                [&self.source[row.clone()], &self.f[row.clone()], &self.sums[row.clone()]],
                &mut self.residual[row.clone()],
                &mut self.unaccelerated[row],
                &mut self.errors[..width],
                self.relaxation,
            );
        }
    }
}

#[inline(always)]
fn log_residual_of_row(
    [source, f, sums]: [&[f64]; 3],
    residual: &mut [f64],
    unaccelerated: &mut [f64],
    errors: &mut [f64],
    relaxation: f64,
) {
    let inputs = source.iter().zip(f).zip(sums);
    let outputs = residual.iter_mut().zip(unaccelerated).zip(errors);
    for (((&a, &f), &sum), ((residual, unaccelerated), error)) in inputs.zip(outputs) {
        let difference = (a.ln_of_normal() - f - sum) * relaxation;
        let is_empty = a <= 0.0;
        *error += if is_empty { 0.0 } else { ((f + sum).exp_in_range() - a).abs() };
        *residual = if is_empty { 0.0 } else { difference };
        *unaccelerated = if is_empty { 0.0 } else { f + difference };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::draws::Draws;
    use proptest::prelude::*;

    const STRIDE: usize = 32;

    #[test]
    fn nothing_is_finite_and_below_everything() {
        assert_eq!(nothing::<f32>(), -1e30);
        assert_eq!(nothing::<f64>(), NOTHING);
    }

    /// `log sum exp` by its definition; minus infinity of nothing.
    fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
        let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = terms.map(|term| (term - largest).exp()).sum();
        if largest.is_finite() { largest + sum.ln() } else { largest }
    }

    fn near(a: f64, b: f64, size: f64) -> bool {
        a == b || (a - b).abs() <= 1e-12 * size
    }

    proptest! {
        #[test]
        fn a_step_is_its_definition(
            n in 1_usize..6,
            m in 1_usize..6,
            equal in any::<bool>(),
            range in prop::sample::select(&[1.0, 300.0, 5000.0][..]),
            seed: u64,
        ) {
            let m = if equal { n } else { m };
            let pairing = if equal { Pairing::Equal } else { Pairing::Different };
            let mut draws = Draws(seed);
            let mut unit = || draws.unit();
            let costs: Vec<f64> = (0..n * m).map(|_| range * unit()).collect();
            let cost = |i: usize, j: usize| if equal { costs[i.min(j) * m + i.max(j)] } else { costs[i * m + j] };
            let exponents = Exponents::new(n, m, cost).unwrap();
            // A third of the bins but the first are empty.
            let mut masses = |n: usize| -> Vec<f64> {
                let mass = |k: usize| if k < STRIDE || unit() > 0.3 { unit() + 1e-3 } else { 0.0 };
                (0..n * STRIDE).map(mass).collect()
            };
            let source = masses(n);
            let target = if equal { source.clone() } else { masses(m) };
            let potential: Vec<f64> = (0..n * STRIDE).map(|_| range * (unit() - 0.5)).collect();
            let mut domain = LogDomain::new(&exponents, pairing).unwrap();
            prop_assert_eq!((domain.shape(), stride::<f64>()), ((n, m), STRIDE));
            let (mut residual, mut unaccelerated) = (vec![f64::NAN; n * STRIDE], vec![f64::NAN; n * STRIDE]);
            let mut errors = vec![0.0; STRIDE];
            domain.step(Step {
                source: &source,
                target: &target,
                potential: &potential,
                residual: &mut residual,
                unaccelerated: &mut unaccelerated,
                errors: &mut errors,
                stride: STRIDE,
                width: 16,
            });
            let (size, relaxation) = (10.0 * (range + 10.0), if equal { 0.5 } else { 1.0 });
            for lane in [0, 7, 15] {
                let column = |x: &[f64]| -> Vec<f64> { x.iter().skip(lane).step_by(STRIDE).copied().collect() };
                let [a, b, p] = [&source, &target, &potential].map(|x| column(x));
                let f: Vec<f64> =
                    a.iter().zip(&p).map(|(a, p)| if *a > 0.0 { *p } else { f64::NEG_INFINITY }).collect();
                let g: Vec<f64> = if equal { f.clone() } else {
                    (0..m).map(|j| b[j].ln() - log_sum((0..n).map(|i| f[i] - cost(i, j)))).collect()
                };
                let mut error = 0.0;
                for i in 0..n {
                    let at = i * STRIDE + lane;
                    let sum = log_sum((0..m).map(|j| g[j] - cost(i, j)));
                    let want = if a[i] > 0.0 { relaxation * (a[i].ln() - f[i] - sum) } else { 0.0 };
                    prop_assert!(near(residual[at], want, size), "{} {want}", residual[at]);
                    let next = if a[i] > 0.0 { f[i] + want } else { 0.0 };
                    prop_assert!(near(unaccelerated[at], next, size));
                    error += if a[i] > 0.0 { ((f[i] + sum).exp() - a[i]).abs() } else { 0.0 };
                }
                prop_assert!(near(errors[lane], error, size * (1.0 + error)), "{} {error}", errors[lane]);
                domain.keep(lane, 0);
                let (transport, kept) = domain.results(1).remove(0);
                let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| near(*a, *b, size));
                prop_assert!(close(&kept[0], &f) && close(&kept[1], &g), "{kept:?} {f:?} {g:?}");
                let cells = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
                let want: f64 = cells.map(|(i, j)| (f[i] + g[j] - cost(i, j)).exp() * cost(i, j)).sum();
                prop_assert!(near(transport, want, size * (1.0 + want)), "{transport} {want}");
            }
            // Beyond the width nothing is written.
            prop_assert!(residual.iter().skip(16).step_by(STRIDE).all(|r| r.is_nan()));
            prop_assert!(errors[16..].iter().all(|&error| error == 0.0));
        }
    }
}
