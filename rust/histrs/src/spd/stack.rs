//! A stack of symmetric matrices, checked, in double precision, half of each stored.

use std::sync::atomic::{AtomicBool, Ordering};

use ndarray::{ArrayView2, ArrayView3, Axis};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::Element;
use crate::small_matrix::triangle;
use crate::spd::lanes::Groups;

/// Entries in a block of matrices that one thread reads.
const BLOCK_ENTRIES: usize = 1 << 16;

/// The lower triangles, row by row, of **halves** of the matrices. The mean of two matrices is then
/// a sum, which cannot overflow. Ratios of matrices do not change.
#[derive(Debug)]
pub(crate) struct SymmetricStack {
    halves: Vec<f64>,
    n: usize,
    p: usize,
    precision: f64,
}

impl SymmetricStack {
    /// Reads a stack of shape `(n, p, p)`.
    pub(crate) fn new<T: Element>(
        exec: &Executor,
        name: &'static str,
        x: ArrayView3<'_, T>,
    ) -> Result<Self> {
        let (n, p, width) = x.dim();
        if p != width {
            return Err(Error::Shape {
                what: "the number of columns of a matrix",
                found: width,
                expected: p,
                cure: "covariance matrices are square: give an array of shape (n, p, p)",
            });
        }
        let len = triangle(p);
        let block = (BLOCK_ENTRIES / (p * p).max(1)).max(1);
        let mut halves = memory::filled(0.0, n * len)?;
        let doubtful = AtomicBool::new(false);
        exec.for_chunks(&mut halves, block * len, |b, chunk| {
            let tolerance = precision::<T>().sqrt();
            for (i, half) in chunk.chunks_exact_mut(len.max(1)).enumerate() {
                if !pack(tolerance, x.index_axis(Axis(0), b * block + i), half) {
                    doubtful.store(true, Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        if doubtful.into_inner() {
            exec.map_ranges(n, block, |matrices| {
                matrices.into_iter().try_for_each(|i| check(name, i, x.index_axis(Axis(0), i)))
            })?;
        }
        Ok(Self { halves, n, p, precision: precision::<T>() })
    }

    /// Number of matrices.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Number of rows of a matrix.
    pub(crate) fn p(&self) -> usize {
        self.p
    }

    /// The relative error of entries in the type that they came in.
    pub(crate) fn precision(&self) -> f64 {
        self.precision
    }

    /// The lower triangle of half of matrix `i`.
    pub(crate) fn half(&self, i: usize) -> &[f64] {
        let len = triangle(self.p);
        &self.halves[i * len..(i + 1) * len]
    }

    /// The halves, interleaved.
    pub(crate) fn groups(&self) -> Result<Groups> {
        Groups::new(self.n, triangle(self.p), |i| self.half(i))
    }
}

fn precision<T: Element>() -> f64 {
    if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// Fails at the first entry that is not finite or differs from the one across the diagonal by
/// more than half the digits.
fn check<T: Element>(name: &'static str, matrix: usize, a: ArrayView2<'_, T>) -> Result<()> {
    let tolerance = precision::<T>().sqrt();
    for ((row, column), &value) in a.indexed_iter() {
        let value = value.to_f64();
        if !value.is_finite() {
            return Err(Error::MatrixNotFinite { name, matrix, row, column, value });
        }
    }
    let size = |i: usize| a[[i, i]].to_f64().abs().sqrt();
    for row in 0..a.nrows() {
        for column in 0..row {
            let (value, mirrored) = (a[[row, column]].to_f64(), a[[column, row]].to_f64());
            if value != mirrored && (value - mirrored).abs() > tolerance * size(row) * size(column)
            {
                return Err(Error::NotSymmetric { name, matrix, row, column, value, mirrored });
            }
        }
    }
    Ok(())
}

/// Packs half of a matrix; says whether it is certain that all entries are finite, and the same
/// across the diagonal.
fn pack<T: Element>(tolerance: f64, a: ArrayView2<'_, T>, half: &mut [f64]) -> bool {
    let p = a.nrows();
    let mut is_certain = true;
    let mut rest = half;
    for i in 0..p {
        let (entries, after) = std::mem::take(&mut rest).split_at_mut(i + 1);
        rest = after;
        let mut is_equal = true;
        let mut sum = 0.0;
        let mut entry = |to: &mut f64, value: T, mirrored: T| {
            let (value, mirrored) = (value.to_f64(), mirrored.to_f64());
            is_equal &= value == mirrored;
            *to = 0.25 * value + 0.25 * mirrored;
            // 0, but of what is not finite.
            sum += 0.0 * value;
        };
        if let Some(flat) = a.as_slice() {
            let row = &flat[i * p..=i * p + i];
            let column = flat[i..].iter().step_by(p);
            for ((to, &value), &mirrored) in entries.iter_mut().zip(row).zip(column) {
                entry(to, value, mirrored);
            }
        } else {
            for (j, to) in entries.iter_mut().enumerate() {
                entry(to, a[[i, j]], a[[j, i]]);
            }
        }
        is_certain &= sum == 0.0;
        if !is_equal {
            let size = |i: usize| a[[i, i]].to_f64().abs().sqrt();
            is_certain &= (0..i).all(|j| {
                let difference = (a[[i, j]].to_f64() - a[[j, i]].to_f64()).abs();
                difference <= tolerance * size(i) * size(j)
            });
        }
    }
    is_certain
}

/// Fails when the matrices of two stacks have different sizes.
pub(crate) fn check_same_size(x: &SymmetricStack, y: &SymmetricStack) -> Result<()> {
    if x.p() == y.p() {
        return Ok(());
    }
    Err(Error::Shape {
        what: "the number of rows of a matrix of Y",
        found: y.p(),
        expected: x.p(),
        cure: "give both covariances of the same features in the same order",
    })
}

/// Fails when two stacks have different numbers of matrices.
pub(crate) fn check_same_number(x: &SymmetricStack, y: &SymmetricStack) -> Result<()> {
    if x.n() == y.n() {
        return Ok(());
    }
    Err(Error::Shape {
        what: "the number of matrices of Y",
        found: y.n(),
        expected: x.n(),
        cure: "paired distances take as many matrices in Y as in X",
    })
}
