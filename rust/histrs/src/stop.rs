//! When an iteration ends.

/// Makes functions that change a field each.
macro_rules! with_fields {
    ($type:ident $(<$life:lifetime>)?: $($with:ident($field:ident: $of:ty)),+) => {
        impl $(<$life>)? $type $(<$life>)? {
            $(
                #[doc = concat!("With another [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub const fn $with(self, $field: $of) -> Self {
                    Self { $field, ..self }
                }
            )+
        }
    };
}
pub(crate) use with_fields;

/// When an iteration ends: at a tolerance, whose meaning its parameters say, or after some passes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Stop {
    /// What is small enough.
    pub tol: f64,
    /// Most iterations.
    pub max_iter: usize,
}

impl Stop {
    /// At this tolerance, or after so many iterations.
    #[must_use]
    pub const fn new(tol: f64, max_iter: usize) -> Self {
        Self { tol, max_iter }
    }
}

with_fields!(Stop: with_tol(tol: f64), with_max_iter(max_iter: usize));

/// Parameters that have a [`Stop`] change it as it changes itself.
macro_rules! with_stop {
    ($parameters:ident $(<$life:lifetime>)?) => {
        impl $(<$life>)? $parameters $(<$life>)? {
            /// With another tolerance, see [`stop`](Self::stop).
            #[must_use]
            pub const fn with_tol(self, tol: f64) -> Self {
                Self { stop: self.stop.with_tol(tol), ..self }
            }

            /// With another number of iterations at most.
            #[must_use]
            pub const fn with_max_iter(self, max_iter: usize) -> Self {
                Self { stop: self.stop.with_max_iter(max_iter), ..self }
            }
        }
    };
}
pub(crate) use with_stop;
