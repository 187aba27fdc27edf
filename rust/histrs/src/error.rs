//! The one error type of the crate.

/// Result of every fallible function of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, with the index and the cure in the message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A histogram entry is below zero.
    #[error(
        "{name}[{row}, {column}] = {value}: histograms are non-negative; clip the column at 0, or \
         shift it by its minimum"
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
    /// The entries of a row have no finite sum.
    #[error(
        "The entries of {name}[{row}] sum to more than their precision holds; divide all rows by a scale"
    )]
    SumTooLarge {
        /// Name of the argument.
        name: &'static str,
        /// Its row.
        row: usize,
    },
    /// An entry of a matrix in a stack is NaN or infinite.
    #[error("{name}[{matrix}, {row}, {column}] = {}: Input {name} contains NaN or infinity; drop the matrix, or compute it from samples without missing values", display_non_finite(*.value))]
    MatrixNotFinite {
        /// Name of the argument.
        name: &'static str,
        /// Number of the matrix in the stack.
        matrix: usize,
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    },
    /// A matrix in a stack is not symmetric.
    #[error(
        "{name}[{matrix}] is not symmetric: {name}[{matrix}, {row}, {column}] = {value}, but \
         {name}[{matrix}, {column}, {row}] = {mirrored}; if the difference is rounding, pass the mean \
         of the matrix and its transpose"
    )]
    NotSymmetric {
        /// Name of the argument.
        name: &'static str,
        /// Number of the matrix in the stack.
        matrix: usize,
        /// Row of the first offending entry.
        row: usize,
        /// Its column.
        column: usize,
        /// The entry.
        value: f64,
        /// The entry across the diagonal.
        mirrored: f64,
    },
    /// A matrix in a stack is not positive definite.
    #[error(
        "{name}[{matrix}] is not positive definite: pivot {pivot} of its Cholesky factorisation is \
         {value:e}; give a covariance of more samples than rows, or shrink it"
    )]
    NotPositiveDefinite {
        /// Name of the argument.
        name: &'static str,
        /// Number of the matrix in the stack.
        matrix: usize,
        /// Number of the first pivot that is not positive.
        pivot: usize,
        /// The pivot.
        value: f64,
    },
    /// A matrix in a stack is singular, as far as rounding lets anyone tell.
    #[error(
        "{name}[{matrix}] is not positive definite: it is singular, of rank {rank} in {size} \
         dimensions; shrink it, or project all matrices on their common range (signals re-referenced \
         to their average lose one rank, and fewer samples than rows have no more than samples)"
    )]
    Singular {
        /// Name of the argument.
        name: &'static str,
        /// Number of the matrix in the stack.
        matrix: usize,
        /// Its numerical rank.
        rank: usize,
        /// Its number of rows.
        size: usize,
    },
    /// Two matrices differ by more than double precision resolves.
    #[error(
        "X[{x}] and Y[{y}] are too far apart, or too nearly singular, for double precision: the \
         eigenvalues of X^-1 Y span more than 16 decimal digits; shrink them"
    )]
    TooFarApart {
        /// Number of the matrix in `X`.
        x: usize,
        /// Number of the matrix in `Y`.
        y: usize,
    },
    /// A matrix differs from a reference by more than double precision resolves.
    #[error(
        "X[{matrix}] is too far from the reference, or too nearly singular, for double precision; \
         shrink it"
    )]
    TooFarFromReference {
        /// Number of the matrix in `X`.
        matrix: usize,
    },
    /// A value of a signal is NaN or infinite.
    #[error("{name}[{trial}, {channel}, {time}] = {}: Input {name} contains NaN or infinity; drop trial {trial}, or interpolate channel {channel}", display_non_finite(*.value))]
    SignalNotFinite {
        /// Name of the argument.
        name: &'static str,
        /// Number of the trial.
        trial: usize,
        /// Number of the channel.
        channel: usize,
        /// Place in the signal.
        time: usize,
        /// The value.
        value: f64,
    },
    /// The squares of a signal overflow.
    #[error(
        "X[{trial}] has values whose squares overflow; divide the signals by a constant, as a \
         change of their unit does"
    )]
    SignalTooLarge {
        /// Number of the trial.
        trial: usize,
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
    #[error("malformed CSR matrix: {0}; check the parts")]
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
    /// A code has no codeword.
    #[error(
        "codes[{row}, {block}] = {code}: there are {n_codes} codewords, numbered from 0; encode the \
         rows with the quantizer whose codebooks are used"
    )]
    CodeOutOfRange {
        /// Row of the first offending code.
        row: usize,
        /// Its column: the block of columns it stands for.
        block: usize,
        /// The code.
        code: usize,
        /// Number of codewords.
        n_codes: usize,
    },
    /// A parameter has a name that is not known.
    #[error("{name} = {value:?} is not known: use {known}")]
    Unknown {
        /// Name of the parameter.
        name: &'static str,
        /// The value given.
        value: String,
        /// The values that are known.
        known: &'static str,
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
    /// A whole number is not what it must be.
    #[error("{name} = {value} is out of range: {expected}")]
    Number {
        /// Name of the argument.
        name: &'static str,
        /// The value given.
        value: i128,
        /// What it must be.
        expected: &'static str,
    },
    /// A matrix is not laid out row after row.
    #[error("{name} is not laid out row after row: pass a copy in C order")]
    NotInRows {
        /// Name of the argument.
        name: &'static str,
    },
    /// An entry of a cost matrix is negative or NaN.
    #[error(
        "M[{row}, {column}] = {value}: costs must not be negative, and are infinite where \
         transport is forbidden; replace the entry"
    )]
    GroundDistance {
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    },
    /// Histograms have no barycentre.
    #[error(
        "X[{row}] has mass in bin {bin}: M allows no move from there to a bin that all other rows reach; \
         make more entries of M finite"
    )]
    NoBarycenter {
        /// Row of the histogram.
        row: usize,
        /// The bin.
        bin: usize,
    },
    /// What has no meaning but for a symmetric cost matrix.
    #[error(
        "M is not symmetric with a finite diagonal, at M[{row}, {column}]: a debiased barycentre needs \
         the same finite cost in both directions; pass the mean of M and its transpose"
    )]
    NotSymmetricDistance {
        /// Row of the first offending entry.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// A histogram has less mass than is to move.
    #[error(
        "{name}[{row}] sums to {mass}, but mass = {expected}: give at most the smallest sum of a \
         row, or leave mass out to move the smaller mass of each pair"
    )]
    TooLittle {
        /// Name of the argument.
        name: &'static str,
        /// Its row.
        row: usize,
        /// Its sum.
        mass: f64,
        /// What is to move.
        expected: f64,
    },
    /// Histograms between which there is no transport.
    #[error(
        "{name}[{row}] sums to {mass}, and X[0] to {expected}: transport needs rows of one \
         positive sum; divide each row by its sum, and drop empty rows"
    )]
    Mass {
        /// Name of the argument.
        name: &'static str,
        /// The first row of another mass.
        row: usize,
        /// Its mass.
        mass: f64,
        /// The mass of the first row of `X`.
        expected: f64,
    },
    /// `HISTRS_SIMD` has a value that is not known.
    #[error(
        "HISTRS_SIMD = {0:?} is not known: use \"auto\", \"avx512\", \"avx2\" or \"scalar\", or \
         unset it"
    )]
    SimdSetting(String),
    /// `HISTRS_SIMD` names an instruction set that this machine does not have.
    #[error("HISTRS_SIMD = {name:?} is not available: this machine has {available}; or unset it")]
    SimdUnavailable {
        /// The instruction set asked for.
        name: String,
        /// Those that the machine has.
        available: String,
    },
    /// There is not enough memory.
    #[error(
        "not enough memory for an array of shape {}: it needs {bytes} bytes; work on fewer rows at \
         a time",
        display_shape(shape)
    )]
    OutOfMemory {
        /// Shape of the array that could not be made.
        shape: Vec<usize>,
        /// Its size.
        bytes: u128,
    },
    /// A file that holds no model, or none that this version serves.
    #[error("the file holds no model that can be served: {0}; save the model again")]
    NoModel(String),
    /// Probabilities are asked of a model without classes.
    #[error("the model is a regression, which has no probabilities; ask for predictions")]
    NoClasses,
    /// A file that cannot be read.
    #[error("{path} cannot be read: {reason}")]
    Unreadable {
        /// Where it should be.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// The thread pool could not be made.
    #[error("could not start {n_threads} threads: {reason}")]
    Threads {
        /// Number of threads asked for.
        n_threads: usize,
        /// What the system said.
        reason: String,
    },
    /// There is no such column.
    #[error("column {column} of {n_columns}: columns are numbered from 0")]
    NoSuchColumn {
        /// Its number.
        column: usize,
        /// Number of columns.
        n_columns: usize,
    },
    /// The crate contradicts itself: a defect of it, or of memory that changed during a call.
    #[error(
        "internal error of histrs: {0}; if no other thread changed the arguments during the call, \
         please report it"
    )]
    Internal(&'static str),
    /// The caller asked the work to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The error of an array of `T` that memory was refused for.
    #[must_use]
    pub fn out_of_memory<T>(shape: &[usize]) -> Self {
        Self::no_room(shape, size_of::<T>())
    }

    /// The same, compiled once for all types.
    fn no_room(shape: &[usize], size: usize) -> Self {
        let bytes = shape.iter().fold(size as u128, |n, &k| n.saturating_mul(k as u128));
        Self::OutOfMemory { shape: shape.to_vec(), bytes }
    }
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

/// A shape as a tuple.
fn display_shape(shape: &[usize]) -> String {
    match shape {
        [n] => format!("({n},)"),
        _ => format!("({})", shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")),
    }
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
