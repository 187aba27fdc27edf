//! What is kept of each pair, and of all of them.

use ndarray::{Array2, Array3, s};

use crate::error::Result;
use crate::memory;
use crate::simd::Element;
use crate::transport::order::{Pair, Pairs};

/// Distances, and how they were reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SinkhornDistances<T> {
    /// The distances.
    pub values: Array2<T>,
    /// L1 errors of the marginals, as a part of the mass.
    pub errors: Array2<f64>,
    /// Numbers of iterations.
    pub n_iter: Array2<usize>,
    /// The dual variables `alpha` and `beta` of every pair, `T = exp((alpha_i + beta_j - M_ij) /
    /// reg)`; minus infinity at empty bins.
    pub potentials: Option<[Array3<f64>; 2]>,
}

/// What is kept of a pair.
pub(super) struct Found {
    pub(super) pair: Pair,
    pub(super) value: f64,
    pub(super) error: f64,
    pub(super) n_iter: usize,
    pub(super) potentials: Option<[Vec<f64>; 2]>,
}

impl Found {
    /// Of a pair between which nothing moves; `bins` of both sides where potentials are kept.
    pub(super) fn without_plan(pair: Pair, value: f64, bins: Option<(usize, usize)>) -> Self {
        let potentials = bins.map(|(n, m)| [n, m].map(|n| vec![f64::NEG_INFINITY; n]));
        Self { pair, value, error: 0.0, n_iter: 0, potentials }
    }
}

/// Room for the results of all pairs; `bins` of both sides where potentials are kept.
pub(super) fn zeros<T: Element>(
    pairs: &Pairs,
    bins: Option<(usize, usize)>,
) -> Result<SinkhornDistances<T>> {
    let shape = (pairs.n_rows, pairs.n_columns);
    let of_side = |n: usize| memory::zeros((pairs.n_rows, pairs.n_columns, n));
    let potentials = match bins {
        Some((n_source, n_target)) => Some([of_side(n_source)?, of_side(n_target)?]),
        None => None,
    };
    Ok(SinkhornDistances {
        values: memory::zeros(shape)?,
        errors: memory::zeros(shape)?,
        n_iter: memory::zeros(shape)?,
        potentials,
    })
}

/// Puts results in their places, both of them where one pair was solved for two.
pub(super) fn gather<T: Element>(
    pairs: &Pairs,
    blocks: Vec<Vec<Found>>,
    distances: &mut SinkhornDistances<T>,
) {
    let SinkhornDistances { values, errors, n_iter, potentials } = distances;
    for block in blocks {
        for found in block {
            let (i, j) = found.pair;
            let mirrored = pairs.once.then_some((j, i));
            for index in std::iter::once((i, j)).chain(mirrored) {
                values[index] = T::from_f64(found.value);
                errors[index] = found.error;
                n_iter[index] = found.n_iter;
            }
            if let (Some([alpha, beta]), Some([f, g])) = (&mut *potentials, &found.potentials) {
                let assign = |out: &mut Array3<f64>, (i, j): (usize, usize), from: &[f64]| {
                    out.slice_mut(s![i, j, ..]).iter_mut().zip(from).for_each(|(o, f)| *o = *f);
                };
                assign(alpha, (i, j), f);
                assign(beta, (i, j), g);
                if let Some(index) = mirrored.filter(|_| i != j) {
                    assign(alpha, index, g);
                    assign(beta, index, f);
                }
            }
        }
    }
}
