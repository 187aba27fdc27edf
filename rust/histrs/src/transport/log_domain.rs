//! Sinkhorn's scaling in the log domain: slower by an exponential for each entry of the kernel,
//! but never out of range.

use crate::error::Result;
use crate::memory;
use crate::simd::{Elementary, vectorized};
use crate::transport::engine::GROUP;
use crate::transport::lines::Lines;
use crate::transport::log_blocks::{BlockWork, Blocks};
use crate::transport::range::{FORBIDDEN, NOTHING, Side, nothing};

/// Most cells of a grid's matrix that is made after all.
const MOST_CELLS: usize = 1 << 20;

/// `M / reg`: a matrix, or on a grid the sum of one for each axis.
pub(super) struct Exponents {
    pub(super) n_source: usize,
    pub(super) n_target: usize,
    axes: Vec<Axis>,
    /// Of several axes, exponents of `exp(-M / reg) M / reg` along each.
    weighted: Vec<Axis>,
}

/// Exponents by rows and by columns.
pub(super) struct Axis {
    n_source: usize,
    n_target: usize,
    pub(super) by_source: Vec<f64>,
    pub(super) by_target: Vec<f64>,
    /// Products in place of most exponentials, for the sums of either side.
    kernel: Option<[Blocks; 2]>,
}

impl Axis {
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
            kernel: None,
        })
    }

    /// With products, where that is possible.
    fn with_kernel(mut self) -> Result<Self> {
        let (n, m) = (self.n_source, self.n_target);
        let forward = Blocks::new(n, m, &self.by_source)?;
        let backward = Blocks::new(m, n, &self.by_target)?;
        self.kernel = forward.zip(backward).map(|(forward, backward)| [forward, backward]);
        Ok(self)
    }

    fn weighted(&self) -> Result<Self> {
        let m = self.n_target;
        Self::new(self.n_source, m, |i, j| match self.by_source[i * m + j] {
            0.0 => FORBIDDEN,
            exponent => exponent - exponent.ln(),
        })
    }

    fn matrix(&self, side: Side) -> &[f64] {
        if side == Side::Source { &self.by_source } else { &self.by_target }
    }

    /// As [`Exponents::log_sums`], of the lines along this axis.
    pub(super) fn log_sums(
        &self,
        side: Side,
        values: &[f64],
        out: &mut [f64],
        work: &mut BlockWork,
        (stride, width): (usize, usize),
    ) {
        match &self.kernel {
            Some([forward, backward]) => {
                let blocks = if side == Side::Source { forward } else { backward };
                blocks.log_sums(values, out, work, stride, width);
            }
            None => {
                let matrix = self.matrix(side);
                log_sums(matrix, values, out, stride, width);
            }
        }
    }
}

impl Exponents {
    pub(super) fn new(mut axes: Vec<Axis>) -> Result<Self> {
        let n_source = axes.iter().map(|axis| axis.n_source).product();
        let n_target = axes.iter().map(|axis| axis.n_target).product();
        let mut weighted = Vec::new();
        axes = axes.into_iter().map(Axis::with_kernel).collect::<Result<_>>()?;
        if axes.len() > 1 {
            weighted = axes.iter().map(Axis::weighted).collect::<Result<_>>()?;
        }
        Ok(Self { n_source, n_target, axes, weighted })
    }

    /// Whether a matrix of a pair, and systems of its size, are cheap: those of a large grid are not.
    pub(super) fn is_small(&self) -> bool {
        self.axes.len() == 1 || self.n_source * self.n_target <= MOST_CELLS
    }

    /// The matrix, where there are no axes.
    pub(super) fn matrix(&self, side: Side) -> Option<&[f64]> {
        if let [single] = &self.axes[..] { Some(single.matrix(side)) } else { None }
    }

    pub(super) fn axes(&self) -> impl Iterator<Item = (&Axis, Lines)> {
        along_each(self.axes.iter().collect())
    }

    pub(super) fn entry(&self, mut i: usize, mut j: usize) -> f64 {
        let mut sum = 0.0;
        for axis in self.axes.iter().rev() {
            sum += axis.by_source[i % axis.n_source * axis.n_target + j % axis.n_target];
            (i, j) = (i / axis.n_source, j / axis.n_target);
        }
        sum
    }

    /// `out = log sum exp(values - M / reg)` over the bins of the other side, in every lane.
    pub(super) fn log_sums(
        &self,
        side: Side,
        values: &[f64],
        out: &mut [f64],
        stride: usize,
        width: usize,
    ) {
        let [single] = &self.axes[..] else {
            let axes = self.axes.iter().collect();
            return log_sums_by_axis(axes, side, values, out, stride, width);
        };
        single.log_sums(side, values, out, &mut BlockWork::default(), (stride, width));
    }

