// SPDX-License-Identifier: Apache-2.0
//! Requested paths, found among this machine's interfaces.

use crate::target::Families;
use std::net::{IpAddr, SocketAddr};
use weir_io::address::{AddressError, ZonedIp};
use weir_io::fault::{Fault, PATHS};
use weir_io::interfaces::Interface;

/// The path that stands for all interfaces.
pub const AUTO: &str = "auto";

/// An interface and a local address to send from, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalPath {
    /// As requested; the interface's name for `auto`.
    pub name: String,
    /// Interface to send through, by index and name; none for loopback addresses.
    pub device: Option<(u32, String)>,
    /// Address to send from.
    pub address: IpAddr,
    /// Index of the interface that the address is of, if it is of one link alone.
    pub zone: u32,
    /// The interface carries packets.
    pub up: bool,
}

/// The servers that a path is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those with an IPv4 address.
    V4,
    /// Those with an IPv6 address.
    V6,
    /// Those on the link of the interface with this index, by an IPv6 address that is good there alone.
    Link(u32),
}

impl Reach {
    /// Of a path to this server.
    pub fn of(peer: SocketAddr) -> Reach {
        match peer {
            SocketAddr::V4(_) => Reach::V4,
            SocketAddr::V6(peer) if peer.ip().is_unicast_link_local() => Reach::Link(peer.scope_id()),
            SocketAddr::V6(_) => Reach::V6,
        }
    }

    /// The first of an interface's addresses to send from.
    fn address_of(self, interface: &Interface) -> Option<IpAddr> {
        match self {
            Reach::V4 => interface.addresses.iter().find(|ip| ip.is_ipv4()).copied(),
            Reach::V6 => interface.addresses.iter().find(|ip| ip.is_ipv6()).copied(),
            Reach::Link(index) => {
                interface.link_local.iter().find(|ip| ip.is_ipv6() && interface.index == index).copied()
            }
        }
    }

    /// Whether packets from this address of an interface arrive there.
    fn is_from(self, from: ZonedIp, interface: Option<&Interface>) -> bool {
        match self {
            Reach::V4 => from.ip.is_ipv4(),
            Reach::V6 => from.ip.is_ipv6() && from.zone == 0,
            Reach::Link(index) => from.ip.is_ipv6() && interface.is_some_and(|i| i.index == index),
        }
    }
}

/// The interface with an address.
fn owner(interfaces: &[Interface], address: ZonedIp) -> Option<&Interface> {
    let has = |i: &&Interface| match address.zone {
        0 => i.addresses.iter().chain(&i.link_local).any(|ip| *ip == address.ip),
        zone => i.index == zone && i.link_local.contains(&address.ip),
    };
    interfaces.iter().find(has)
}

/// Value of one `--path`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Name(String),
    Address(ZonedIp),
    Auto,
}

/// Requested paths, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedPaths {
    wanted: Vec<Wanted>,
    /// Word before a path in errors.
    option: &'static str,
}

fn fault(text: String) -> Fault {
    Fault::new(PATHS, text)
}

/// The interfaces of this machine, for the error message to someone who named another.
fn listed(interfaces: &[Interface]) -> String {
    let one = |i: &Interface| {
        let link_local = i.link_local.iter().map(|ip| format!("{ip}%{}", i.name));
        let addresses: Vec<_> = i.addresses.iter().map(IpAddr::to_string).chain(link_local).collect();
        let state = if i.up { "" } else { ", down" };
        match addresses.is_empty() {
            true => format!("{} (no usable address{state})", i.name),
            false => format!("{} ({}{state})", i.name, addresses.join(", ")),
        }
    };
    let all: Vec<_> = interfaces.iter().filter(|i| !i.loopback).map(one).collect();
    if all.is_empty() {
        "this machine has only loopback".to_owned()
    } else {
        format!("this machine has {}", all.join(", "))
    }
}

fn device_of(interface: &Interface) -> Option<(u32, String)> {
    (!interface.loopback).then(|| (interface.index, interface.name.clone()))
}

