// SPDX-License-Identifier: Apache-2.0
//! Requests from Python's values, and bodies that are sent while they are made.

use crate::response::Response;
use crate::wait::{Detached, exception, raised, wait};
use http::Method;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyString};
use url::Url;
use weir_quic::{Bytes, Request, tokio};

/// Part of a file that is read at a time, in bytes.
const PART_BYTES: usize = 64 * 1024;

/// Scheme, host and port of a connection.
pub struct Origin(Url);

impl Origin {
    /// Of a URL.
    pub fn of(py: Python<'_>, url: &str) -> PyResult<Origin> {
        // `weir_quic` checks the rest, and also takes zones, which `Url` does not.
        let bare = match (url.find('%'), url.find(']')) {
            (Some(zone), Some(end)) if zone < end => format!("{}{}", &url[..zone], &url[end..]),
            _ => url.to_owned(),
        };
        let usage = |e| raised(py, "UsageError", &format!("URL '{url}': {e}: expected https://HOST[:PORT][/PATH]"));
        Url::parse(&bare).map(Origin).map_err(usage)
    }

    /// Path and query of a target: they are one already, or those of a URL of this origin.
    fn path<'a>(&self, py: Python<'_>, target: &'a str) -> PyResult<std::borrow::Cow<'a, str>> {
        if !target.contains("://") || target.starts_with('/') {
            return Ok(target.into());
        }
        let Origin(url) = Origin::of(py, target)?;
        if url.origin() != self.0.origin() {
            let text = format!(
                "'{target}' is of another origin than the connection, {}",
                self.0.origin().ascii_serialization()
            );
            return Err(raised(py, "UsageError", &text));
        }
        Ok(url[url::Position::BeforePath..url::Position::AfterQuery].to_owned().into())
    }

    /// A request without a body.
    pub fn request(
        &self,
        py: Python<'_>,
        method: &str,
        target: &str,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Request> {
        let wrong = |e| raised(py, "UsageError", &format!("method '{method}': {e}"));
        let method = Method::from_bytes(method.as_bytes()).map_err(wrong)?;
        let mut request = match method == Method::CONNECT {
            true => Request::connect(target),
            false => Request::new(method, self.path(py, target)?),
        };
        let Some(headers) = headers else { return Ok(request) };
        let pairs = match headers.cast::<PyDict>() {
            Ok(fields) => fields.items().into_any(),
            Err(_) => headers.clone(),
        };
        for pair in pairs.try_iter()? {
            let (name, value): (String, Bound<'_, PyAny>) = pair?.extract()?;
            request = match value.cast::<PyString>() {
                Ok(text) => request.header(name, text.to_str()?),
                Err(_) => request.header(name, value.extract::<PyBackedBytes>()?),
            };
        }
        Ok(request)
    }
}

/// Sends a request and waits for the header fields of its answer.
pub fn begin(
    py: Python<'_>,
    connection: Detached<tokio::Connection>,
    request: Request,
    body: Option<&Bound<'_, PyAny>>,
) -> PyResult<Response> {
    let whole = match body {
        None => Some(Bytes::new()),
        Some(body) => body.extract::<PyBackedBytes>().ok().map(|bytes| Bytes::copy_from_slice(&bytes)),
    };
    let answer = match (whole, body) {
        (Some(bytes), _) => wait(py, connection.get().request(request.body(bytes)))?,
        (None, body) => {
            let (writer, pending) = connection.get().open(request).map_err(|e| exception(py, &e))?;
            let (writer, pending) = (Detached::new(writer), Detached::new(pending));
            if let Some(body) = body {
                send(py, writer.get(), body)?;
            }
            finish(py, writer);
            wait(py, pending.into_inner().wait())?
        }
    };
    answer.map(|answer| Response::new(py, answer)).map_err(|e| exception(py, &e))
}

fn finish(py: Python<'_>, writer: Detached<tokio::BodyWriter>) {
    let writer = writer.into_inner();
    py.detach(|| writer.finish());
}

/// Sends the parts of a file or an iterable, until the server wants no more of them.
fn send(py: Python<'_>, writer: &tokio::BodyWriter, body: &Bound<'_, PyAny>) -> PyResult<()> {
    let read = body.getattr_opt("read")?;
    let mut parts = match read {
        Some(_) => None,
        None => Some(body.try_iter()?),
    };
    loop {
        let part = match (&read, &mut parts) {
            (Some(read), _) => read.call1((PART_BYTES,))?,
            (None, Some(parts)) => match parts.next() {
                Some(part) => part?,
                None => return Ok(()),
            },
            (None, None) => return Ok(()),
        };
        let part: PyBackedBytes = part.extract()?;
        if part.is_empty() {
            if read.is_some() {
                return Ok(());
            }
            continue;
        }
        let sent = wait(py, writer.send(Bytes::copy_from_slice(&part)))?;
        if !sent.map_err(|e| exception(py, &e))? {
            return Ok(());
        }
    }
}
