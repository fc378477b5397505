// SPDX-License-Identifier: Apache-2.0
//! [`Destination`]: host and port of a tunnel. Names are resolved by the relay.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest host name: a SOCKS5 request has one byte for its length (RFC 1928 5).
pub const MOST_NAME_BYTES: usize = 255;

/// Host of a destination.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name, in ASCII.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Host and port of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// Host.
    pub host: Host,
    /// Port, above 0.
    pub port: u16,
}

/// A text or bytes that are no destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// The name has no characters, too many, or others than a host name has.
    #[error("the host: expected an address, or a name of letters, digits, '-', '_' and '.', at most 255 bytes")]
    Name,
    /// The port is missing, 0 or no number.
    #[error("the port: expected 1 to 65535")]
    Port,
}

impl Destination {
    /// Of an address.
    ///
    /// # Errors
    /// Port 0.
    pub fn address(ip: IpAddr, port: u16) -> Result<Destination, DestinationError> {
        match port {
            0 => Err(DestinationError::Port),
            port => Ok(Destination { host: Host::Address(ip), port }),
        }
    }

    /// Of a name, or of an address as text.
    ///
    /// # Errors
    /// It is neither, or the port is 0.
    pub fn named(name: &[u8], port: u16) -> Result<Destination, DestinationError> {
        let text = std::str::from_utf8(name).map_err(|_| DestinationError::Name)?;
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Destination::address(ip, port);
        }
        let in_names = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() || name.len() > MOST_NAME_BYTES || !name.iter().all(|b| in_names(*b)) {
            return Err(DestinationError::Name);
        }
        match port {
            0 => Err(DestinationError::Port),
            port => Ok(Destination { host: Host::Name(text.to_owned()), port }),
        }
    }

    /// Of `HOST:PORT`, with brackets around an IPv6 address (RFC 9112 3.2.3).
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Destination, DestinationError> {
        let (host, port) = text.rsplit_once(':').ok_or(DestinationError::Port)?;
        let is_decimal = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_decimal).ok_or(DestinationError::Port)?;
        match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(v6) => Destination::address(v6.parse::<Ipv6Addr>().map_err(|_| DestinationError::Name)?.into(), port),
            None if host.contains(':') => Err(DestinationError::Name),
            None => Destination::named(host.as_bytes(), port),
        }
    }

    /// Path of the request for a tunnel of UDP (RFC 9298 3.4, the default template).
    pub fn udp_path(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(ip) => ip.to_string().replace(':', "%3A"),
        };
        format!("/.well-known/masque/udp/{host}/{}/", self.port)
    }

    /// Address type, address and port, as SOCKS5 has them (RFC 1928 5).
    pub fn to_socks(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + MOST_NAME_BYTES);
        match &self.host {
            Host::Name(name) => {
                let name = &name.as_bytes()[..name.len().min(MOST_NAME_BYTES)];
                bytes.extend([3, name.len() as u8]);
                bytes.extend(name);
            }
            Host::Address(IpAddr::V4(ip)) => {
                bytes.push(1);
                bytes.extend(ip.octets());
            }
            Host::Address(IpAddr::V6(ip)) => {
                bytes.push(4);
                bytes.extend(ip.octets());
            }
        }
        bytes.extend(self.port.to_be_bytes());
        bytes
    }

    /// The unspecified address, which stands for one that is not known.
    pub fn unspecified() -> Destination {
        Destination { host: Host::Address(Ipv4Addr::UNSPECIFIED.into()), port: 0 }
    }
}

impl fmt::Display for Destination {
    /// `HOST:PORT`, as in `:authority`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(IpAddr::V4(ip)) => write!(f, "{ip}:{}", self.port),
            Host::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_destinations() {
        for (text, path) in [
            ("example.org:443", "/.well-known/masque/udp/example.org/443/"),
            ("192.0.2.1:53", "/.well-known/masque/udp/192.0.2.1/53/"),
            ("[2001:db8::1]:53", "/.well-known/masque/udp/2001%3Adb8%3A%3A1/53/"),
        ] {
            let found = Destination::parse(text).unwrap();
            assert_eq!((found.to_string().as_str(), found.udp_path().as_str()), (text, path));
        }
        for bad in
            ["", ":", "h", "h:", "h:0", "h:65536", "h:+1", "::1:443", "[::1]", "[h]:1", "h/x:1", "u@h:1", "h h:1"]
        {
            assert!(Destination::parse(bad).is_err(), "{bad}");
        }
        assert!(Destination::named(&[b'a'; 256], 1).is_err());
        assert!(Destination::named(&[b'a'; 255], 1).is_ok());
        assert_eq!(Destination::named(b"::1", 1).unwrap().to_string(), "[::1]:1");
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_comes_back(text in "\\PC{0,40}", port in any::<u16>()) {
            for text in [text.clone(), format!("{text}:{port}")] {
                if let Ok(found) = Destination::parse(&text) {
                    prop_assert_eq!(Destination::parse(&found.to_string()), Ok(found.clone()));
                    prop_assert!(found.udp_path().bytes().all(|b| b.is_ascii_graphic()));
                }
            }
        }
    }
}
