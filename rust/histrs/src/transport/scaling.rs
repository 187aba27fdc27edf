//! Sinkhorn's scaling in the exponential domain: both half-steps are matrix products.

use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Elementary, dispatch, vectorized};
use crate::transport::engine::GROUP;
use crate::transport::job::Pairing;
use crate::transport::lanes::stride;
use crate::transport::lines::Factors;
use crate::transport::product::padded;
use crate::transport::step::{Domain, Step};

/// `K = exp(-M / reg)`, its transpose, and `K` times `M`, packed for products.
pub(super) struct Kernel<T> {
    pub(super) forward: Factors<T>,
    pub(super) backward: Factors<T>,
    /// Products that add up to the latter; none where the cost of transport is not asked for.
    pub(super) costs: Vec<Factors<T>>,
    /// Potentials of this magnitude leave the range of `T`.
    pub(super) largest_potential: f64,
}

/// Work space of the exponential domain.
pub(super) struct Scaling<'a, T> {
    kernel: &'a Kernel<T>,
    pairing: Pairing,
    u: AlignedVec<T>,
    v: AlignedVec<T>,
    /// `K' u` and `K v`.
    backward: AlignedVec<T>,
    forward: AlignedVec<T>,
    magnitude: Vec<T>,
    kept_u: AlignedVec<T>,
    kept_v: AlignedVec<T>,
}

impl<'a, T: Elementary> Scaling<'a, T> {
    pub(super) fn new(kernel: &'a Kernel<T>, pairing: Pairing) -> Result<Self> {
        let stride = stride::<T>();
        let (n_source, n_target) = (kernel.forward.n_rows(), kernel.forward.n_columns());
        let zeros = |n_rows: usize| AlignedVec::zeros(n_rows * stride);
        Ok(Self {
            kernel,
            pairing,
            u: zeros(n_source)?,
            v: zeros(n_target)?,
            backward: zeros(padded(n_target))?,
            forward: zeros(padded(n_source))?,
            magnitude: memory::filled(T::default(), stride)?,
            kept_u: zeros(n_source)?,
            kept_v: zeros(n_target)?,
        })
    }
}

impl<T: Elementary> Domain<T> for Scaling<'_, T> {
    fn shape(&self) -> (usize, usize) {
        (self.kernel.forward.n_rows(), self.kernel.forward.n_columns())
    }

    fn step(&mut self, step: Step<'_, T>) {
        let Step { source, target, potential, residual, unaccelerated, errors, stride, width } =
            step;
        self.magnitude.fill(T::default());
        exponential(source, potential, &mut self.u, &mut self.magnitude[..width], stride);
        if self.pairing == Pairing::Equal {
            self.v.copy_from_slice(&self.u);
        } else {
            self.kernel.backward.product(&self.u, &mut self.backward, stride, width);
            let (numerator, denominator) = (target, &self.backward[..]);
            divide(numerator, denominator, &mut self.v, stride, width);
        }
        self.kernel.forward.product(&self.v, &mut self.forward, stride, width);
        let (u, forward) = (&self.u[..], &self.forward[..]);
        dispatch(Residual {
            source,
            u,
            forward,
            potential,
            residual,
            unaccelerated,
            errors: &mut *errors,
            relaxation: T::from_f64(self.pairing.relaxation()),
            stride,
            width,
        });
        for (error, magnitude) in errors.iter_mut().zip(&self.magnitude[..width]) {
            if magnitude.to_f64() > self.kernel.largest_potential {
                *error = T::from_f64(f64::NAN);
            }
        }
    }

    fn keep(&mut self, lane: usize, slot: usize) {
        let stride = stride::<T>();
        for (out, x) in [(&mut self.kept_u, &self.u), (&mut self.kept_v, &self.v)] {
            for row in (0..x.len()).step_by(stride) {
                out[row + slot] = x[row + lane];
            }
        }
    }

    fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])> {
        let stride = stride::<T>();
        let column = |x: &AlignedVec<T>, slot: usize| -> Vec<f64> {
            x[slot..].iter().step_by(stride).map(|x| x.to_f64()).collect()
        };
        let none = if self.kernel.costs.is_empty() { f64::NAN } else { 0.0 };
        let mut transport = vec![none; n];
        for cost in &self.kernel.costs {
            cost.product(&self.kept_v, &mut self.forward, stride, n.next_multiple_of(GROUP));
            for (slot, transport) in transport.iter_mut().enumerate() {
                let terms = column(&self.kept_u, slot).into_iter().zip(column(&self.forward, slot));
                *transport += terms.map(|(u, w)| u * w).sum::<f64>();
            }
        }
        let result = |(slot, transport): (usize, f64)| {
            let scalings = [column(&self.kept_u, slot), column(&self.kept_v, slot)];
            (transport, scalings.map(logarithms))
        };
        transport.into_iter().enumerate().map(result).collect()
    }
}

/// Logarithms; minus infinity of 0.
fn logarithms(mut x: Vec<f64>) -> Vec<f64> {
    logarithm(&mut x);
    x
}

