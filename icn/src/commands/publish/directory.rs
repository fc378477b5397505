// SPDX-License-Identifier: Apache-2.0
//! The files of a folder, by name.

use crate::names::Name;
use crate::objects::publisher::Content;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use weir_io::files::Folder;

/// A folder whose files have names: `/weir/files/a/b` is the file `a/b`.
#[derive(Debug)]
pub struct Directory {
    root: Folder,
    name: Name,
}

/// Version of a file's content, as far as the file system shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    changed: (i64, i64),
    file: (u64, u64),
}

impl Stamp {
    fn of(m: &Metadata) -> Stamp {
        Stamp { bytes: m.len(), changed: (m.mtime(), m.mtime_nsec()), file: (m.dev(), m.ino()) }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// An open file.
#[derive(Debug)]
pub struct Opened(File);

impl Content for Opened {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

impl Directory {
    /// The folder `root` under `name`.
    ///
    /// # Errors
    /// It can't be read, or is no folder.
    pub fn open(root: &Path, name: Name) -> io::Result<Directory> {
        std::fs::read_dir(root)?;
        Ok(Directory { root: Folder::open(root)?, name })
    }

    /// Opens the file of this name.
    ///
    /// # Errors
    /// Why there is none, fit for a stranger: other contents of the folder are not named.
    pub fn find(&self, name: &Name) -> Result<(Opened, Stamp), String> {
        let none = || format!("{name}: there is no such object");
        let below = name.text().strip_prefix(self.name.text()).and_then(|rest| rest.strip_prefix('/'));
        let below = below.ok_or_else(none)?;
        // `~` begins what packets add to a name, `.` what its owner does not show.
        if below.split('/').any(|part| part.starts_with(['~', '.']) || part.contains('\0')) {
            return Err(none());
        }
        let (file, metadata) = self.root.file(Path::new(below)).map_err(|_| none())?;
        Ok((Opened(file), Stamp::of(&metadata)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_lead_to_files_of_the_folder_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/b"), "12345").unwrap();
        fs::write(root.join("~x"), "1").unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".git/config"), "1").unwrap();
        fs::write(root.join(".hidden"), "1").unwrap();
        let fifo = std::ffi::CString::new(root.join("fifo").into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the path is a string that ends in 0 and outlives the call.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        fs::write(dir.path().join("secret"), "1").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("in")).unwrap();
        let directory = Directory::open(&root, Name::new("/weir/files").unwrap()).unwrap();
        let find = |text: &str| directory.find(&Name::new(text).unwrap()).map(|(_, s)| s.bytes());
        assert_eq!(find("/weir/files/a/b"), Ok(5));
        assert_eq!(find("/weir/files/in"), Ok(5));
        for text in [
            "/weir/files/a",
            "/weir/files",
            "/weir/filesa/b",
            "/weir/files/~x",
            "/weir/files/out",
            "/other/a/b",
            "/weir/files/.hidden",
            "/weir/files/.git/config",
            "/weir/files/fifo",
        ] {
            assert!(find(text).unwrap_err().contains("no such object"), "{text}");
        }
        assert!(Directory::open(&root.join("a/b"), Name::new("/x").unwrap()).is_err());
    }
}
