// SPDX-License-Identifier: Apache-2.0
//! The manifest: what an object is, signed by its publisher.

use super::layout::{CHILDREN, HASH_BYTES, Layout, SEGMENT_BYTES};
use super::repair::Repair;
use super::sign::{KEY_BYTES, PublicKey};
use super::tree::Hash;
use crate::names::Name;
use serde::{Deserialize, Serialize};

/// Longest text of a manifest, in bytes. One with 40 hashes at the top and the longest name has about 3,000.
pub const MOST_MANIFEST_BYTES: usize = 8192;
/// The number of this format.
const FORMAT: u32 = 1;
/// Hexadecimal digits of a version.
const VERSION_DIGITS: usize = 16;

/// Description of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its name.
    pub name: Name,
    /// Version of the name's content: 16 hexadecimal digits.
    pub version: String,
    /// Layout; `None` for a live stream.
    pub layout: Option<Layout>,
    /// The hashes at the top of its tree; none for a live stream.
    pub top: Vec<Hash>,
    /// The key of who signed it.
    pub publisher: PublicKey,
    /// Repair symbols for its content, if any.
    pub repair: Option<Repair>,
    /// When it was signed, in seconds since 1970. `None`: by a publisher of before there were such times.
    pub issued_s: Option<u64>,
}

