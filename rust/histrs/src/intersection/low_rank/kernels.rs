//! The two passes over a factor: what right-hand sides are in it, and what it is worth.

use pulp::Simd;

use super::{GROUP, HALF, LowRankInverse, rows_of};
use crate::intersection::panel::{Panel, PanelKernel};
use crate::intersection::scan::{load, store};
use crate::simd::Element;

/// The same number in the precision of the sums.
#[inline(always)]
fn convert<T: Element, E: Element>(x: T) -> E {
    E::from_f64(x.to_f64())
}

pub(super) struct Project<'a, T, E> {
    pub(super) inverse: &'a LowRankInverse<T>,
    pub(super) block: usize,
    pub(super) panel: &'a Panel<E>,
    pub(super) sums: &'a mut [E],
}

impl<T: Element, E: Element> PanelKernel<E> for Project<'_, T, E> {
    type Output = ();
    const MAX_WIDTH: usize = usize::MAX;

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let Self { inverse, block, panel, sums } = self;
        let rows = rows_of(block, inverse.n_rows);
        let v = &E::vectors::<S>(&panel.data).0[rows.start * NV..rows.end * NV];
        let sums = E::vectors_mut::<S>(sums).0;
        for (e, sums) in inverse.of_block(block).zip(sums.chunks_exact_mut(GROUP * NV)) {
            if NV == 1 {
                project::<T, E, S, NV, GROUP>(simd, e, 0, v, sums);
            } else {
                project::<T, E, S, NV, HALF>(simd, e, 0, v, sums);
                project::<T, E, S, NV, HALF>(simd, e, HALF, v, sums);
            }
        }
    }
}

/// Adds `E^T V` for `N` columns of a group, beginning with `first`.
#[inline(always)]
fn project<T: Element, E: Element, S: Simd, const NV: usize, const N: usize>(
    simd: S,
    e: &[T],
    first: usize,
    v: &[E::Vector<S>],
    sums: &mut [E::Vector<S>],
) {
    let mut sum: [[_; NV]; N] = [load(sums, first); N];
    for (k, sum) in sum.iter_mut().enumerate() {
        *sum = load(sums, first + k);
    }
    for (e, v) in e.chunks_exact(GROUP).zip(v.chunks_exact(NV)) {
        let e = &e[first..first + N];
        for k in 0..N {
            let e = E::splat(simd, convert(e[k]));
            for i in 0..NV {
                sum[k][i] = E::mul_add(simd, e, v[i], sum[k][i]);
            }
        }
    }
    for (k, sum) in sum.into_iter().enumerate() {
        store(sums, first + k, sum);
    }
}

pub(super) struct Expand<'a, T, E> {
    pub(super) inverse: &'a LowRankInverse<T>,
    pub(super) block: usize,
    pub(super) weights: &'a [E],
    pub(super) sums: &'a mut [E],
}

impl<T: Element, E: Element> PanelKernel<E> for Expand<'_, T, E> {
    type Output = ();
    const MAX_WIDTH: usize = usize::MAX;

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let Self { inverse, block, weights, sums } = self;
        let weights = E::vectors::<S>(weights).0;
        let sums = E::vectors_mut::<S>(sums).0;
        for (e, weights) in inverse.of_block(block).zip(weights.chunks_exact(GROUP * NV)) {
            if NV == 1 {
                expand::<T, E, S, NV, GROUP>(simd, e, 0, weights, sums);
            } else {
                expand::<T, E, S, NV, HALF>(simd, e, 0, weights, sums);
                expand::<T, E, S, NV, HALF>(simd, e, HALF, weights, sums);
            }
        }
    }
}

/// Adds `E W` for `N` columns of a group, beginning with `first`.
#[inline(always)]
fn expand<T: Element, E: Element, S: Simd, const NV: usize, const N: usize>(
    simd: S,
    e: &[T],
    first: usize,
    weights: &[E::Vector<S>],
    sums: &mut [E::Vector<S>],
) {
    let mut weight: [[_; NV]; N] = [load(weights, first); N];
    for (k, weight) in weight.iter_mut().enumerate() {
        *weight = load(weights, first + k);
    }
    for (e, sums) in e.chunks_exact(GROUP).zip(sums.chunks_exact_mut(NV)) {
        let e = &e[first..first + N];
        for k in 0..N {
            let e = E::splat(simd, convert(e[k]));
            for i in 0..NV {
                sums[i] = E::mul_add(simd, e, weight[k][i], sums[i]);
            }
        }
    }
}
