// SPDX-License-Identifier: Apache-2.0
//! The request grammar shared by both sides, sizes with units, and the two application protocols.
//!
//! A server answers these resources, over either protocol:
//!
//! - `GET /bytes/N` (`N` a size such as `75000000`, `75MB` or `unlimited`): `N` bytes of payload;
//! - `GET /bytes/N/every/MS`: `N` bytes at once and again every `MS` milliseconds, without end;
//! - `POST /upload`: the body is counted and its length in bytes sent back in decimal.
//!
//! Either may carry `?flow=L`, an unsigned number: the label under which the server reports this connection, so that
//! its lines can be joined with the client's.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Error code with which an hq-interop server resets a stream whose request it can't serve (that protocol has no
/// status line).
pub const HQ_NOT_FOUND: u64 = 0x404;
/// Name of our server in its answers over HTTP/3 (`server`, RFC 9110 10.2.4).
pub const SERVER_NAME: &[u8] = b"weir";
/// Error code of a connection closed because everything was done (`H3_NO_ERROR`, RFC 9114 8.1), used over both
/// protocols.
pub const NO_ERROR: u64 = 0x100;
/// Error code of a request that was not processed at all, so that it may be sent again elsewhere
/// (`H3_REQUEST_REJECTED`, RFC 9114 8.1).
pub const REJECTED: u64 = 0x10b;
/// Error code of a stream given up by its receiver (`H3_REQUEST_CANCELLED`, RFC 9114 8.1).
pub const CANCELLED: u64 = 0x10c;

/// Why a text is not a size, a path or a protocol; reads as the end of a sentence naming the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not a size.
    #[error("'{0}' is not a size: expected a whole number of bytes, also with kB, MB, GB, KiB, MiB or GiB")]
    Size(String),
    /// A size that is too small.
    #[error("'{0}' is too small: expected at least {1} bytes; a number without a unit (kB, MB, KiB, MiB) counts bytes")]
    Small(String, u64),
    /// No such resource.
    #[error("no resource '{0}': expected GET /bytes/N, GET /bytes/unlimited, GET /bytes/N/every/MS or POST /upload")]
    NotFound(String),
    /// The query is not `flow=NUMBER`.
    #[error("query '{0}' not understood: expected flow=NUMBER")]
    Query(String),
    /// Not a protocol.
    #[error("'{0}' is not an application protocol: expected h3, hq-interop or perf")]
    Alpn(String),
    /// Not a request line of hq-interop.
    #[error("not a request line: expected 'GET PATH' or 'POST PATH' ending in CR LF")]
    Line,
}

/// Application protocol, chosen by ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/3 (RFC 9114).
    H3,
    /// Requests as a line on a plain stream, `hq-interop` (HTTP/0.9 over QUIC).
    Hq,
    /// Requests as a size on a plain stream, `perf` (draft-banks-quic-performance). For clients.
    Perf,
}

impl Alpn {
    /// The identifier on the wire.
    pub fn wire(self) -> &'static [u8] {
        match self {
            Alpn::H3 => b"h3",
            Alpn::Hq => b"hq-interop",
            Alpn::Perf => b"perf",
        }
    }

    /// Whether a stream has only the request's first bytes and bodies, without frames.
    pub fn is_plain(self) -> bool {
        self != Alpn::H3
    }

    /// The protocol negotiated, from its identifier on the wire.
    pub fn from_wire(wire: &[u8]) -> Option<Alpn> {
        [Alpn::H3, Alpn::Hq, Alpn::Perf].into_iter().find(|a| a.wire() == wire)
    }
}

impl fmt::Display for Alpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Alpn::H3 => "h3",
            Alpn::Hq => "hq-interop",
            Alpn::Perf => "perf",
        })
    }
}

impl FromStr for Alpn {
    type Err = RequestError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Alpn::from_wire(s.as_bytes()).ok_or_else(|| RequestError::Alpn(s.to_owned()))
    }
}

/// Reads a size in bytes: a whole number, alone or with a unit (`kB`, `MB`, `GB` decimal; `KiB`, `MiB`, `GiB` binary).
pub fn parse_size(text: &str) -> Result<u64, RequestError> {
    let bad = || RequestError::Size(text.to_owned());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match &text[digits..] {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(bad()),
    };
    text[..digits].parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(bad)
}

