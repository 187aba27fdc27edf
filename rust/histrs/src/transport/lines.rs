//! Lines of a grid along one of its axes, and products that act on one axis after the other.

use std::ops::Range;

use crate::error::Result;
use crate::simd::Element;
use crate::transport::product::{Packed, padded};

/// Numbers of a row of lines that are taken together: short rows would be all beginning and end.
const TOGETHER: usize = 64;

/// The lines along an axis, of cells in C order whose numbers lie side by side in lanes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    /// Cells of a line, and how far apart they are.
    pub(super) length: usize,
    step: usize,
    /// Number of lines.
    pub(super) count: usize,
}

impl Lines {
    /// Those along an axis of a grid with so many cells along each.
    pub(super) fn along(axis: usize, lengths: &[usize]) -> Self {
        let (length, step) = (lengths[axis], lengths[axis + 1..].iter().product());
        let outer: usize = lengths[..axis].iter().product();
        Self { length, step, count: outer * step }
    }

    /// Lines that are taken together, of so many lanes each.
    pub(super) fn together(self, width: usize) -> usize {
        (TOGETHER / width.max(1)).clamp(1, self.count.max(1))
    }

    /// As many lines, one group after the other.
    pub(super) fn groups(self, width: usize) -> impl Iterator<Item = Range<usize>> {
        let size = self.together(width);
        (0..self.count).step_by(size).map(move |first| first..self.count.min(first + size))
    }

    fn rows(self, line: usize) -> impl Iterator<Item = usize> {
        let first = line / self.step * self.length * self.step + line % self.step;
        (0..self.length).map(move |k| first + k * self.step)
    }

    /// Copies the first lanes of some lines to where they lie dense, side by side.
    pub(super) fn gather<T: Copy>(
        self,
        lines: Range<usize>,
        x: &[T],
        stride: usize,
        out: &mut [T],
    ) {
        let row_len = out.len() / self.length.max(1);
        let width = row_len / lines.len();
        for (index, line) in lines.enumerate() {
            for (row, out) in self.rows(line).zip(out.chunks_exact_mut(row_len.max(1))) {
                out[index * width..][..width].copy_from_slice(&x[row * stride..][..width]);
            }
        }
    }

    /// Copies dense lines to the first lanes of their places.
    pub(super) fn scatter<T: Copy>(
        self,
        lines: Range<usize>,
        x: &[T],
        stride: usize,
        out: &mut [T],
    ) {
        let row_len = x.len() / self.length.max(1);
        let width = row_len / lines.len();
        for (index, line) in lines.enumerate() {
            for (row, x) in self.rows(line).zip(x.chunks_exact(row_len.max(1))) {
                out[row * stride..][..width].copy_from_slice(&x[index * width..][..width]);
            }
        }
    }
}

/// The Kronecker product of matrices: a single one, or square ones that act on an axis each.
pub(super) struct Factors<T> {
    factors: Vec<Packed<T>>,
}

impl<T> From<Packed<T>> for Factors<T> {
    fn from(single: Packed<T>) -> Self {
        Self { factors: vec![single] }
    }
}

impl<T: Element> Factors<T> {
    pub(super) fn new(factors: impl Iterator<Item = Result<Packed<T>>>) -> Result<Self> {
        Ok(Self { factors: factors.collect::<Result<_>>()? })
    }

    pub(super) fn n_rows(&self) -> usize {
        self.factors.iter().map(Packed::n_rows).product()
    }

    pub(super) fn n_columns(&self) -> usize {
        self.factors.iter().map(Packed::n_columns).product()
    }

    /// As [`Packed::product`], axis by axis.
    pub(super) fn product(&self, x: &[T], out: &mut [T], stride: usize, width: usize) {
        if let [single] = &self.factors[..] {
            return single.product(x, out, stride, width);
        }
        let lengths: Vec<usize> = self.factors.iter().map(Packed::n_rows).collect();
        for (x, out) in x.chunks_exact(stride).zip(out.chunks_exact_mut(stride)) {
            out[..width].copy_from_slice(&x[..width]);
        }
        for (axis, factor) in self.factors.iter().enumerate() {
            let lines = Lines::along(axis, &lengths);
            let most = lines.together(width) * width;
            let mut dense = vec![T::default(); lines.length * most];
            let mut image = vec![T::default(); padded(lines.length) * most];
            for group in lines.groups(width) {
                let row_len = group.len() * width;
                let dense = &mut dense[..lines.length * row_len];
                lines.gather(group.clone(), out, stride, dense);
                factor.product(dense, &mut image, row_len, row_len);
                lines.scatter(group, &image[..dense.len()], stride, out);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn factors_act_on_one_axis_after_the_other() {
        for lengths in [vec![3], vec![2, 7], vec![7, 1, 3], vec![2, 3, 2]] {
            let n: usize = lengths.iter().product();
            let of_axis = |axis: usize, i: usize, j: usize| ((i * 5 + j * 3 + axis) % 7) as f64;
            let entry = |mut i: usize, mut j: usize| {
                let mut product = 1.0;
                for (axis, &length) in lengths.iter().enumerate().rev() {
                    product *= of_axis(axis, i % length, j % length);
                    (i, j) = (i / length, j / length);
                }
                product
            };
            let packed = lengths.iter().enumerate();
            let packed = packed.map(|(axis, &m)| Packed::new(m, m, |i, j| of_axis(axis, i, j)));
            let factors = Factors::<f64>::new(packed).unwrap();
            assert_eq!((factors.n_rows(), factors.n_columns()), (n, n));
            let (stride, width) = (32, 16);
            let x: Vec<f64> = (0..n * stride).map(|i| (i % 13) as f64 - 6.0).collect();
            let mut out = vec![f64::NAN; padded(n) * stride];
            factors.product(&x, &mut out, stride, width);
            for i in 0..n {
                for lane in 0..width {
                    let sum: f64 = (0..n).map(|k| entry(i, k) * x[k * stride + lane]).sum();
                    assert_eq!(out[i * stride + lane], sum);
                }
            }
        }
    }
}
