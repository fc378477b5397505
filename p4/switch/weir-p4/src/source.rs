// SPDX-License-Identifier: Apache-2.0
//! Program files of a command line and of `#include`, read within a limit: a name may be a device or a pipe without an end.
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Limit of a file: twice the text of a package ([`crate::package`]), which JSON escapes.
pub const MAX_BYTES: u64 = 32 << 20;

/// Reads a file.
///
/// # Errors
/// It can't be read, or has more than [`MAX_BYTES`] bytes.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
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
    String::from_utf8(read(path)?).map_err(|e| {
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
    fn binary_files_are_no_text() {
        let program = std::env::current_exe().unwrap();
        let head = std::env::temp_dir().join(format!("weir-p4-source-{}", std::process::id()));
        std::fs::write(&head, &std::fs::read(program).unwrap()[..4096]).unwrap();
        let error = read_text(&head).unwrap_err().to_string();
        std::fs::remove_file(head).unwrap();
        assert!(error.starts_with("no UTF-8 text at byte "), "{error}");
    }
}
