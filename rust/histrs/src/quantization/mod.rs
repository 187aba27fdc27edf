//! Product quantisation: rows as a short code per block of columns, and linear learning on the codes.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::Array2;
//!
//! let exec = Executor::new(0)?;
//! let x = Array2::from_shape_fn((500, 8), |(i, d)| ((i * (d + 3)) as f64 * 0.618).fract());
//! let quantizer = Quantizer::fit(&exec, x.view(), 4, QuantizerParameters::default())?;
//! let index = quantizer.index(&exec, x.view())?; // of four bytes a row
//! let (rows, squared_distances) = index.nearest(&exec, x.view(), 5)?;
//! assert_eq!(rows.dim(), (500, 5));
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! The columns are cut into `M` blocks, each with a codebook of `D` codewords, and a row keeps the
//! number of the nearest codeword of each block. Read as a sparse feature, a row has `M` ones among
//! `M D` entries, so that its score is a sum of `M` table entries. Sources: Jégou, Douze and Schmid,
//! *Product quantization for nearest neighbor search*, PAMI 2011; Vedaldi and Zisserman, *Sparse
//! kernel approximations for efficient classification and detection*, CVPR 2012, section 3.
//!
//! | file | concept |
//! |---|---|
//! | `codes` | [`Code`]: the types a code may have |
//! | `metric` | [`Metric`]: what makes a codeword the nearest; distances of kernels are in `kernels` |
//! | `codebooks` | [`Codebooks`], laid out for the search |
//! | `decode` | [`decode`]: the codewords that codes stand for |
//! | `encode` | [`encode`]: the nearest codewords of all rows |
//! | `neighbors` | [`neighbors`]: the rows of least sums of table entries, for many queries |
//! | `quantizer` | [`Quantizer`]: codebooks that are learned; [`Index`]: rows that are searched |
//! | `rerank` | [`candidate_values`]: distances of queries and candidates among rows |
//! | `scores` | [`code_scores`]: sums of table entries, all classes in one pass |
//! | `sums` | [`code_sums`]: its transpose, the sums of the rows that share a code |

mod codebooks;
mod codes;
mod decode;
mod encode;
mod metric;
mod neighbors;
mod quantizer;
mod rerank;
mod scores;
mod sums;

pub use codebooks::Codebooks;
pub use codes::Code;
pub use decode::{decode, decode_into};
pub use encode::{encode, encode_into};
pub use metric::Metric;
pub use neighbors::{Neighbors, neighbors, neighbors_in_lists};
pub use quantizer::{Index, Quantizer, QuantizerParameters};
pub use rerank::candidate_values;
pub use scores::{code_scores, code_scores_into};
pub use sums::code_sums;
