//! Memory of torch for pixels: a Python function allocates it, native threads write it, and batches
//! are views of it.

use crate::calls::Calls;
use crate::interrupt::reason_of;
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use shardmill_load::images::{HostMemory, LentMemory};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of no type need more.
const ALIGNMENT: usize = 16;

/// Calls `allocate` with a number of bytes. It returns a tensor of as many bytes, to which nothing
/// else has access.
#[pyclass(name = "TensorMemory", module = "shardmill._native.load", frozen)]
pub(crate) struct PyTensorMemory(pub(crate) Arc<TensorMemory>);

#[derive(Debug)]
pub(crate) struct TensorMemory {
    allocate: Py<PyAny>,
    /// Tensors that are written, by their addresses.
    lent: Arc<Mutex<HashMap<usize, Py<PyAny>>>>,
    calls: Calls,
}

/// A tensor that is written.
#[derive(Debug)]
struct LentTensor {
    address: usize,
    bytes: usize,
    lent: Arc<Mutex<HashMap<usize, Py<PyAny>>>>,
}

#[pymethods]
impl PyTensorMemory {
    #[new]
    fn new(allocate: Py<PyAny>) -> Self {
        Self(Arc::new(TensorMemory { allocate, lent: Arc::default(), calls: Calls::new() }))
    }
}

impl TensorMemory {
    /// Values that were written, as a tensor, which is theirs from now on.
    pub(crate) fn tensor<'py>(
        &self,
        py: Python<'py>,
        values: &Buffer,
        element: &DataType,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lent = self
            .lent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&values.as_ptr().addr());
        let lent = lent
            .ok_or_else(|| PyRuntimeError::new_err("the memory of these values was not lent"))?
            .into_bound(py);
        let dtype = match element {
            DataType::UInt16 => "uint16",
            DataType::Float32 => "float32",
            _ => "uint8",
        };
        let dtype = py.import("torch")?.getattr(dtype)?;
        lent.call_method1("narrow", (0, 0, values.len()))?.call_method1("view", (dtype,))
    }

    fn allocated(&self, py: Python<'_>, bytes: usize) -> PyResult<LentTensor> {
        let _call = self.calls.enter(py)?;
        let tensor = self.allocate.bind(py).call1((bytes,))?;
        let address: usize = tensor.call_method0("data_ptr")?.extract()?;
        if tensor.getattr("nbytes")?.extract::<usize>()? != bytes
            || !address.is_multiple_of(ALIGNMENT)
        {
            return Err(PyValueError::new_err(format!(
                "the allocator returned other memory than {bytes} aligned bytes"
            )));
        }
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).insert(address, tensor.unbind());
        Ok(LentTensor { address, bytes, lent: Arc::clone(&self.lent) })
    }
}

impl HostMemory for TensorMemory {
    fn lend(&self, bytes: usize) -> Result<Box<dyn LentMemory>, String> {
        // An empty tensor has no address of its own.
        let lent = Python::try_attach(|py| {
            self.allocated(py, bytes.max(1)).map_err(|error| reason_of(py, error))
        });
        Ok(Box::new(lent.ok_or("the interpreter exits")??))
    }
}

impl LentMemory for LentTensor {}

#[expect(unsafe_code, reason = "memory of torch is known by its address")]
impl AsRef<[u8]> for LentTensor {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the tensor has `bytes` bytes at `address`. It is in `lent`, or was delivered
        // and this is not used any more. Until it is delivered, only the owner of `self`
        // has access to them.
        unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.bytes)
        }
    }
}

#[expect(unsafe_code, reason = "memory of torch is known by its address")]
impl AsMut<[u8]> for LentTensor {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed for as long as the slice.
        unsafe {
            std::slice::from_raw_parts_mut(
                std::ptr::with_exposed_provenance_mut(self.address),
                self.bytes,
            )
        }
    }
}

impl Drop for LentTensor {
    fn drop(&mut self) {
        // Delivered tensors are not in it any more.
        let unused = self.lent.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.address);
        drop(unused);
    }
}
