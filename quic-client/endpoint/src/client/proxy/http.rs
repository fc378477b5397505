// SPDX-License-Identifier: Apache-2.0
//! HTTP/1.1 of local clients: CONNECT (RFC 9110 9.3.6), and the refusals of everything else.

use super::destination::Destination;
use weir_core::text::printable;

/// Longest head of a request, in bytes.
pub const MOST_BYTES: usize = 16 << 10;
/// Most header fields of a request.
const MOST_FIELDS: usize = 100;

/// A CONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    /// Destination.
    pub destination: Destination,
    /// Value of `proxy-authorization`.
    pub authorization: Option<Vec<u8>>,
}

/// A request that is refused: status, reason phrase, text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Status with its reason phrase, such as `400 Bad Request`.
    pub status: &'static str,
    /// Reason, in one line.
    pub text: String,
}

impl Refusal {
    /// A refusal with this status.
    pub fn new(status: &'static str, text: impl Into<String>) -> Refusal {
        Refusal { status, text: text.into() }
    }

    /// The answer.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Refusal { status, text } = self;
        let challenge = match status.starts_with("407") {
            true => "proxy-authenticate: Basic realm=\"weir-client proxy\"\r\n",
            false => "",
        };
        let allow = if status.starts_with("405") { "allow: CONNECT\r\n" } else { "" };
        let text = printable(text);
        let length = text.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n{challenge}{allow}connection: \
             close\r\n\r\n{text}\n"
        )
        .into_bytes()
    }
}

/// Answer to a CONNECT whose tunnel is open.
pub const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A request with the length of its head; `None` while that is not complete.
///
/// # Errors
/// Anything but a CONNECT.
pub fn connect(bytes: &[u8]) -> Result<Option<(Connect, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let len = match request.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            let text = format!("the head of the request: expected at most {MOST_BYTES} bytes and {MOST_FIELDS} fields");
            return Err(Refusal::new("431 Request Header Fields Too Large", text));
        }
        Err(e) => {
            return Err(Refusal::new("400 Bad Request", format!("the request: {e}; expected SOCKS5 or HTTP CONNECT")));
        }
    };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if method != "CONNECT" {
        return Err(match target.starts_with("http://") {
            true => Refusal::new(
                "501 Not Implemented",
                "this proxy forwards no plain HTTP: expected CONNECT (curl --proxytunnel), or SOCKS5 (socks5h://)",
            ),
            false => Refusal::new("405 Method Not Allowed", "this is a proxy: expected CONNECT, or SOCKS5"),
        });
    }
    let destination = Destination::parse(target)
        .map_err(|e| Refusal::new("400 Bad Request", format!("CONNECT {}: {e}", printable(target))))?;
    let authorization = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("proxy-authorization"));
    Ok(Some((Connect { destination, authorization: authorization.map(|field| field.value.to_vec()) }, len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_of_clients() {
        let bytes = b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic eA==\r\n\r\nrest";
        let (found, len) = connect(bytes).unwrap().unwrap();
        assert_eq!((found.destination.to_string().as_str(), &bytes[len..]), ("example.org:443", &b"rest"[..]));
        assert_eq!(found.authorization.as_deref(), Some(&b"Basic eA=="[..]));
        assert_eq!(connect(&bytes[..len - 1]), Ok(None));
        for (text, status) in [
            ("GET http://example.org/ HTTP/1.1\r\n\r\n", "501"),
            ("GET / HTTP/1.1\r\n\r\n", "405"),
            ("CONNECT example.org HTTP/1.1\r\n\r\n", "400"),
            ("CONNECT http://example.org:80/ HTTP/1.1\r\n\r\n", "400"),
            ("\0\r\n\r\n", "400"),
        ] {
            let refusal = connect(text.as_bytes()).unwrap_err();
            assert!(refusal.status.starts_with(status), "{text}: {refusal:?}");
            let answer = String::from_utf8(refusal.to_bytes()).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
        }
        let long = format!("CONNECT example.org:443 HTTP/1.1\r\nx: {}", "y".repeat(MOST_BYTES));
        assert!(connect(long.as_bytes()).unwrap_err().status.starts_with("431"));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400), text in "\\PC{0,60}") {
            super::super::fuzz::http(&bytes);
            super::super::fuzz::http(format!("CONNECT {text} HTTP/1.1\r\n\r\n").as_bytes());
        }
    }
}
