// SPDX-License-Identifier: Apache-2.0
//! [`Part`]: a 206 answer (RFC 9110 15.3.7), and the validator that answers of several connections must share.

use crate::client::exchange::Answer;
use quiche::h3::NameValue;
use std::ops::Range;
use std::time::Duration;

/// A partial answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the object that it has.
    pub range: Range<u64>,
    /// Size of the object.
    pub total: u64,
    /// A strong validator (RFC 9110 8.8), as If-Range takes it: an entity tag, or the time of the last change.
    pub validator: Option<Vec<u8>>,
    /// Content codings; empty: none.
    pub coding: Vec<u8>,
}

fn field<'a>(answer: &Answer<'a>, name: &[u8]) -> Option<&'a [u8]> {
    answer.headers.iter().find(|h| h.name() == name).map(|h| h.value())
}

/// Bytes and size of a Content-Range field (RFC 9110 14.4). `None`: malformed, of another unit, or without a size.
pub fn content_range(value: &[u8]) -> Option<(Option<Range<u64>>, u64)> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let (unit, rest) = text.split_once(' ')?;
    let (range, total) = rest.trim().split_once('/')?;
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let total = number(total)?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    if range == "*" {
        return Some((None, total));
    }
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last < total).then_some((Some(first..last + 1), total))
}

impl Part {
    /// Of an answer with status 206.
    ///
    /// # Errors
    /// The reason why its bytes can't be used.
    pub fn read(answer: &Answer<'_>) -> Result<Part, String> {
        let value = field(answer, b"content-range").ok_or("status 206 without Content-Range")?;
        let Some((Some(range), total)) = content_range(value) else {
            let shown = crate::text::printable_bytes(value);
            return Err(format!("Content-Range '{shown}': expected bytes FIRST-LAST/SIZE"));
        };
        let bytes = range.end - range.start;
        if let Some(n) = answer.content_length.filter(|n| *n != bytes) {
            return Err(format!("Content-Length {n} of {bytes} bytes in Content-Range"));
        }
        let coding = field(answer, b"content-encoding").unwrap_or_default().to_ascii_lowercase();
        Ok(Part { range, total, validator: validator(answer), coding })
    }

    /// The first difference to another answer that should be of the same object.
    pub fn difference(&self, other: &Part) -> Option<&'static str> {
        match () {
            () if self.total != other.total => Some("its size"),
            () if self.validator != other.validator => Some("its validator (ETag, Last-Modified)"),
            () if self.coding != other.coding => Some("its content coding"),
            () => None,
        }
    }
}

/// The strong validator of an answer. A time of change is one if the answer is a second newer (RFC 9110 8.8.2.2).
fn validator(answer: &Answer<'_>) -> Option<Vec<u8>> {
    if let Some(tag) = field(answer, b"etag") {
        let is_strong = tag.len() >= 2 && tag.starts_with(b"\"") && tag.ends_with(b"\"");
        return is_strong.then(|| tag.to_vec());
    }
    let date = |name| httpdate::parse_http_date(std::str::from_utf8(field(answer, name)?).ok()?).ok();
    let (changed, now) = (date(b"last-modified")?, date(b"date")?);
    let is_strong = now.duration_since(changed).is_ok_and(|age| age >= Duration::from_secs(1));
    is_strong.then(|| field(answer, b"last-modified").unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quiche::h3::Header;

    fn read(fields: &[(&str, &str)]) -> Result<Part, String> {
        let headers: Vec<_> = fields.iter().map(|(n, v)| Header::new(n.as_bytes(), v.as_bytes())).collect();
        Part::read(&Answer { status: 206, headers: &headers, content_length: None })
    }

    #[test]
    fn validators_are_strong() {
        let range = ("content-range", "bytes 0-9/10");
        let dated = |date| [range, ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", date)];
        let of = |fields: &[(&str, &str)]| read(fields).unwrap().validator.is_some();
        assert!(of(&[range, ("etag", "\"a\"")]));
        assert!(!of(&[range, ("etag", "W/\"a\"")]));
        assert!(!of(&[range]));
        assert!(of(&dated("Sun, 06 Nov 1994 08:49:38 GMT")));
        assert!(!of(&dated("Sun, 06 Nov 1994 08:49:37 GMT")));
        assert!(read(&[("etag", "\"a\"")]).is_err());
    }

    #[test]
    fn content_ranges() {
        assert_eq!(content_range(b"bytes 0-9/10"), Some((Some(0..10), 10)));
        assert_eq!(content_range(b"bytes */0"), Some((None, 0)));
        for bad in ["bytes 0-9/*", "bytes 5-4/10", "bytes 0-10/10", "lines 0-9/10", "bytes 0-9", "bytes +0-9/10", ""] {
            assert_eq!(content_range(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_read_or_refused(text in "(bytes )?[0-9*/+-]{0,30}|\\PC{0,30}") {
            if let Some((Some(range), total)) = content_range(text.as_bytes()) {
                prop_assert!(range.start < range.end && range.end <= total);
            }
        }
    }
}
