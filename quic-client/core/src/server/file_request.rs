// SPDX-License-Identifier: Apache-2.0
//! Requests for files: names out of paths, preconditions (RFC 9110 13) and byte ranges (RFC 9110 14).

use super::head::Head;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Longest path in bytes, as Linux has it.
const MOST_PATH_BYTES: usize = 4096;

/// A path that names no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is malformed.
    #[error("path not understood: expected /NAME/..., without empty names, '.', '..', encoded slashes or NUL")]
    Malformed,
    /// A hidden file: its name begins with a dot.
    #[error("no such file")]
    Hidden,
}

/// A file or folder of the served folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePath {
    /// Its path below the served folder; empty for that folder.
    pub below: PathBuf,
    /// The path ends in a slash: it names a folder.
    pub is_folder: bool,
}

impl FilePath {
    /// Reads the path of a request. Its query is ignored.
    ///
    /// # Errors
    /// No file can have this path.
    pub fn read(path: &str) -> Result<FilePath, PathError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        // RFC 3986 has no others. A redirection repeats the path.
        let is_uri = path.bytes().chain(query.bytes()).all(|b| b.is_ascii_graphic() && !matches!(b, b'#' | b'\\'));
        if path.len() > MOST_PATH_BYTES || !is_uri {
            return Err(PathError::Malformed);
        }
        let names = path.strip_prefix('/').ok_or(PathError::Malformed)?;
        let (names, is_folder) = match names.strip_suffix('/') {
            Some(names) => (names, true),
            None => (names, names.is_empty()),
        };
        let mut below = PathBuf::new();
        for name in names.split('/').filter(|_| !names.is_empty()) {
            let name: Vec<u8> = percent_encoding::percent_decode_str(name).collect();
            if matches!(name[..], [] | [b'.'] | [b'.', b'.']) || name.contains(&b'/') || name.contains(&0) {
                return Err(PathError::Malformed);
            }
            // RFC 8615: these are meant to be found.
            if name[0] == b'.' && !(name == b".well-known" && below.as_os_str().is_empty()) {
                return Err(PathError::Hidden);
            }
            below.push(OsString::from_vec(name));
        }
        if names.is_empty() && path.len() > 1 {
            return Err(PathError::Malformed);
        }
        Ok(FilePath { below, is_folder })
    }
}

/// Validators of a file (RFC 9110 8.8) and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// Its strong entity tag, quotes included.
    pub etag: String,
    /// Time of its last change.
    pub modified: SystemTime,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Part of a file that answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// All of it (200).
    Whole,
    /// These bytes; never none (206).
    Part {
        /// Offset of the first.
        first: u64,
        /// Offset of the last.
        last: u64,
    },
    /// Nothing: the client has it (304).
    NotModified,
    /// Nothing: a precondition is false (412).
    PreconditionFailed,
    /// Nothing: it has no such bytes (416).
    Unsatisfiable,
}

impl Validators {
    /// Evaluates the preconditions of a GET or HEAD request, then its range, in the order of RFC 9110 13.2.2. Several
    /// ranges in one request are ignored (RFC 9110 14.2).
    pub fn select(&self, head: &Head<'_>) -> Selection {
        let is_since = |field: &str| Some(self.modified_s() <= seconds(http_date(head.field(field)?)?));
        let unchanged = match head.field("if-match") {
            Some(tags) => Some(lists(tags, &self.etag, false)),
            None => is_since("if-unmodified-since"),
        };
        if unchanged == Some(false) {
            return Selection::PreconditionFailed;
        }
        let known = match head.field("if-none-match") {
            Some(tags) => Some(lists(tags, &self.etag, true)),
            None => is_since("if-modified-since"),
        };
        if known == Some(true) {
            return Selection::NotModified;
        }
        let applies = match head.field("if-range") {
            _ if head.method != "GET" => false,
            None => true,
            Some(tag) if tag.starts_with('"') => tag == self.etag,
            Some(date) => http_date(date).is_some_and(|date| seconds(date) == self.modified_s()),
        };
        match head.field("range").filter(|_| applies).and_then(|text| byte_range(text, self.bytes)) {
            None => Selection::Whole,
            Some(None) => Selection::Unsatisfiable,
            Some(Some((first, last))) => Selection::Part { first, last },
        }
    }

