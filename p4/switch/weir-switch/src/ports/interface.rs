// SPDX-License-Identifier: Apache-2.0
//! One interface: whether it can be a port, its sockets, and its faults in words.
use crate::system::{self, Link};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Size limit of a slower interface's own queue.
const SEND_BUFFER_BYTES: libc::c_int = 4 << 20;

/// Makes this switch the only one on an interface of this network namespace.
pub fn claim(index: u32) -> Result<UnixListener> {
    let name = format!("weir-switch/{index}");
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

pub fn send_to(link: Link) -> Result<OwnedFd> {
    let socket = system::packet_socket()?;
    system::set_send_buffer(&socket, SEND_BUFFER_BYTES)?;
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

pub fn explain(name: &str, e: &Error) -> String {
    match (e.kind(), e.raw_os_error()) {
        (ErrorKind::PermissionDenied, _) => {
            format!("interface {name}: not allowed; raw packets need root or the capability CAP_NET_RAW")
        }
        (ErrorKind::AddrInUse, _) => format!("interface {name}: another weir-switch has it"),
        (_, Some(libc::ENODEV)) => format!("interface {name}: there is no such interface in this network namespace"),
        (_, Some(libc::ENOMEM)) => format!("interface {name}: no memory for its receive ring"),
        _ => format!("interface {name}: {e}"),
    }
}
