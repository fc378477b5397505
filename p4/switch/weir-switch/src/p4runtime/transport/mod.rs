// SPDX-License-Identifier: Apache-2.0
//! Connections: accepting them, their certificates, their clients' rights, and how large and how many requests may be.
//! Nothing here knows what a request means.
pub mod accept;
pub mod access;
pub mod admission;
pub mod allowance;
pub mod body;
pub mod tls;

/// tonic's errors say little themselves; the reason is in their source.
pub fn with_cause(what: &str, e: &dyn std::error::Error) -> String {
    let mut text = if what.is_empty() { e.to_string() } else { format!("{what}: {e}") };
    let mut cause = e.source();
    while let Some(c) = cause {
        text = format!("{text}: {c}");
        cause = c.source();
    }
    text
}
