//! Buffers whose size depends on data: where memory is refused they are an error, not an abort.

use ndarray::{Array, Array2, ArrayBase, Data, DataMut, Dimension, IntoDimension, ShapeError};
use pulp::bytemuck::Zeroable;

use crate::error::{Error, Result};
use crate::simd::{prefer_huge_pages, zeroed};

/// An array of zeros.
pub(crate) fn zeros<T: Zeroable, D: Dimension>(
    shape: impl IntoDimension<Dim = D>,
) -> Result<Array<T, D>> {
    let shape = shape.into_dimension();
    let refused = |_: ShapeError| Error::out_of_memory::<T>(shape.slice());
    let data = zeroed::<T>(shape.slice())?;
    Array::from_shape_vec(shape.clone(), data).map_err(refused)
}

/// A matrix of zeros, as results are returned in.
pub(crate) fn zero_matrix<T: Zeroable>(shape: (usize, usize)) -> Result<Array2<T>> {
    let mut matrix = zeros(shape)?;
    if let Some(data) = matrix.as_slice_mut() {
        prefer_huge_pages(data);
    }
    Ok(matrix)
}

/// The entries of what was laid out row after row.
pub(crate) fn flat<S: Data, D: Dimension>(x: &ArrayBase<S, D>) -> Result<&[S::Elem]> {
    x.as_slice().ok_or(NOT_CONTIGUOUS)
}

/// As [`flat`], to be written.
pub(crate) fn flat_mut<S: DataMut, D: Dimension>(
    x: &mut ArrayBase<S, D>,
) -> Result<&mut [S::Elem]> {
    x.as_slice_mut().ok_or(NOT_CONTIGUOUS)
}

const NOT_CONTIGUOUS: Error = Error::Internal("an array that was laid out in rows no longer is");

/// `n` times one value.
pub(crate) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>> {
    let mut data = with_capacity(n)?;
    data.resize(n, value);
    Ok(data)
}

/// An empty vector with room for `n` values.
pub(crate) fn with_capacity<T>(n: usize) -> Result<Vec<T>> {
    let mut data = Vec::new();
    reserve(&mut data, n)?;
    Ok(data)
}

/// Makes room for `n` more values.
pub(crate) fn reserve<T>(data: &mut Vec<T>, n: usize) -> Result<()> {
    data.try_reserve_exact(n)
        .map_err(|_| Error::out_of_memory::<T>(&[data.len().saturating_add(n)]))
}

/// Grows or shrinks to `n` values; new ones are copies of `value`.
pub(crate) fn resize<T: Clone>(data: &mut Vec<T>, n: usize, value: T) -> Result<()> {
    reserve(data, n.saturating_sub(data.len()))?;
    data.resize(n, value);
    Ok(())
}

/// The values of an iterator that knows their number.
pub(crate) fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut data = with_capacity(values.len())?;
    data.extend(values);
    Ok(data)
}

/// A copy.
pub(crate) fn copied<T: Clone>(values: &[T]) -> Result<Vec<T>> {
    let mut data = with_capacity(values.len())?;
    data.extend_from_slice(values);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_an_error_with_shape_and_bytes() {
        let huge = usize::MAX / 64;
        let message = zero_matrix::<f64>((huge, 3)).unwrap_err().to_string();
        assert!(message.contains(&format!("({huge}, 3)")), "{message}");
        assert!(message.contains(&format!("{} bytes", huge as u128 * 24)), "{message}");
        // Whose number of bytes is more than a number holds.
        let most = usize::MAX;
        assert!(matches!(zeros::<f64, _>((most, most)), Err(Error::OutOfMemory { .. })));
        assert!(matches!(filled(1.0, most), Err(Error::OutOfMemory { .. })));
        assert!(matches!(filled(1.0, huge), Err(Error::OutOfMemory { .. })));
        let mut data = vec![1_u8];
        assert!(matches!(resize(&mut data, most, 0), Err(Error::OutOfMemory { .. })));
        assert_eq!(data, [1]);
    }

    #[test]
    fn what_fits_is_made() {
        assert_eq!(zeros::<f32, _>((2, 0)).unwrap().dim(), (2, 0));
        assert_eq!(filled(2.0, 3).unwrap(), [2.0; 3]);
        assert_eq!(collected(0..3).unwrap(), [0, 1, 2]);
        assert_eq!(copied(&[1, 2]).unwrap(), [1, 2]);
    }
}
