// SPDX-License-Identifier: Apache-2.0
//! `--output`: a download into a file that appears when it is complete, or not at all.

use crate::shared::fault::{Fault, IO};
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;
use weir_core::client::aggregate::RangedBody;
use weir_core::client::{Body, Outcome};
use weir_io::files;

/// A temporary file beside the target, which takes the target's name when it is complete. If dropped before that, it is
/// deleted.
pub struct OutputFile {
    target: PathBuf,
    part: Option<(BufWriter<File>, TempPath)>,
}

impl OutputFile {
    /// Makes the temporary file.
    ///
    /// # Errors
    /// The target exists and is not a plain file, or its folder can't be written to.
    pub fn create(target: &Path) -> Result<OutputFile, Fault> {
        let fault = |why: String| Fault::new(IO, format!("--output {}: {why}", target.display()));
        if target.file_name().is_none() {
            return Err(fault("not the name of a file".to_owned()));
        }
        // Replacing a folder would fail, but a device or a pipe would be lost.
        match std::fs::metadata(target) {
            Ok(m) if !m.is_file() => return Err(fault("exists and is not a plain file".to_owned())),
            // A read-only file could be replaced, which its owner hardly wants.
            Ok(m) if m.permissions().readonly() => return Err(fault("is read-only".to_owned())),
            _ => {}
        }
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Like any new file: less the process's umask.
        let (file, path) =
            files::temporary_beside(target, 0o666).map_err(|e| fault(format!("folder {}: {e}", folder.display())))?;
        let path = TempPath::try_from_path(path).map_err(|e| fault(e.to_string()))?;
        Ok(OutputFile { target: target.to_owned(), part: Some((BufWriter::with_capacity(1 << 18, file), path)) })
    }

    fn failed(&self, e: &std::io::Error) -> Outcome {
        Outcome::File(format!("{}: {e}", self.target.display()))
    }

    fn is_written(&self) -> Outcome {
        Outcome::File(format!("{}: written already", self.target.display()))
    }
}

impl Body for OutputFile {
    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        let Some((file, _)) = &mut self.part else { return Err(self.is_written()) };
        file.write_all(part).map_err(|e| self.failed(&e))
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        let Some((file, _)) = &mut self.part else { return Err(self.is_written()) };
        file.rewind().and_then(|()| file.get_ref().set_len(0)).map_err(|e| self.failed(&e))
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        let Some((file, path)) = self.part.take() else {
            return Err(self.is_written());
        };
        let file = file.into_inner().map_err(|e| {
            // Or the buffer would try once more when it is dropped.
            let (error, buffer) = e.into_parts();
            let _ = buffer.into_parts();
            self.failed(&error)
        })?;
        // On the disk before it has its name: a crash must not leave a name with nothing behind it.
        file.sync_all().map_err(|e| self.failed(&e))?;
        path.persist(&self.target).map_err(|e| self.failed(&e.error))
    }
}

impl RangedBody for OutputFile {
    fn put(&mut self, offset: u64, part: &[u8]) -> Result<(), Outcome> {
        let Some((file, _)) = &mut self.part else { return Err(self.is_written()) };
        file.get_ref().write_all_at(part, offset).map_err(|e| self.failed(&e))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // Buffered data must not be written on the way out.
        if let Some((file, _path)) = self.part.take() {
            let _ = file.into_parts();
        }
    }
}

/// `--output -`: the answer goes to standard output as it arrives.
#[derive(Debug, Default)]
pub struct StandardOutput {
    begun: bool,
}

impl StandardOutput {
    fn written(result: std::io::Result<()>) -> Result<(), Outcome> {
        result.map_err(|e| Outcome::File(format!("--output -: standard output: {e}")))
    }
}

impl Body for StandardOutput {
    fn take(&mut self, part: &[u8]) -> Result<(), Outcome> {
        self.begun = true;
        Self::written(std::io::stdout().write_all(part))
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        match self.begun {
            true => {
                let why = "the request had to be sent again, and what was written can't be taken back";
                Err(Outcome::File(format!("--output -: {why}")))
            }
            false => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        Self::written(std::io::stdout().flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let mut file = OutputFile::create(&target).unwrap();
        file.take(&vec![7; 1 << 20]).unwrap();
        assert!(!target.exists());
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

        let mut file = OutputFile::create(&target).unwrap();
        file.take(b"what was before").unwrap();
        file.restart().unwrap();
        file.take(b"ab").unwrap();
        file.take(b"c").unwrap();
        file.finish().unwrap();
        drop(file);
        assert_eq!(fs::read(&target).unwrap(), b"abc");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn parts_in_any_order() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let mut file = OutputFile::create(&target).unwrap();
        file.put(2, b"cd").unwrap();
        file.put(0, b"ab").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"abcd");
    }

    #[test]
    fn what_is_no_file_to_write_is_named() {
        // The system's reason, in its words.
        let missing = File::open("/nonexistent/x").unwrap_err().to_string();
        for (target, why) in [
            ("/dev/null", "not a plain file"),
            ("/tmp", "not a plain file"),
            ("/nonexistent/x", missing.as_str()),
            ("/", "not the name"),
        ] {
            let e = OutputFile::create(Path::new(target)).err().unwrap();
            assert!(e.code == IO && e.text.contains(target) && e.text.contains(why), "{e}");
            // The temporary file's name is hidden.
            assert!(!e.text.contains("/.x"), "{e}");
        }
    }
}
