// SPDX-License-Identifier: Apache-2.0
//! Lines of text to a file or to standard output (`-`), written out at each tick.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A writer of lines. Its errors name the file.
pub struct LineWriter {
    path: PathBuf,
    out: BufWriter<Box<dyn Write>>,
}

impl LineWriter {
    /// Makes the file, or empties it; `-` is standard output.
    pub fn create(path: &Path) -> io::Result<LineWriter> {
        let out: Box<dyn Write> = if path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            Box::new(File::create(path).map_err(|e| named(path, &e))?)
        };
        Ok(LineWriter { path: path.to_owned(), out: BufWriter::with_capacity(1 << 16, out) })
    }

    /// Adds a line.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.write_all(b"\n")).map_err(|e| named(&self.path, &e))
    }

    /// Discards what was added and not written. Otherwise dropping the writer would try once more to write it.
    pub fn abandon(self) {
        drop(self.out.into_parts());
    }

    /// Writes out what was added.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|e| named(&self.path, &e))
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
}
