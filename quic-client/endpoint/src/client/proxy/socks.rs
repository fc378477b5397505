// SPDX-License-Identifier: Apache-2.0
//! SOCKS5 (RFC 1928) with user and password (RFC 1929): messages of clients, and answers. Each parser takes the bytes so
//! far, and gives the message with its length, or `None` while it is not complete.

use super::destination::{Destination, DestinationError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Version of SOCKS5, the first byte of a client.
pub const VERSION: u8 = 5;
/// Version of SOCKS4, which is refused.
pub const VERSION_4: u8 = 4;
/// Answer to a request of SOCKS4: rejected.
pub const REFUSAL_4: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];
/// Version of the messages with user and password.
const PASSWORD_VERSION: u8 = 1;
/// Longest message of a client, in bytes: a user and a password.
pub const MOST_BYTES: usize = 3 + 2 * 255;

/// Method without authentication.
pub const NO_AUTHENTICATION: u8 = 0;
/// Method with user and password.
pub const PASSWORD: u8 = 2;
/// None of the client's methods.
pub const NO_METHOD: u8 = 0xff;

/// Codes of answers (RFC 1928 6).
pub mod code {
    /// The tunnel is open.
    pub const SUCCEEDED: u8 = 0;
    /// A failure without a code of its own.
    pub const FAILURE: u8 = 1;
    /// Not allowed by the relay.
    pub const NOT_ALLOWED: u8 = 2;
    /// No route to the destination's network.
    pub const NETWORK_UNREACHABLE: u8 = 3;
    /// The destination can't be reached, or its name has no address.
    pub const HOST_UNREACHABLE: u8 = 4;
    /// The destination refused.
    pub const REFUSED: u8 = 5;
    /// The command is not supported.
    pub const NO_COMMAND: u8 = 7;
    /// The type of the address is not supported.
    pub const NO_ADDRESS_TYPE: u8 = 8;
}

/// Command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// A tunnel of TCP.
    Connect,
    /// A relay of UDP.
    Associate,
}

/// A malformed or unsupported message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    /// Another version.
    #[error("version {0}: expected 5")]
    Version(u8),
    /// A message whose form is wrong.
    #[error("malformed SOCKS5 message")]
    Malformed,
    /// BIND, or a command that there is not.
    #[error("command {0}: expected CONNECT or UDP ASSOCIATE")]
    Command(u8),
    /// A type of address that there is not.
    #[error("address type {0}: expected 1, 3 or 4")]
    AddressType(u8),
    /// Its host or port.
    #[error("{0}")]
    Destination(#[from] DestinationError),
}

impl SocksError {
    /// Code of the answer.
    pub fn code(self) -> u8 {
        match self {
            SocksError::Command(_) => code::NO_COMMAND,
            SocksError::AddressType(_) => code::NO_ADDRESS_TYPE,
            _ => code::FAILURE,
        }
    }
}

/// The client's first message: its methods.
///
/// # Errors
/// Another version, or no methods.
pub fn methods(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, SocksError> {
    match bytes {
        [VERSION, 0, ..] => Err(SocksError::Malformed),
        [VERSION, n, rest @ ..] => Ok(rest.get(..usize::from(*n)).map(|methods| (methods, 2 + methods.len()))),
        [VERSION] | [] => Ok(None),
        [version, ..] => Err(SocksError::Version(*version)),
    }
}

/// User and password.
pub type Credentials<'a> = (&'a [u8], &'a [u8]);

/// The message with user and password.
///
/// # Errors
/// Another version.
pub fn credentials(bytes: &[u8]) -> Result<Option<(Credentials<'_>, usize)>, SocksError> {
    if bytes.first().is_some_and(|version| *version != PASSWORD_VERSION) {
        return Err(SocksError::Malformed);
    }
    let field = |at: usize| {
        let len = usize::from(*bytes.get(at)?);
        bytes.get(at + 1..at + 1 + len).map(|field| (field, at + 1 + len))
    };
    let Some((user, at)) = field(1) else { return Ok(None) };
    Ok(field(at).map(|(password, end)| ((user, password), end)))
}

/// Address and port after the three bytes that requests and datagrams begin with. The address of UDP ASSOCIATE may have
/// the port 0: it is `None` then.
fn address(bytes: &[u8], zero: bool) -> Result<Option<(Option<Destination>, usize)>, SocksError> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let (skip, len) = match (kind, rest.first()) {
        (1, _) => (0, 4),
        (4, _) => (0, 16),
        (3, Some(0)) => return Err(DestinationError::Name.into()),
        (3, Some(len)) => (1, usize::from(*len)),
        (3, None) => return Ok(None),
        (kind, _) => return Err(SocksError::AddressType(*kind)),
    };
    let Some(whole) = rest.get(skip..skip + len + 2) else { return Ok(None) };
    let (host, port) = whole.split_at(len);
    let port = u16::from_be_bytes([port[0], port[1]]);
    let ip = |ip: IpAddr| Destination::address(ip, port);
    let destination = match (kind, <[u8; 4]>::try_from(host), <[u8; 16]>::try_from(host)) {
        (1, Ok(octets), _) => ip(Ipv4Addr::from(octets).into()),
        (4, _, Ok(octets)) => ip(Ipv6Addr::from(octets).into()),
        _ => Destination::named(host, port),
    };
    let destination = if zero && port == 0 { None } else { Some(destination?) };
    Ok(Some((destination, 1 + skip + len + 2)))
}

