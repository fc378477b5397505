// SPDX-License-Identifier: Apache-2.0
//! Values as JSON text.

use super::fault::Fault;
use serde::Serialize;
use weir_core::report::events::Event;

/// A value as one line of JSON.
///
/// # Errors
/// It has no form in JSON.
pub fn to_json(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(Fault::internal("JSON"))
}

/// An event as one line of JSON, with its time and its flow's label.
///
/// # Errors
/// It has no form in JSON.
pub fn event_line(event: &Event, t_us: u64, flow: Option<u64>) -> Result<String, Fault> {
    event.line(t_us, flow).map_err(Fault::internal("JSON"))
}

/// Bits per second.
pub fn rate_bit_s(bytes: u64, duration_us: u64) -> u64 {
    (u128::from(bytes) * 8_000_000).checked_div(u128::from(duration_us)).unwrap_or(0) as u64
}