    // HTTP's dates have seconds.
    fn modified_s(&self) -> u64 {
        seconds(self.modified)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

fn http_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

// A list of entity tags, or a star. A weak tag never matches where the comparison is strong (RFC 9110 8.8.3.2).
fn lists(tags: &str, etag: &str, weakly: bool) -> bool {
    let tags = tags.split(',').map(str::trim);
    tags.into_iter().any(|tag| tag == "*" || tag == etag || weakly && tag.strip_prefix("W/") == Some(etag))
}

// `None`: no single range of bytes, to be ignored. `Some(None)`: it can't be satisfied.
fn byte_range(text: &str, bytes: u64) -> Option<Option<(u64, u64)>> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // More than fits is beyond any file.
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") || range.contains(',') {
        return None;
    }
    let end = bytes.checked_sub(1);
    match (first, last) {
        ("", suffix) => {
            let suffix = number(suffix)?;
            Some(end.filter(|_| suffix > 0).map(|end| (bytes - suffix.min(bytes), end)))
        }
        (first, "") => {
            let first = number(first)?;
            Some(end.filter(|end| first <= *end).map(|end| (first, end)))
        }
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            // RFC 9110 14.1.1: invalid.
            if last < first {
                return None;
            }
            Some(end.filter(|end| first <= *end).map(|end| (first, last.min(end))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quiche::h3::Header;
    use std::path::{Component, Path};

    fn path(text: &str) -> Result<(PathBuf, bool), PathError> {
        FilePath::read(text).map(|path| (path.below, path.is_folder))
    }

    #[test]
    fn names() {
        let good = |text: &str, below: &str, folder| assert_eq!(path(text), Ok((below.into(), folder)), "{text}");
        good("/", "", true);
        good("/a/b%20c?q=/../", "a/b c", false);
        good("/a/", "a", true);
        good("/a...", "a...", false);
        good("/.well-known/x", ".well-known/x", false);
        for bad in [
            "",
            "a",
            "//",
            "/a//b",
            "/..",
            "/a/../b",
            "/a/%2e%2e/b",
            "/./a",
            "/a%2fb",
            "/a%2F..%2Fb",
            "/a%00",
            "/a#b",
            "/a\\..\\b",
            "///",
            "/..%2f",
            "/%2e",
        ] {
            assert_eq!(path(bad), Err(PathError::Malformed), "{bad}");
        }
        for bad in ["/a\r\nx: y", "/a?b\nc", "/ä", "/a b"] {
            assert_eq!(path(bad), Err(PathError::Malformed), "{bad}");
        }
        for hidden in ["/.git/config", "/...", "/a/.well-known", "/%2ehtpasswd"] {
            assert_eq!(path(hidden), Err(PathError::Hidden), "{hidden}");
        }
        assert_eq!(path(&format!("/{}", "a".repeat(5000))), Err(PathError::Malformed));
    }

    fn select(method: &str, fields: &[(&str, &str)]) -> Selection {
        let fields: Vec<_> = fields.iter().map(|(n, v)| Header::new(n.as_bytes(), v.as_bytes())).collect();
        let modified = http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap() + Duration::from_millis(600);
        let file = Validators { etag: "\"tag\"".into(), modified, bytes: 1000 };
        file.select(&Head { method, path: "/", fields: &fields })
    }

    #[test]
    fn ranges() {
        let range = |text| select("GET", &[("range", text)]);
        let part = |first, last| Selection::Part { first, last };
        assert_eq!(range("bytes=0-499"), part(0, 499));
        assert_eq!(
            (range("bytes=999-"), range("Bytes=-1"), range("bytes=-5000")),
            (part(999, 999), part(999, 999), part(0, 999))
        );
        assert_eq!(range("bytes=10-99999999999999999999999"), part(10, 999));
        for none in ["bytes=1000-", "bytes=-0", "bytes=1000-2000", "bytes=99999999999999999999999-"] {
            assert_eq!(range(none), Selection::Unsatisfiable, "{none}");
        }
        for ignored in
            ["bytes=5-4", "bytes=", "bytes=-", "lines=0-1", "bytes=0-1,3-4", "bytes=+1-2", "0-1", "bytes=a-b"]
        {
            assert_eq!(range(ignored), Selection::Whole, "{ignored}");
        }
        assert_eq!(select("HEAD", &[("range", "bytes=0-1")]), Selection::Whole);
    }

    #[test]
    fn preconditions() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        for known in [
            ("if-none-match", "\"tag\""),
            ("if-none-match", "\"x\", W/\"tag\""),
            ("if-none-match", "*"),
            ("if-modified-since", date),
        ] {
            assert_eq!(select("HEAD", &[known, ("range", "bytes=5000-")]), Selection::NotModified, "{known:?}");
        }
        assert_eq!(select("GET", &[("if-none-match", "\"x\""), ("if-modified-since", date)]), Selection::Whole);
        assert_eq!(select("GET", &[("if-modified-since", earlier)]), Selection::Whole);
        for changed in [("if-match", "\"x\""), ("if-match", "W/\"tag\""), ("if-unmodified-since", earlier)] {
            assert_eq!(select("GET", &[changed]), Selection::PreconditionFailed, "{changed:?}");
        }
        assert_eq!(select("GET", &[("if-match", "\"tag\""), ("if-unmodified-since", earlier)]), Selection::Whole);
        let part = Selection::Part { first: 0, last: 0 };
        for (tag, selected) in [
            ("\"tag\"", part),
            ("W/\"tag\"", Selection::Whole),
            ("\"x\"", Selection::Whole),
            (date, part),
            (earlier, Selection::Whole),
        ] {
            assert_eq!(select("GET", &[("if-range", tag), ("range", "bytes=0-0")]), selected, "{tag}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out(text in "[/.%a-f0-9\\\\#?\\x00]{0,40}") {
            if let Ok(path) = FilePath::read(&format!("/{text}")) {
                prop_assert!(path.below.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(!path.below.has_root() && Path::new("/root").join(&path.below).starts_with("/root"));
            }
        }

        #[test]
        fn a_range_is_within_the_file(text in "bytes=[0-9,-]{0,24}", bytes in 0u64..3000) {
            if let Some(Some((first, last))) = byte_range(&text, bytes) {
                prop_assert!(first <= last && last < bytes);
            }
        }
    }
}
