//! `shardmill._native.images`

use crate::error::PyShardmillResult;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shardmill_images::{ImageFormat, sniff};

/// Width and height in pixels as the image is seen, from the headers.
#[pyfunction]
fn image_size(payload: &[u8]) -> PyShardmillResult<(u32, u32)> {
    let size = shardmill_images::image_facts(payload)?.oriented;
    Ok((size.width, size.height))
}

/// The number of pages of a TIFF.
#[pyfunction]
fn tiff_pages(payload: &[u8]) -> PyShardmillResult<usize> {
    Ok(shardmill_images::tiff_index(payload)?.len())
}

/// One page as a separate TIFF, without decoding.
#[pyfunction]
fn extract_page<'py>(
    py: Python<'py>,
    payload: &[u8],
    page: usize,
) -> PyShardmillResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &shardmill_images::extract_page(payload, page)?))
}

/// The format that the first bytes show, such as `jpeg`, if it is decoded. 64 bytes are enough.
#[pyfunction]
fn image_format(payload: &[u8]) -> Option<&'static str> {
    let format = sniff(payload).filter(|format| *format != ImageFormat::Avif)?;
    format.mime().strip_prefix("image/")
}

/// The name of an image format that is recognized, but not decoded.
#[pyfunction]
fn unsupported_name(payload: &[u8]) -> Option<&'static str> {
    shardmill_images::unsupported_name(payload)
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "images")?;
    module.add_function(wrap_pyfunction!(image_format, &module)?)?;
    module.add_function(wrap_pyfunction!(image_size, &module)?)?;
    module.add_function(wrap_pyfunction!(tiff_pages, &module)?)?;
    module.add_function(wrap_pyfunction!(extract_page, &module)?)?;
    module.add_function(wrap_pyfunction!(unsupported_name, &module)?)
}
