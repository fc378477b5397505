// SPDX-License-Identifier: Apache-2.0
//! `--max-time` while the event loop is blocked: by the resolution of a name, or by a reader of standard output that
//! reads nothing.

use crate::shared::fault::TIMEOUT;
use std::io;
use std::thread::{Builder, sleep};
use std::time::Duration;
use weir_io::wait::Signals;

/// Time that the event loop has after `--max-time` to close its connections and to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// Ends the process with [`TIMEOUT`] if it still runs [`GRACE`] after `max_time`.
///
/// # Errors
/// The thread that watches can't be started.
pub fn end_late(max_time: Duration) -> io::Result<()> {
    let watch = move || {
        // Signals are for the event loop. Should that fail they end the process, as they do without it.
        let _ = Signals::leave_to_others();
        sleep(max_time.saturating_add(GRACE));
        eprintln!("weir-client: --max-time is over");
        std::process::exit(TIMEOUT.into());
    };
    Builder::new().name("max-time".to_owned()).spawn(watch).map(drop)
}