impl RequestedPaths {
    /// Reads names of interfaces, local addresses, or `auto`. `option` stands before a path in errors, such as `--path`.
    ///
    /// # Errors
    /// The same path twice, `auto` beside others, or an address that can't be sent from.
    pub fn parse(paths: &[String], option: &'static str) -> Result<RequestedPaths, Fault> {
        let mut wanted = Vec::new();
        for path in paths {
            let one = match path.parse::<ZonedIp>() {
                Ok(ZonedIp { ip, .. }) if ip.is_unspecified() || ip.is_multicast() => {
                    return Err(fault(format!("{option} {path}: not an address to send from")));
                }
                Ok(ip) => Wanted::Address(ip),
                Err(e) if !matches!(e, AddressError::Expected(_)) => {
                    return Err(fault(format!("{option} {path}: {e}")));
                }
                Err(_) if path == AUTO => Wanted::Auto,
                Err(_) if path.is_empty() => {
                    return Err(fault(format!("{option} '': expected an interface, an address or auto")));
                }
                Err(_) => Wanted::Name(path.clone()),
            };
            if wanted.contains(&one) {
                return Err(fault(format!("{option} {path} is given twice")));
            }
            wanted.push(one);
        }
        if wanted.len() > 1 && wanted.contains(&Wanted::Auto) {
            return Err(fault(format!("{option} auto takes all interfaces: expected no other {option} beside it")));
        }
        Ok(RequestedPaths { wanted, option })
    }

    /// All interfaces are requested.
    pub fn is_auto(&self) -> bool {
        self.wanted.contains(&Wanted::Auto)
    }

    /// No path is requested: the routing table chooses.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Checks at the start that everything named exists, and returns the address families that can be used.
    ///
    /// # Errors
    /// The first path that does not exist, with a list of those that do; two that are the same interface and
    /// address.
    pub fn check(&self, interfaces: &[Interface]) -> Result<Families, Fault> {
        let mut families = Families { no_v4: None, no_v6: None, no_link_local: None, code: PATHS };
        let mut last = String::new();
        let mut limit = |option: &str, v4: bool, v6: bool, link_local: bool| {
            let Families { no_v4, no_v6, no_link_local, .. } = &mut families;
            for (by, usable) in [(no_v4, v4), (no_v6, v6), (no_link_local, link_local)] {
                if !usable && by.is_none() {
                    *by = Some(option.to_owned());
                    option.clone_into(&mut last);
                }
            }
        };
        let (mut idle, mut usable) = (None, false);
        let word = self.option;
        let link_local = |i: &Interface| i.link_local.iter().any(IpAddr::is_ipv6);
        for wanted in &self.wanted {
            match wanted {
                Wanted::Name(name) => {
                    let option = format!("{word} {name}");
                    let Some(found) = interfaces.iter().find(|i| i.name == *name) else {
                        return Err(fault(format!("{option}: no such interface; {}", listed(interfaces))));
                    };
                    if found.addresses.is_empty() {
                        // It may get one later; the others can start without it.
                        idle.get_or_insert((option, link_local(found)));
                        continue;
                    }
                    let v6 = found.addresses.iter().any(IpAddr::is_ipv6);
                    limit(&option, found.addresses.iter().any(IpAddr::is_ipv4), v6, link_local(found));
                }
                Wanted::Address(ip) => {
                    let option = format!("{word} {ip}");
                    // The whole of 127.0.0.0/8 is this machine's.
                    if !ip.ip.is_loopback() && owner(interfaces, *ip).is_none() {
                        return Err(fault(format!("{option}: no interface has this address; {}", listed(interfaces))));
                    }
                    limit(&option, ip.ip.is_ipv4(), ip.ip.is_ipv6() && ip.zone == 0, ip.ip.is_ipv6());
                }
                Wanted::Auto => {
                    let up = || interfaces.iter().filter(|i| i.up && !i.loopback);
                    let usable = || up().flat_map(|i| &i.addresses);
                    if usable().next().is_none() && !up().any(link_local) {
                        return Err(fault(format!("{word} auto: no usable interface; {}", listed(interfaces))));
                    }
                    limit(
                        &format!("{word} auto"),
                        usable().any(IpAddr::is_ipv4),
                        usable().any(IpAddr::is_ipv6),
                        up().any(link_local),
                    );
                }
            }
            usable = true;
        }
        match idle {
            Some((option, true)) if !usable => limit(&option, false, false, true),
            Some((option, false)) if !usable => {
                return Err(fault(format!("{option}: it has no usable address; {}", listed(interfaces))));
            }
            _ => {}
        }
        let (v4, v6) = (families.no_v4.is_none(), families.no_v6.is_none());
        let link_local = families.no_link_local.is_none();
        if !v4 && !v6 && !link_local {
            return Err(fault(format!("{last}: no address family in common with the other paths")));
        }
        let links = interfaces.iter().map(|i| (Reach::Link(i.index), link_local));
        let reaches = [(Reach::V4, v4), (Reach::V6, v6)].into_iter().chain(links);
        for (reach, _) in reaches.filter(|(_, usable)| *usable) {
            let paths = self.find(interfaces, reach);
            for (i, a) in paths.iter().enumerate() {
                let Some(b) = paths[..i].iter().find(|b| (&a.device, a.address) == (&b.device, b.address)) else {
                    continue;
                };
                let on = a.device.as_ref().map_or(String::new(), |(_, name)| format!(" on {name}"));
                let text = format!("{word} {} and {word} {} are the same path: {}{on}", b.name, a.name, a.address);
                return Err(fault(text));
            }
        }
        Ok(families)
    }

