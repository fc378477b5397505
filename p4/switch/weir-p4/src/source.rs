// SPDX-License-Identifier: Apache-2.0
//! Program files of a command line and of `#include`, read within a limit: a name may be a device or a pipe without an end.
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit of a file: twice the text of a package ([`crate::package`]), which JSON escapes.
pub const MAX_BYTES: u64 = 32 << 20;

/// Time for a program to open a pipe for writing.
const WRITER_LIMIT: Duration = Duration::from_secs(5);
/// Interval of checks for the first bytes of a pipe.
const WRITER_CHECK: Duration = Duration::from_millis(10);

/// A pipe whose writer is waited for, for a bounded time.
struct Pipe {
    file: File,
    deadline: Instant,
    /// A program has it open for writing, or had.
    has_writer: bool,
}

impl Pipe {
    fn open(path: &Path, limit: Duration) -> Result<Pipe> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        Ok(Pipe { file, deadline: Instant::now() + limit, has_writer: false })
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.file.read(buffer) {
                // The end, or no writer yet.
                Ok(0) if !self.has_writer && Instant::now() < self.deadline => (),
                Ok(0) if !self.has_writer => {
                    let m = format!("is a pipe that no program has opened for writing in {} s", WRITER_LIMIT.as_secs());
                    return Err(Error::new(ErrorKind::TimedOut, m));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.has_writer = true,
                other => {
                    self.has_writer = true;
                    return other;
                }
            }
            std::thread::sleep(WRITER_CHECK);
        }
    }
}

/// Error of opening a file for writing, with the folder or the reader that it lacks.
pub fn explain(path: &Path, e: &Error) -> String {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if e.kind() == ErrorKind::NotFound && folder.symlink_metadata().is_err() => {
            format!("there is no folder {}; make it first", folder.display())
        }
        _ if e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            "is a socket, or a pipe that no program has open for reading".into()
        }
        _ => e.to_string(),
    }
}

/// Reads a file.
///
/// # Errors
/// It can't be read, or has more than [`MAX_BYTES`] bytes; or it is a pipe without a writer.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.metadata()?.file_type().is_fifo() {
        Pipe::open(path, WRITER_LIMIT)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("more than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

/// Reads a file as text.
///
/// # Errors
/// As [`read`], or it has bytes that are no UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    text(read(path)?)
}

/// A file's contents as text.
///
/// # Errors
/// They have bytes that are no UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("no UTF-8 text at byte {at}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        assert_eq!(read(Path::new("/dev/zero")).unwrap_err().to_string(), "more than 32 MiB");
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_its_writer_is_not_waited_for_without_end() {
        let path = std::env::temp_dir().join(format!("weir-p4-pipe-{}", std::process::id()));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let none = Pipe::open(&path, Duration::ZERO).unwrap().read(&mut [0]).unwrap_err();
        let (first, last) = (vec![b'a'; 100_000], vec![b'b'; 100_000]);
        let text = [&*first, &*last].concat();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                use std::io::Write;
                let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
                pipe.write_all(&first).unwrap();
                std::thread::sleep(5 * WRITER_CHECK);
                pipe.write_all(&last).unwrap();
            }
        });
        let all = read(&path).unwrap();
        writer.join().unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(none.to_string().contains("no program has opened for writing"), "{none}");
        assert!(all == text, "{} bytes", all.len());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = || Error::from(ErrorKind::NotFound);
        assert_eq!(explain(Path::new("/missing/x/y.json"), &error()), "there is no folder /missing/x; make it first");
        assert_eq!(explain(Path::new("y.json"), &error()), error().to_string());
    }

    #[test]
    fn binary_files_are_no_text() {
        let program = std::env::current_exe().unwrap();
        let head = std::env::temp_dir().join(format!("weir-p4-source-{}", std::process::id()));
        std::fs::write(&head, &std::fs::read(program).unwrap()[..4096]).unwrap();
        let error = read_text(&head).unwrap_err().to_string();
        std::fs::remove_file(head).unwrap();
        assert!(error.starts_with("no UTF-8 text at byte "), "{error}");
    }
}
