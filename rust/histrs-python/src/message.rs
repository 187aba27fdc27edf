//! What errors say to users of the Python package: where they are, and which call mends them.

use histrs::Error;

/// What scikit-learn asks estimators that take no negative values to say.
const NEGATIVE: &str = "Negative values in data passed to histrs: ";
/// What makes singular covariances definite.
const SHRINK: &str = "covariance_descriptors(..., shrinkage=\"oas\")";

/// The crate's message, with the names of this package and of NumPy and SciPy.
pub(crate) fn message(error: &Error) -> String {
    match error {
        Error::Negative { .. } => format!("{NEGATIVE}{error}"),
        Error::NotSymmetric { name, .. } => {
            format!("{error}: ({name} + {name}.swapaxes(1, 2)) / 2")
        }
        Error::NotPositiveDefinite { .. } => {
            format!("{error}: by {SHRINK}, or pass it through spd.project_to_spd")
        }
        Error::Singular { .. } => {
            format!("{error}: see {SHRINK}, spd.project_to_spd and spd.CommonRange")
        }
        Error::TooFarApart { .. } | Error::TooFarFromReference { .. } => {
            format!("{error}: by {SHRINK}, or spd.project_to_spd with a larger floor")
        }
        Error::MalformedCsr(_) => format!("{error}, or build it with scipy.sparse.csr_matrix"),
        Error::NotInRows { name } => format!("{error}, numpy.ascontiguousarray({name})"),
        _ => error.to_string(),
    }
}
