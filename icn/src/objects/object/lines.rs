// SPDX-License-Identifier: Apache-2.0
//! The lines that publisher and subscriber say to each other over QUIC: one JSON object each.

use super::keys::GroupKey;
use super::manifest::{MOST_MANIFEST_BYTES, from_hex, hex, is_version};
use super::seal::Secret;
use super::sign::{SIGNATURE_BYTES, Signature};
use serde::{Deserialize, Serialize};

/// The application protocol.
pub const ALPN: &[u8] = b"weir-icn/1";
/// Longest line, in bytes: a manifest whose quotes are escaped, and its keys.
pub const MOST_LINE_BYTES: usize = 4 * MOST_MANIFEST_BYTES;
/// Longest line that asks, in bytes.
pub const MOST_REQUEST_BYTES: usize = 2048;

/// Identity of a member, whichever connection it comes on. It draws it itself.
pub type Token = [u8; 16];

/// Request of a subscriber to be a member of an object's group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The object's name.
    pub get: String,
    /// Member: a later request with the same token comes from the same one.
    pub member: Option<Token>,
    /// The version whose manifest it has: it needs the keys alone. [`ANY_VERSION`]: it has the manifest from somebody else.
    pub have: Option<String>,
}

/// In [`Request::have`]: of whichever version, which the answer says.
pub const ANY_VERSION: &str = "*";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestText {
    get: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    member: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    have: Option<String>,
}

/// A key as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeyText {
    epoch: u16,
    first_segment: u32,
    secret: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    manifest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    begin: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    keys: Option<Vec<KeyText>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    error: Option<String>,
}

/// Answer of a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The subscriber is a member now.
    Welcome {
        /// The manifest, as it was signed.
        manifest: String,
        /// Its signature.
        signature: Signature,
        /// The segment of content at which the group is: a good one to begin with.
        begin: u32,
        /// The group's keys.
        keys: Vec<GroupKey>,
    },
    /// It is a member now, and has the manifest from somebody else.
    Begin {
        /// The version that the manifest must be of.
        version: String,
        /// As in [`Answer::Welcome`].
        begin: u32,
        /// The group's keys.
        keys: Vec<GroupKey>,
    },
    /// Further keys.
    Keys(Vec<GroupKey>),
    /// It is not, and why.
    Error(String),
}

/// Why a line is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line over QUIC is not right: {0}")]
pub struct LineError(String);

impl From<serde_json::Error> for LineError {
    fn from(e: serde_json::Error) -> Self {
        LineError(e.to_string())
    }
}

fn too_long(most_bytes: usize) -> LineError {
    LineError(format!("longer than {most_bytes} bytes"))
}

impl LineError {
    /// The stream ended without an answer, or before all of one.
    pub fn ended(why: &str) -> LineError {
        LineError(why.to_owned())
    }
}

impl Request {
    /// One line, with its end.
    ///
    /// # Errors
    /// It has no form in JSON, or is longer than [`MOST_REQUEST_BYTES`].
    pub fn line(&self) -> Result<String, LineError> {
        let Request { get, member, have } = self.clone();
        let line = serde_json::to_string(&RequestText { get, member: member.map(|m| hex(&m)), have })? + "\n";
        if line.len() > MOST_REQUEST_BYTES {
            return Err(too_long(MOST_REQUEST_BYTES));
        }
        Ok(line)
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// The line is not valid.
    pub fn parse(line: &[u8]) -> Result<Request, LineError> {
        let RequestText { get, member, have } = serde_json::from_slice(line)?;
        let token =
            |text: &String| from_hex(text).ok_or_else(|| LineError("member is not 32 hexadecimal digits".into()));
        // Its values have bounded lengths, so that an edge server can add a member.
        if have.as_deref().is_some_and(|have| have != ANY_VERSION && !is_version(have)) {
            return Err(LineError("have is neither a version nor *".into()));
        }
        Ok(Request { get, member: member.as_ref().map(token).transpose()?, have })
    }
}

impl Answer {
    /// One line, with its end.
    ///
    /// # Errors
    /// It has no form in JSON.
    pub fn line(&self) -> Result<String, LineError> {
        let text = |keys: &[GroupKey]| {
            let one =
                |k: &GroupKey| KeyText { epoch: k.epoch, first_segment: k.first_segment, secret: hex(&k.secret.0) };
            Some(keys.iter().map(one).collect())
        };
        let text = match self {
            Answer::Welcome { manifest, signature, begin, keys } => Text {
                manifest: Some(manifest.clone()),
                signature: Some(hex(signature)),
                begin: Some(*begin),
                keys: text(keys),
                ..Text::default()
            },
            Answer::Begin { version, begin, keys } => {
                Text { version: Some(version.clone()), begin: Some(*begin), keys: text(keys), ..Text::default() }
            }
            Answer::Keys(keys) => Text { keys: text(keys), ..Text::default() },
            Answer::Error(why) => Text { error: Some(why.clone()), ..Text::default() },
        };
        Ok(serde_json::to_string(&text)? + "\n")
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// The line is not valid.
    pub fn parse(line: &[u8]) -> Result<Answer, LineError> {
        let text: Text = serde_json::from_slice(line)?;
        let key = |k: &KeyText| {
            let secret =
                from_hex(&k.secret).ok_or_else(|| LineError("a secret is not 64 hexadecimal digits".into()))?;
            Ok(GroupKey { epoch: k.epoch, first_segment: k.first_segment, secret: Secret(secret) })
        };
        let keys = |keys: &[KeyText]| keys.iter().map(key).collect::<Result<Vec<_>, LineError>>();
        match text {
            Text { error: Some(why), .. } => Ok(Answer::Error(why)),
            Text { manifest: Some(manifest), signature: Some(signature), begin, keys: Some(k), .. } => {
                let signature = from_hex::<SIGNATURE_BYTES>(&signature)
                    .ok_or_else(|| LineError("the signature is not 128 hexadecimal digits".into()))?;
                Ok(Answer::Welcome { manifest, signature, begin: begin.unwrap_or(0), keys: keys(&k)? })
            }
            Text {
                manifest: None, signature: None, version: Some(version), begin: Some(begin), keys: Some(k), ..
            } => Ok(Answer::Begin { version, begin, keys: keys(&k)? }),
            Text { manifest: None, signature: None, version: None, keys: Some(k), .. } => Ok(Answer::Keys(keys(&k)?)),
            _ => Err(LineError(
                "expected manifest, signature and keys, or version, begin and keys, or keys, or error".into(),
            )),
        }
    }
}

/// Bytes of a stream, cut into lines.
#[derive(Debug)]
pub struct Lines {
    most_bytes: usize,
    begun: Vec<u8>,
}

impl Lines {
    /// No line may be longer than `most_bytes`.
    pub fn new(most_bytes: usize) -> Lines {
        Lines { most_bytes, begun: Vec::new() }
    }