/// A request: its command and its destination.
///
/// # Errors
/// A command or an address that is not supported.
pub fn request(bytes: &[u8]) -> Result<Option<(Command, Option<Destination>, usize)>, SocksError> {
    let [version, command, reserved, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(SocksError::Version(*version));
    }
    if *reserved != 0 {
        return Err(SocksError::Malformed);
    }
    let command = match command {
        1 => Command::Connect,
        3 => Command::Associate,
        other => return Err(SocksError::Command(*other)),
    };
    let found = address(rest, command == Command::Associate)?;
    Ok(found.map(|(destination, len)| (command, destination, 3 + len)))
}

/// Answer to a request, with the address of a relay of UDP.
pub fn answer(code: u8, bound: &Destination) -> Vec<u8> {
    [&[VERSION, code, 0], bound.to_socks().as_slice()].concat()
}

/// Destination and payload of a datagram of a client; `None`: it is malformed, or a fragment (RFC 1928 7: these may be
/// dropped).
pub fn datagram(bytes: &[u8]) -> Option<(Destination, &[u8])> {
    let rest = bytes.strip_prefix(&[0, 0, 0])?;
    let (destination, len) = address(rest, false).ok()??;
    Some((destination?, &rest[len..]))
}

/// A datagram to a client, from this address.
pub fn datagram_from(from: &Destination, payload: &[u8]) -> Vec<u8> {
    [&[0, 0, 0], from.to_socks().as_slice(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_of_clients() {
        assert_eq!(methods(&[5, 2, 0, 2, 9]), Ok(Some((&[0, 2][..], 4))));
        assert_eq!(methods(&[5, 0]), Err(SocksError::Malformed));
        assert_eq!(methods(b"GET / HTTP/1.1"), Err(SocksError::Version(b'G')));
        assert_eq!(credentials(b"\x01\x01u\x02pw"), Ok(Some(((&b"u"[..], &b"pw"[..]), 6))));
        assert_eq!(credentials(&[5]), Err(SocksError::Malformed));
        let to = Destination::parse("example.org:443").unwrap();
        let bytes = [&[5, 1, 0], to.to_socks().as_slice()].concat();
        assert_eq!(request(&bytes), Ok(Some((Command::Connect, Some(to), bytes.len()))));
        let any = [5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(request(&any), Ok(Some((Command::Associate, None, 10))));
        assert_eq!(request(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0]).unwrap_err().code(), code::FAILURE);
        assert_eq!(request(&[5, 2, 0]).unwrap_err().code(), code::NO_COMMAND);
        assert_eq!(request(&[5, 1, 0, 9, 0]).unwrap_err().code(), code::NO_ADDRESS_TYPE);
    }

    #[test]
    fn fragments_are_dropped() {
        let to = Destination::parse("192.0.2.1:53").unwrap();
        let mut bytes = datagram_from(&to, b"question");
        assert_eq!(datagram(&bytes), Some((to, &b"question"[..])));
        bytes[2] = 1;
        assert_eq!(datagram(&bytes), None);
    }

    proptest! {
        // A message is complete at the same byte, however it is cut; nothing else is read.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            super::super::fuzz::socks(&bytes);
            super::super::fuzz::socks(&[&[5, 1, 0, 3], bytes.as_slice()].concat());
        }
    }
}
