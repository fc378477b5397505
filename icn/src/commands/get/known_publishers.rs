// SPDX-License-Identifier: Apache-2.0
//! Keys of publishers that were accepted at first use, by name, as ssh's known_hosts has those of hosts.

use crate::names::Name;
use crate::objects::object::manifest::{from_hex, hex};
use crate::objects::object::sign::PublicKey;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_io::cert;
use weir_io::fault::{Fault, IO};
use weir_io::files;

/// Exit code for a key that is not the known one.
const CHANGED: u8 = 6;
/// In place of a file: no key is kept.
const NONE: &str = "none";
const FILE_NAME: &str = "known_publishers";
/// The form of the one kind of key that there is.
const KIND: &str = "ed25519";
const HEADER: &str = "# Keys of publishers, as weir-icn get saw them first: name and what is below it, kind, key.\n";
/// Another process keeps the lock for the time of a write.
const LOCK_WITHIN: Duration = Duration::from_secs(5);

/// The file, if keys are kept.
#[derive(Debug)]
pub struct KnownPublishers(Option<PathBuf>);

/// Outcome of a check that accepts the key.
#[derive(Debug)]
pub enum Accepted {
    /// The file has it, or no keys are kept.
    AsBefore,
    /// It is the first for this name, and the file has it now. Also another name of the same folder whose key differs.
    Added(PathBuf, Option<String>),
    /// It is the first for this name, and can't be kept.
    NotKept(Fault),
}

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    line: usize,
    name: &'a str,
    key: PublicKey,
}

impl KnownPublishers {
    /// Of this file, or of the user's own.
    pub fn new(file: Option<&Path>) -> KnownPublishers {
        match file {
            Some(none) if none == Path::new(NONE) => KnownPublishers(None),
            Some(path) => KnownPublishers(Some(path.to_owned())),
            None => KnownPublishers(cert::state_dir().ok().map(|folder| folder.join(FILE_NAME))),
        }
    }

