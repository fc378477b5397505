// SPDX-License-Identifier: Apache-2.0
//! Redirects within one origin (RFC 9110 15.4).

use super::exchange::Answer;
use crate::text::printable_bytes;
use quiche::h3::NameValue;
use url::Url;

/// Whether a status is a redirect that can be followed; `keeps_method`: only by a request like the first one, because it
/// has a body or does more than read (RFC 9110 15.4.2 to 15.4.4 let others become a GET).
pub fn is_followed(status: u16, keeps_method: bool) -> bool {
    matches!(status, 307 | 308) || !keeps_method && matches!(status, 301..=303)
}

/// Path and query that an answer to the request for `path` refers to, on the same origin over https.
///
/// # Errors
/// There is no Location, it is malformed, or it is of another origin.
pub fn target(authority: &str, path: &str, answer: &Answer<'_>) -> Result<String, String> {
    let location = answer.headers.iter().find(|h| h.name() == b"location").ok_or("no Location")?;
    let shown = printable_bytes(location.value());
    let location = std::str::from_utf8(location.value()).map_err(|_| format!("Location {shown} is not text"))?;
    let base = Url::parse(&format!("https://{authority}{path}")).map_err(|e| e.to_string())?;
    let to = base.join(location).map_err(|e| format!("Location {shown}: {e}"))?;
    if to.origin() != base.origin() {
        return Err(format!("Location {shown} is of another origin: expected https://{authority}/..."));
    }
    Ok(to[url::Position::BeforePath..url::Position::AfterQuery].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quiche::h3::Header;

    fn to(location: &[u8]) -> Result<String, String> {
        let headers = [Header::new(b"location", location)];
        target("a.example:443", "/x/y?q", &Answer { status: 302, headers: &headers, content_length: None })
    }

    #[test]
    fn same_origin_only() {
        for (location, path) in [("/z", "/z"), ("z?p=1#f", "/x/z?p=1"), ("https://a.example/", "/"), ("?r", "/x/y?r")] {
            assert_eq!(to(location.as_bytes()).as_deref(), Ok(path), "{location}");
        }
        for location in ["https://b.example/", "http://a.example/", "//b.example/z", "https://a.example:8443/"] {
            assert!(to(location.as_bytes()).unwrap_err().contains("another origin"), "{location}");
        }
    }

    proptest! {
        #[test]
        fn any_location_is_a_path_or_refused(location in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(path) = to(&location) {
                prop_assert!(path.starts_with('/') && path.is_ascii() && !path.contains(char::is_whitespace));
            }
        }
    }
}
