// SPDX-License-Identifier: Apache-2.0
//! [`FileAgent`]: decisions made by another program, which trains (`--cc-agent`).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_core::congestion::{Agent, Seen};
use weir_core::report::samples::Timebase;
use weir_core::report::trajectory;
use weir_io::files;

/// Writes the observation to `state-N` in a folder, until the other program has put `action-N` there: a number from -1
/// to 1, or `end`. Each file appears whole, by renaming; the reader removes it.
///
/// With a patience it checks whether the answer is there and does not wait for it: the connection, and all others of
/// the program, go on. A program that gives no answer in that time gets no further question. Without a patience it
/// waits on the spot, reads no clock and does not sleep. In the lab, where computing takes no time, no virtual time
/// passes meanwhile: the other program may take as long as it likes, nobody is held up, and the run repeats to the
/// byte.
pub struct FileAgent {
    dir: PathBuf,
    timebase: Timebase,
    patience: Option<Duration>,
    /// When the question without an answer was asked.
    asked: Option<Instant>,
}

impl FileAgent {
    /// With files in an existing folder.
    pub fn new(dir: PathBuf, timebase: Timebase, patience: Option<Duration>) -> FileAgent {
        FileAgent { dir, timebase, patience, asked: None }
    }

    /// Asks, unless that was done, and gives the answer if it is there.
    fn ask(&mut self, seen: &Seen, now: Instant) -> io::Result<Option<f64>> {
        let [state, action] = ["state", "action"].map(|name| self.dir.join(format!("{name}-{}", seen.n)));
        if self.asked.is_none() {
            let text = trajectory::seen(seen, &self.timebase)?;
            files::replace(&state, text.as_bytes())?;
        }
        let asked = *self.asked.get_or_insert(now);
        let text = loop {
            match fs::read_to_string(&action) {
                Err(e) if e.kind() == ErrorKind::NotFound => match self.patience {
                    None => std::thread::yield_now(),
                    Some(patience) if now.saturating_duration_since(asked) >= patience => {
                        let text = format!("no {} in {} s", action.display(), patience.as_secs_f64());
                        return Err(io::Error::new(ErrorKind::TimedOut, text));
                    }
                    Some(_) => return Ok(None),
                },
                read => break read?,
            }
        };
        fs::remove_file(&action)?;
        match text.trim() {
            "end" => Ok(Some(f64::NAN)),
            text => text.parse().map(Some).map_err(|_| {
                let text = format!("{}: '{text}', expected a number or end", action.display());
                io::Error::new(ErrorKind::InvalidData, text)
            }),
        }
    }
}

impl Agent for FileAgent {
    fn act(&mut self, seen: &Seen, now: Instant) -> Option<f64> {
        let answer = self.ask(seen, now).unwrap_or_else(|e| {
            eprintln!("--cc-agent {}: {e}", self.dir.display());
            Some(f64::NAN)
        });
        if answer.is_some() {
            self.asked = None;
        }
        answer
    }
}
