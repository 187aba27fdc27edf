//! The one error type of the crate.

/// Result of every fallible function of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors, with the message of each beside it.
macro_rules! errors {
    ($(
        $(#[$meta:meta])*
        $variant:ident $({ $($(#[$of_field:meta])* $field:ident: $type:ty,)+ })? $(($what:ident: $inner:ty))?
        => $message:literal $(, $argument:ident = $value:expr)?;
    )+) => {
        /// Everything that can go wrong, with the index and the cure in the message.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$meta])* $variant $({ $($(#[$of_field])* $field: $type,)+ })? $(($inner))?,)+
        }

        impl std::fmt::Display for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),+ })? $(($what))? => {
                        write!(f, $message $(, $argument = $value)?)
                    })+
                }
            }
        }
    };
}

errors! {
    /// A histogram entry is below zero.
    Negative {
        /// Name of the argument.
        name: &'static str,
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    } => "{name}[{row}, {column}] = {value}: histograms are non-negative; clip the column at 0, or \
        shift it by its minimum";
    /// An entry is NaN or infinite.
    NotFinite {
        /// Name of the argument.
        name: &'static str,
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    } => "{name}[{row}, {column}] = {found}: Input {name} contains NaN or infinity; impute or drop \
        the row", found = display_non_finite(*value);
    /// The entries of a row have no finite sum.
    SumTooLarge {
        /// Name of the argument.
        name: &'static str,
        /// Its row.
        row: usize,
    } => "The entries of {name}[{row}] sum to more than their precision holds; divide all rows by \
        a scale";
    /// An entry of a matrix in a stack is NaN or infinite.
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
    } => "{name}[{matrix}, {row}, {column}] = {found}: Input {name} contains NaN or infinity; drop \
        the matrix, or compute it from samples without missing values",
        found = display_non_finite(*value);
    /// A matrix in a stack is not symmetric.
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
    } => "{name}[{matrix}] is not symmetric: {name}[{matrix}, {row}, {column}] = {value}, but \
        {name}[{matrix}, {column}, {row}] = {mirrored}; if the difference is rounding, pass the \
        mean of the matrix and its transpose";
    /// A matrix in a stack is not positive definite.
    NotPositiveDefinite {
        /// Name of the argument.
        name: &'static str,
        /// Number of the matrix in the stack.
        matrix: usize,
        /// Number of the first pivot that is not positive.
        pivot: usize,
        /// The pivot.
        value: f64,
    } => "{name}[{matrix}] is not positive definite: pivot {pivot} of its Cholesky factorisation \
        is {value:e}; give a covariance of more samples than rows, or shrink it";
    /// A matrix in a stack is singular, as far as rounding lets anyone tell.
    Singular {
        /// Name of the argument.
        name: &'static str,
        /// Number of the matrix in the stack.
        matrix: usize,
        /// Its numerical rank.
        rank: usize,
        /// Its number of rows.
        size: usize,
    } => "{name}[{matrix}] is not positive definite: it is singular, of rank {rank} in {size} \
        dimensions; shrink it, or project all matrices on their common range. (Signals that are \
        re-referenced to their average lose one rank. The rank is at most the number of samples.)";
    /// Two matrices differ by more than double precision resolves.
    TooFarApart {
        /// Number of the matrix in `X`.
        x: usize,
        /// Number of the matrix in `Y`.
        y: usize,
    } => "X[{x}] and Y[{y}] are too far apart, or too nearly singular, for double precision: the \
        eigenvalues of X^-1 Y span more than 16 decimal digits; shrink them";
    /// A matrix differs from a reference by more than double precision resolves.
    TooFarFromReference {
        /// Number of the matrix in `X`.
        matrix: usize,
    } => "X[{matrix}] is too far from the reference, or too nearly singular, for double precision; \
        shrink it";
    /// A value of a signal is NaN or infinite.
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
    } => "{name}[{trial}, {channel}, {time}] = {found}: Input {name} contains NaN or infinity; \
        drop trial {trial}, or interpolate channel {channel}", found = display_non_finite(*value);
    /// The squares of a signal overflow.
    SignalTooLarge {
        /// Number of the trial.
        trial: usize,
    } => "X[{trial}] has values whose squares overflow; divide the signals by a constant, as a \
        change of their unit does";
    /// Two arguments disagree about a length.
    Shape {
        /// Which length.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The value it must have.
        expected: usize,
        /// What to do about it.
        cure: &'static str,
    } => "{what} is {found}, expected {expected}: {cure}";
    /// The parts of a CSR matrix do not form a matrix.
    MalformedCsr(what: String) => "malformed CSR matrix: {what}; check the parts";
    /// More rows than the row index can count.
    TooManyRows {
        /// Number of rows.
        found: usize,
        /// The largest number of rows.
        limit: usize,
    } => "{found} rows are more than the {limit} that the row index can address; split the data";
    /// A code has no codeword.
    CodeOutOfRange {
        /// Row of the first offending code.
        row: usize,
        /// Its column: the block of columns it stands for.
        block: usize,
        /// The code.
        code: usize,
        /// Number of codewords.
        n_codes: usize,
    } => "codes[{row}, {block}] = {code}: there are {n_codes} codewords, numbered from 0; encode \
        the rows with the quantizer whose codebooks are used";
    /// A parameter or an argument is not what it may be.
    Parameter {
        /// Its name.
        name: &'static str,
        /// The value given.
        value: Value,
        /// What it must be.
        expected: &'static str,
    } => "{name} = {value}: {expected}", value = value.judged();
    /// A matrix is not laid out row after row.
    NotInRows {
        /// Name of the argument.
        name: &'static str,
    } => "{name} is not laid out row after row: pass a copy in C order";
    /// An entry of a cost matrix is negative or NaN.
    GroundDistance {
        /// Row of the first offending entry.
        row: usize,
        /// Column of the first offending entry.
        column: usize,
        /// The entry.
        value: f64,
    } => "M[{row}, {column}] = {value}: costs must not be negative, and are infinite where \
        transport is forbidden; replace the entry";
    /// Histograms have no barycentre.
    NoBarycenter {
        /// Row of the histogram.
        row: usize,
        /// The bin.
        bin: usize,
    } => "X[{row}] has mass in bin {bin}: M allows no move from there to a bin that all other rows \
        reach; make more entries of M finite";
    /// What has no meaning but for a symmetric cost matrix.
    NotSymmetricDistance {
        /// Row of the first offending entry.
        row: usize,
        /// Its column.
        column: usize,
    } => "M is not symmetric with a finite diagonal, at M[{row}, {column}]: a debiased barycentre \
        needs the same finite cost in both directions. Pass the mean of M and its transpose";
    /// A histogram has less mass than is to move.
    TooLittle {
        /// Name of the argument.
        name: &'static str,
        /// Its row.
        row: usize,
        /// Its sum.
        mass: f64,
        /// What is to move.
        expected: f64,
    } => "{name}[{row}] sums to {mass}, but mass = {expected}: give at most the smallest sum of a \
        row, or leave mass out to move the smaller mass of each pair";
    /// Histograms between which there is no transport.
    Mass {
        /// Name of the argument.
        name: &'static str,
        /// The first row of another mass.
        row: usize,
        /// Its mass.
        mass: f64,
        /// The mass of the first row of `X`.
        expected: f64,
    } => "{name}[{row}] sums to {mass}, and X[0] to {expected}: transport needs rows of one \
        positive sum; divide each row by its sum, and drop empty rows";
    /// `HISTRS_SIMD` has a value that is not known.
    SimdSetting(what: String) => "HISTRS_SIMD = {what:?} is not known: use \"auto\", \"avx512\", \
        \"avx2\" or \"scalar\", or unset it";
    /// `HISTRS_SIMD` names an instruction set that this machine does not have.
    SimdUnavailable {
        /// The instruction set asked for.
        name: String,
        /// Those that the machine has.
        available: String,
    } => "HISTRS_SIMD = {name:?} is not available: this machine has {available}; or unset it";
    /// There is not enough memory.
    OutOfMemory {
        /// Shape of the array that could not be made.
        shape: Vec<usize>,
        /// Its size.
        bytes: u128,
    } => "not enough memory for an array of shape {found}: it needs {bytes} bytes; work on fewer \
        rows at a time", found = display_shape(shape);
    /// A file that holds no model, or none that this version serves.
    NoModel(what: String) => "the file holds no model that can be served: {what}; save the model \
        again";
    /// Probabilities are asked of a model without classes.
    NoClasses => "the model is a regression, which has no probabilities; ask for predictions";
    /// A file that cannot be read.
    Unreadable {
        /// Where it should be.
        path: String,
        /// What the system said.
        reason: String,
    } => "{path} cannot be read: {reason}";
    /// The thread pool could not be made.
    Threads {
        /// Number of threads asked for.
        n_threads: usize,
        /// What the system said.
        reason: String,
    } => "could not start {n_threads} threads: {reason}";
    /// There is no such column.
    NoSuchColumn {
        /// Its number.
        column: usize,
        /// Number of columns.
        n_columns: usize,
    } => "column {column} of {n_columns}: columns are numbered from 0";
    /// The crate contradicts itself: a defect of it, or of memory that changed during a call.
    Internal(what: &'static str) => "internal error of histrs: {what}; if no other thread changed \
        the arguments during the call, please report it";
    /// The caller asked the work to stop.
    Interrupted => "interrupted";
}

