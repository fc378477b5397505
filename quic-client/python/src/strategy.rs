// SPDX-License-Identifier: Apache-2.0
//! [`PythonStrategy`]: a strategy of path choice written in Python. It is called on the client's thread.

use crate::wait::this_thread_never_waits;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_core::choice::{PathId, Question, Strategy, TaskSample};

/// The interpreter is about to exit: no call may begin.
static IS_ENDED: AtomicBool = AtomicBool::new(false);
/// Held during a call.
static CALL: Mutex<()> = Mutex::new(());
/// Reasons in the events: a strategy's first ones.
static REASONS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
/// Distinct reasons that are kept at most.
const MOST_REASONS: usize = 64;
/// Length of a reason at most, in bytes.
const MOST_REASON_BYTES: usize = 100;

/// Ends calls of strategies: to be called before the interpreter exits.
#[pyfunction]
pub fn end_calls(py: Python<'_>) {
    py.detach(|| {
        IS_ENDED.store(true, Ordering::Release);
        drop(CALL.lock().unwrap_or_else(PoisonError::into_inner));
    });
}

/// A reason that lives as long as the program; "python" for those beyond the limits.
fn kept(reason: &str) -> &'static str {
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = reasons.iter().find(|known| **known == reason) {
        return known;
    }
    if reasons.len() == MOST_REASONS || reason.len() > MOST_REASON_BYTES {
        return "python";
    }
    let leaked: &'static str = Box::leak(reason.to_owned().into_boxed_str());
    reasons.push(leaked);
    leaked
}

/// A strategy in Python, made by a callable for each connection.
pub struct PythonStrategy {
    maker: Arc<Py<PyAny>>,
    object: Option<Py<PyAny>>,
    names: BTreeMap<PathId, String>,
}

impl fmt::Debug for PythonStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonStrategy")
    }
}

impl PythonStrategy {
    /// Of a class or another callable without arguments.
    pub fn new(maker: Arc<Py<PyAny>>) -> PythonStrategy {
        PythonStrategy { maker, object: None, names: BTreeMap::new() }
    }

    /// Calls Python with the strategy's object. Exceptions go to `sys.unraisablehook`.
    fn call<T>(&mut self, run: impl FnOnce(&Bound<'_, PyAny>, &BTreeMap<PathId, String>) -> PyResult<T>) -> Option<T> {
        this_thread_never_waits();
        let _call = CALL.lock().unwrap_or_else(PoisonError::into_inner);
        if IS_ENDED.load(Ordering::Acquire) {
            return None;
        }
        let PythonStrategy { maker, object, names } = self;
        Python::try_attach(|py| {
            let mut act = || {
                let made = match object {
                    Some(object) => object.bind(py).clone(),
                    None => {
                        let made = maker.bind(py).call0()?;
                        *object = Some(made.clone().unbind());
                        made
                    }
                };
                Ok(made)
            };
            let result = act().and_then(|made| run(&made, names));
            result.map_err(|e: PyErr| e.write_unraisable(py, Some(maker.bind(py)))).ok()
        })
        .flatten()
    }

    /// Calls a method, if the object has it, with the name of a path.
    fn event(&mut self, method: &str, path: PathId, rtt: Option<Duration>) {
        self.call(|object, names| {
            let Some(method) = object.getattr_opt(method)? else { return Ok(()) };
            let name = names.get(&path).map_or("", String::as_str);
            match rtt {
                Some(rtt) => method.call1((name, rtt.as_secs_f64() * 1e3))?,
                None => method.call1((name,))?,
            };
            Ok(())
        });
    }
}

/// The question as keyword arguments of `choose`.
fn asked<'py>(
    py: Python<'py>,
    question: &Question<'_>,
    names: &BTreeMap<PathId, String>,
) -> PyResult<Bound<'py, PyDict>> {
    let name = |path: &PathId| names.get(path).map_or("", String::as_str);
    let task = PyDict::new(py);
    task.set_item("number", question.task)?;
    task.set_item("bytes", question.bytes)?;
    task.set_item("usable", question.usable.iter().map(name).collect::<Vec<_>>())?;
    task.set_item("known", question.known.iter().map(name).collect::<Vec<_>>())?;
    task.set_item("current", question.current.as_ref().map(name))?;
    task.set_item("idle_ms", question.idle.as_secs_f64() * 1e3)?;
    let means = PyDict::new(py);
    for path in question.known {
        if let Some(mean) = question.history.mean_ms(*path) {
            means.set_item(name(path), mean)?;
        }
    }
    task.set_item("mean_ms", means)?;
    Ok(task)
}

/// Path and reason in the answer of `choose`.
fn answered(
    answer: &Bound<'_, PyAny>,
    question: &Question<'_>,
    names: &BTreeMap<PathId, String>,
) -> PyResult<(PathId, &'static str)> {
    let (name, reason) = match answer.cast::<PyString>() {
        Ok(name) => (name.to_string(), "python"),
        Err(_) => {
            let (name, reason): (String, String) = answer.extract()?;
            (name, kept(&reason))
        }
    };
    let path = question.usable.iter().copied().filter(|path| names.get(path) == Some(&name)).max();
    let path = path.ok_or_else(|| {
        pyo3::exceptions::PyValueError::new_err(format!("choose() gave '{name}': expected one of task.usable"))
    })?;
    Ok((path, reason))
}

impl Strategy for PythonStrategy {
    fn choose(&mut self, question: &Question<'_>, _random: &mut fastrand::Rng) -> (PathId, &'static str) {
        let chosen = self.call(|object, names| {
            let py = object.py();
            let fields = asked(py, question, names)?;
            let task = py.import("weir_quic.strategy")?.getattr("Task")?.call((), Some(&fields))?;
            answered(&object.call_method1("choose", (task,))?, question, names)
        });
        chosen.unwrap_or_else(|| {
            let current = question.current.filter(|path| question.usable.contains(path));
            (current.unwrap_or(question.usable[0]), "strategy failed")
        })
    }

    fn named(&mut self, path: PathId, name: &str) {
        self.names.insert(path, name.to_owned());
    }

    fn remove(&mut self, path: PathId) {
        self.event("removed", path, None);
        self.names.remove(&path);
    }

    fn finished(&mut self, sample: &TaskSample) {
        self.call(|object, names| {
            let Some(method) = object.getattr_opt("finished")? else { return Ok(()) };
            let py = object.py();
            let fields = PyDict::new(py);
            fields.set_item("path", names.get(&sample.path).map_or("", String::as_str))?;
            fields.set_item("number", sample.task)?;
            fields.set_item("tct_ms", sample.tct_ms())?;
            fields.set_item("bytes", sample.bytes)?;
            fields.set_item("switched", sample.switched)?;
            let sample = py.import("weir_quic.strategy")?.getattr("Sample")?.call((), Some(&fields))?;
            method.call1((sample,))?;
            Ok(())
        });
    }

    fn failed(&mut self, path: PathId) {
        self.event("failed", path, None);
    }

    fn returned(&mut self, path: PathId) {
        self.event("returned", path, None);
    }

    fn late(&mut self, path: PathId) {
        self.event("returned", path, None);
    }

    fn probed(&mut self, path: PathId, rtt: Duration) {
        self.event("probed", path, Some(rtt));
    }
}
