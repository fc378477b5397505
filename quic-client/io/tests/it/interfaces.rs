// SPDX-License-Identifier: Apache-2.0
//! Interfaces and the notice of their changes, against the kernel: each test's thread has a network namespace of its
//! own, which goes with the thread.

use crate::common::{ip, ipv6, private_network};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weir_io::interfaces::{Interface, Monitor, list};
use weir_io::udp::{Offload, RecvBatch, SendBatch, SocketOptions, UdpSocket};
use weir_io::wait::Waiter;

/// Nothing that is waited for here takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn find<'a>(all: &'a [Interface], name: &str) -> Option<&'a Interface> {
    all.iter().find(|i| i.name == name)
}

fn has(all: &[Interface], name: &str, up: bool, addresses: &[&str]) -> bool {
    let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
    find(all, name).is_some_and(|i| i.up == up && i.addresses == addresses)
}

/// Lists again at each notice until `wanted` holds.
fn until(monitor: &mut Monitor, wanted: impl Fn(&[Interface]) -> bool) {
    let mut waiter = Waiter::new().unwrap();
    waiter.add(monitor.fd(), 0).unwrap();
    let end = Instant::now() + PATIENCE;
    loop {
        monitor.drain().unwrap();
        let all = list().unwrap();
        if wanted(&all) {
            return;
        }
        let now = Instant::now();
        assert!(now < end, "not seen: {all:#?}");
        waiter.wait(now, Some(end), &mut Vec::new()).unwrap();
    }
}

#[test]
fn a_new_namespace_has_only_loopback() {
    if !ipv6() || !private_network() {
        return;
    }
    let all = list().unwrap();
    let lo = find(&all, "lo").unwrap();
    assert!(lo.loopback && !lo.up && lo.addresses.is_empty(), "{all:?}");
    ip("link set lo up");
    let all = list().unwrap();
    assert!(has(&all, "lo", true, &["127.0.0.1", "::1"]), "{all:?}");
}

#[test]
fn what_comes_goes_and_changes_is_told() {
    if !ipv6() || !private_network() {
        return;
    }
    let mut monitor = Monitor::new().unwrap();
    assert!(!monitor.drain().unwrap());
    ip("link add wan1 type veth peer name far1");
    assert!(monitor.drain().unwrap(), "a new interface");
    assert!(has(&list().unwrap(), "wan1", false, &[]));

    ip("address add 10.1.0.2/24 dev wan1");
    assert!(monitor.drain().unwrap(), "a new address");
    // IPv6 addresses and carriers are reported by the kernel's own workers, in their time.
    ip("address add fd00:1::2/64 dev wan1 nodad");
    until(&mut monitor, |all| has(all, "wan1", false, &["10.1.0.2", "fd00:1::2"]));
    ip("link set wan1 up");
    // The far end is down: no carrier.
    until(&mut monitor, |all| has(all, "wan1", false, &["10.1.0.2", "fd00:1::2"]));
    ip("link set far1 up");
    until(&mut monitor, |all| has(all, "wan1", true, &["10.1.0.2", "fd00:1::2"]));

    ip("address del 10.1.0.2/24 dev wan1");
    ip("address add 10.1.0.3/24 dev wan1");
    until(&mut monitor, |all| has(all, "wan1", true, &["10.1.0.3", "fd00:1::2"]));
    ip("link set far1 down");
    until(&mut monitor, |all| find(all, "wan1").is_some_and(|i| !i.up));
    ip("link set far1 up");
    until(&mut monitor, |all| find(all, "wan1").is_some_and(|i| i.up));
    ip("link set wan1 down");
    until(&mut monitor, |all| find(all, "wan1").is_some_and(|i| !i.up));
    ip("link del wan1");
    until(&mut monitor, |all| find(all, "wan1").is_none() && find(all, "far1").is_none());
}

#[test]
fn addresses_not_to_be_used_are_left_out() {
    if !ipv6() || !private_network() {
        return;
    }
    let mut monitor = Monitor::new().unwrap();
    ip("link add wan1 type veth peer name far1");
    ip("link set far1 up");
    ip("link set wan1 up");
    ip("address add 169.254.7.7/16 dev wan1");
    ip("address add 10.1.0.2 peer 10.9.9.9 dev wan1");
    ip("address add fd00:1::2/64 dev wan1 nodad preferred_lft 0");
    ip("address add fd00:1::3/64 dev wan1 nodad");
    // Tentative while duplicates are looked for; then usable. Link-local ones come by themselves and never count.
    until(&mut monitor, |all| has(all, "wan1", true, &["10.1.0.2", "fd00:1::3"]));
    ip("address add fd00:1::4/64 dev wan1");
    until(&mut monitor, |all| {
        find(all, "wan1").is_some_and(|i| i.addresses.contains(&"fd00:1::4".parse().unwrap()))
            && !find(all, "wan1").unwrap().addresses.contains(&"fd00:1::2".parse().unwrap())
    });
    // Somebody else's address: the other end has it already, and duplicate detection finds out.
    ip("address add fd00:1::5/64 dev far1 nodad");
    ip("address add fd00:1::5/64 dev wan1");
    assert!(!find(&list().unwrap(), "wan1").unwrap().addresses.contains(&"fd00:1::5".parse().unwrap()), "tentative");
}

#[test]
fn a_flood_of_changes_is_a_change() {
    if !private_network() {
        return;
    }
    let mut monitor = Monitor::new().unwrap();
    ip("link add wan1 type veth peer name far1");
    // More notices than the socket's buffer holds.
    let mut batch = String::new();
    for i in 0..4000 {
        batch += &format!("address add 10.{}.{}.1/32 dev wan1\n", 1 + i / 250, i % 250);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), batch).unwrap();
    ip(&format!("-batch {}", file.path().display()));
    assert!(monitor.drain().unwrap());
    assert_eq!(find(&list().unwrap(), "wan1").unwrap().addresses.len(), 4000);
}

fn on(device: &str) -> SocketOptions {
    SocketOptions { buffer_bytes: 1 << 16, offload: Offload::Off, device: Some(device.to_owned()) }
}

#[test]
fn a_socket_keeps_to_its_interface() {
    if !private_network() {
        return;
    }
    ip("link set lo up");
    ip("link add wan1 type veth peer name far1");
    ip("link set wan1 up");
    ip("address add 10.1.0.2/24 dev wan1");
    let server = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &on("lo")).unwrap();
    let peer = server.local_addr();
    let reach = |device: &str| {
        let any: SocketAddr = "0.0.0.0:0".parse().unwrap();
        let mut client = UdpSocket::open(any, None, &on(device)).unwrap();
        let local = client.local_addr();
        let mut batch = SendBatch::default();
        let mut out = batch.to(&mut client);
        weir_core::connection::PacketSink::commit(&mut out, 9, local, peer, weir_core::connection::Codepoint::NotEct);
        batch.flush(&mut client);
        let mut n = 0;
        RecvBatch::new(Offload::Off).receive(&server, |_, _| n += 1).unwrap();
        n
    };
    assert_eq!((reach("lo"), reach("wan1")), (1, 0));
}

#[test]
fn a_wrong_interface_is_named() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for (device, why) in [
        ("nosuch0", "interface 'nosuch0': there is no such interface"),
        ("", "interface '': a name has 1 to 15 bytes"),
        // The kernel would cut this down to a name that may exist.
        ("a-name-of-16-oct", "interface 'a-name-of-16-oct': a name has 1 to 15 bytes"),
    ] {
        let e = UdpSocket::open(any, None, &on(device)).unwrap_err();
        assert_eq!(e.to_string(), why);
    }
}