impl std::error::Error for Error {}

/// The value of [`Error::Parameter`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A number.
    Real(f64),
    /// A whole number.
    Whole(i128),
    /// A name.
    Name(String),
}

impl Value {
    fn judged(&self) -> String {
        match self {
            Self::Real(value) => format!("{value} is out of range"),
            Self::Whole(value) => format!("{value} is out of range"),
            Self::Name(value) => format!("{value:?} is not known"),
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Name(value.into())
    }
}

macro_rules! whole {
    ($($t:ty)*) => {$(
        impl From<$t> for Value {
            fn from(value: $t) -> Self {
                Self::Whole(value as i128)
            }
        }
    )*};
}

whole! { i8 i32 i64 u16 usize }

impl Error {
    pub(crate) fn parameter(
        name: &'static str,
        value: impl Into<Value>,
        expected: &'static str,
    ) -> Self {
        Self::Parameter { name, value: value.into(), expected }
    }

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

/// Reads the variants of a type from their names; what is said of others.
macro_rules! from_name {
    ($type:ident, $what:literal, $expected:literal, $($name:literal => $value:ident $(($x:literal))?,)+) => {
        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(name: &str) -> $crate::Result<Self> {
                match name {
                    $($name => Ok(Self::$value $(($x))?),)+
                    _ => Err($crate::Error::parameter($what, name, $expected)),
                }
            }
        }
    };
}
pub(crate) use from_name;

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
