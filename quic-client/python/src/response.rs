// SPDX-License-Identifier: Apache-2.0
//! [`Response`]: status, header fields and body of an answer.

use crate::wait::{Detached, exception, raised, wait};
use http::HeaderMap;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use weir_quic::{Bytes, tokio};

/// The answer of a request. Iteration gives the parts of its body as they arrive; as a context manager it is closed at
/// the end of `with`. Unread, it holds 256 KiB, and the server waits. A response belongs to one thread at a time.
#[pyclass(module = "weir_quic")]
pub struct Response {
    inner: Option<Detached<tokio::Response>>,
    /// Part of the body that was received and not read.
    rest: Bytes,
    status: u16,
    fields: Vec<(String, String)>,
}

/// Field values are bytes; text in them is ISO-8859-1 where it is not ASCII (RFC 9110 5.5).
fn text(map: &HeaderMap) -> Vec<(String, String)> {
    let value = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
    map.iter().map(|(name, field)| (name.as_str().to_owned(), value(field.as_bytes()))).collect()
}

impl Response {
    pub fn new(_: Python<'_>, inner: tokio::Response) -> Response {
        let (status, fields) = (inner.status().as_u16(), text(inner.headers()));
        Response { inner: Some(Detached::new(inner)), rest: Bytes::new(), status, fields }
    }

    /// The next part; empty at the end.
    fn part(&mut self, py: Python<'_>) -> PyResult<Bytes> {
        if !self.rest.is_empty() {
            return Ok(std::mem::take(&mut self.rest));
        }
        let inner = self.inner.as_mut().ok_or_else(|| raised(py, "ClosedError", "the response is closed"))?;
        let part = wait(py, inner.get_mut().chunk())?;
        Ok(part.map_err(|e| exception(py, &e))?.unwrap_or_default())
    }
}

#[pymethods]
impl Response {
    /// Status code; 200 over hq-interop, which has none.
    #[getter]
    fn status(&self) -> u16 {
        self.status
    }

    /// Header fields by their names in lower case. Repeated fields are joined by a comma (RFC 9110 5.3).
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (name, value) in &self.fields {
            let joined = match fields.get_item(name)? {
                Some(before) => format!("{}, {value}", before.extract::<String>()?),
                None => value.clone(),
            };
            fields.set_item(name, joined)?;
        }
        Ok(fields)
    }

    /// Header fields in their order.
    #[getter]
    fn header_list(&self) -> Vec<(String, String)> {
        self.fields.clone()
    }

    /// Header fields after the body, once its end was read.
    #[getter]
    fn trailers(&self) -> Option<Vec<(String, String)>> {
        self.inner.as_ref().and_then(|inner| inner.get().trailers()).map(|map| text(&map))
    }

    /// The next `n` bytes, or less at the end; without `n` the rest, in memory.
    ///
    /// Raises IncompleteError if the answer is cut off, Timeout, ClosedError after `close`.
    #[pyo3(signature = (n = None))]
    fn read<'py>(&mut self, py: Python<'py>, n: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        let most = n.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
        let mut whole = Vec::new();
        while whole.len() < most {
            let mut part = self.part(py).inspect_err(|_| self.rest = Bytes::copy_from_slice(&whole))?;
            if part.is_empty() {
                break;
            }
            let taken = part.split_to(part.len().min(most - whole.len()));
            self.rest = part;
            whole.extend_from_slice(&taken);
        }
        Ok(PyBytes::new(py, &whole))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let part = self.part(py)?;
        Ok((!part.is_empty()).then(|| PyBytes::new(py, &part)))
    }

    /// Cancels the request, unless its end was read.
    fn close(&mut self) {
        self.inner = None;
        self.rest = Bytes::new();
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }
}