/// Reads a size in bytes that has a least value.
pub fn size_of_at_least(text: &str, least_bytes: u64) -> Result<u64, RequestError> {
    match parse_size(text)? {
        n if n < least_bytes => Err(RequestError::Small(text.to_owned(), least_bytes)),
        n => Ok(n),
    }
}

/// Method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Download.
    Get,
    /// Upload.
    Post,
}

impl Method {
    /// As written in a request.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }

    /// From the text of a request.
    pub fn parse(text: &str) -> Option<Method> {
        [Method::Get, Method::Post].into_iter().find(|m| m.as_str() == text)
    }
}

/// Resource of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// This many bytes of payload; `None`: until the client has had enough.
    Bytes(Option<u64>),
    /// So many bytes more each time, until the client has had enough.
    Bursts {
        /// Of one burst; not 0.
        bytes: u64,
        /// From one to the next; not 0.
        every: Duration,
    },
    /// The body is counted.
    Upload,
}

/// A request as the server understood it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Requested resource.
    pub resource: Resource,
    /// The label given by `?flow=L`.
    pub flow: Option<u64>,
}

/// Reads method and path (with its query) of a request.
pub fn parse_request(method: Method, path: &str) -> Result<Request, RequestError> {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    let flow = match query {
        "" => None,
        q => Some(q.strip_prefix("flow=").and_then(parse_label).ok_or_else(|| RequestError::Query(q.to_owned()))?),
    };
    let not_found = || RequestError::NotFound(format!("{} {bare}", method.as_str()));
    let resource = match (method, bare.strip_prefix("/bytes/")) {
        (Method::Get, Some("unlimited")) => Resource::Bytes(None),
        (Method::Get, Some(n)) => match n.split_once("/every/") {
            None => Resource::Bytes(Some(parse_size(n).map_err(|_| not_found())?)),
            Some((bytes, ms)) => {
                let bytes = parse_size(bytes).ok().filter(|bytes| *bytes > 0).ok_or_else(not_found)?;
                let ms = parse_label(ms).filter(|ms| (1..=MAX_BURST_EVERY_MS).contains(ms)).ok_or_else(not_found)?;
                Resource::Bursts { bytes, every: Duration::from_millis(ms) }
            }
        },
        (Method::Post, None) if bare == "/upload" => Resource::Upload,
        _ => return Err(not_found()),
    };
    Ok(Request { resource, flow })
}

