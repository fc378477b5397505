// SPDX-License-Identifier: Apache-2.0
//! Python module `weir_quic._native`: the client of `weir-quic`. The package `weir_quic` has its types and errors.

mod client;
mod events;
mod request;
mod response;
mod strategy;
mod wait;

use pyo3::prelude::*;

/// The module's classes, and the function that the package calls at the interpreter's exit.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<client::Client>()?;
    module.add_class::<client::Connection>()?;
    module.add_class::<client::Status>()?;
    module.add_class::<events::Events>()?;
    module.add_class::<response::Response>()?;
    module.add_function(wrap_pyfunction!(strategy::end_calls, module)?)
}
