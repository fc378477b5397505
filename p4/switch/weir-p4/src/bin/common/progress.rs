// SPDX-License-Identifier: Apache-2.0
//! Progress of a command, on a terminal only.
use std::io::{IsTerminal, Write};

/// Replaces the last text; nothing at the end.
pub fn progress(text: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        // A terminal that can't be written to is no reason to stop.
        let _ = write!(err, "\r\x1b[K{text}");
        let _ = err.flush();
    }
}
