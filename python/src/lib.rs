//! `shardmill._native`: one file per Python module, one error mapping. The code here only converts
//! and calls.

mod arrayrecord;
mod arrow_data;
mod calls;
mod check;
mod columns;
mod curate;
mod delivery;
mod error;
mod formats;
mod images;
mod interrupt;
mod journal;
mod load;
mod logs;
mod packing;
mod panics;
mod pixels;
mod plain;
mod plan;
mod providers;
mod resume;
mod storage;
mod tokens;
mod user_stages;
mod write;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// Decoded columns are allocated on one thread and freed on another, megabytes at a time. glibc
/// returns such memory to the system and faults it in again, which takes a fifth of the time of a
/// pass (docs/decisions/0003-allocator.md). Python and other libraries keep their own allocators.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    panics::silence_caught();
    logs::init();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("is_optimized", !cfg!(debug_assertions))?;
    arrayrecord::init(module)?;
    calls::init(module)?;
    check::init(module)?;
    columns::init(module)?;
    curate::init(module)?;
    formats::init(module)?;
    images::init(module)?;
    journal::init(module)?;
    load::init(module)?;
    packing::init(module)?;
    pixels::init(module)?;
    plan::init(module)?;
    resume::init(module)?;
    storage::init(module)?;
    tokens::init(module)?;
    write::init(module)?;
    Ok(())
}

/// Creates the submodule `name`, which can be imported.
fn submodule<'py>(parent: &Bound<'py, PyModule>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let py = parent.py();
    let module = PyModule::new(py, name)?;
    parent.add_submodule(&module)?;
    py.import("sys")?.getattr("modules")?.set_item(format!("shardmill._native.{name}"), &module)?;
    Ok(module)
}
