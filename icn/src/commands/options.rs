// SPDX-License-Identifier: Apache-2.0
//! Common parts of several commands: options, messages.

use super::group::{Target, Trust};
use crate::face::{Face, FaceError, PacketSocket};
use crate::names::Name;
use serde::Serialize;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_core::text::printable;
use weir_io::address::{socket_address, split_port, split_zone};
use weir_io::fault::{CONNECT, Fault, IO, USAGE};

/// Least memory for data: a megabyte. A number without a unit counts bytes, so that a forgotten unit is below it.
pub const LEAST_MEMORY_BYTES: u64 = 1_000_000;
/// Least history of a live stream.
pub const LEAST_HISTORY_BYTES: u64 = 64_000;

/// A number of bytes, with or without a unit, of at least so many.
pub fn size(text: &str, least_bytes: u64) -> Result<u64, String> {
    weir_core::request::size_of_at_least(text, least_bytes).map_err(|e| e.to_string())
}

/// A name.
pub fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|e| e.to_string())
}

/// Opens an interface.
///
/// # Errors
/// It can't be used: exit code 2 for a name that no interface can have, else 8.
pub fn face(interface: &str) -> Result<PacketSocket, Fault> {
    PacketSocket::open(interface).map_err(|e| {
        let code = match e {
            FaceError::BadName(_) => USAGE,
            _ => IO,
        };
        Fault::new(code, e.to_string())
    })
}

/// Whom to believe, from `--ca` and `--insecure`. Reports it if the file has a private key in it: whoever has that
/// passes for the publisher.
pub fn trust(ca: Option<&Path>, insecure: bool) -> Trust<'_> {
    if let Some(ca) = ca
        && std::fs::read(ca).is_ok_and(|pem| has_key(&pem))
    {
        let text = "has a private key in it, which only the publisher may have; take the certificate alone";
        complain(&format!("--ca {}: {text}", shown(ca)));
    }
    Trust { ca, insecure }
}

fn has_key(pem: &[u8]) -> bool {
    const END: &[u8] = b"PRIVATE KEY-----";
    pem.windows(END.len()).any(|part| part == END)
}

/// Seconds since 1970, by the system's clock.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// One line on standard error.
pub fn complain(text: &str) {
    eprintln!("weir-icn: {}", printable(text));
}

/// A value as one line of JSON.
///
/// # Errors
/// It has no form in JSON.
pub fn to_json(value: &impl Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(Fault::internal("JSON"))
}

/// A path for messages.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Receives what waits, a few batches of it, so that timers and other sockets have their turn.
///
/// # Errors
/// The interface was removed.
pub fn receive(face: &mut impl Face, mut take: impl FnMut(&crate::packet::Header, &[u8])) -> Result<(), Fault> {
    for _ in 0..4 {
        if !face.receive(&mut take).map_err(Fault::io("interface"))? {
            break;
        }
    }
    Ok(())
}

/// A server's host, for its certificate, with each of its addresses: the families in turn (RFC 8305 4).
///
/// # Errors
/// It is no host and port, or the host is not known.
pub fn resolve(option: &str, from: &str) -> Result<Vec<Target>, Fault> {
    let wrong = || Fault::new(USAGE, format!("{option} {from}: expected HOST:PORT, as in 192.0.2.1:4434"));
    let (host, port) = split_port(from).ok_or_else(wrong)?;
    let (bare, _) = split_zone(host);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        let to = socket_address(from).map_err(|e| Fault::new(USAGE, format!("{option} {from}: {e}")))?;
        return Ok(vec![Target { host: ip.to_string(), to }]);
    }
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.map_err(|e| Fault::new(CONNECT, format!("{option} {from}: {e}")))?.collect();
    let first = *found.first().ok_or_else(wrong)?;
    let (these, those): (Vec<_>, Vec<_>) = found.into_iter().partition(|a| a.is_ipv6() == first.is_ipv6());
    let places = these.len().max(those.len());
    let in_turn = (0..places).flat_map(|n| [these.get(n), those.get(n)]).flatten();
    Ok(in_turn.map(|to| Target { host: host.to_owned(), to: *to }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_whose_unit_was_forgotten_is_too_small() {
        assert_eq!(size("5MB", LEAST_MEMORY_BYTES), Ok(5_000_000));
        for text in ["5", "64", "64kB", "-1", "MB"] {
            assert!(size(text, LEAST_MEMORY_BYTES).is_err(), "{text}");
        }
    }

    #[test]
    fn a_key_is_seen_in_what_is_to_be_trusted() {
        let dir = tempfile::tempdir().unwrap();
        weir_io::cert::load_or_make(dir.path(), &["localhost".to_owned()]).unwrap();
        let has = |file| has_key(&std::fs::read(dir.path().join(file)).unwrap());
        assert_eq!((has("weir-server.pem"), has("weir-server-ca.pem")), (true, false));
    }
}
