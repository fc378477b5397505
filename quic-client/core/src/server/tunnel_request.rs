// SPDX-License-Identifier: Apache-2.0
//! Requests for tunnels: CONNECT (RFC 9114 4.4) for TCP, and extended CONNECT (RFC 9220) with `connect-udp` (RFC 9298).

use super::head::Head;
use std::net::Ipv6Addr;
use url::Host;

/// Longest host name in characters (RFC 1035 2.3.4).
const MOST_HOST_CHARS: usize = 255;
/// The URI template of RFC 9298 2 has the target behind this.
pub const UDP_PATH: &str = "/.well-known/masque/udp/";

/// Protocol to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelKind {
    /// A byte stream.
    Tcp,
    /// Datagrams.
    Udp,
}

/// A request for a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelRequest {
    /// Protocol to the target.
    pub kind: TunnelKind,
    /// The target.
    pub host: Host<String>,
    /// Its port; not 0.
    pub port: u16,
    /// `proxy-authorization`.
    pub authorization: Option<String>,
}

/// A request that can't be for a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TunnelRequestError {
    /// A protocol that is not offered.
    #[error(":protocol not served: expected connect-udp, or none for TCP")]
    Protocol,
    /// Fields that do not belong together.
    #[error("malformed CONNECT: expected :authority alone, or :scheme, :authority and :path with connect-udp")]
    Fields,
    /// A path that is not that of the template.
    #[error("path not served: expected /.well-known/masque/udp/HOST/PORT/")]
    Path,
    /// Not a target.
    #[error("target not understood: expected a host name, an IPv4 or an [IPv6] address, and a port from 1 to 65535")]
    Target,
}

impl TunnelRequestError {
    /// The status of the answer.
    pub fn status(self) -> u16 {
        match self {
            TunnelRequestError::Protocol => 501,
            TunnelRequestError::Path => 404,
            TunnelRequestError::Fields | TunnelRequestError::Target => 400,
        }
    }
}

impl TunnelRequest {
    /// Reads the fields of a request with the method CONNECT.
    ///
    /// # Errors
    /// It is malformed, or for a protocol that is not offered.
    pub fn read(head: &Head<'_>) -> Result<TunnelRequest, TunnelRequestError> {
        let authority = head.field(":authority").ok_or(TunnelRequestError::Fields)?;
        let shape = (head.has_field(":scheme"), head.has_field(":path"));
        let (kind, target) = match head.field(":protocol") {
            None if head.has_field(":protocol") => return Err(TunnelRequestError::Protocol),
            None if shape == (false, false) => (TunnelKind::Tcp, of_authority(authority)),
            Some("connect-udp") if shape == (true, true) => (TunnelKind::Udp, of_path(head.path)?),
            Some(protocol) if protocol != "connect-udp" => return Err(TunnelRequestError::Protocol),
            _ => return Err(TunnelRequestError::Fields),
        };
        let (host, port) = target.ok_or(TunnelRequestError::Target)?;
        let authorization = head.field("proxy-authorization").map(str::to_owned);
        Ok(TunnelRequest { kind, host, port, authorization })
    }
}

fn of_authority(text: &str) -> Option<(Host<String>, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    Some((parse_host(host)?, parse_port(port)?))
}

fn of_path(path: &str) -> Result<Option<(Host<String>, u16)>, TunnelRequestError> {
    let rest = path.strip_prefix(UDP_PATH).ok_or(TunnelRequestError::Path)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = rest.split_once('/').ok_or(TunnelRequestError::Path)?;
    let Ok(host) = percent_encoding::percent_decode_str(host).decode_utf8() else { return Ok(None) };
    // The template has IPv6 addresses without brackets (RFC 9298 3).
    let host = match host.parse::<Ipv6Addr>() {
        Ok(address) => Some(Host::Ipv6(address)),
        Err(_) => parse_host(&host),
    };
    Ok(host.zip(parse_port(port)))
}

// Also takes the forms of IPv4 addresses that resolvers take, such as 127.1, as addresses.
fn parse_host(text: &str) -> Option<Host<String>> {
    // `Host` would decode it.
    if text.len() > MOST_HOST_CHARS || text.contains('%') {
        return None;
    }
    match Host::parse(text).ok()? {
        Host::Domain(name) if name.trim_end_matches('.').is_empty() || name.len() > MOST_HOST_CHARS => None,
        host => Some(host),
    }
}

fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quiche::h3::Header;

    fn read(fields: &[(&str, &str)]) -> Result<TunnelRequest, TunnelRequestError> {
        let fields: Vec<_> = fields.iter().map(|(n, v)| Header::new(n.as_bytes(), v.as_bytes())).collect();
        let path = Head { method: "", path: "", fields: &fields }.field(":path").unwrap_or_default();
        TunnelRequest::read(&Head { method: "CONNECT", path, fields: &fields })
    }

    fn tcp(authority: &str) -> Result<String, TunnelRequestError> {
        read(&[(":authority", authority)]).map(|r| format!("{} {}", r.host, r.port))
    }

    fn udp(path: &str) -> Result<String, TunnelRequestError> {
        let fields = [(":protocol", "connect-udp"), (":scheme", "https"), (":authority", "relay"), (":path", path)];
        read(&fields).map(|r| format!("{} {}", r.host, r.port))
    }

    #[test]
    fn targets() {
        assert_eq!(tcp("Example.org:443").as_deref(), Ok("example.org 443"));
        assert_eq!(tcp("[2001:db8::1]:8443").as_deref(), Ok("[2001:db8::1] 8443"));
        for disguised in ["127.1:1", "0x7f000001:1", "2130706433:1", "127.0.0.1.:1"] {
            assert_eq!(tcp(disguised).as_deref(), Ok("127.0.0.1 1"), "{disguised}");
        }
        let path = |rest| udp(&format!("{UDP_PATH}{rest}"));
        assert_eq!(path("192.0.2.6/443/").as_deref(), Ok("192.0.2.6 443"));
        assert_eq!(path("2001%3Adb8%3A%3A42/443/").as_deref(), Ok("[2001:db8::42] 443"));
        assert_eq!(path("target.example.com/53").as_deref(), Ok("target.example.com 53"));
        for bad in ["x:0", "x:65536", "x:+1", "x:", ":1", "x", ".:1", "u@x:1", "a%2fb:1", "[::1%25eth0]:1", "::1:1"] {
            assert_eq!(tcp(bad), Err(TunnelRequestError::Target), "{bad}");
        }
        assert_eq!(tcp(&format!("{}:1", "a".repeat(300))), Err(TunnelRequestError::Target));
        for bad in ["x/0/", "x/1/2/", "a%2fb/1/", "fe80%3A%3A1%25eth0/1/", "%ff/1/", "/1/"] {
            assert_eq!(path(bad), Err(TunnelRequestError::Target), "{bad}");
        }
        assert_eq!(udp("/masque/x/1/"), Err(TunnelRequestError::Path));
    }

    #[test]
    fn shapes() {
        assert_eq!(read(&[]), Err(TunnelRequestError::Fields));
        assert_eq!(read(&[(":authority", "x:1"), (":path", "/")]), Err(TunnelRequestError::Fields));
        assert_eq!(read(&[(":authority", "x"), (":protocol", "connect-udp")]), Err(TunnelRequestError::Fields));
        assert_eq!(read(&[(":authority", "x"), (":protocol", "websocket")]), Err(TunnelRequestError::Protocol));
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_or_refused(text in "\\PC{0,60}") {
            let _ = tcp(&text);
            let _ = udp(&format!("{UDP_PATH}{text}"));
        }
    }
}
