// SPDX-License-Identifier: Apache-2.0
//! One interface: whether it can be a port, its sockets, and its faults in words.
use crate::system::{self, Link};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;

/// The first of 0x400 protocols that no frame on the wire has: numbers below 0x600 are lengths there (IEEE 802.3 3.2.6).
const NEVER_RECEIVED: u16 = 0x100;
/// Identifiers of a lock that are tried: another program's fanout group can have the first.
const IDENTIFIERS: u32 = 8;
/// Distance of two of them, away from those of other interfaces.
const STEP: u32 = 0x1f3d;

/// Makes this switch the only one on an interface of this network namespace, until the socket is closed. A fanout group of
/// one member (packet(7)) is the lock: it takes CAP_NET_RAW, so that no other local user can hold it, and no file. Protocol and
/// identifier together are the interface's number.
///
/// # Errors
/// `AddrInUse`: another switch has the interface.
pub fn claim(index: u32) -> Result<OwnedFd> {
    let socket = system::packet_socket()?;
    system::bind(&socket, 0, NEVER_RECEIVED + (index >> 16) as u16 % 0x400)?;
    for n in 0..IDENTIFIERS {
        match system::join_alone(&socket, index.wrapping_add(n * STEP) as u16) {
            Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => return Err(ErrorKind::AddrInUse.into()),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => (),
            joined => return joined.map(|()| socket),
        }
    }
    Err(Error::other("no fanout group is free for the lock of this interface"))
}

/// Whether an interface is down or missing.
pub fn is_away(e: &Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}

pub fn send_to(link: Link) -> Result<OwnedFd> {
    let socket = system::packet_socket()?;
    system::bind(&socket, link.index, 0)?;
    Ok(socket)
}

/// Finds an interface of Ethernet frames.
pub fn look(query: &OwnedFd, name: &str) -> std::result::Result<Link, String> {
    let link = system::link(query, name).map_err(|e| explain(name, &e))?;
    match link.hardware {
        libc::ARPHRD_ETHER => Ok(link),
        libc::ARPHRD_LOOPBACK => {
            Err(format!("interface {name}: a loopback gives back what is sent to it; a port is an Ethernet interface"))
        }
        other => Err(format!(
            "interface {name}: it does not carry Ethernet frames (hardware type {other}, not {}); a port is an \
             Ethernet interface, such as one of a veth pair, a tap or a network card",
            libc::ARPHRD_ETHER
        )),
    }
}

/// The process that has the interface, where it can be seen.
fn other_user(name: &str) -> String {
    let link = system::query_socket().and_then(|query| system::link(&query, name));
    link.ok().and_then(|link| system::packet_user(link.index)).map_or_else(String::new, |who| format!(": {who}"))
}

pub fn explain(name: &str, e: &Error) -> String {
    match (e.kind(), e.raw_os_error()) {
        (ErrorKind::PermissionDenied, _) => {
            format!("interface {name}: not allowed; raw packets need root or the capability CAP_NET_RAW")
        }
        (ErrorKind::AddrInUse, _) => format!("interface {name}: another weir-switch has it{}", other_user(name)),
        (_, Some(libc::ENODEV)) => format!("interface {name}: there is no such interface in this network namespace"),
        (_, Some(libc::ENOMEM)) => format!("interface {name}: no memory for its receive ring"),
        _ => format!("interface {name}: {e}"),
    }
}
