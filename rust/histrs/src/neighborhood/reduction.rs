//! The reduced nearest-neighbour rule: which prototypes are needed.

use ndarray::{ArrayView1, ArrayView2};

use super::Labels;
use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::simd::Element;

/// Rows of a block: the unit of parallel work.
const ROWS: usize = 1 << 10;

/// Returns which prototypes are left. From the first on, a prototype is dropped if without it
/// samples of no less weight are classified right by the nearest of the others.
///
/// `distances[i, j]` is that of sample `i` to prototype `j`; of prototypes that are equally near the
/// first is taken. The last prototype is never dropped.
///
/// ```
/// use histrs::{Executor, neighborhood::{Labels, needed_prototypes}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let distances = array![[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]];
/// let labels = Labels::new(&[0, 0, 1], &[0, 0, 1]);
/// // Either of the first two is enough for both of their samples.
/// let needed = needed_prototypes(&exec, distances.view(), labels)?;
/// assert_eq!(needed, [false, true, true]);
/// # Ok::<(), histrs::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when there are not as many labels as rows and columns, or
/// weights as rows.
pub fn needed_prototypes<T: Element>(
    exec: &Executor,
    distances: ArrayView2<'_, T>,
    labels: Labels<'_>,
) -> Result<Vec<bool>> {
    let Labels { of_rows, of_prototypes, weights } = labels;
    let (n_rows, n_prototypes) = distances.dim();
    let cure = "give one label a sample";
    check_length("the number of labels of the rows", of_rows.len(), n_rows, cure)?;
    let of_columns = of_prototypes.len();
    check_length("the number of labels of the columns", of_columns, n_prototypes, cure)?;
    if let Some(weights) = weights {
        let cure = "give a weight for each row";
        check_length("the number of weights", weights.len(), n_rows, cure)?;
    }
    let mut kept = memory::filled(true, n_prototypes)?;
    let mut nearest = memory::filled(0_usize, n_rows)?;
    exec.for_chunks(&mut nearest, ROWS, |block, nearest| {
        for (i, nearest) in (block * ROWS..).zip(nearest) {
            *nearest = first_nearest(distances.row(i), |_| true).unwrap_or(0);
        }
        Ok(())
    })?;
    let mut cell: Vec<(usize, usize)> = memory::with_capacity(n_rows)?;
    for j in 0..n_prototypes {
        if kept.iter().filter(|&&kept| kept).count() == 1 {
            break;
        }
        cell.clear();
        cell.extend((0..n_rows).filter(|&i| nearest[i] == j).map(|i| (i, j)));
        exec.for_chunks(&mut cell, ROWS, |_, cell| {
            for (i, heir) in cell {
                let is_other = |k: usize| kept[k] && k != j;
                *heir = first_nearest(distances.row(*i), is_other).unwrap_or(j);
            }
            Ok(())
        })?;
        let right = |of: &dyn Fn(usize) -> usize| -> f64 {
            let is_right = |&&(i, heir): &&(usize, usize)| of_prototypes[of(heir)] == of_rows[i];
            cell.iter().filter(is_right).map(|&(i, _)| weights.map_or(1.0, |w| w[i])).sum()
        };
        if right(&|heir| heir) >= right(&|_| j) {
            kept[j] = false;
            for &(i, heir) in &cell {
                nearest[i] = heir;
            }
        }
    }
    Ok(kept)
}

/// The first of the least distances among those to some prototypes.
fn first_nearest<T: Element>(
    distances: ArrayView1<'_, T>,
    among: impl Fn(usize) -> bool,
) -> Option<usize> {
    let mut nearest: Option<(usize, T)> = None;
    for (j, &distance) in distances.iter().enumerate() {
        if among(j) && nearest.is_none_or(|(_, least)| distance < least) {
            nearest = Some((j, distance));
        }
    }
    nearest.map(|(j, _)| j)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    fn needed(n_threads: usize, distances: &Array2<f64>, labels: Labels<'_>) -> Vec<bool> {
        let exec = Executor::new(n_threads).unwrap();
        needed_prototypes(&exec, distances.view(), labels).unwrap()
    }

    #[test]
    fn threads_change_nothing() {
        let (n, m) = (3 * ROWS + 1, 17);
        let entry = |i: usize, j: usize| ((i * 31 + j * 17) % 23) as f64;
        let distances = Array2::from_shape_fn((n, m), |(i, j)| entry(i, j));
        let classes = |n: usize| (0..n as i64).map(|i| i * i % 3).collect::<Vec<_>>();
        let (of_rows, of_prototypes) = (classes(n), classes(m));
        let weights: Vec<f64> = (0..n).map(|i| 0.1 * (i % 7) as f64).collect();
        let labels =
            Labels { of_rows: &of_rows, of_prototypes: &of_prototypes, weights: Some(&weights) };
        let one = needed(1, &distances, labels);
        assert!(one.contains(&true) && one.contains(&false));
        for n_threads in [2, 7] {
            assert_eq!(needed(n_threads, &distances, labels), one);
        }
    }

    #[test]
    fn the_last_is_kept_and_lengths_are_checked() {
        let none = Labels { of_rows: &[], of_prototypes: &[1, 1], weights: None };
        assert_eq!(needed(1, &Array2::zeros((0, 2)), none), [false, true]);
        let exec = Executor::new(1).unwrap();
        let distances = Array2::<f64>::zeros((2, 2));
        for (rows, columns, weights) in [(1, 2, 2), (2, 1, 2), (2, 2, 1)] {
            let (classes, weights) = ([0; 2], &[1.0; 2][..weights]);
            let labels = Labels {
                of_rows: &classes[..rows],
                of_prototypes: &classes[..columns],
                weights: Some(weights),
            };
            assert!(needed_prototypes(&exec, distances.view(), labels).is_err());
        }
    }
}
