// SPDX-License-Identifier: Apache-2.0
//! The bearer tokens of `--relay-token` (RFC 6750 2.1). They are compared in constant time.

use crate::shared::fault::{Fault, USAGE};
use boring::memcmp;
use boring::sha::sha256;
use std::path::Path;
use weir_io::files::{READ_BY_OTHERS, expect_secret};

/// Shortest token: 16 characters can't be guessed over a network.
const LEAST_CHARS: usize = 16;
/// Tokens in one file.
const MOST_TOKENS: usize = 1000;

/// Digests of the tokens: these have one length.
pub struct Tokens {
    digests: Vec<[u8; 32]>,
}

impl Tokens {
    /// Reads the file: a token a line.
    ///
    /// # Errors
    /// It can't be read, others may read it, or a line is no token.
    pub fn read(path: &Path) -> Result<Tokens, Fault> {
        let what = || format!("--relay-token {}", path.display());
        expect_secret(path, READ_BY_OTHERS).map_err(Fault::io(what()))?;
        let text = std::fs::read_to_string(path).map_err(Fault::io(what()))?;
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let is_token = |line: &&str| line.len() >= LEAST_CHARS && line.bytes().all(|b| b.is_ascii_graphic());
        if lines.is_empty() || lines.len() > MOST_TOKENS || !lines.iter().all(is_token) {
            let text = format!(
                "{}: expected a token of at least {LEAST_CHARS} visible ASCII characters in each line; openssl rand -hex 32 \
                 makes one",
                what()
            );
            return Err(Fault::new(USAGE, text));
        }
        Ok(Tokens { digests: lines.into_iter().map(|line| sha256(line.as_bytes())).collect() })
    }

    /// Whether `proxy-authorization` has one of them.
    pub fn accept(&self, authorization: Option<&str>) -> bool {
        let Some((scheme, token)) = authorization.and_then(|text| text.split_once(' ')) else { return false };
        let digest = sha256(token.trim().as_bytes());
        // All are compared, whichever is the one.
        let found = self.digests.iter().fold(false, |found, own| found | memcmp::eq(own, &digest));
        found && scheme.eq_ignore_ascii_case("bearer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Tokens::read(&path)
        };
        let tokens = write("0123456789abcdef\n\nfedcba9876543210\n", 0o600).unwrap();
        assert!(tokens.accept(Some("Bearer 0123456789abcdef")) && tokens.accept(Some("bearer fedcba9876543210")));
        for bad in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Bearer "),
            Some("Basic 0123456789abcdef"),
            Some("Bearer 0123456789abcde"),
        ] {
            assert!(!tokens.accept(bad), "{bad:?}");
        }
        for bad in ["", "\n", "short\n", "0123456789abcdef\nwith a blank here\n"] {
            assert_eq!(write(bad, 0o600).err().map(|e| e.code), Some(USAGE), "{bad}");
        }
        assert!(write("0123456789abcdef", 0o644).is_err());
    }
}
