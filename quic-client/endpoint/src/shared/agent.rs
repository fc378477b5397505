// SPDX-License-Identifier: Apache-2.0
//! [`FileAgent`]: decisions made by another program, which trains (`--cc-agent`).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_core::congestion::{Agent, Seen};
use weir_core::report::samples::Timebase;
use weir_core::report::trajectory;

/// Writes what is seen to `state-N` in a folder, and waits until the other program has put `action-N` there: a number
/// from -1 to 1, or `end`. Each file appears whole, by renaming; the reader removes it.
///
/// With a patience, a program that gives no answer in that time gets no further question. Without one the wait reads no
/// clock and does not sleep. So in the lab, where computing takes no time, the other program may take as long as it likes.
pub struct FileAgent {
    dir: PathBuf,
    timebase: Timebase,
    patience: Option<Duration>,
}

impl FileAgent {
    /// With files in an existing folder.
    pub fn new(dir: PathBuf, timebase: Timebase, patience: Option<Duration>) -> FileAgent {
        FileAgent { dir, timebase, patience }
    }

    fn ask(&self, seen: &Seen) -> io::Result<f64> {
        let [state, writing, action] =
            ["state", "writing", "action"].map(|name| self.dir.join(format!("{name}-{}", seen.n)));
        let text = trajectory::seen(seen, &self.timebase)?;
        fs::write(&writing, text).and_then(|()| fs::rename(&writing, &state)).inspect_err(|_| {
            // What a full disk took of it.
            let _ = fs::remove_file(&writing);
        })?;
        let asked = self.patience.map(|patience| (Instant::now(), patience));
        let text = loop {
            match fs::read_to_string(&action) {
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    if let Some((at, patience)) = asked
                        && at.elapsed() >= patience
                    {
                        let text = format!("no {} in {} s", action.display(), patience.as_secs_f64());
                        return Err(io::Error::new(ErrorKind::TimedOut, text));
                    }
                    std::thread::yield_now();
                }
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