    /// Takes in what arrived; `take` gets each whole line without its end.
    ///
    /// # Errors
    /// A line is too long.
    pub fn push(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), LineError> {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            if self.begun.len() + part.len() > self.most_bytes {
                return Err(too_long(self.most_bytes));
            }
            self.begun.extend(part);
            if self.begun.last() == Some(&b'\n') {
                take(&self.begun[..self.begun.len() - 1]);
                self.begun.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> GroupKey {
        GroupKey { epoch: 3, first_segment: 17, secret: Secret([7; 32]) }
    }

    #[test]
    fn answers_are_what_the_page_says() {
        let line = Answer::Keys(vec![key()]).line().unwrap();
        let secret = "07".repeat(32);
        assert_eq!(line, format!("{{\"keys\":[{{\"epoch\":3,\"first_segment\":17,\"secret\":\"{secret}\"}}]}}\n"));
        let mut request = Request { get: "/a".into(), ..Request::default() };
        assert_eq!(request.line().unwrap(), "{\"get\":\"/a\"}\n");
        (request.member, request.have) = (Some([10; 16]), Some("0f".repeat(8)));
        let line = request.line().unwrap();
        assert_eq!(
            line,
            format!("{{\"get\":\"/a\",\"member\":\"{}\",\"have\":\"{}\"}}\n", "0a".repeat(16), "0f".repeat(8))
        );
        assert_eq!(Request::parse(line.trim_end().as_bytes()), Ok(request));
        assert_eq!(Answer::Error("no".into()).line().unwrap(), "{\"error\":\"no\"}\n");
    }

    #[test]
    fn what_is_written_is_read() {
        let keys = vec![key(); 64];
        let manifest = "\"".repeat(MOST_MANIFEST_BYTES / 2);
        let welcome = Answer::Welcome { manifest, signature: [1; 64], begin: 9, keys };
        let begin = Answer::Begin { version: "0f".repeat(8), begin: 7, keys: vec![key()] };
        for answer in [welcome, begin, Answer::Keys(vec![]), Answer::Error("a\nb".into())] {
            let line = answer.line().unwrap();
            assert!(line.len() < MOST_LINE_BYTES);
            assert_eq!(Answer::parse(line.trim_end().as_bytes()), Ok(answer));
        }
        for wrong in ["", "{}", "[]", "{\"manifest\":\"\"}", "{\"keys\":[{\"epoch\":70000}]}", "{\"other\":1}"] {
            assert!(Answer::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for wrong in
            ["{\"get\":1}", "{\"put\":\"/a\"}", "{\"get\":\"/a\",\"member\":\"12\"}", "{\"get\":\"/a\",\"x\":1}"]
        {
            assert!(Request::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_that_was_read_has_room_for_a_member() {
        let get = format!("/{}", "\u{1}".repeat(254));
        crate::names::Name::new(&get).unwrap();
        for have in [None, Some(ANY_VERSION.to_owned()), Some("0f".repeat(8))] {
            let line = Request { get: get.clone(), member: None, have }.line().unwrap();
            let read = Request::parse(line.trim_end().as_bytes()).unwrap();
            assert!(Request { member: Some([255; 16]), ..read }.line().is_ok());
        }
        for have in ["", "0f", "**", &"A".repeat(16), &"0".repeat(17), &"A".repeat(1900)] {
            let line = format!("{{\"get\":\"/a\",\"have\":\"{have}\"}}");
            assert!(Request::parse(line.as_bytes()).is_err(), "{have}");
        }
        assert!(Request { get: "/".repeat(MOST_REQUEST_BYTES), ..Request::default() }.line().is_err());
    }

    proptest! {
        #[test]
        fn lines_come_out_however_they_are_cut(
            lines in prop::collection::vec("[a-z]{0,20}", 0..10),
            cuts in prop::collection::vec(1usize..30, 1..20),
        ) {
            let all: Vec<u8> = lines.iter().flat_map(|l| [l.as_bytes(), b"\n"].concat()).collect();
            let (mut reader, mut found, mut rest) = (Lines::new(21), Vec::new(), &all[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, left) = rest.split_at((*cut).min(rest.len()));
                reader.push(part, |l| found.push(String::from_utf8(l.to_vec()).unwrap())).unwrap();
                rest = left;
            }
            prop_assert_eq!(found, lines);
            prop_assert!(reader.push(&[b'x'; 22], |_| ()).is_err());
        }

        #[test]
        fn any_bytes_are_a_line_or_refused(bytes: Vec<u8>) {
            let _ = (Answer::parse(&bytes), Request::parse(&bytes));
        }
    }
}
