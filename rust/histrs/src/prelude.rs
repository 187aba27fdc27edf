//! What most programs use: `use histrs::prelude::*;`.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let exec = Executor::new(0)?;
//! let x = array![[1.0, 2.0], [3.0, 0.0]];
//! let x = HistogramMatrix::dense(x.view());
//! assert_eq!(AdditiveKernel::Intersection.gram(&exec, &x, None)?, array![[3.0, 1.0], [1.0, 3.0]]);
//! # Ok::<(), histrs::Error>(())
//! ```

#[cfg(feature = "clustering")]
pub use crate::clustering::{KMeansParameters, k_means};
pub use crate::exec::Executor;
#[cfg(feature = "intersection")]
pub use crate::intersection::{Interpolation, LookupTable, ShapeFunctions, Solve, SortedColumns};
#[cfg(feature = "kernels")]
pub use crate::kernels::AdditiveKernel;
pub use crate::matrix::{CsrView, HistogramMatrix};
#[cfg(feature = "model")]
pub use crate::model::{Model, Scratch};
#[cfg(feature = "quantization")]
pub use crate::quantization::{Quantizer, QuantizerParameters};
#[cfg(feature = "spd")]
pub use crate::spd::{Dispersion, MeanParameters, airm_distances, dispersion_mean, jbld_distances};
pub use crate::stop::Stop;
#[cfg(feature = "transport")]
pub use crate::transport::{Sinkhorn, emd_distances, sinkhorn_distances};