    /// `sum_ij T_ij M_ij / reg` of `T = exp(f_i + g_j - M_ij / reg)`.
    pub(super) fn transport(&self, f: &[f64], g: &[f64]) -> f64 {
        if let Some(matrix) = self.matrix(Side::Source) {
            let rows = f.iter().zip(matrix.chunks_exact(self.n_target.max(1)));
            let row = |(f, row): (&f64, &[f64])| -> f64 {
                row.iter().zip(g).map(|(m, g)| (f + g - m).exp() * m).sum()
            };
            return rows.map(row).sum();
        }
        let (mut values, mut sums) = (vec![0.0; g.len() * GROUP], vec![0.0; f.len() * GROUP]);
        for (row, g) in values.chunks_exact_mut(GROUP).zip(g) {
            row.fill(if g.is_finite() { *g } else { NOTHING });
        }
        let of_axis = |(k, weighted)| -> f64 {
            let mut axes: Vec<&Axis> = self.axes.iter().collect();
            axes[k] = weighted;
            log_sums_by_axis(axes, Side::Source, &values, &mut sums, GROUP, GROUP);
            f.iter().zip(sums.chunks_exact(GROUP)).map(|(f, sums)| (f + sums[0]).exp()).sum()
        };
        self.weighted.iter().enumerate().map(of_axis).sum()
    }
}

fn along_each(axes: Vec<&Axis>) -> impl Iterator<Item = (&Axis, Lines)> {
    let lengths: Vec<usize> = axes.iter().map(|axis| axis.n_source).collect();
    let with_lines = move |(k, axis)| (axis, Lines::along(k, &lengths));
    axes.into_iter().enumerate().map(with_lines)
}

fn log_sums_by_axis(
    axes: Vec<&Axis>,
    side: Side,
    values: &[f64],
    out: &mut [f64],
    stride: usize,
    width: usize,
) {
    for (values, out) in values.chunks_exact(stride).zip(out.chunks_exact_mut(stride)) {
        out[..width].copy_from_slice(&values[..width]);
    }
    for (axis, lines) in along_each(axes) {
        let mut work = BlockWork::default();
        let mut dense = vec![0.0; lines.length * lines.together(width) * width];
        let mut image = dense.clone();
        for group in lines.groups(width) {
            let row_len = group.len() * width;
            let dense = &mut dense[..lines.length * row_len];
            let image = &mut image[..lines.length * row_len];
            lines.gather(group.clone(), out, stride, dense);
            axis.log_sums(side, dense, image, &mut work, (row_len, row_len));
            lines.scatter(group, image, stride, out);
        }
    }
}

vectorized!(
    /// `out = values` where there is mass, else [`nothing`].
    pub(super) fn mask<T: Elementary>(
        mass: &[T],
        values: &[T],
        out: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let inputs = mass.chunks_exact(stride).zip(values.chunks_exact(stride));
        for ((mass, values), out) in inputs.zip(out.chunks_exact_mut(stride)) {
            for ((&mass, &value), out) in mass[..width].iter().zip(values).zip(out) {
                *out = if mass > T::default() { value } else { nothing() };
            }
        }
    }
);

vectorized!(
    /// `out_i = log sum_j exp(values_j - matrix_ij)` in every lane.
    pub(super) fn log_sums(
        matrix: &[f64],
        values: &[f64],
        out: &mut [f64],
        stride: usize,
        width: usize,
    ) {
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
);

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::transport::job::Pairing;
    use crate::transport::lanes::stride;
    use crate::transport::relaxed::{Hold, LogDomain};
    use crate::transport::step::{Domain, Step};
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
            let mut draws = Random(seed);
            let mut unit = || draws.unit();
            let costs: Vec<f64> = (0..n * m).map(|_| range * unit()).collect();
            let cost = |i: usize, j: usize| if equal { costs[i.min(j) * m + i.max(j)] } else { costs[i * m + j] };
            let exponents = Exponents::new(vec![Axis::new(n, m, cost).unwrap()]).unwrap();
            // A third of the bins but the first are empty.
            let mut masses = |n: usize| -> Vec<f64> {
                let mass = |k: usize| if k < STRIDE || unit() > 0.3 { unit() + 1e-3 } else { 0.0 };
                (0..n * STRIDE).map(mass).collect()
            };
            let source = masses(n);
            let target = if equal { source.clone() } else { masses(m) };
            let potential: Vec<f64> = (0..n * STRIDE).map(|_| range * (unit() - 0.5)).collect();
            let mut domain = LogDomain::new(&exponents, Hold::Marginals, pairing).unwrap();
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
                let (_, kept) = domain.results(1).remove(0);
                let transport = exponents.transport(&kept[0], &kept[1]);
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
