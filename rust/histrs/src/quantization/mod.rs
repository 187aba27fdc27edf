//! Product quantisation: rows as a short code per block of columns, and linear learning on the codes.
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
//! | `decode` | [`decode_into`]: the codewords that codes stand for |
//! | `encode` | [`encode_into`]: the nearest codewords of all rows |
//! | `neighbors` | [`neighbors`]: the rows of least sums of table entries, for many queries |
//! | `rerank` | [`candidate_values`]: distances of queries and candidates among rows |
//! | `scores` | [`code_scores_into`]: sums of table entries, all classes in one pass |
//! | `sums` | [`code_sums`]: its transpose, the sums of the rows that share a code |

mod codebooks;
mod codes;
mod decode;
mod encode;
mod metric;
mod neighbors;
mod rerank;
mod scores;
mod sums;

pub use codebooks::Codebooks;
pub use codes::Code;
pub use decode::decode_into;
pub use encode::encode_into;
pub use metric::Metric;
pub use neighbors::{Neighbors, neighbors, neighbors_in_lists};
pub use rerank::candidate_values;
pub use scores::code_scores_into;
pub use sums::code_sums;