vectorized!(
    fn logarithm(x: &mut [f64]) {
        for x in x {
            let log = x.ln_of_normal();
            *x = if *x > 0.0 { log } else { f64::NEG_INFINITY };
        }
    }
);

vectorized!(
    /// `out = numerator / denominator`, and 0 where the numerator is.
    fn divide<T: Elementary>(
        numerator: &[T],
        denominator: &[T],
        out: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let rows = out.chunks_exact_mut(stride).zip(numerator.chunks_exact(stride));
        for ((out, numerator), denominator) in rows.zip(denominator.chunks_exact(stride)) {
            let inputs = numerator[..width].iter().zip(&denominator[..width]);
            for (out, (&a, &b)) in out[..width].iter_mut().zip(inputs) {
                *out = if a > T::default() { a / b } else { T::default() };
            }
        }
    }
);

/// The residual of the potential, where a unaccelerated step leads, and the L1 error of the marginal.
struct Residual<'a, T> {
    source: &'a [T],
    u: &'a [T],
    forward: &'a [T],
    potential: &'a [T],
    residual: &'a mut [T],
    unaccelerated: &'a mut [T],
    errors: &'a mut [T],
    relaxation: T,
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for Residual<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { stride, width, .. } = self;
        for at in (0..self.source.len()).step_by(stride) {
            let row = at..at + width;
            residual_of_row(
                &self.source[row.clone()],
                &self.u[row.clone()],
                &self.forward[row.clone()],
                &mut self.residual[row.clone()],
                &mut self.errors[..width],
                self.relaxation,
            );
            add_rows(
                &self.potential[row.clone()],
                &self.residual[row.clone()],
                &mut self.unaccelerated[row],
            );
        }
    }
}

#[inline(always)]
fn residual_of_row<T: Elementary>(
    source: &[T],
    u: &[T],
    forward: &[T],
    residual: &mut [T],
    errors: &mut [T],
    relaxation: T,
) {
    let inputs = source.iter().zip(u).zip(forward);
    for ((((&a, &u), &w), r), error) in inputs.zip(residual).zip(errors) {
        let mass = u * w;
        *error = *error + (mass - a).abs();
        let ratio = if a > T::default() { a / mass } else { T::from_f64(1.0) };
        *r = ratio.ln_of_normal() * relaxation;
    }
}

#[inline(always)]
fn add_rows<T: Elementary>(a: &[T], b: &[T], out: &mut [T]) {
    for ((&a, &b), out) in a.iter().zip(b).zip(out) {
        *out = a + b;
    }
}

vectorized!(
    /// `out = exp(potential)` where there is mass, else 0; and the largest magnitude of a potential.
    fn exponential<T: Elementary>(
        source: &[T],
        potential: &[T],
        out: &mut [T],
        magnitude: &mut [T],
        stride: usize,
    ) {
        let width = magnitude.len();
        let inputs = source.chunks_exact(stride).zip(potential.chunks_exact(stride));
        let rows = inputs.zip(out.chunks_exact_mut(stride));
        for ((source, potential), out) in rows {
            exponential_of_row(&source[..width], &potential[..width], &mut out[..width], magnitude);
        }
    }
);

