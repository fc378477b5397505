// SPDX-License-Identifier: Apache-2.0
//! [`Request`]: method, path, header fields and, as far as it is known beforehand, the body.

use crate::error::{Error, ErrorKind};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use quiche::h3::Header;
use weir_core::client::Head;
use weir_core::request::promised_bytes;

/// A request to the server of a connection.
#[derive(Debug, Clone)]
#[must_use]
pub struct Request {
    method: Method,
    path: String,
    authority: Option<String>,
    protocol: Option<String>,
    headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) redirects: u32,
    expected_bytes: Option<u64>,
    is_early: bool,
    fault: Option<Error>,
}

/// Longest path, in bytes.
const MOST_PATH_BYTES: usize = 16 * 1024;
/// Field names that HTTP/3 forbids (RFC 9114 4.2).
const FORBIDDEN: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

impl Request {
    /// A request with this method for a path with its query, such as `/a?b`.
    pub fn new(method: Method, path: impl Into<String>) -> Request {
        let path = path.into();
        let whole = path.starts_with('/') || path == "*" || method == Method::CONNECT;
        let printable = path.bytes().all(|b| b.is_ascii_graphic());
        let fault = (!whole || !printable || path.len() > MOST_PATH_BYTES).then(|| {
            let text = format!("path '{}': expected /... in printable ASCII", weir_core::text::printable(&path));
            Error::new(ErrorKind::Usage, text)
        });
        Request {
            method,
            path,
            authority: None,
            protocol: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            redirects: 0,
            expected_bytes: None,
            is_early: false,
            fault,
        }
    }

    /// GET.
    pub fn get(path: impl Into<String>) -> Request {
        Request::new(Method::GET, path)
    }

    /// HEAD.
    pub fn head(path: impl Into<String>) -> Request {
        Request::new(Method::HEAD, path)
    }

    /// POST.
    pub fn post(path: impl Into<String>) -> Request {
        Request::new(Method::POST, path)
    }

    /// PUT.
    pub fn put(path: impl Into<String>) -> Request {
        Request::new(Method::PUT, path)
    }

    /// CONNECT to `host:port` (RFC 9114 4.4): the bodies are the two directions of a tunnel.
    pub fn connect(authority: impl Into<String>) -> Request {
        let mut request = Request::new(Method::CONNECT, "");
        request.authority = Some(authority.into());
        request
    }

    /// Extended CONNECT of a protocol, such as `connect-udp` (RFC 9220).
    pub fn extended_connect(protocol: impl Into<String>, path: impl Into<String>) -> Request {
        let mut request = Request::new(Method::CONNECT, path);
        request.protocol = Some(protocol.into());
        request
    }

    /// Adds a header field.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Request {
        let (name, value) = (HeaderName::from_bytes(name.as_ref()), HeaderValue::from_bytes(value.as_ref()));
        match (name, value) {
            (Ok(name), Ok(value)) if !FORBIDDEN.contains(&name.as_str()) => {
                self.headers.append(name, value);
            }
            (Ok(name), Ok(_)) => self.refuse(format!("header {name}: not allowed in HTTP/3")),
            (Err(e), _) => self.refuse(format!("header name: {e}")),
            (_, Err(e)) => self.refuse(format!("header value: {e}")),
        }
        self
    }

    /// Adds header fields.
    pub fn headers(mut self, headers: HeaderMap) -> Request {
        let mut last = None;
        for (name, value) in headers {
            last = name.or(last);
            if let Some(name) = &last {
                self = self.header(name.as_str(), value.as_bytes());
            }
        }
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Request {
        self.body = body.into();
        self
    }

    /// Follows as many redirects within the origin; none without this. Requests with a body, and those that can't be sent
    /// twice, are not redirected.
    pub fn redirects(mut self, most: u32) -> Request {
        self.redirects = most;
        self
    }

    /// Bytes that the answer is expected to have, for the choice of its path.
    pub fn expected_bytes(mut self, bytes: u64) -> Request {
        self.expected_bytes = Some(bytes);
        self
    }

    /// Lets the request be sent in the first packets of a resumed connection (0-RTT). An attacker can make the server see
    /// it twice (RFC 8470): safe methods only.
    pub fn early(mut self) -> Request {
        match self.method.is_safe() && self.body.is_empty() {
            true => self.is_early = true,
            false => self.refuse(format!("{} in early data: expected a safe method without a body", self.method)),
        }
        self
    }

    fn refuse(&mut self, why: String) {
        self.fault.get_or_insert_with(|| Error::new(ErrorKind::Usage, why));
    }

    /// The head as the session knows it; `streams`: a body follows.
    pub(crate) fn into_head(self, streams: bool) -> Result<(Head, Bytes, u32), Error> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let mut headers = Vec::with_capacity(self.headers.len() + 2);
        if !self.headers.contains_key(http::header::USER_AGENT) {
            headers.push(Header::new(b"user-agent", b"weir"));
        }
        let has_body = streams || !self.body.is_empty();
        let counted = !streams && (has_body || self.method == Method::POST || self.method == Method::PUT);
        if let Some(length) = self.headers.get(http::header::CONTENT_LENGTH).filter(|_| !streams && has_body)
            && length.to_str().ok().and_then(|text| text.parse().ok()) != Some(self.body.len())
        {
            let text = format!("content-length {length:?}: the body has {} bytes", self.body.len());
            return Err(Error::new(ErrorKind::Usage, text));
        }
        if counted && !self.headers.contains_key(http::header::CONTENT_LENGTH) {
            headers.push(Header::new(b"content-length", self.body.len().to_string().as_bytes()));
        }
        headers.extend(self.headers.iter().map(|(name, value)| Header::new(name.as_ref(), value.as_bytes())));
        let head = Head {
            method: self.method.as_str().to_owned(),
            bytes: self.expected_bytes.or_else(|| promised_bytes(&self.path)),
            path: self.path,
            authority: self.authority,
            protocol: self.protocol,
            headers,
            has_body,
            is_upload: false,
            is_early: self.is_early,
        };
        Ok((head, self.body, self.redirects))
    }
}
