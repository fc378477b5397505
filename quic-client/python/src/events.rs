// SPDX-License-Identifier: Apache-2.0
//! [`Events`]: the events of a client, as the lines of `weir-client --events`. They are queued on the client's thread, which
//! therefore needs no interpreter.

use crate::wait::{CHECK, may_wait};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use weir_core::report::events::Event;
use weir_core::report::samples::Timebase;
use weir_quic::Observer;

/// Events that wait at most; with more, the oldest are dropped.
const MOST: usize = 65_536;

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    dropped: u64,
    is_ended: bool,
}

/// The events that were not read yet.
#[derive(Default)]
pub struct EventQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are no more events.
    pub fn end(&self) {
        self.lock().is_ended = true;
        self.changed.notify_all();
    }

    /// The next line; `Err`: none came within [`CHECK`]; `Ok(None)`: the end.
    fn next(&self) -> Result<Option<String>, ()> {
        let mut state = self.lock();
        if state.lines.is_empty() && !state.is_ended {
            state = self.changed.wait_timeout(state, CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.lines.pop_front() {
            Some(line) => Ok(Some(line)),
            None if state.is_ended => Ok(None),
            None => Err(()),
        }
    }
}

/// Queues events.
pub struct Recorder {
    pub queue: Arc<EventQueue>,
    pub timebase: Timebase,
}

impl Observer for Recorder {
    fn event(&mut self, connection: u64, at: Instant, event: &Event) {
        let Ok(line) = event.line(self.timebase.us(at), Some(connection)) else { return };
        let mut state = self.queue.lock();
        if state.lines.len() == MOST {
            state.lines.pop_front();
            state.dropped += 1;
        }
        state.lines.push_back(line);
        drop(state);
        self.queue.changed.notify_one();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.queue.end();
    }
}

fn parsed<'py>(py: Python<'py>, line: &str) -> PyResult<Bound<'py, PyDict>> {
    Ok(py.import("json")?.call_method1("loads", (line,))?.cast_into()?)
}

/// Iterator over the events of a client. The latest 65,536 are kept.
#[pyclass(frozen, module = "weir_quic")]
pub struct Events {
    pub queue: Arc<EventQueue>,
}

#[pymethods]
impl Events {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        may_wait(py)?;
        loop {
            match py.detach(|| self.queue.next()) {
                Ok(line) => return line.map(|line| parsed(py, &line)).transpose(),
                Err(()) => py.check_signals()?,
            }
        }
    }

    /// The events so far that were not read, without waiting.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let lines = std::mem::take(&mut self.queue.lock().lines);
        let list = PyList::empty(py);
        for line in lines {
            list.append(parsed(py, &line)?)?;
        }
        Ok(list)
    }

    /// Number of events that were dropped, as 65,536 others waited.
    #[getter]
    fn dropped(&self) -> u64 {
        self.queue.lock().dropped
    }
}