// `u64::from_str` also takes a leading plus sign.
fn parse_label(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Bytes that `path` promises, where it promises any: lets a client of hq-interop, which carries no length, distinguish
/// a whole answer from a truncated one.
pub fn promised_bytes(path: &str) -> Option<u64> {
    match parse_request(Method::Get, path) {
        Ok(Request { resource: Resource::Bytes(n), .. }) => n,
        _ => None,
    }
}

/// Reads the request line of hq-interop. `Ok(None)`: its end has not arrived yet. On success also says where the body
/// starts. At most [`MAX_LINE_BYTES`] are looked at.
pub fn parse_hq_line(bytes: &[u8]) -> Result<Option<(Method, String, usize)>, RequestError> {
    let head = &bytes[..bytes.len().min(MAX_LINE_BYTES)];
    let Some(end) = head.windows(2).position(|w| w == b"\r\n") else {
        return if bytes.len() >= MAX_LINE_BYTES { Err(RequestError::Line) } else { Ok(None) };
    };
    let line = std::str::from_utf8(&head[..end]).map_err(|_| RequestError::Line)?;
    let (method, path) = line.split_once(' ').ok_or(RequestError::Line)?;
    let method = Method::parse(method).ok_or(RequestError::Line)?;
    if !path.starts_with('/') || path.contains(char::is_whitespace) {
        return Err(RequestError::Line);
    }
    Ok(Some((method, path.to_owned(), end + 2)))
}

/// Longest time from one burst to the next: a day.
const MAX_BURST_EVERY_MS: u64 = 86_400_000;

/// Longest request line of hq-interop, in bytes, its end included.
pub const MAX_LINE_BYTES: usize = 4096;

/// First bytes of a request with `perf`: the size of the answer, of a path `/bytes/N` or `/bytes/unlimited`; none for
/// other paths.
pub fn perf_head(path: &str) -> Option<[u8; 8]> {
    match parse_request(Method::Get, path).ok()?.resource {
        Resource::Bytes(size) => Some(size.unwrap_or(u64::MAX).to_be_bytes()),
        _ => None,
    }
}

/// Adds `flow=L` to the query of `path`.
pub fn with_flow(path: &str, flow: u64) -> String {
    let sep = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sep}flow={flow}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("0"), Ok(0));
        assert_eq!(parse_size("75MB"), Ok(75_000_000));
        assert_eq!(parse_size("3KiB"), Ok(3072));
        assert_eq!(parse_size("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "MB", "-1", "+1", "1.5MB", "1 MB", "1mb", "18446744073709551616", "18446744073GiB", "1é"] {
            assert_eq!(parse_size(bad), Err(RequestError::Size(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn requests() {
        let get = |p| parse_request(Method::Get, p);
        assert_eq!(get("/bytes/10kB?flow=3"), Ok(Request { resource: Resource::Bytes(Some(10_000)), flow: Some(3) }));
        assert_eq!(get("/bytes/unlimited"), Ok(Request { resource: Resource::Bytes(None), flow: None }));
        assert_eq!(
            parse_request(Method::Post, "/upload?flow=0"),
            Ok(Request { resource: Resource::Upload, flow: Some(0) })
        );
        let bursts = Resource::Bursts { bytes: 50_000, every: Duration::from_millis(100) };
        assert_eq!(get("/bytes/50kB/every/100?flow=1"), Ok(Request { resource: bursts, flow: Some(1) }));
        for bad in [
            "/",
            "/bytes",
            "/bytes/",
            "/bytes/x",
            "/upload",
            "/bytes/1/2",
            "/bytes/1/every/",
            "/bytes/1/every/0",
            "/bytes/0/every/1",
            "/bytes/unlimited/every/1",
            "/bytes/1/every/86400001",
            "/bytes/1/every/1/every/1",
        ] {
            assert!(matches!(get(bad), Err(RequestError::NotFound(_))), "{bad}");
        }
        assert!(matches!(parse_request(Method::Post, "/bytes/1"), Err(RequestError::NotFound(_))));
        for bad in ["/bytes/1?flow=", "/bytes/1?flow=+1", "/bytes/1?flow=a", "/bytes/1?x=1", "/bytes/1?flow=1&flow=2"] {
            assert!(matches!(get(bad), Err(RequestError::Query(_)) | Err(RequestError::NotFound(_))), "{bad}");
        }
    }

    #[test]
    fn perf_heads() {
        assert_eq!(perf_head("/bytes/258?flow=1"), Some([0, 0, 0, 0, 0, 0, 1, 2]));
        assert_eq!(perf_head("/bytes/unlimited"), Some([255; 8]));
        assert_eq!((perf_head("/upload"), perf_head("/bytes/x")), (None, None));
    }

    #[test]
    fn hq_lines() {
        assert_eq!(parse_hq_line(b"GET /bytes/1\r\n"), Ok(Some((Method::Get, "/bytes/1".into(), 14))));
        assert_eq!(parse_hq_line(b"POST /upload\r\nbody"), Ok(Some((Method::Post, "/upload".into(), 14))));
        assert_eq!(parse_hq_line(b"GET /bytes/1\r"), Ok(None));
        for bad in [&b"PUT /x\r\n"[..], b"GET\r\n", b"GET x\r\n", b"GET /a b\r\n", b"GET /\xff\r\n", &[b'a'; 5000]] {
            assert_eq!(parse_hq_line(bad), Err(RequestError::Line), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_size_reads_back(n in any::<u64>()) {
            prop_assert_eq!(parse_size(&n.to_string()), Ok(n));
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(s in "\\PC{0,40}") {
            let _ = parse_size(&s);
            let _ = parse_request(Method::Get, &s);
            let _ = parse_request(Method::Get, &format!("/bytes/{s}"));
        }

        #[test]
        fn any_bytes_as_a_line(b in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, path, body))) = parse_hq_line(&b) {
                prop_assert!(path.starts_with('/') && body <= b.len());
            }
        }

        #[test]
        fn a_label_survives_its_path(n in any::<u64>(), flow in any::<u64>()) {
            let path = with_flow(&format!("/bytes/{n}"), flow);
            prop_assert_eq!(
                parse_request(Method::Get, &path),
                Ok(Request { resource: Resource::Bytes(Some(n)), flow: Some(flow) })
            );
            prop_assert_eq!(promised_bytes(&path), Some(n));
        }
    }
}
