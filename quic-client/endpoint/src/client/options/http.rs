// SPDX-License-Identifier: Apache-2.0
//! Options of requests, as curl has them.

use crate::shared::fault::{Fault, USAGE};
use clap::Args;
use quiche::h3::{Header, NameValue};
use std::io::Read;
use std::rc::Rc;

/// Redirects that `--location` follows.
const MOST_REDIRECTS: u32 = 10;
/// Largest body of `--data`, in bytes: it is read as a whole before the connection is opened.
const MOST_DATA_BYTES: u64 = 256 << 20;
/// Field names that HTTP/3 forbids (RFC 9114 4.2), and those that other options set.
const FORBIDDEN: [&str; 6] = ["connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Options of requests.
#[derive(Debug, Clone, Args)]
pub struct HttpOptions {
    /// Add a header field to each request, in place of a default one of this name. Repeat it for more
    #[arg(long = "header", short = 'H', value_name = "NAME:VALUE", value_parser = header, help_heading = "Requests")]
    pub headers: Vec<Header>,
    /// Method of the requests [default: GET, or POST with --data and --upload]
    #[arg(long = "request", short = 'X', value_name = "METHOD", value_parser = method, conflicts_with = "upload",
          help_heading = "Requests")]
    pub method: Option<String>,
    /// Send these bytes as the body of each request. @FILE takes them from a file, and @- from standard input
    #[arg(long, short, value_name = "DATA", conflicts_with = "upload", help_heading = "Requests")]
    pub data: Option<String>,
    /// Follow redirects within the origin, 10 at most
    #[arg(long, short = 'L', conflicts_with = "upload", help_heading = "Requests")]
    pub location: bool,
    /// Ask for a compressed answer (gzip, br, zstd) and decompress it; --max-size bounds the decompressed bytes
    #[arg(long, conflicts_with = "upload", help_heading = "Requests")]
    pub compressed: bool,
    /// Begin the output with the status and the header fields of the answer
    #[arg(long, short, requires = "output", help_heading = "Requests")]
    pub include: bool,
}

fn is_token(text: &str) -> bool {
    // RFC 9110 5.6.2.
    let other = |b: u8| b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || other(b))
}

fn method(text: &str) -> Result<String, String> {
    match is_token(text) && text.len() <= 32 && text != "CONNECT" {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' is not a method of a request: expected GET, HEAD, POST, PUT or another token")),
    }
}

fn header(text: &str) -> Result<Header, String> {
    let malformed = || format!("'{text}' is not a header field: expected NAME:VALUE");
    let (name, value) = text.split_once(':').ok_or_else(malformed)?;
    let (name, value) = (name.to_ascii_lowercase(), value.trim());
    if !is_token(&name) || value.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
        return Err(malformed());
    }
    if FORBIDDEN.contains(&name.as_str()) {
        return Err(format!("'{text}': HTTP/3 has no field {name} (RFC 9114 4.2)"));
    }
    Ok(Header::new(name.as_bytes(), value.as_bytes()))
}

impl HttpOptions {
    /// The body of `--data`.
    ///
    /// # Errors
    /// The file can't be read, or is too large.
    pub fn body(&self) -> Result<Option<Rc<[u8]>>, Fault> {
        let Some(data) = &self.data else { return Ok(None) };
        let Some(file) = data.strip_prefix('@') else { return Ok(Some(data.as_bytes().into())) };
        let mut bytes = Vec::new();
        let failed = || Fault::io(format!("--data {data}"));
        let source: Box<dyn Read> = match file {
            "-" => Box::new(std::io::stdin()),
            file => Box::new(std::fs::File::open(file).map_err(failed())?),
        };
        source.take(MOST_DATA_BYTES + 1).read_to_end(&mut bytes).map_err(failed())?;
        if bytes.len() as u64 > MOST_DATA_BYTES {
            let text = format!("--data {data}: more than {MOST_DATA_BYTES} bytes");
            return Err(Fault::new(USAGE, text));
        }
        Ok(Some(bytes.into()))
    }

    /// Header fields of the requests.
    pub fn fields(&self) -> Vec<Header> {
        let mut fields = self.headers.clone();
        if self.compressed && !fields.iter().any(|field| field.name() == b"accept-encoding") {
            fields.push(Header::new(b"accept-encoding", b"gzip, br, zstd"));
        }
        if self.data.is_some() && !fields.iter().any(|field| field.name() == b"content-type") {
            // As curl.
            fields.push(Header::new(b"content-type", b"application/x-www-form-urlencoded"));
        }
        fields
    }

    /// Redirects that are followed.
    pub fn redirects(&self) -> u32 {
        if self.location { MOST_REDIRECTS } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_fields() {
        let field = header("X-A:  b c ").unwrap();
        assert_eq!((field.name(), field.value()), (&b"x-a"[..], &b"b c"[..]));
        assert_eq!(header("x:").unwrap().value(), b"");
        for bad in ["", "x", ":v", "x y: z", ":path: /", "a:b\nc", "Connection: close", "Host: a"] {
            assert!(header(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_as_a_field(text in "\\PC{0,40}") {
            if let Ok(field) = header(&text) {
                prop_assert!(!field.name().starts_with(b":") && !field.name().iter().any(u8::is_ascii_uppercase));
            }
        }
    }
}
