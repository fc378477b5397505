// SPDX-License-Identifier: Apache-2.0
//! Lines of text to a file or to standard output (`-`), written out at each tick.

use crate::fault::Fault;
use crate::files;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A writer of lines. Its errors name the file.
pub struct LineWriter {
    path: PathBuf,
    out: BufWriter<Box<dyn Write>>,
}

impl LineWriter {
    /// Makes the file, or empties it, as [`files::create`] does; `-` is standard output.
    pub fn create(path: &Path) -> io::Result<LineWriter> {
        let out: Box<dyn Write> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            Box::new(files::create(path).map_err(|e| named(path, &e))?)
        };
        Ok(LineWriter { path: path.to_owned(), out: BufWriter::with_capacity(1 << 16, out) })
    }

    /// Adds a line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.write_all(b"\n")).map_err(|e| named(&self.path, &e))
    }

    /// Discards lines that were added and not written. Otherwise dropping the writer would try once more to write it.
    pub fn abandon(self) {
        drop(self.out.into_parts());
    }

    /// Writes out the added lines.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| named(&self.path, &e))
    }
}

/// A log of a program that goes on without it: if it can't be written, it ends with one line to the user.
pub struct LineLog {
    /// `None` once something could not be written.
    out: Option<LineWriter>,
    option: &'static str,
    say: fn(&str),
    /// Lines added since the last flush.
    unwritten: u64,
    lost: u64,
}

impl LineLog {
    /// Makes the file, or empties it; `-` is standard output. `option` is its option, `say` prints a line to the user.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn create(option: &'static str, path: &Path, say: fn(&str)) -> Result<LineLog, Fault> {
        let out = LineWriter::create(path).map_err(Fault::io(option))?;
        Ok(LineLog { out: Some(out), option, say, unwritten: 0, lost: 0 })
    }

    /// Adds a line.
    pub fn line(&mut self, text: &str) {
        self.unwritten += 1;
        self.attempt(|out| out.line(text));
    }

    /// Writes out the added lines.
    pub fn flush(&mut self) {
        self.attempt(LineWriter::flush);
        self.unwritten = 0;
    }

    fn attempt(&mut self, write: impl FnOnce(&mut LineWriter) -> io::Result<()>) {
        match self.out.as_mut().map(write) {
            Some(Ok(())) => {}
            Some(Err(e)) => {
                (self.say)(&format!("{} {e}; no more is written there", self.option));
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

    /// Reports missing parts. True if there are none.
    pub fn finish(&mut self) -> bool {
        self.flush();
        if self.lost > 0 {
            (self.say)(&format!("{}: {} lines could not be written", self.option, self.lost));
        }
        self.lost == 0
    }
}

fn named(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let mut w = LineWriter::create(Path::new("/dev/full")).unwrap();
        w.line("x").unwrap();
        let e = w.flush().unwrap_err();
        assert!(e.to_string().contains("/dev/full"), "{e}");
        w.abandon();
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_the_file() {
        let e = LineWriter::create(Path::new("/nonexistent/x")).err().unwrap();
        assert!(e.to_string().contains("/nonexistent/x"), "{e}");
    }

    #[test]
    fn a_full_disk_ends_the_log_and_counts() {
        let mut log = LineLog::create("--stats", Path::new("/dev/full"), |_| ()).unwrap();
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
        let mut log = LineLog::create("--stats", &path, |_| ()).unwrap();
        log.line("a");
        log.flush();
        log.line("b");
        assert!(log.finish());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "a\nb\n");
    }
}
