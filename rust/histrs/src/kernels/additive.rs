//! The kernels that are sums over the columns, by name.

use ndarray::Array2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::pairwise::pairwise;
use crate::simd::Element;

/// A kernel that is a sum over the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdditiveKernel {
    /// `min(x, y)`.
    Intersection,
    /// `2xy / (x + y)`.
    Chi2,
    /// `sqrt(x y)`.
    Hellinger,
    /// `(x log2((x + y) / x) + y log2((x + y) / y)) / 2`.
    JensenShannon,
}

/// Evaluates an expression with the type that has the forms of a kernel.
macro_rules! with_kernel {
    ($kernel:expr, |$k:ident| $body:expr) => {
        match $kernel {
            $crate::kernels::AdditiveKernel::Intersection => {
                let $k = $crate::kernels::Intersection;
                $body
            }
            $crate::kernels::AdditiveKernel::Chi2 => {
                let $k = $crate::kernels::Chi2;
                $body
            }
            $crate::kernels::AdditiveKernel::Hellinger => {
                let $k = $crate::kernels::Hellinger;
                $body
            }
            $crate::kernels::AdditiveKernel::JensenShannon => {
                let $k = $crate::kernels::JensenShannon;
                $body
            }
        }
    };
}
pub(crate) use with_kernel;

impl AdditiveKernel {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Intersection, Self::Chi2, Self::Hellinger, Self::JensenShannon];

    /// The name that it is parsed from.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intersection => "intersection",
            Self::Chi2 => "chi2",
            Self::Hellinger => "hellinger",
            Self::JensenShannon => "jensen_shannon",
        }
    }

    /// The kernel matrix `K[i, j] = sum_d k(x_i(d), y_j(d))`; `y = None` means `y = x` and computes
    /// each entry once.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` and `y` have different numbers of columns, [`Error::Negative`] or
    /// [`Error::NotFinite`] at the first bad entry.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::kernels::AdditiveKernel;
    /// use histrs::{Executor, HistogramMatrix};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[1.0, 4.0], [4.0, 9.0]];
    /// let x = HistogramMatrix::dense(x.view());
    /// let k = AdditiveKernel::Intersection.gram(&exec, &x, None)?;
    /// assert_eq!(k, array![[5.0, 5.0], [5.0, 13.0]]);
    /// let k = "hellinger".parse::<AdditiveKernel>()?.gram(&exec, &x, None)?;
    /// assert_eq!(k, array![[5.0, 8.0], [8.0, 13.0]]);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn gram<'a, T: Element>(
        self,
        exec: &Executor,
        x: &HistogramMatrix<'a, T>,
        y: Option<&HistogramMatrix<'a, T>>,
    ) -> Result<Array2<T>> {
        with_kernel!(self, |kernel| pairwise(exec, kernel, x, y))
    }
}

impl std::str::FromStr for AdditiveKernel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kernel| kernel.name() == name).ok_or_else(|| {
            Error::parameter(
                "kernel",
                name,
                "use \"intersection\", \"chi2\", \"hellinger\" or \"jensen_shannon\"",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_parsed_from_their_names_and_errors_list_all_of_them() {
        let error = "exp-chi2".parse::<AdditiveKernel>().unwrap_err().to_string();
        for kernel in AdditiveKernel::ALL {
            assert_eq!(kernel.name().parse::<AdditiveKernel>().unwrap(), kernel);
            assert!(error.contains(&format!("{:?}", kernel.name())), "{error}");
        }
    }
}
