// SPDX-License-Identifier: Apache-2.0
//! Addresses of command lines. One of a single link has its interface as zone, by name or index (RFC 4007 11):
//! `fe80::1%eth0`, `[fe80::1%eth0]:4433`.

use std::ffi::CString;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// Why a text is no address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AddressError {
    /// It is something else.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The zone is no interface of this machine.
    #[error("no interface '{0}'")]
    NoInterface(String),
    /// A link-local address means a host on each link.
    #[error("{0} is of one link: expected its interface too, as in {0}%eth0")]
    NoZone(Ipv6Addr),
    /// Other addresses mean one host wherever they are used.
    #[error("{0} is not of one link: expected no interface behind it")]
    NotOfOneLink(IpAddr),
}

/// An IP address with its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZonedIp {
    /// The address.
    pub ip: IpAddr,
    /// Index of the interface; 0 where the address needs none.
    pub zone: u32,
}

impl ZonedIp {
    /// The address with a port.
    pub fn with_port(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(_) => SocketAddr::new(self.ip, port),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.zone).into(),
        }
    }
}

impl fmt::Display for ZonedIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.zone, name_of(self.zone)) {
            (0, _) => write!(f, "{}", self.ip),
            (_, Some(name)) => write!(f, "{}%{}", self.ip, name.to_string_lossy()),
            (zone, None) => write!(f, "{}%{zone}", self.ip),
        }
    }
}

impl FromStr for ZonedIp {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (address, zone) = split_zone(text);
        let ip = address.parse().map_err(|_| AddressError::Expected("an IP address"))?;
        with_zone(ip, zone)
    }
}

/// An address and the name of its zone.
///
/// # Errors
/// The zone is unknown, is missing, or stands behind an address that has none.
pub fn with_zone(ip: IpAddr, zone: Option<&str>) -> Result<ZonedIp, AddressError> {
    let zone = match (ip, zone) {
        (IpAddr::V6(ip), Some(zone)) if ip.is_unicast_link_local() => zone_index(zone)?,
        (IpAddr::V6(ip), None) if ip.is_unicast_link_local() => return Err(AddressError::NoZone(ip)),
        (ip, Some(_)) => return Err(AddressError::NotOfOneLink(ip)),
        (_, None) => 0,
    };
    Ok(ZonedIp { ip, zone })
}

/// `ADDRESS:PORT` as a socket address; one of IPv6 in brackets.
///
/// # Errors
/// It is something else, or its zone can't be used.
pub fn socket_address(text: &str) -> Result<SocketAddr, AddressError> {
    let wrong = AddressError::Expected("ADDRESS:PORT, as in 192.0.2.1:4433 or [fe80::1%eth0]:4433");
    let Some((host, port)) = split_port(text) else { return Err(wrong) };
    // Brackets are of IPv6 alone, which can't go without.
    if text.starts_with('[') != host.contains(':') {
        return Err(wrong);
    }
    match host.parse::<ZonedIp>() {
        Err(AddressError::Expected(_)) => Err(wrong),
        found => found.map(|ip| ip.with_port(port)),
    }
}

/// Host and port of `HOST:PORT`, the host without brackets.
pub fn split_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
    let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok())??;
    Some((bare, port))
}

/// An address and the zone behind it, if there is one.
pub fn split_zone(text: &str) -> (&str, Option<&str>) {
    text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)))
}

/// The index of the interface that a zone names.
fn zone_index(zone: &str) -> Result<u32, AddressError> {
    let unknown = || AddressError::NoInterface(zone.to_owned());
    let name = CString::new(zone).map_err(|_| unknown())?;
    // SAFETY: the name ends with a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => zone.parse().ok().filter(|index| name_of(*index).is_some()).ok_or_else(unknown),
        index => Ok(index),
    }
}

/// The name of an interface; `None`: there is no such interface.
fn name_of(index: u32) -> Option<CString> {
    let mut room = [0u8; libc::IFNAMSIZ];
    // SAFETY: the buffer has the size that the call asks for, and what it writes ends with a zero byte.
    let found = unsafe { libc::if_indextoname(index, room.as_mut_ptr().cast()) };
    (!found.is_null()).then(|| CString::from_vec_with_nul(room.split_inclusive(|b| *b == 0).next()?.to_vec()).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn socket_addresses() {
        for (text, expected) in [
            ("127.0.0.1:4433", "127.0.0.1:4433"),
            ("[::]:0", "[::]:0"),
            ("[fe80::1%lo]:4433", "[fe80::1%1]:4433"),
            ("[fe80::1%1]:4433", "[fe80::1%1]:4433"),
        ] {
            assert_eq!(socket_address(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            "127.0.0.1",
            "::1:1",
            "[127.0.0.1]:1",
            "[::1]",
            "[::1:1",
            "h:1",
            "[::1]:65536",
            "[::1]:+1",
            "1.1.1.1%lo",
        ] {
            assert!(matches!(socket_address(text), Err(AddressError::Expected(_))), "{text}");
        }
    }

    #[test]
    fn zones() {
        let zone = |text: &str| text.parse::<ZonedIp>();
        assert_eq!(zone("fe80::1%lo"), Ok(ZonedIp { ip: "fe80::1".parse().unwrap(), zone: 1 }));
        for text in ["fe80::1%lo", "::1", "127.0.0.1"] {
            assert_eq!(zone(text).unwrap().to_string(), text);
        }
        let removed = ZonedIp { ip: "fe80::1".parse().unwrap(), zone: u32::MAX };
        assert_eq!(removed.to_string(), format!("fe80::1%{}", u32::MAX));
        for name in ["no-such-if", "", "999999999", "-1", "a%b"] {
            assert_eq!(zone(&format!("fe80::1%{name}")), Err(AddressError::NoInterface(name.to_owned())), "{name}");
        }
        assert_eq!(zone("fe80::1"), Err(AddressError::NoZone("fe80::1".parse().unwrap())));
        for text in ["::1%lo", "2001:db8::1%lo", "127.0.0.1%lo"] {
            assert!(matches!(zone(text), Err(AddressError::NotOfOneLink(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_rejected(text in "\\PC{0,40}") {
            let _ = (socket_address(&text), text.parse::<ZonedIp>(), socket_address(&format!("[fe80::1%{text}]:1")));
        }
    }
}
