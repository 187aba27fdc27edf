//! The one error type of the crate.

/// Result of every fallible function of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, with the place and the cure in the message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A histogram entry is below zero.
    #[error(
        "Negative values in data passed to histrs: {name}[{row}, {column}] = {value}: histograms are \
         non-negative; clip the column at 0, or shift it by its minimum"
    )]
    Negative {
        /// Name of the argument.
        name: &'static str,
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    },
    /// An entry is NaN or infinite.
    #[error("{name}[{row}, {column}] = {}: Input {name} contains NaN or infinity; impute or drop the row", display_non_finite(*.value))]
    NotFinite {
        /// Name of the argument.
        name: &'static str,
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    },
    /// Two arguments disagree about a length.
    #[error("{what} is {found}, expected {expected}: {cure}")]
    Shape {
        /// Which length.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The value it must have.
        expected: usize,
        /// What to do about it.
        cure: &'static str,
    },
    /// The parts of a CSR matrix do not form a matrix.
    #[error("malformed CSR matrix: {0}; build it with scipy.sparse.csr_matrix or check the parts")]
    MalformedCsr(String),
    /// More rows than the row index can count.
    #[error(
        "{found} rows are more than the {limit} that the row index can address; split the data"
    )]
    TooManyRows {
        /// Number of rows.
        found: usize,
        /// The largest number of rows.
        limit: usize,
    },
    /// A parameter is outside its range.
    #[error("{name} = {value} is out of range: {expected}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The range it must lie in.
        expected: &'static str,
    },
    /// `HISTRS_SIMD` has a value that is not known.
    #[error("HISTRS_SIMD = {0:?} is not known: use \"auto\" or \"scalar\", or unset it")]
    SimdSetting(String),
    /// The thread pool could not be made.
    #[error("could not start {n_threads} threads: {reason}")]
    Threads {
        /// Number of threads asked for.
        n_threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The caller asked the work to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What [`check_length`] complains about where results do not fit, and the cure.
pub(crate) const OUTPUT: &str = "the length of the output";
pub(crate) const GIVE_WHOLE_ROWS: &str = "give one entry for each feature of each row";

/// Fails unless a length is the one expected.
pub(crate) fn check_length(
    what: &'static str,
    found: usize,
    expected: usize,
    cure: &'static str,
) -> Result<()> {
    if found == expected { Ok(()) } else { Err(Error::Shape { what, found, expected, cure }) }
}

fn display_non_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "infinity"
    } else {
        "-infinity"
    }
}
