// SPDX-License-Identifier: Apache-2.0
//! Qlog files, one for each connection (`--qlog-dir`).

use super::fault::Fault;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use weir_io::files;

/// A qlog file. quiche, which writes it, lets errors pass: the first is kept here.
#[derive(Clone)]
pub struct QlogFile {
    path: PathBuf,
    state: Arc<Mutex<QlogState>>,
}

struct QlogState {
    /// None once something could not be written.
    out: Option<BufWriter<File>>,
    error: Option<io::Error>,
}

impl QlogState {
    fn try_to<T: Default>(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>) -> T {
        let result = self.out.as_mut().map(write);
        if let Some(Err(e)) = result {
            self.error = Some(e);
            // Buffered data must not be written again when the writer is dropped.
            self.out.take().map(BufWriter::into_parts);
            return T::default();
        }
        result.and_then(Result::ok).unwrap_or_default()
    }
}

impl QlogFile {
    /// Starts the qlog of a connection in the file `NAME.sqlog`, if there is a folder for it.
    ///
    /// # Errors
    /// The file can't be made.
    pub fn start(dir: Option<&Path>, quic: &mut quiche::Connection, name: &str) -> Result<Option<QlogFile>, Fault> {
        let Some(dir) = dir else { return Ok(None) };
        let qlog = QlogFile::create(dir.join(format!("{name}.sqlog")))?;
        quic.set_qlog(Box::new(qlog.clone()), name.to_owned(), String::new());
        Ok(Some(qlog))
    }

    fn create(path: PathBuf) -> Result<QlogFile, Fault> {
        let file = files::create(&path).map_err(Fault::io(path.display()))?;
        let state = QlogState { out: Some(BufWriter::new(file)), error: None };
        Ok(QlogFile { path, state: Arc::new(Mutex::new(state)) })
    }

    /// Gives itself back, unless something could not be written.
    ///
    /// # Errors
    /// The first one there was.
    pub fn checked(self) -> Result<QlogFile, Fault> {
        let error = self.state.lock().unwrap_or_else(PoisonError::into_inner).error.take();
        error.map_or(Ok(()), |e| Err(Fault::io(self.path.display())(e))).map(|()| self)
    }

    /// Takes the file away: its connection never was.
    pub fn discard(self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).out.take().map(BufWriter::into_parts);
        // It is of no use, so that it stays is no harm.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Writes out the rest, and reports a failure once.
    ///
    /// # Errors
    /// The first one there was.
    pub fn finish(&self) -> Result<(), Fault> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.try_to(Write::flush);
        state.error.take().map_or(Ok(()), |e| Err(Fault::io(self.path.display())(e)))
    }
}

impl Write for QlogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).try_to(|out| out.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).try_to(Write::flush);
        Ok(())
    }
}
