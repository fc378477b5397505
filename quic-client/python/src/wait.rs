// SPDX-License-Identifier: Apache-2.0
//! Waits without the interpreter's lock, which end early when a signal handler raises an exception.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park_timeout};
use std::time::Duration;
use weir_quic::{Error, ErrorKind};

/// Time after which signals are checked, as Python's handlers run between instructions only.
pub const CHECK: Duration = Duration::from_millis(100);

thread_local! {
    /// This thread is a client's, on which a strategy runs.
    static IS_CLIENTS: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread is a client's.
pub fn this_thread_never_waits() {
    IS_CLIENTS.set(true);
}

/// Whether this thread may wait for a client's.
pub fn may_wait(py: Python<'_>) -> PyResult<()> {
    match IS_CLIENTS.get() {
        true => {
            Err(raised(py, "UsageError", "a call that waits, in a strategy: expected none on a client's own thread"))
        }
        false => Ok(()),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The result of a future of `weir-quic`.
pub fn wait<F: Future + Send>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F::Output: Send,
{
    may_wait(py)?;
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(current())));
    loop {
        let polled = py.detach(|| {
            let mut cx = Context::from_waker(&waker);
            if let Poll::Ready(result) = future.as_mut().poll(&mut cx) {
                return Some(result);
            }
            park_timeout(CHECK);
            None
        });
        if let Some(result) = polled {
            return Ok(result);
        }
        py.check_signals()?;
    }
}

/// The exception of an error: a class of the module `weir_quic.errors`.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Usage => "UsageError",
        ErrorKind::Paths => "PathError",
        ErrorKind::Connect => "ConnectError",
        ErrorKind::Tls => "TlsError",
        ErrorKind::Timeout => "Timeout",
        ErrorKind::Incomplete => "IncompleteError",
        ErrorKind::NotServed => "NotServedError",
        ErrorKind::TooLarge => "TooLargeError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Busy => "BusyError",
        _ => "IoError",
    };
    raised(py, class, &error.to_string())
}

/// An exception of `weir_quic.errors` with this text.
pub fn raised(py: Python<'_>, class: &str, text: &str) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("weir_quic.errors")?.getattr(class)?;
        let arguments = PyTuple::new(py, [text])?;
        Ok(PyErr::from_value(class.call1(arguments)?))
    };
    make().unwrap_or_else(|e| e)
}

/// A value that is dropped without the interpreter's lock: the client's thread, for which the last handle waits, may call
/// a strategy in Python.
pub struct Detached<T: Send>(ManuallyDrop<T>);

impl<T: Send> Detached<T> {
    pub fn new(value: T) -> Self {
        Detached(ManuallyDrop::new(value))
    }

    /// The value, for a call that takes it.
    pub fn into_inner(self) -> T {
        let mut whole = ManuallyDrop::new(self);
        // SAFETY: `whole` is not dropped, and its value is taken once.
        unsafe { ManuallyDrop::take(&mut whole.0) }
    }

    pub fn get(&self) -> &T {
        &self.0
    }

    pub fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Send> Drop for Detached<T> {
    fn drop(&mut self) {
        // SAFETY: the value is taken once, here, and not used after.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        let mut value = Some(value);
        let done = Python::try_attach(|py| {
            let value = value.take();
            py.detach(|| drop(value));
        });
        if done.is_none() {
            drop(value);
        }
    }
}
