//! `shardmill._native.arrayrecord`

mod indices;
mod reader;
mod records;
mod source;
mod writer;

use crate::error::PyShardmillError;
use pyo3::prelude::*;
use shardmill_formats::arrayrecord::{Error, WriterOptions};

/// The option string that is stored in a file.
#[pyfunction]
fn recorded_writer_options(options: &str) -> PyResult<String> {
    WriterOptions::parse(options).map(|options| options.recorded()).map_err(|error| refused(&error))
}

fn refused(error: &Error) -> PyErr {
    PyShardmillError::option(&error.to_string()).into()
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "arrayrecord")?;
    module.add_function(wrap_pyfunction!(recorded_writer_options, &module)?)?;
    module.add_function(wrap_pyfunction!(indices::check_record_numbers, &module)?)?;
    module.add_class::<reader::PyReader>()?;
    module.add_class::<records::PyRecords>()?;
    module.add_class::<source::PySource>()?;
    module.add_class::<writer::PyWriter>()
}