#[inline(always)]
fn exponential_of_row<T: Elementary>(
    source: &[T],
    potential: &[T],
    out: &mut [T],
    magnitude: &mut [T],
) {
    let inputs = source.iter().zip(potential);
    for (((&a, &f), out), magnitude) in inputs.zip(out).zip(magnitude) {
        let u = f.exp_in_range();
        *out = if a > T::default() { u } else { T::default() };
        let size = if a > T::default() { f.abs() } else { T::default() };
        *magnitude = if size > *magnitude { size } else { *magnitude };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::transport::product::Packed;

    const WIDTH: usize = GROUP;
    const LARGEST: f64 = 5.0;

    /// Histograms and potentials of some lanes, a row per bin.
    struct Lanes {
        a: Vec<[f64; WIDTH]>,
        b: Vec<[f64; WIDTH]>,
        f: Vec<[f64; WIDTH]>,
    }

    /// A third of the bins are empty, and a potential of the third lane is too large; one of the
    /// fourth would be, but for its bin, which is empty.
    fn lanes(n: usize, m: usize, pairing: Pairing, seed: u64) -> Lanes {
        let mut draws = Random(seed);
        let mut rows = |n: usize| -> Vec<[f64; WIDTH]> {
            (0..n).map(|_| std::array::from_fn(|_| draws.unit())).collect()
        };
        let mut f = rows(n);
        f.iter_mut().flatten().for_each(|f| *f = 8.0 * *f - 4.0);
        let [mut a, mut b] = [n, m].map(|n| {
            let mut mass = rows(n);
            mass[1..].iter_mut().flatten().for_each(|x| *x = if *x < 0.3 { 0.0 } else { *x });
            mass
        });
        f[0][2] = -LARGEST - 0.1;
        if n > 1 {
            (a[n - 1][3], f[n - 1][3]) = (0.0, LARGEST + 0.1);
        }
        if pairing == Pairing::Equal {
            b.clone_from(&a);
        } else if m > 1 {
            b[m - 1] = [0.0; WIDTH];
        }
        Lanes { a, b, f }
    }

    fn check<T: Elementary>(
        (n, m): (usize, usize),
        pairing: Pairing,
        cost: impl Fn(usize, usize) -> f64,
        tol: f64,
    ) {
        const UNTOUCHED: f64 = 7.0;
        let Lanes { a, b, f } = lanes(n, m, pairing, (n * 100 + m) as u64);
        let gibbs = |i: usize, j: usize| (-cost(i, j)).exp();
        let weighted =
            |i: usize, j: usize| if gibbs(i, j) > 0.0 { gibbs(i, j) * cost(i, j) } else { 0.0 };
        let kernel = Kernel::<T> {
            forward: Packed::new(n, m, gibbs).unwrap().into(),
            backward: Packed::new(m, n, |j, i| gibbs(i, j)).unwrap().into(),
            costs: vec![Packed::new(n, m, weighted).unwrap().into()],
            largest_potential: LARGEST,
        };
        let stride = stride::<T>();
        let packed = |rows: &[[f64; WIDTH]]| {
            let mut out = AlignedVec::<T>::zeros(rows.len() * stride).unwrap();
            for (out, row) in out.chunks_exact_mut(stride).zip(rows) {
                out.iter_mut().zip(row).for_each(|(out, &x)| *out = T::from_f64(x));
            }
            out
        };
        let mut residual = vec![T::from_f64(UNTOUCHED); n * stride];
        let mut unaccelerated = residual.clone();
        let mut errors = vec![T::default(); stride];
        let mut domain = Scaling::new(&kernel, pairing).unwrap();
        domain.step(Step {
            source: &packed(&a),
            target: &packed(&b),
            potential: &packed(&f),
            residual: &mut residual,
            unaccelerated: &mut unaccelerated,
            errors: &mut errors,
            stride,
            width: WIDTH,
        });
        (0..WIDTH).for_each(|lane| domain.keep(lane, WIDTH - 1 - lane));
        let results = domain.results(WIDTH);
        let close = |found: f64, expected: f64| {
            let is_close =
                expected.is_finite() && (found - expected).abs() <= tol * (1.0 + expected.abs());
            assert!(is_close || found == expected, "{found} {expected}");
        };
        for lane in 0..WIDTH {
            let scaling = |mass: f64, scaling: f64| if mass > 0.0 { scaling } else { 0.0 };
            let u: Vec<f64> = (0..n).map(|i| scaling(a[i][lane], f[i][lane].exp())).collect();
            let reached = |j: usize| (0..n).map(|i| u[i] * gibbs(i, j)).sum::<f64>();
            let v: Vec<f64> = (0..m)
                .map(|j| match pairing {
                    Pairing::Equal => u[j],
                    Pairing::Different => scaling(b[j][lane], b[j][lane] / reached(j)),
                })
                .collect();
            let mut error = 0.0;
            for i in 0..n {
                let mass: f64 = u[i] * (0..m).map(|j| gibbs(i, j) * v[j]).sum::<f64>();
                error += (mass - a[i][lane]).abs();
                let step = pairing.relaxation() * (a[i][lane] / mass).ln();
                let step = if a[i][lane] > 0.0 { step } else { 0.0 };
                close(residual[i * stride + lane].to_f64(), step);
                close(unaccelerated[i * stride + lane].to_f64(), f[i][lane] + step);
            }
            if lane == 2 {
                assert!(errors[lane].to_f64().is_nan());
            } else {
                close(errors[lane].to_f64(), error);
            }
            let (transport, potentials) = &results[WIDTH - 1 - lane];
            let cells = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
            close(*transport, cells.map(|(i, j)| u[i] * weighted(i, j) * v[j]).sum());
            potentials[0].iter().zip(&u).for_each(|(&f, u)| close(f, u.ln()));
            potentials[1].iter().zip(&v).for_each(|(&g, v)| close(g, v.ln()));
        }
        for row in residual.chunks_exact(stride).chain(unaccelerated.chunks_exact(stride)) {
            assert!(row[WIDTH..].iter().all(|x| x.to_f64() == UNTOUCHED));
        }
    }

    #[test]
    fn a_step_scales_either_side_to_its_marginal() {
        for (n, m) in [(1, 1), (3, 5), (7, 2), (6, 13)] {
            // Nothing leads to the last target, which is empty.
            let cost = |i: usize, j: usize| match j + 1 == m && m > 1 {
                true => f64::INFINITY,
                false => ((5 * i + 3 * j) % 7) as f64 / 3.0,
            };
            check::<f64>((n, m), Pairing::Different, cost, 1e-12);
            check::<f32>((n, m), Pairing::Different, cost, 2e-5);
            let symmetric = |i: usize, j: usize| i.abs_diff(j) as f64 / 2.0;
            check::<f64>((n, n), Pairing::Equal, symmetric, 1e-12);
            check::<f32>((n, n), Pairing::Equal, symmetric, 2e-5);
        }
    }
}
