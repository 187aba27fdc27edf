//! `histrs._histrs`: the histrs crate for Python. It converts, enters, converts, and decides
//! nothing; the Python package validates and documents.

mod convert;
mod door;
mod intersection;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _histrs {
    #[pymodule_export]
    use crate::door::{instruction_set, start_threads};
    #[pymodule_export]
    use crate::intersection::{
        KnotProjection, LookupTable, ShapeFunctions, SortedColumns, Transform, check_histograms,
        intersection_gram, row_sums, transform_rows,
    };

    #[pymodule_init]
    fn init(m: &super::Bound<'_, super::PyModule>) -> super::PyResult<()> {
        use super::PyModuleMethods;
        m.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
