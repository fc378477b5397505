// SPDX-License-Identifier: Apache-2.0
//! [`FileAgent`]: decisions made by another program, which trains (`--cc-agent`).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use weir_core::congestion::{Agent, Seen};
use weir_core::report::samples::Timebase;
use weir_core::report::trajectory;

/// Writes what is seen to `state-N` in a folder, and waits until the other program has put `action-N` there: a number
/// from -1 to 1, or `end`. Each file appears whole, by renaming; the reader removes it.
///
/// The wait reads no clock and does not sleep. So in the lab, where computing takes no time, the other program may take
/// as long as it likes.
pub struct FileAgent {
    dir: PathBuf,
    timebase: Timebase,
}

impl FileAgent {
    /// With files in an existing folder.
    pub fn new(dir: PathBuf, timebase: Timebase) -> FileAgent {
        FileAgent { dir, timebase }
    }

    fn ask(&self, seen: &Seen) -> io::Result<f64> {
        let [state, writing, action] =
            ["state", "writing", "action"].map(|name| self.dir.join(format!("{name}-{}", seen.n)));
        fs::write(&writing, trajectory::seen(seen, &self.timebase)?)?;
        fs::rename(&writing, &state)?;
        let text = loop {
            match fs::read_to_string(&action) {
                Err(e) if e.kind() == ErrorKind::NotFound => std::thread::yield_now(),
                read => break read?,
            }
        };
        fs::remove_file(&action)?;
        match text.trim() {
            "end" => Ok(f64::NAN),
            text => text.parse().map_err(|_| {
                let text = format!("{}: '{text}', expected a number or end", action.display());
                io::Error::new(ErrorKind::InvalidData, text)
            }),
        }
    }
}

impl Agent for FileAgent {
    fn act(&mut self, seen: &Seen) -> f64 {
        self.ask(seen).unwrap_or_else(|e| {
            eprintln!("--cc-agent {}: {e}", self.dir.display());
            f64::NAN
        })
    }
}
