//! `shardmill._native.formats`

use crate::error::PyShardmillResult;
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::table::column_type_name;
use shardmill_formats::tar::{Entry, Walk};
use shardmill_storage::{LocalFile, RangeRead};

/// Name, offset and size of each regular file of an uncompressed tar.
#[pyfunction]
fn tar_members(py: Python<'_>, path: &str) -> PyShardmillResult<Vec<(String, u64, u64)>> {
    py.detach(|| {
        let file = LocalFile::open(path)?;
        let mut walk = Walk::new(file.size());
        let mut members = Vec::new();
        let mut window = Vec::new();
        while let Some(range) = walk.needs() {
            window.resize(usize::try_from(range.end - range.start).unwrap_or_default(), 0);
            file.read_at(range.start, &mut window)?;
            if let Some(Entry::File(member)) = walk.push(&window)? {
                members.push((member.name, member.offset, member.size));
            }
        }
        Ok(members)
    })
}

/// Sets the default memory limit for one value, line, page or member in this process.
#[pyfunction]
fn set_max_decoded_bytes(limit: u64) {
    DecodeLimit::set_default(limit);
}

/// The types of the columns of an Arrow schema, as messages name them.
#[pyfunction]
fn type_names(schema: PySchema) -> Vec<String> {
    schema.into_inner().fields().iter().map(|field| column_type_name(field)).collect()
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "formats")?;
    module.add_function(wrap_pyfunction!(set_max_decoded_bytes, &module)?)?;
    module.add_function(wrap_pyfunction!(tar_members, &module)?)?;
    module.add_function(wrap_pyfunction!(type_names, &module)?)
}
