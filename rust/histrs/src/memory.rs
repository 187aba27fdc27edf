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

/// A matrix of such rows as `fill` writes.
pub(crate) fn filled_by<T: Zeroable>(
    shape: (usize, usize),
    fill: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<Array2<T>> {
    let mut out = zero_matrix(shape)?;
    fill(flat_mut(&mut out)?)?;
    Ok(out)
}

/// The number of entries of an array of `T` of this shape, where a number holds it.
pub(crate) fn size<T>(shape: &[usize]) -> Result<usize> {
    let product = shape.iter().try_fold(1_usize, |n, &k| n.checked_mul(k));
    product.ok_or_else(|| Error::out_of_memory::<T>(shape))
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

/// Makes room for `n` more values, and for some beyond where there are to be more: what is called
/// again and again copies each value a few times at most.
pub(crate) fn reserve_growing<T>(data: &mut Vec<T>, n: usize) -> Result<()> {
    data.try_reserve(n).map_err(|_| Error::out_of_memory::<T>(&[data.len().saturating_add(n)]))
}

/// Adds a value at the end.
pub(crate) fn push<T>(data: &mut Vec<T>, value: T) -> Result<()> {
    reserve_growing(data, 1)?;
    data.push(value);
    Ok(())
}

/// Adds the values of an iterator that knows their number.
pub(crate) fn extend<T>(data: &mut Vec<T>, values: impl ExactSizeIterator<Item = T>) -> Result<()> {
    reserve_growing(data, values.len())?;
    data.extend(values);
    Ok(())
}

/// One vector of several, one after the other.
pub(crate) fn concatenated<T: Clone>(parts: &[Vec<T>]) -> Result<Vec<T>> {
    let mut data = with_capacity(parts.iter().map(Vec::len).sum())?;
    parts.iter().for_each(|part| data.extend_from_slice(part));
    Ok(data)
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
        assert_eq!(concatenated(&[vec![1], vec![], vec![2, 3]]).unwrap(), [1, 2, 3]);
    }

    #[test]
    fn what_grows_is_refused_in_time() {
        let mut data = vec![(); 2];
        // Nothing takes no room, but there are no more numbers to count it with.
        assert!(matches!(extend(&mut data, Endless), Err(Error::OutOfMemory { .. })));
        let mut data = vec![1_u32];
        assert!(matches!(
            reserve_growing(&mut data, usize::MAX / 16),
            Err(Error::OutOfMemory { .. })
        ));
        for value in 2..100 {
            push(&mut data, value).unwrap();
        }
        extend(&mut data, 100..110).unwrap();
        assert_eq!(data, (1..110).collect::<Vec<_>>());
    }

    struct Endless;

    impl Iterator for Endless {
        type Item = ();

        fn next(&mut self) -> Option<()> {
            None
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (usize::MAX, Some(usize::MAX))
        }
    }

    impl ExactSizeIterator for Endless {}
}
