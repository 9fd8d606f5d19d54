//! `shardmill._native`: one file per Python module, one error mapping. Everything here converts and calls; nothing decides.

mod arrayrecord;
mod calls;
mod columns;
mod curate;
mod delivery;
mod error;
mod formats;
mod images;
mod inspect;
mod interrupt;
mod journal;
mod load;
mod packing;
mod panics;
mod plan;
mod providers;
mod resume;
mod storage;
mod user_stages;
mod verify;
mod write;

use mimalloc::MiMalloc;
use pyo3::prelude::*;

/// Decoded columns are made on one thread and freed on another, megabytes at a time. glibc gives such memory back to the system and faults it in again,
/// which is a fifth of the time of a pass (docs/decisions/0003-allocator.md). Python and other libraries keep their own allocators.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    panics::silence_caught();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("is_optimized", !cfg!(debug_assertions))?;
    arrayrecord::init(module)?;
    calls::init(module)?;
    columns::init(module)?;
    curate::init(module)?;
    formats::init(module)?;
    images::init(module)?;
    inspect::init(module)?;
    journal::init(module)?;
    load::init(module)?;
    packing::init(module)?;
    plan::init(module)?;
    resume::init(module)?;
    storage::init(module)?;
    verify::init(module)?;
    write::init(module)?;
    Ok(())
}

/// Makes `name` a module of its own that `import` finds.
fn submodule<'py>(parent: &Bound<'py, PyModule>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let py = parent.py();
    let module = PyModule::new(py, name)?;
    parent.add_submodule(&module)?;
    py.import("sys")?.getattr("modules")?.set_item(format!("shardmill._native.{name}"), &module)?;
    Ok(module)
}
