//! `histrs._histrs`: the histrs crate for Python. It converts, calls, converts, and decides
//! nothing; the Python package validates and documents.

mod chi2;
mod clustering;
mod convert;
mod detection;
mod distances;
mod executor;
mod intersection;
mod kernels;
mod levels;
mod message;
mod model;
mod moments;
mod neighborhood;
mod quantization;
mod random_features;
mod sparse_maps;
mod spd;
mod svm;
mod transport;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _histrs {
    #[pymodule_export]
    use crate::chi2::{AdditiveMap, column_ranges};
    #[pymodule_export]
    use crate::clustering::{k_means, nearest_centers};
    #[pymodule_export]
    use crate::detection::{PartModel, distance_transform, hog_pyramid};
    #[pymodule_export]
    use crate::distances::{DistanceKernel, DistanceScores, StoredDistances};
    #[pymodule_export]
    use crate::executor::{instruction_set, instruction_sets, most_threads, start_threads};
    #[pymodule_export]
    use crate::intersection::columns::{CoordinateDescent, SortedColumns};
    #[pymodule_export]
    use crate::intersection::functions::{CubicFunctions, LookupTable, ShapeFunctions};
    #[pymodule_export]
    use crate::intersection::gram::{StoredMinima, check_histograms, row_sums};
    #[pymodule_export]
    use crate::intersection::preconditioning::{KnotProjection, LowRankInverse};
    #[pymodule_export]
    use crate::intersection::transform::{Transform, transform_rows};
    #[pymodule_export]
    use crate::kernels::{
        additive_chi2_gram, chi2_distances, cubic_spline_gram, exp_chi2_gram, hellinger_gram,
        intersection_gram, jensen_shannon_gram, minmax_distances, minmax_gram,
    };
    #[pymodule_export]
    use crate::levels::{LevelCounts, level_codes, level_forms, level_scores, level_sums};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::moments::group_lasso_path;
    #[pymodule_export]
    use crate::neighborhood::needed_prototypes;
    #[pymodule_export]
    use crate::quantization::{
        candidate_values, check_finite, quantization_decode, quantization_encode,
        quantization_neighbors, quantization_scores, quantization_scores_into, quantization_sums,
    };
    #[pymodule_export]
    use crate::random_features::ExpChi2Features;
    #[pymodule_export]
    use crate::sparse_maps::{SparseAdditiveMap, column_quantiles, sparse_codes};
    #[pymodule_export]
    use crate::spd::{
        airm_distances, airm_paired, compression_loss, dispersion_mean, jbld_distances,
        jbld_paired, signal_covariances, tangent_vectors,
    };
    #[pymodule_export]
    use crate::svm::{
        svm_epoch, svm_line_losses, svm_line_minima, svm_line_step, svm_scores, svm_simplex_maximum,
    };
    #[pymodule_export]
    use crate::transport::{
        check_masses, emd_distances, emd_pairs, emd_plan, histogram_compression_loss,
        relaxed_distances, sinkhorn_barycenters, sinkhorn_distances, sinkhorn_pairs,
    };

    #[pymodule_init]
    fn init(m: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods;
        m.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
