//! Coordinates in the tangent space at a reference.

use ndarray::{Array2, ArrayView2, ArrayView3};

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{AlignedVec, Element, lanes, vectorized};
use crate::small_matrix::triangle;
use crate::spd::lanes::vectors_mut;
use crate::spd::spectra::{LogScratch, Whitened, square};
use crate::spd::stack::SymmetricStack;

/// Blocks that the groups of matrices are cut into, where there are enough of them.
const BLOCKS: usize = 16;
/// The fewest and the most groups in a block.
const FEW: usize = 4;
const MANY: usize = 32;

/// The coordinates `log(W X W^T)` of the matrices of a stack of shape `(n, p, p)`: the upper
/// triangle, row by row. Entries beside the diagonal are multiplied by the root of 2, so that the
/// length of a row is the Frobenius norm. `W` is the inverse root of a reference, `None` for the
/// identity.
///
/// # Errors
///
/// As [`jbld_distances`](crate::spd::jbld_distances), and
/// [`Error::TooFarFromReference`](crate::Error::TooFarFromReference) where the smallest eigenvalue
/// is lost in the rounding of the largest.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::tangent_vectors};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[1.0, 0.0], [0.0, 4.0]]];
/// let v = tangent_vectors(&exec, x.view(), None)?;
/// assert!((v[[0, 2]] - 4_f64.ln()).abs() < 1e-14);
/// assert_eq!((v[[0, 0]].abs() < 1e-14, v[[0, 1]]), (true, 0.0));
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn tangent_vectors<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    whitener: Option<ArrayView2<'_, f64>>,
) -> Result<Array2<T>> {
    let stack = SymmetricStack::new(exec, "X", x)?;
    let p = stack.p();
    let entries = whitener.as_ref().map(|w| square("a side of the whitener", p, w)).transpose()?;
    let whitened = Whitened::new(exec, &stack, entries)?;
    let mut out = memory::zero_matrix((stack.n(), triangle(p)))?;
    let groups = whitened.n_groups().div_ceil(BLOCKS).clamp(FEW, MANY);
    let block = groups * lanes::<f64>();
    let len = triangle(p);
    exec.for_chunks(memory::flat_mut(&mut out)?, block * len, |b, out| {
        let n = out.len() / len.max(1);
        let write = &mut |start: usize, lanes: usize, logarithm: &[f64]| {
            write_rows(p, lanes, logarithm, &mut out[start * len..]);
        };
        logarithms_of_block(exec, &whitened, b * groups, n, write)
    })?;
    Ok(out)
}

/// Writes a group of logarithms as rows of coordinates, up to the end of `out`.
fn write_rows<T: Element>(p: usize, lanes: usize, logarithm: &[f64], out: &mut [T]) {
    let len = triangle(p);
    // Vector by vector, as they lie: lanes are rows that are written side by side.
    let mut index = 0;
    for i in 0..p {
        for j in i..p {
            let weight = if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
            let values = &logarithm[(triangle(j) + i) * lanes..][..lanes];
            for (to, value) in out.iter_mut().skip(index).step_by(len).zip(values) {
                *to = T::from_f64(weight * value);
            }
            index += 1;
        }
    }
}

vectorized!(
    /// The logarithms of some groups, from group `first` on.
    fn logarithms_of_block<S: Simd>(
        simd: S,
        exec: &Executor,
        whitened: &Whitened<'_>,
        first: usize,
        /// Number of matrices.
        n: usize,
        /// Takes the index of a group's first matrix, the number of lanes and the logarithms. There
        /// is one call for each group, so the kernels are compiled once for all types of the
        /// result.
        write: &mut dyn FnMut(usize, usize, &[f64]),
    ) -> Result<()> {
        let (p, lanes) = (whitened.p(), S::F64_LANES);
        let len = LogScratch::<S::f64s>::len(p);
        let mut buffer = AlignedVec::zeros((len + triangle(p)) * lanes)?;
        let (scratch, result) = vectors_mut::<S>(&mut buffer).split_at_mut(len);
        let mut scratch = LogScratch::new(p, scratch);
        for start in (0..n).step_by(lanes) {
            exec.check()?;
            whitened.logarithm(simd, first + start / lanes, &mut scratch, result)?;
            write(start, lanes, pulp::bytemuck::cast_slice(result));
        }
        Ok(())
    }
);
