// SPDX-License-Identifier: Apache-2.0
//! `--max-time` where the event loop does not get round to it: a name that is being resolved, a reader of standard output
//! that takes nothing.

use crate::fault::TIMEOUT;
use std::io;
use std::thread::{Builder, sleep};
use std::time::Duration;
use weir_io::wait::Signals;

/// What the event loop has to end by itself, in good order, after `--max-time`.
const GRACE: Duration = Duration::from_secs(1);

/// Ends the process if it is still there so long after `max_time`.
///
/// # Errors
/// There can be no further thread.
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
