//! The loop over lines that all vector instructions share.

/// A function of four rows and any number of rows, whose lines are read as `$parts` vectors.
/// `$step` adds the minima of two vectors to an accumulator, and `$totals` adds up the lanes of
/// accumulators. Those of `$width` of the rows of `y` are in registers at a time.
macro_rules! strip {
    ($name:ident, $features:literal, $vector:ty, $parts:literal, $width:literal, $totals:ident,
     $zero:ident, $step:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn $name(x: Rows<'_>, y: &[Line], sums: &mut [f64]) {
            let n_lines = x.iter().map(|row| row.len()).min().unwrap_or(0);
            if n_lines == 0 {
                return;
            }
            let x = x.map(|row| &row[..n_lines]);
            let stride = sums.len() / TILE;
            for (tile, y) in y.chunks_exact(TILE * n_lines).enumerate() {
                let y: Rows<'_> = core::array::from_fn(|j| &y[j * n_lines..(j + 1) * n_lines]);
                for start in (0..n_lines).step_by(CHUNK) {
                    let end = n_lines.min(start + CHUNK);
                    for first in (0..TILE).step_by($width) {
                        let mut acc = [[$zero(); $width]; TILE];
                        for k in start..end {
                            for part in 0..$parts {
                                // SAFETY: a line has so many parts.
                                let x = unsafe {
                                    [
                                        vector(&x[0][k], part),
                                        vector(&x[1][k], part),
                                        vector(&x[2][k], part),
                                        vector(&x[3][k], part),
                                    ]
                                };
                                for j in 0..$width {
                                    // SAFETY: as above.
                                    let y = unsafe { vector(&y[first + j][k], part) };
                                    for i in 0..TILE {
                                        acc[i][j] = $step(acc[i][j], x[i], y);
                                    }
                                }
                            }
                        }
                        let totals: [[i32; $width]; TILE] = $totals(acc);
                        for (i, totals) in totals.into_iter().enumerate() {
                            let start = i * stride + tile * TILE + first;
                            for (sum, total) in sums[start..start + $width].iter_mut().zip(totals) {
                                *sum += f64::from(total);
                            }
                        }
                    }
                }
            }
            return;

            /// A part of a line.
            ///
            /// # Safety
            ///
            /// There are `$parts`, 64 bytes together.
            #[inline(always)]
            unsafe fn vector(line: &Line, part: usize) -> $vector {
                const { assert!(size_of::<$vector>() * $parts == size_of::<Line>()) };
                // SAFETY: plain numbers within the line, read from wherever they are.
                unsafe { core::ptr::read_unaligned(line.as_ptr().cast::<$vector>().add(part)) }
            }
        }
    };
}