    /// The local paths that exist now to these servers, in the order asked for.
    pub fn find(&self, interfaces: &[Interface], reach: Reach) -> Vec<LocalPath> {
        let by_interface = |i: &Interface| {
            let address = reach.address_of(i)?;
            let zone = if let Reach::Link(index) = reach { index } else { 0 };
            Some(LocalPath { name: i.name.clone(), device: device_of(i), address, zone, up: i.up })
        };
        let by_address = |from: ZonedIp| {
            let ZonedIp { ip: address, zone } = from;
            let owner = owner(interfaces, from);
            if !reach.is_from(from, owner) {
                return None;
            }
            match owner {
                Some(i) => {
                    let name = if zone == 0 { address.to_string() } else { format!("{address}%{}", i.name) };
                    Some(LocalPath { name, device: device_of(i), address, zone, up: i.up })
                }
                None => {
                    let name = address.to_string();
                    address.is_loopback().then_some(LocalPath { name, device: None, address, zone, up: true })
                }
            }
        };
        let mut paths = Vec::new();
        for wanted in &self.wanted {
            match wanted {
                Wanted::Name(name) => paths.extend(interfaces.iter().find(|i| i.name == *name).and_then(by_interface)),
                Wanted::Address(from) => paths.extend(by_address(*from)),
                Wanted::Auto => {
                    paths.extend(interfaces.iter().filter(|i| !i.loopback && i.up).filter_map(by_interface))
                }
            }
        }
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn interface(index: u32, name: &str, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        Interface { index, name: name.to_owned(), up: true, loopback: name == "lo", addresses, link_local: Vec::new() }
    }

    fn there() -> Vec<Interface> {
        vec![
            interface(1, "lo", &["127.0.0.1", "::1"]),
            interface(2, "eth0", &["192.0.2.1", "2001:db8::1"]),
            interface(3, "wlan0", &["198.51.100.1"]),
            Interface { up: false, ..interface(4, "wwan0", &[]) },
            interface(5, "tun0", &["2001:db8:1::1"]),
        ]
    }

    fn request(paths: &[&str]) -> RequestedPaths {
        RequestedPaths::parse(&paths.iter().map(|p| p.to_string()).collect::<Vec<_>>(), "--path").unwrap()
    }

    #[test]
    fn names_addresses_and_all() {
        let names = |paths: &[&str], v6| {
            let paths = request(paths).find(&there(), if v6 { Reach::V6 } else { Reach::V4 });
            paths.iter().map(|w| format!("{}@{}", w.name, w.address)).collect::<Vec<_>>()
        };
        assert_eq!(names(&["wlan0", "eth0"], false), ["wlan0@198.51.100.1", "eth0@192.0.2.1"]);
        assert_eq!(names(&["auto"], false), ["eth0@192.0.2.1", "wlan0@198.51.100.1"]);
        assert_eq!(names(&["auto"], true), ["eth0@2001:db8::1", "tun0@2001:db8:1::1"]);
        assert_eq!(names(&["127.0.0.7", "192.0.2.1"], false), ["127.0.0.7@127.0.0.7", "192.0.2.1@192.0.2.1"]);
        let paths = request(&["127.0.0.7", "192.0.2.1"]).find(&there(), Reach::V4);
        assert_eq!(paths.iter().map(|w| w.device.clone()).collect::<Vec<_>>(), [None, Some((2, "eth0".into()))]);
    }

    #[test]
    fn addresses_of_one_link() {
        let mut there = there();
        there[0].link_local.push("fe80::1".parse().unwrap());
        there[1].link_local.push("fe80::2".parse().unwrap());
        let names = |paths: &[&str], reach| {
            let paths = request(paths).find(&there, reach);
            paths.iter().map(|p| format!("{}@{}%{}", p.name, p.address, p.zone)).collect::<Vec<_>>()
        };
        assert_eq!(names(&["eth0", "tun0"], Reach::Link(2)), ["eth0@fe80::2%2"]);
        assert_eq!(names(&["auto"], Reach::Link(2)), ["eth0@fe80::2%2"]);
        assert_eq!(names(&["fe80::1%lo"], Reach::Link(1)), ["fe80::1%lo@fe80::1%1"]);
        assert_eq!(names(&["2001:db8::1"], Reach::Link(2)), ["2001:db8::1@2001:db8::1%0"]);
        for (path, reach) in [("fe80::1%lo", Reach::V6), ("fe80::1%lo", Reach::Link(2)), ("192.0.2.1", Reach::Link(2))]
        {
            assert!(names(&[path], reach).is_empty(), "{path} {reach:?}");
        }
        let families = request(&["fe80::1%lo"]).check(&there).unwrap();
        let by = Some("--path fe80::1%lo".to_owned());
        assert_eq!((families.no_v4, families.no_v6, families.no_link_local), (by.clone(), by, None));
    }

    #[test]
    fn a_missing_path_is_named_beside_those_that_exist() {
        let there = there();
        let check = |paths: &[&str]| request(paths).check(&there);
        for (paths, text) in [
            (&["eth9"][..], "--path eth9: no such interface; this machine has eth0 (192.0.2.1, 2001:db8::1), wlan0"),
            (&["wwan0"], "--path wwan0: it has no usable address"),
            (&["203.0.113.9"], "no interface has this address; this machine has eth0"),
            (&["wlan0", "tun0"], "--path tun0: no address family in common"),
            (&["192.0.2.1", "::1"], "--path ::1: no address family in common"),
            (&["eth0", "192.0.2.1"], "--path eth0 and --path 192.0.2.1 are the same path: 192.0.2.1 on eth0"),
            (&["2001:db8::1", "wlan0", "eth0"], "no address family in common"),
            (&["127.0.0.1", "lo"], "--path 127.0.0.1 and --path lo are the same path: 127.0.0.1"),
        ] {
            let e = check(paths).err().unwrap();
            assert!(e.code == PATHS && e.text.contains(text) && e.text.lines().count() == 1, "{e}");
        }
        // A path that has no address yet does not stop the others.
        assert!(check(&["eth0", "wwan0"]).is_ok());
        let families = check(&["eth0", "tun0"]).unwrap();
        assert_eq!((families.no_v4.as_deref(), families.no_v6), (Some("--path tun0"), None));
        // Each family is excluded by a path of its own.
        let mut there = there.clone();
        there[2].link_local.push("fe80::2".parse().unwrap());
        let families = request(&["wlan0", "192.0.2.1"]).check(&there).unwrap();
        let by = |option: Option<String>| option.unwrap_or_default();
        assert_eq!(by(families.no_v6), "--path wlan0");
        assert_eq!(by(families.no_link_local), "--path 192.0.2.1");
        let e = request(&["auto"]).check(&there[..1]).err().unwrap();
        assert!(e.text.contains("this machine has only loopback"), "{e}");
    }

    #[test]
    fn contradictory_lists_are_refused() {
        for (paths, text) in [
            (&["eth0", "eth0"][..], "given twice"),
            (&["::1", "0:0::1"], "given twice"),
            (&["auto", "eth0"], "no other --path"),
            (&["0.0.0.0"], "not an address to send from"),
            (&["fe80::1"], "expected its interface"),
            (&["fe80::1%no-such-if"], "no interface 'no-such-if'"),
            (&[""], "expected an interface"),
        ] {
            let e = RequestedPaths::parse(&paths.iter().map(|p| p.to_string()).collect::<Vec<_>>(), "--path")
                .err()
                .unwrap();
            assert!(e.code == PATHS && e.text.contains(text), "{e}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_found_or_refused_in_one_line(paths in prop::collection::vec("\\PC{0,16}", 1..5)) {
            match RequestedPaths::parse(&paths, "--path").and_then(|r| r.check(&there()).map(|_| r)) {
                Ok(r) => prop_assert!(!r.is_empty()),
                Err(e) => prop_assert!(e.code == PATHS && !e.text.is_empty()),
            }
        }
    }
}
