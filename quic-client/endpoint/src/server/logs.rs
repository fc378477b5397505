// SPDX-License-Identifier: Apache-2.0
//! The server's qlogs. If one can't be written, they end with one line on standard error, as other logs do
//! (`weir_io::lines::LineLog`), and the server goes on. When the server ends it reports how much is missing.

use crate::shared::fault::Fault;
use crate::shared::qlog::QlogFile;
use std::io;
use std::path::{Path, PathBuf};
use weir_core::text::printable;

/// One line on standard error.
pub fn complain(text: &str) {
    eprintln!("weir-server: {}", printable(text));
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

    /// Starts the qlog of a possible connection, if wanted.
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

    /// Reports missing parts. True if there are none.
    pub fn finish(&self) -> bool {
        if self.lost > 0 {
            complain(&format!("--qlog-dir: {} connections have no qlog, or none that is whole", self.lost));
        }
        self.lost == 0
    }
}
