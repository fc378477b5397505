// SPDX-License-Identifier: Apache-2.0
//! The server's logs. If a log can't be written, it ends with one line on standard error, and the server goes on. When the
//! server ends it reports how much is missing.

use crate::shared::fault::Fault;
use crate::shared::qlog::QlogFile;
use std::io;
use std::path::{Path, PathBuf};
use weir_core::text::printable;
use weir_io::lines::LineWriter;

/// One line on standard error.
pub fn complain(text: &str) {
    eprintln!("weir-server: {}", printable(text));
}

/// A file of lines (`--stats`).
pub struct LineLog {
    /// `None` once something could not be written.
    out: Option<LineWriter>,
    /// Lines added since the last flush.
    unwritten: u64,
    lost: u64,
}

impl LineLog {
    /// Makes the file, or empties it; `-` is standard output.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn create(path: &Path) -> Result<LineLog, Fault> {
        let out = LineWriter::create(path).map_err(Fault::io("--stats"))?;
        Ok(LineLog { out: Some(out), unwritten: 0, lost: 0 })
    }

    /// Adds a line.
    pub fn line(&mut self, text: &str) {
        self.unwritten += 1;
        self.attempt(|out| out.line(text));
    }

    /// Writes out what was added.
    pub fn flush(&mut self) {
        self.attempt(LineWriter::flush);
        self.unwritten = 0;
    }

    fn attempt(&mut self, write: impl FnOnce(&mut LineWriter) -> io::Result<()>) {
        match self.out.as_mut().map(write) {
            Some(Ok(())) => {}
            Some(Err(e)) => {
                complain(&format!("--stats {e}; no more is written there"));
                if let Some(out) = self.out.take() {
                    out.abandon();
                }
                self.lost = self.unwritten;
            }
            None => self.lost = self.lost.saturating_add(self.unwritten),
        }
        if self.out.is_none() {
            self.unwritten = 0;
        }
    }

    /// Reports what is missing. True if nothing is.
    pub fn finish(&mut self) -> bool {
        self.flush();
        if self.lost > 0 {
            complain(&format!("--stats: {} lines could not be written", self.lost));
        }
        self.lost == 0
    }
}

/// The qlog files, one for each connection (`--qlog-dir`). When one can't be written no new ones are started.
pub struct Qlogs {
    dir: Option<PathBuf>,
    ended: bool,
    lost: u64,
}

impl Qlogs {
    /// For files in an existing folder, or for none.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn new(dir: Option<&Path>) -> Result<Qlogs, Fault> {
        if let Some(dir) = dir {
            let what = || format!("--qlog-dir {}", dir.display());
            let found = std::fs::metadata(dir).map_err(Fault::io(what()))?;
            if !found.is_dir() {
                return Err(Fault::io(what())(io::ErrorKind::NotADirectory.into()));
            }
        }
        Ok(Qlogs { dir: dir.map(Path::to_owned), ended: false, lost: 0 })
    }

    /// Starts the qlog of what may become a connection, if wanted.
    pub fn start(&mut self, quic: &mut quiche::Connection, name: &str) -> Option<QlogFile> {
        if self.ended {
            return None;
        }
        match QlogFile::start(self.dir.as_deref(), quic, name) {
            Ok(file) => file,
            Err(e) => {
                self.end(&e);
                None
            }
        }
    }

    /// It became a connection, with the qlog that `start` returned.
    pub fn opened(&mut self, file: Option<&QlogFile>) {
        if self.ended && file.is_none() {
            self.lost += 1;
        }
    }

    /// Checks that all that was logged could be written, and returns the file if so.
    pub fn check(&mut self, file: Option<QlogFile>) -> Option<QlogFile> {
        match file?.checked() {
            Ok(file) => Some(file),
            Err(e) => {
                self.lost += 1;
                self.end(&e);
                None
            }
        }
    }

    /// A connection's qlog is complete.
    pub fn close(&mut self, file: Option<QlogFile>) {
        if let Some(Err(e)) = file.map(|f| f.finish()) {
            self.lost += 1;
            self.end(&e);
        }
    }

    fn end(&mut self, why: &Fault) {
        if !std::mem::replace(&mut self.ended, true) {
            complain(&format!("--qlog-dir: {why}; no more qlogs are written"));
        }
    }

    /// Reports what is missing. True if nothing is.
    pub fn finish(&self) -> bool {
        if self.lost > 0 {
            complain(&format!("--qlog-dir: {} connections have no qlog, or none that is whole", self.lost));
        }
        self.lost == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_ends_the_log_and_counts() {
        let mut log = LineLog::create(Path::new("/dev/full")).unwrap();
        for _ in 0..3 {
            log.line("x");
        }
        log.flush();
        assert!(log.out.is_none());
        log.line("x");
        log.flush();
        assert_eq!((log.lost, log.finish()), (4, false));
    }

    #[test]
    fn a_log_that_is_written_misses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut log = LineLog::create(&path).unwrap();
        log.line("a");
        log.flush();
        log.line("b");
        assert!(log.finish());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "a\nb\n");
    }
}
