//! Object detection with deformable parts: histograms of oriented gradients (HOG), a root filter and
//! parts on springs, and scores that are sums of table entries over the codes of cells.
//!
//! ```
//! use histrs::{Executor, detection::{N_FEATURES, hog_pyramid}};
//! use ndarray::Array3;
//!
//! let image = Array3::from_shape_fn((64, 64, 1), |(y, x, _)| ((x / 8 + y / 8) % 2) as f32);
//! let pyramid = hog_pyramid(&Executor::new(0)?, image.view(), 8, &[1.0, 0.5], 0)?;
//! assert_eq!(pyramid.shapes.len(), 2);
//! assert_eq!(pyramid.cells.ncols(), N_FEATURES);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! A level of a pyramid is a grid of cells. Each is described by 31 numbers `x`, or by their
//! product quantisation code: the number of a codeword for each of `M` blocks of the 31. A filter
//! of `h x w` cells scores a location `p` by `sum_t <w_t, x(p + t)>`; of codes that is
//! `sum_t sum_m table[t, m, code_m(p + t)]`, without a look at the codewords. A model of `n` parts
//! scores a location of its root, at the level below by an octave twice as finely, by
//!
//! ```text
//! s(p) = bias + root(p) + sum_i max_q [ part_i(q) - b . (q - 2p - anchor_i) - a . (q - 2p - anchor_i)^2 ]
//! ```
//!
//! Sources: Vedaldi and Zisserman, *Sparse kernel approximations for efficient classification and
//! detection*, CVPR 2012, section 5.2. Felzenszwalb, Girshick, McAllester and Ramanan, *Object
//! detection with discriminatively trained part-based models*, PAMI 2010. Felzenszwalb and
//! Huttenlocher, *Distance transforms of sampled functions*, 2012. "DPM" below is the second.
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `image` | an image, checked; its sizes at smaller scales | |
//! | `gradients` | gradients, snapped to 18 directions, in cells | DPM eq. 21 to 22 |
//! | `hog` | [`hog_pyramid`]: the 31 features of each cell, at many scales | DPM section 6 |
//! | `distance` | [`distance_transform`]: the best location of a part on a spring | DPM eq. 9 |
//! | `filter` | [`Filter`]: weights of features, or tables of codes; [`Cells`]; scores of a level | SPARSE section 5.2 |
//! | `model` | [`PartModel`]: roots, parts, springs | DPM eq. 2 to 4 |
//! | `placements` | [`placements`]: the locations that score above a threshold | DPM eq. 6 to 10 |
//!
//! Features and scores are sums of at most some thousands of terms in single precision. Their order
//! does not depend on threads or on the instruction set. Distance transforms are in double
//! precision.

mod distance;
mod filter;
mod gradients;
mod hog;
mod image;
mod model;
mod placements;

pub use distance::distance_transform;
pub use filter::{Cells, Filter};
pub use hog::{N_FEATURES, Pyramid, hog_pyramid};
pub use model::{Part, PartModel};
pub use placements::{Placements, placements};
