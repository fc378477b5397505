// SPDX-License-Identifier: Apache-2.0
//! Files of lines that are bounded: a full one becomes FILE.1, in place of the one before.
use crate::files;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file, and the most bytes that it and FILE.1 have.
pub struct RotatingFile {
    path: PathBuf,
    pub(crate) file: File,
    bytes: u64,
    most_bytes: u64,
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn open(path: &Path) -> Result<(File, u64)> {
    // Not for everybody to read; and a pipe, which is refused below, is not waited for.
    let file =
        files::open(path, OpenOptions::new().create(true).append(true).mode(0o640).custom_flags(libc::O_NONBLOCK))?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Error::other("it is not a regular file"));
    }
    Ok((file, meta.len()))
}

impl RotatingFile {
    /// Opens a file, to go on at its end.
    ///
    /// # Errors
    /// It can't be opened, or is no regular file.
    pub fn open(path: &Path, most_bytes: u64) -> Result<RotatingFile> {
        let (file, bytes) = open(path)?;
        Ok(RotatingFile { path: path.to_owned(), file, bytes, most_bytes })
    }

    /// Writes whole lines.
    ///
    /// # Errors
    /// They can't be written; a part of them may be there. Or the file can't be renamed.
    pub fn write(&mut self, lines: &[u8]) -> Result<()> {
        if self.bytes > 0 && self.bytes + lines.len() as u64 > self.most_bytes {
            let older = older(&self.path);
            let why = |e: Error| Error::new(e.kind(), format!("to rename it to {}: {e}", older.display()));
            std::fs::rename(&self.path, &older).map_err(why)?;
            (self.file, self.bytes) = open(&self.path)?;
        }
        let written = self.file.write_all(lines);
        self.bytes = if written.is_ok() { self.bytes + lines.len() as u64 } else { self.file.metadata()?.len() };
        written
    }
}