    /// Checks the key that signed an object's manifest. The first key of a name is kept for it and what is below it, and
    /// with `for_folder` for the folder that it is in. Without it a publisher of one name can't take its whole folder.
    ///
    /// # Errors
    /// Another key is known for this name, or the file can't be used.
    pub fn check(&self, name: &Name, for_folder: bool, key: &PublicKey) -> Result<Accepted, Fault> {
        let Some(path) = &self.0 else { return Ok(Accepted::AsBefore) };
        // A link of the user's own stays one.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if is_known(path, &read(path)?, name, key)? {
            return Ok(Accepted::AsBefore);
        }
        let _lock = match prepare(path).and_then(|()| files::lock(&beside(path, ".lock"), LOCK_WITHIN)) {
            Ok(lock) => lock,
            Err(e) => return Ok(Accepted::NotKept(at(path)(e))),
        };
        // Another process may have been first.
        let text = read(path)?;
        if is_known(path, &text, name, key)? {
            return Ok(Accepted::AsBefore);
        }
        let mut text = if text.is_empty() { HEADER.to_owned() } else { text };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let beside = beside_with_other_key(path, &text, name, key)?;
        text += &format!("{} {KIND} {}\n", covered(&written(name), for_folder), hex(key));
        match files::replace_secret(path, text.as_bytes()) {
            Ok(()) => Ok(Accepted::Added(path.clone(), beside)),
            Err(e) => Ok(Accepted::NotKept(at(path)(e))),
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Fault {
    Fault::io(format!("{}: publishers' keys", path.display()))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn prepare(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.exists() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    files::expect_private_folder(folder)
}

/// The file's text; none yet is as good as an empty one.
fn read(path: &Path) -> Result<String, Fault> {
    let text = match fs::read_to_string(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(String::new()),
        text => text.map_err(at(path))?,
    };
    prepare(path).and_then(|()| files::expect_secret(path, files::WRITTEN_BY_OTHERS)).map_err(at(path))?;
    Ok(text)
}

/// A name as it stands in the file: what would end a word or a line there, or begin a comment, as in a URL.
fn written(name: &Name) -> String {
    let byte = |b: u8| match b {
        b'%' | b'#' | 0..=b' ' | 0x7f => format!("%{b:02X}").into_bytes(),
        _ => vec![b],
    };
    String::from_utf8_lossy(&name.text().bytes().flat_map(byte).collect::<Vec<_>>()).into_owned()
}

/// The folder that a name is in; `None` at the top.
fn folder_of(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(folder, _)| folder).filter(|folder| !folder.is_empty())
}

/// The name that a key is kept for.
fn covered(name: &str, for_folder: bool) -> &str {
    folder_of(name).filter(|_| for_folder).unwrap_or(name)
}

/// A name in the same folder that has another key.
fn beside_with_other_key(path: &Path, text: &str, name: &Name, key: &PublicKey) -> Result<Option<String>, Fault> {
    let name = written(name);
    let Some(folder) = folder_of(&name) else { return Ok(None) };
    let entries = entries(path, text)?;
    let found = entries.iter().find(|e| folder_of(e.name) == Some(folder) && e.key != *key);
    Ok(found.map(|e| e.name.to_owned()))
}

/// Whether the file has this key for the name; `false` if it has none. The longest name that covers it counts.
fn is_known(path: &Path, text: &str, name: &Name, key: &PublicKey) -> Result<bool, Fault> {
    let name = written(name);
    let covers =
        |entry: &Entry| name.strip_prefix(entry.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let entries = entries(path, text)?;
    let Some(longest) = entries.iter().filter(|e| covers(e)).map(|e| e.name.len()).max() else { return Ok(false) };
    // Several lines of one name: any of these keys, as while a publisher changes its key.
    let known: Vec<_> = entries.iter().filter(|e| covers(e) && e.name.len() == longest).collect();
    if known.iter().any(|e| e.key == *key) {
        return Ok(true);
    }
    let Some(first) = known.first() else { return Ok(false) };
    let (found, file, line) = (hex(key), path.display(), first.line);
    let text = format!(
        "{name}: the publisher's key has changed: signed by {found}; {file}:{line} has {} for {}. If the publisher says \
         that the new key is right, remove that line, or give --publisher {found}",
        hex(&first.key),
        first.name
    );
    Err(Fault::new(CHANGED, text))
}

fn entries<'a>(path: &Path, text: &'a str) -> Result<Vec<Entry<'a>>, Fault> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
    let entry = |(line, text): (usize, &'a str)| {
        let mut words = text.split_ascii_whitespace();
        match (words.next(), words.next(), words.next().and_then(from_hex), words.next()) {
            (Some(name), Some(KIND), Some(key), None) if name.starts_with('/') => Ok(Entry { line, name, key }),
            // To leave it out would accept any key for its name.
            _ => Err(Fault::new(IO, format!("{}:{line}: expected NAME {KIND} KEY", path.display()))),
        }
    };
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    const FIRST: PublicKey = [1; 32];
    const OTHER: PublicKey = [2; 32];

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn known(folder: &Path) -> (KnownPublishers, PathBuf) {
        let path = folder.join("state/known");
        (KnownPublishers::new(Some(&path)), path)
    }

    #[test]
    fn the_first_key_of_a_name_is_kept_and_another_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (known, path) = known(dir.path());
        let check = |text, for_folder, key| known.check(&name(text), for_folder, key);
        assert!(matches!(check("/weir/files/a", true, &FIRST), Ok(Accepted::Added(file, None)) if file == path));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(check("/weir/files/b", false, &FIRST), Ok(Accepted::AsBefore)));
        assert!(matches!(check("/weir/files/below/b", false, &FIRST), Ok(Accepted::AsBefore)));
        for other in ["/weir/files/a", "/weir/files/c", "/weir/files/below/b"] {
            let fault = check(other, false, &OTHER).unwrap_err();
            assert_eq!(fault.code, CHANGED);
            for part in [&format!("{}:2", path.display()), &hex(&FIRST), &hex(&OTHER), other] {
                assert!(fault.text.contains(part), "{part}: {}", fault.text);
            }
        }
        // Names beside it are others'.
        assert!(matches!(check("/weir/filesystem/a", true, &OTHER), Ok(Accepted::Added(..))));
        assert!(matches!(check("/weir/radio", false, &OTHER), Ok(Accepted::Added(..))));
        assert!(matches!(check("/film", true, &OTHER), Ok(Accepted::Added(..))));
        let lines = fs::read_to_string(&path).unwrap();
        let names: Vec<_> = lines.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["/weir/files", "/weir/filesystem", "/weir/radio", "/film"]);
        // The longest name counts, and each of its lines.
        fs::write(&path, format!("{lines}/weir/files/c {KIND} {}", hex(&OTHER))).unwrap();
        assert!(matches!(check("/weir/files/c", false, &OTHER), Ok(Accepted::AsBefore)));
        assert_eq!(check("/weir/files/c", false, &FIRST).unwrap_err().code, CHANGED);
        assert!(matches!(check("/new/a", true, &FIRST), Ok(Accepted::Added(..))));
        fs::write(&path, fs::read_to_string(&path).unwrap() + &format!("/new {KIND} {}\n", hex(&OTHER))).unwrap();
        assert!(matches!(check("/new/b", false, &OTHER), Ok(Accepted::AsBefore)));
    }

    #[test]
    fn who_publishes_a_name_does_not_get_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (known, path) = known(dir.path());
        let check = |text, key| known.check(&name(text), false, key);
        assert!(matches!(check("/weir/radio", &OTHER), Ok(Accepted::Added(_, None))));
        assert!(matches!(check("/weir/film", &FIRST), Ok(Accepted::Added(_, Some(other))) if other == "/weir/radio"));
        assert!(matches!(check("/weir/radio/1", &OTHER), Ok(Accepted::AsBefore)));
        for (text, key) in [("/weir/radio", &FIRST), ("/weir/radio/1", &FIRST), ("/weir/film", &OTHER)] {
            assert_eq!(check(text, key).unwrap_err().code, CHANGED, "{text}");
        }
        let lines = fs::read_to_string(&path).unwrap();
        let names: Vec<_> = lines.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["/weir/radio", "/weir/film"]);
    }

    #[test]
    fn names_do_not_end_words_or_lines_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (known, path) = known(dir.path());
        let wild = name(&format!("/a b\n/weir {KIND} {}\n#%/x", hex(&OTHER)));
        assert!(matches!(known.check(&wild, false, &FIRST), Ok(Accepted::Added(..))));
        assert!(matches!(known.check(&wild, false, &FIRST), Ok(Accepted::AsBefore)));
        assert_eq!(known.check(&wild, false, &OTHER).unwrap_err().code, CHANGED);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert!(matches!(known.check(&name("/weir/x"), false, &FIRST), Ok(Accepted::Added(..))));
    }

    #[test]
    fn a_line_that_is_not_understood_is_no_leave_to_accept_any_key() {
        let dir = tempfile::tempdir().unwrap();
        let (known, path) = known(dir.path());
        known.check(&name("/weir/files/a"), false, &FIRST).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        for bad in [&good[..good.len() - 9], "/weir/files\n", "weir ed25519 00\n", &good.replace(KIND, "rsa")] {
            fs::write(&path, bad).unwrap();
            let fault = known.check(&name("/weir/files/a"), false, &OTHER).unwrap_err();
            assert!(fault.code == IO && fault.text.contains("known:"), "{bad}: {}", fault.text);
        }
    }

    #[test]
    fn a_file_that_others_may_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (known, path) = known(dir.path());
        known.check(&name("/weir/files/a"), false, &FIRST).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&path, 0o666);
        assert_eq!(known.check(&name("/weir/files/a"), false, &FIRST).unwrap_err().code, IO);
        mode(&path, 0o600);
        mode(path.parent().unwrap(), 0o777);
        assert_eq!(known.check(&name("/weir/files/a"), false, &FIRST).unwrap_err().code, IO);
        // None is made there, and nothing through a link in it.
        fs::remove_file(&path).unwrap();
        symlink(dir.path().join("target"), &path).unwrap();
        assert!(matches!(known.check(&name("/weir/files/a"), false, &FIRST), Ok(Accepted::NotKept(_))));
        assert!(!dir.path().join("target").exists());
    }

    #[test]
    fn several_at_once_keep_one_key_for_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let (known, path) = known(dir.path());
        thread::scope(|scope| {
            let threads: Vec<_> = (0..16u8)
                .map(|i| {
                    let known = &known;
                    scope.spawn(move || {
                        let of_own = known.check(&name(&format!("/own{i}/a")), false, &[i; 32]);
                        (of_own.is_ok(), known.check(&name("/weir/files/a"), false, &[i; 32]).is_ok())
                    })
                })
                .collect();
            let done: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(done.iter().all(|(of_own, _)| *of_own));
            assert_eq!(done.iter().filter(|(_, shared)| *shared).count(), 1);
        });
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(entries(&path, &text).unwrap().len(), 17);
    }

    #[test]
    fn none_keeps_nothing() {
        let none = KnownPublishers::new(Some(Path::new("none")));
        for key in [FIRST, OTHER] {
            assert!(matches!(none.check(&name("/a/b"), false, &key), Ok(Accepted::AsBefore)));
        }
        assert!(!Path::new("none").exists());
    }
}
