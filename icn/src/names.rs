// SPDX-License-Identifier: Apache-2.0
//! Names of data, and the numbers that packets carry for them.

use boring::sha::sha256;
use std::fmt;
use std::str::FromStr;

/// Longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;
/// Components that are in the prefix; what is behind them only the name's hash does.
pub const PREFIX_COMPONENTS: usize = 4;

/// A name: `/weir/files/film.mp4`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    text: String,
    hash: u64,
    prefix: u64,
}

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("a name has at most {MAX_NAME_BYTES} bytes; this one has {0}")]
    TooLong(usize),
    /// It does not begin with a slash.
    #[error("a name begins with '/', as in /weir/web; found '{0}'")]
    NoSlash(String),
    /// Two slashes in a row, one at the end, or nothing else.
    #[error("no part of a name is empty, as in /weir/web; found '{0}'")]
    Empty(String),
    /// A component `.` or `..`.
    #[error("no part of a name is '.' or '..'; found '{0}'")]
    Dots(String),
    /// The text hashes to 0, which stands for no name.
    #[error("the hash of '{0}' is 0, which stands for no name; choose another")]
    ZeroHash(String),
}

impl Name {
    /// The name that `text` is.
    ///
    /// # Errors
    /// It is no valid name.
    pub fn new(text: &str) -> Result<Name, NameError> {
        if text.len() > MAX_NAME_BYTES {
            return Err(NameError::TooLong(text.len()));
        }
        let Some(rest) = text.strip_prefix('/') else { return Err(NameError::NoSlash(text.to_owned())) };
        let mut prefix = 0;
        for (i, component) in rest.split('/').enumerate() {
            match component {
                "" => return Err(NameError::Empty(text.to_owned())),
                "." | ".." => return Err(NameError::Dots(text.to_owned())),
                _ if i < PREFIX_COMPONENTS => prefix |= u64::from(component_bits(component)) << (48 - 16 * i),
                _ => {}
            }
        }
        match hash(text) {
            0 => Err(NameError::ZeroHash(text.to_owned())),
            hash => Ok(Name { text: text.to_owned(), hash, prefix }),
        }
    }

    /// The name with further components behind it: `web.child("open")` is `/weir/web/open`.
    ///
    /// # Errors
    /// The longer name is not valid.
    pub fn child(&self, components: &str) -> Result<Name, NameError> {
        Name::new(&format!("{}/{components}", self.text))
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The field `name`: the first 8 bytes of SHA-256 of the text, never 0.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The field `prefix`: 16 bits for each of the first four components, never 0 for one that is there.
    pub fn prefix(&self) -> u64 {
        self.prefix
    }

    /// Prefix length in bits with which a table matches this name and all below it: 16 to 64.
    pub fn prefix_bits(&self) -> u32 {
        16 * self.text.split('/').skip(1).take(PREFIX_COMPONENTS).count() as u32
    }

    /// Whether a packet with this prefix is for this name or one below it, as far as its prefix shows.
    pub fn covers(&self, prefix: u64) -> bool {
        (self.prefix ^ prefix) >> (64 - self.prefix_bits()) == 0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        Name::new(text)
    }
}

fn hash(text: &str) -> u64 {
    let digest = sha256(text.as_bytes());
    u64::from_be_bytes(std::array::from_fn(|i| digest[i]))
}

fn component_bits(component: &str) -> u16 {
    let digest = sha256(component.as_bytes());
    u16::from_be_bytes([digest[0], digest[1]]).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_those_of_sha_256() {
        let name = Name::new("/weir/files/film.mp4").unwrap();
        let first = |text: &str| sha256(text.as_bytes());
        assert_eq!(name.hash().to_be_bytes(), first("/weir/files/film.mp4")[..8]);
        assert_eq!(name.prefix().to_be_bytes()[..2], first("weir")[..2]);
        assert_eq!(name.prefix().to_be_bytes()[2..4], first("files")[..2]);
        assert_eq!(name.prefix().to_be_bytes()[4..6], first("film.mp4")[..2]);
        assert_eq!(name.prefix() & 0xffff, 0);
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_reason() {
        for (text, part) in [
            ("", "begins with"),
            ("weir", "begins with"),
            ("/", "is empty"),
            ("/weir/", "is empty"),
            ("//weir", "is empty"),
            ("/weir/./a", "'.'"),
            ("/weir/..", "'..'"),
        ] {
            let e = Name::new(text).unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
        assert!(Name::new(&format!("/{}", "a".repeat(254))).is_ok());
        assert_eq!(Name::new(&format!("/{}", "a".repeat(255))), Err(NameError::TooLong(256)));
        assert!(Name::new("/weir").unwrap().child("").is_err());
    }

    #[test]
    fn a_prefix_covers_what_is_below_it() {
        let files = Name::new("/weir/files").unwrap();
        assert_eq!(files.prefix_bits(), 32);
        assert!(files.covers(files.prefix()));
        assert!(files.covers(files.child("a/b/c/d").unwrap().prefix()));
        assert!(!files.covers(Name::new("/weir").unwrap().prefix()));
        assert!(!files.covers(Name::new("/weir/web").unwrap().prefix()));
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_refused(text in "\\PC{0,300}") {
            if let Ok(name) = Name::new(&text) {
                prop_assert_eq!(name.text(), text.as_str());
                prop_assert!(name.hash() != 0 && name.prefix() >> 48 != 0);
            }
        }

        #[test]
        fn children_stay_below_their_parents(parent in "(/[a-z]{1,4}){1,6}", child in "[a-z]{1,4}(/[a-z]{1,4}){0,5}") {
            let parent = Name::new(&parent).unwrap();
            prop_assert!(parent.covers(parent.child(&child).unwrap().prefix()));
        }
    }
}
