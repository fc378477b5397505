// SPDX-License-Identifier: Apache-2.0
//! The network interfaces of this machine and their addresses, and a notice when any of that changes (rtnetlink).
//!
//! The notice says only that something changed. The change itself is found by listing again and comparing, so a notice
//! that the kernel had to drop costs nothing.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's index of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Set up by the administrator and ready to carry packets (carrier, and authentication where the link has one).
    pub up: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// Addresses to send from, in the kernel's order: no link-local ones, and no IPv6 addresses that are tentative,
    /// deprecated or found to be another's (RFC 4862 5.4, 5.5.4).
    pub addresses: Vec<IpAddr>,
    /// Addresses of this link alone, under the same conditions.
    pub link_local: Vec<IpAddr>,
}

/// The content of one dump, in its order.
#[derive(Debug, Default)]
struct Dump {
    links: Vec<LinkMessage>,
    addresses: Vec<AddressMessage>,
    /// The end of the dump has come.
    done: bool,
    /// The kernel's tables changed under the dump (`NLM_F_DUMP_INTR`).
    torn: bool,
}

// NLM_F_DUMP_INTR of linux/netlink.h.
const TORN: u16 = 0x10;
/// Tries to get a dump that nothing changed under. Beyond them the last one is taken: the changes' notices follow.
const TRIES: usize = 5;

fn invalid(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("netlink: {what}"))
}

impl Dump {
    /// Takes in one datagram of answers.
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = NetlinkBuffer::new_checked(bytes).map_err(invalid)?.length() as usize;
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).map_err(invalid)?;
            self.torn |= message.header.flags & TORN != 0;
            match message.payload {
                NetlinkPayload::Done(_) => self.done = true,
                NetlinkPayload::Error(e) if e.code.is_some() => return Err(e.to_io()),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => self.links.push(link),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(address)) => self.addresses.push(address),
                _ => {}
            }
            // Messages begin at multiples of four bytes.
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(())
    }

    fn interfaces(self) -> Vec<Interface> {
        let mut found = BTreeMap::new();
        for link in self.links {
            let flags = link.header.flags;
            let name = link.attributes.into_iter().find_map(|a| match a {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            });
            let Some(name) = name else { continue };
            found.insert(
                link.header.index,
                Interface {
                    index: link.header.index,
                    name,
                    up: flags.contains(LinkFlags::Up | LinkFlags::Running),
                    loopback: flags.contains(LinkFlags::Loopback),
                    addresses: Vec::new(),
                    link_local: Vec::new(),
                },
            );
        }
        for address in self.addresses {
            // An address may have come with a link that was not there yet when links were listed.
            let Some(interface) = found.get_mut(&address.header.index) else { continue };
            let Some(ip) = usable(&address) else { continue };
            let all = if is_link_local(ip) { &mut interface.link_local } else { &mut interface.addresses };
            all.push(ip);
        }
        found.into_values().collect()
    }
}

fn usable(address: &AddressMessage) -> Option<IpAddr> {
    let mut flags = AddressFlags::from_bits_retain(address.header.flags.bits().into());
    // On a point-to-point link `Address` is the far end's, and `Local` ours; without it there is only `Address`.
    let (mut ours, mut either) = (None, None);
    for attribute in &address.attributes {
        match attribute {
            AddressAttribute::Local(ip) => ours = Some(*ip),
            AddressAttribute::Address(ip) => either = Some(*ip),
            // All of them; the header has room for the first eight.
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    let ip = ours.or(either)?;
    let bad = AddressFlags::Tentative | AddressFlags::Deprecated | AddressFlags::Dadfailed;
    (!flags.intersects(bad)).then_some(ip)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn dump(socket: &Socket, request: RouteNetlinkMessage, into: &mut Dump) -> io::Result<()> {
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    into.done = false;
    while !into.done {
        let (answer, _) = socket.recv_from_full()?;
        into.take(&answer)?;
    }
    Ok(())
}

/// All interfaces of this network namespace, by index.
///
/// # Errors
/// Those of the netlink socket, and an answer that can't be read.
pub fn list() -> io::Result<Vec<Interface>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    for _ in 1..TRIES {
        let found = list_once(&socket)?;
        if !found.torn {
            return Ok(found.interfaces());
        }
    }
    Ok(list_once(&socket)?.interfaces())
}

fn list_once(socket: &Socket) -> io::Result<Dump> {
    let mut found = Dump::default();
    dump(socket, RouteNetlinkMessage::GetLink(LinkMessage::default()), &mut found)?;
    dump(socket, RouteNetlinkMessage::GetAddress(AddressMessage::default()), &mut found)?;
    Ok(found)
}

/// Reports when an interface, an address or a route is added, removed or changed.
pub struct Monitor {
    socket: Socket,
    bytes: Vec<u8>,
}

/// Kinds of change to be notified of (linux/rtnetlink.h). Routes are among them, because the route to a server is often
/// added after the local address.
const GROUPS: u32 = (libc::RTMGRP_LINK
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV6_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV6_ROUTE) as u32;

impl Monitor {
    /// Monitors changes from now on. List the interfaces after this, not before, so that none is missed.
    ///
    /// # Errors
    /// Those of the netlink socket.
    pub fn new() -> io::Result<Monitor> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        Ok(Monitor { socket, bytes: Vec::with_capacity(1 << 16) })
    }

    /// Its descriptor: readable when there is something to [`Monitor::drain`].
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Takes the notices that wait; true if there were any. Some change nothing that [`list`] shows (counters, address
    /// lifetimes), and notices that the kernel had to drop count as a change: list and compare.
    ///
    /// # Errors
    /// Those of the netlink socket.
    pub fn drain(&mut self) -> io::Result<bool> {
        let mut changed = false;
        loop {
            self.bytes.clear();
            match self.socket.recv(&mut self.bytes, 0) {
                Ok(_) => changed = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(changed),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A dump's true bytes: this machine's own interfaces.
    fn answer() -> Vec<u8> {
        let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
        socket.bind_auto().unwrap();
        let mut message = NetlinkMessage::from(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        socket.send(&bytes, 0).unwrap();
        socket.recv_from_full().unwrap().0
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut dump = Dump::default();
            let _ = dump.take(&bytes);
            prop_assert!(dump.interfaces().len() <= bytes.len() / 16);
        }

        #[test]
        fn a_damaged_answer_is_read_or_refused(flips in prop::collection::vec((any::<usize>(), any::<u8>()), 0..8),
                                               cut in any::<usize>()) {
            let mut bytes = answer();
            bytes.truncate(cut % (bytes.len() + 1));
            for (at, with) in flips {
                let len = bytes.len();
                if len > 0 {
                    bytes[at % len] ^= with;
                }
            }
            let mut dump = Dump::default();
            let _ = dump.take(&bytes);
            prop_assert!(dump.interfaces().len() <= bytes.len() / 16);
        }
    }
}