/// Why a text is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manifest is not right: {0}")]
pub struct ManifestError(String);

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Text {
    format: u32,
    name: String,
    version: String,
    bytes: Option<u64>,
    segment_bytes: usize,
    children: usize,
    levels: u8,
    top: Vec<String>,
    publisher: String,
    // Objects without it have the text that they had before there was such a thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repair: Option<Repair>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issued: Option<u64>,
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Exactly `N` bytes from lower-case hexadecimal digits.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = |d: u8| matches!(d, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.bytes().all(digits) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// The version of a content: the first 16 hexadecimal digits of its SHA-256.
pub fn version_of(sha256: &[u8; HASH_BYTES]) -> String {
    hex(&sha256[..VERSION_DIGITS / 2])
}

/// Whether a text has the form of a version.
pub fn is_version(text: &str) -> bool {
    from_hex::<{ VERSION_DIGITS / 2 }>(text).is_some()
}

impl Manifest {
    /// Its text: one JSON object in one line.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&Text {
            format: FORMAT,
            name: self.name.text().to_owned(),
            version: self.version.clone(),
            bytes: self.layout.map(|l| l.bytes),
            segment_bytes: SEGMENT_BYTES,
            children: CHILDREN,
            levels: self.layout.map_or(1, |l| l.levels),
            top: self.top.iter().map(|h| hex(h)).collect(),
            publisher: hex(&self.publisher),
            repair: self.repair,
            issued: self.issued_s,
        })
    }

    /// Whether it was signed before another of the same name, which has replaced it.
    pub fn is_replaced_by(&self, other: &Manifest) -> bool {
        self.name == other.name && self.version != other.version && self.issued_s < other.issued_s
    }

    /// Whether it was signed more than `most_s` seconds ago, or at an unknown time. A clock that is behind the publisher's makes
    /// no manifest too old.
    pub fn is_older_than(&self, most_s: u64, now_s: u64) -> bool {
        self.issued_s.is_none_or(|issued_s| now_s.saturating_sub(issued_s) > most_s)
    }

    /// Reads a text that others sent.
    ///
    /// # Errors
    /// The text is no valid manifest.
    pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
        let wrong = |what: String| ManifestError(what);
        if text.len() > MOST_MANIFEST_BYTES {
            return Err(wrong(format!("{} bytes; at most {MOST_MANIFEST_BYTES} are allowed", text.len())));
        }
        let t: Text = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let fixed = [
            ("format", t.format as usize, FORMAT as usize),
            ("segment_bytes", t.segment_bytes, SEGMENT_BYTES),
            ("children", t.children, CHILDREN),
        ];
        for (field, found, expected) in fixed {
            if found != expected {
                return Err(wrong(format!("{field} is {found}; expected {expected}")));
            }
        }
        let name = Name::new(&t.name).map_err(|e| wrong(e.to_string()))?;
        if !is_version(&t.version) {
            return Err(wrong(format!("version is not {VERSION_DIGITS} hexadecimal digits")));
        }
        let layout = match t.bytes {
            None => None,
            Some(bytes) => Some(Layout::of(bytes).ok_or_else(|| wrong(format!("{bytes} bytes are too many")))?),
        };
        let (levels, hashes) = layout.map_or((1, 0), |l| (l.levels, l.hashes(l.levels) as usize));
        if t.levels != levels || t.top.len() != hashes {
            let found = format!("{} levels and {} hashes at the top", t.levels, t.top.len());
            return Err(wrong(format!("{found}; its length asks for {levels} and {hashes}")));
        }
        let top = t.top.iter().map(|h| from_hex(h)).collect::<Option<Vec<_>>>();
        let top = top.ok_or_else(|| wrong(format!("a hash is not {HASH_BYTES} bytes in hexadecimal digits")))?;
        let publisher = from_hex(&t.publisher)
            .ok_or_else(|| wrong(format!("publisher is not {KEY_BYTES} bytes in hexadecimal digits")))?;
        match (t.repair, layout) {
            (None, _) => {}
            (Some(_), None) => return Err(wrong("repair: a live stream has none".to_owned())),
            (Some(repair), Some(layout)) => repair.check(layout).map_err(wrong)?,
        }
        Ok(Manifest { name, version: t.version, layout, top, publisher, repair: t.repair, issued_s: t.issued })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest(bytes: Option<u64>) -> Manifest {
        let layout = bytes.map(|b| Layout::of(b).unwrap());
        let hashes = layout.map_or(0, |l| l.hashes(l.levels)) as usize;
        Manifest {
            name: Name::new("/weir/files/film.mp4").unwrap(),
            version: "0123456789abcdef".to_owned(),
            layout,
            top: vec![[7; 32]; hashes],
            publisher: [9; 32],
            repair: None,
            issued_s: None,
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = manifest(Some(100_000)).text().unwrap();
        for (from, to, part) in [
            ("\"format\":1", "\"format\":2", "format is 2; expected 1"),
            ("1440", "1441", "segment_bytes is 1441"),
            ("0123456789abcdef", "0123", "16 hexadecimal digits"),
            ("0123456789abcdef", "0123456789ABCDEF", "16 hexadecimal digits"),
            ("/weir/files", "weir/files", "begins with '/'"),
            ("100000", "100000000", "its length asks for"),
            ("\"levels\":2", "\"levels\":3", "its length asks for"),
            ("\"0707", "\"07g7", "hexadecimal digits"),
            ("\"0909", "\"09", "publisher is not"),
            ("\"bytes\":100000", "\"bytes\":-1", "invalid value"),
            ("\"name\"", "\"nome\"", "missing field"),
        ] {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            let e = Manifest::parse(&text).unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
        let offered = Some(Repair { block_segments: 160, rounds: 8 });
        let good = Manifest { repair: offered, ..manifest(Some(100_000)) }.text().unwrap();
        for (from, to, part) in [
            (":160", ":0", "repair.block_segments is 0; expected 1 to 512"),
            (":160", ":-1", "invalid value"),
            (",\"rounds\":8", "", "missing field `rounds`"),
            ("\"rounds\":8", "\"rounds\":65", "repair.rounds is 65; expected 1 to 64"),
        ] {
            let e = Manifest::parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
        let live = Manifest { repair: offered, ..manifest(None) }.text().unwrap();
        assert!(Manifest::parse(&live).unwrap_err().to_string().contains("a live stream has none"));
        let long = format!("{good}{}", " ".repeat(MOST_MANIFEST_BYTES));
        assert!(Manifest::parse(&long).is_err());
        let largest =
            Manifest { name: Name::new(&format!("/{}", "\\".repeat(254))).unwrap(), ..manifest(Some(1440 * 1600)) };
        assert_eq!(largest.top.len(), 40);
        assert!(largest.text().unwrap().len() < MOST_MANIFEST_BYTES);
    }

    #[test]
    fn without_repair_the_text_is_what_it_was_before_there_was_any() {
        let hash = "07".repeat(32);
        let expected = format!(
            "{{\"format\":1,\"name\":\"/weir/files/film.mp4\",\"version\":\"0123456789abcdef\",\"bytes\":1000,\
             \"segment_bytes\":1440,\"children\":40,\"levels\":1,\"top\":[\"{hash}\"],\"publisher\":\"{}\"}}",
            "09".repeat(32)
        );
        assert_eq!(manifest(Some(1000)).text().unwrap(), expected);
        let repair = Manifest { repair: Some(Repair { block_segments: 160, rounds: 8 }), ..manifest(Some(1000)) };
        let added = ",\"repair\":{\"block_segments\":160,\"rounds\":8}}";
        assert_eq!(repair.text().unwrap(), expected[..expected.len() - 1].to_owned() + added);
    }

    #[test]
    fn only_a_later_one_of_another_version_replaces_it() {
        let issued = |version: &str, issued_s| Manifest { version: version.into(), issued_s, ..manifest(None) };
        let new = issued("1", Some(1000));
        assert!(issued("0", Some(999)).is_replaced_by(&new) && issued("0", None).is_replaced_by(&new));
        for other in [issued("1", Some(1)), issued("0", Some(1000)), issued("0", Some(1001))] {
            assert!(!other.is_replaced_by(&new), "{other:?}");
        }
        for (now_s, old) in [(0, false), (1060, false), (1061, true)] {
            assert_eq!(new.is_older_than(60, now_s), old, "{now_s}");
        }
        assert!(issued("0", None).is_older_than(u64::MAX, 0));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in prop::option::of(0u64..1 << 38), repair: bool, issued_s: Option<u64>) {
            let mut m = manifest(bytes);
            m.repair = m.layout.and_then(Repair::offered).filter(|_| repair);
            m.issued_s = issued_s;
            prop_assert_eq!(Manifest::parse(&m.text().unwrap()), Ok(m));
        }

        #[test]
        fn any_text_is_a_manifest_or_refused(text in "\\PC{0,200}", cut in 0usize..400) {
            let _ = Manifest::parse(&text);
            let good = manifest(Some(5000)).text().unwrap();
            let cut = cut.min(good.len() - 1);
            prop_assert!(Manifest::parse(&good[..cut]).is_err());
        }
    }
}
