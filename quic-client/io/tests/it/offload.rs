// SPDX-License-Identifier: Apache-2.0
//! Segmentation offload over a link between two network namespaces: where the device has it, where it has not, and
//! where the kernel refuses it.

use crate::common::{ip, private_network};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir_core::connection::{Codepoint, PacketSink};
use weir_io::udp::{Offload, RecvBatch, SendBatch, SocketOptions, UdpSocket};
use weir_io::wait::Waiter;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(offload: Offload) -> SocketOptions {
    SocketOptions { buffer_bytes: 1 << 22, offload, device: None }
}

/// A sender at 10.1.0.1 on `near` in this thread's namespace and a receiver at 10.1.0.2 behind `far` in another.
fn two_networks(offload: Offload) -> Option<(UdpSocket, UdpSocket)> {
    if !private_network() {
        return None;
    }
    let (to_us, from_there) = channel();
    let (go, wait) = channel();
    let there = std::thread::spawn(move || {
        assert!(private_network());
        // SAFETY: no pointers involved.
        to_us.send(unsafe { libc::gettid() }).unwrap();
        wait.recv().unwrap();
        ip("address add 10.1.0.2/24 dev far");
        ip("link set far up");
        UdpSocket::open("10.1.0.2:0".parse().unwrap(), None, &options(offload)).unwrap()
    });
    ip("link add near type veth peer name far");
    if offload != Offload::Off {
        ethtool("-K far gro on");
    }
    // A thread's number does for a process's here.
    ip(&format!("link set far netns {}", from_there.recv().unwrap()));
    ip("address add 10.1.0.1/24 dev near");
    ip("link set near up");
    go.send(()).unwrap();
    let receiver = there.join().unwrap();
    let near: SocketAddr = "10.1.0.1:0".parse().unwrap();
    let mut sender = UdpSocket::open(near, Some(receiver.local_addr()), &options(offload)).unwrap();
    // Now the receiver's hardware address is known: few datagrams may wait for that.
    all_arrive(&mut sender, &receiver, offload, 1);
    Some((sender, receiver))
}

/// Sends `count` datagrams of different content, the last one shorter; all must arrive whole, in order, marked ECT(0).
fn all_arrive(sender: &mut UdpSocket, receiver: &UdpSocket, offload: Offload, count: usize) {
    let datagram = |i: usize| vec![i as u8; if i + 1 == count { 700 } else { 1350 }];
    let (from, to) = (sender.local_addr(), receiver.local_addr());
    let mut batch = SendBatch::default();
    for i in 0..count {
        let mut out = batch.to(sender);
        let bytes = datagram(i);
        out.slot()[..bytes.len()].copy_from_slice(&bytes);
        out.commit(bytes.len(), from, to, Codepoint::Ect0);
    }
    batch.flush(sender);
    assert_eq!(batch.dropped, 0, "{:?}", batch.error);
    let mut waiter = Waiter::new().unwrap();
    waiter.add(receiver.fd(), 0).unwrap();
    let mut recv = RecvBatch::new(offload);
    let end = Instant::now() + PATIENCE;
    let mut got = 0;
    while got < count {
        let now = Instant::now();
        assert!(now < end, "{got} of {count} arrived");
        waiter.wait(now, Some(end), &mut Vec::new()).unwrap();
        recv.receive(receiver, |bytes, meta| {
            let what = (bytes[0], bytes.len(), meta.from, meta.tos);
            let sent = datagram(got);
            assert_eq!(what, (sent[0], sent.len(), from, 2));
            assert!(*bytes == sent[..], "datagram {got} is not what was sent");
            got += 1;
        })
        .unwrap();
    }
}

/// Output of `ethtool -K DEVICE ...`; false if there is none.
fn ethtool(words: &str) -> bool {
    match Command::new("ethtool").args(words.split_whitespace()).output() {
        Ok(out) => {
            assert!(out.status.success(), "ethtool {words}: {}", String::from_utf8_lossy(&out.stderr));
            true
        }
        Err(e) => {
            eprintln!("SKIP: ethtool: {e}");
            false
        }
    }
}

#[test]
fn over_a_link_with_offload_and_without() {
    for offload in [Offload::Off, Offload::Auto] {
        let Some((mut sender, receiver)) = two_networks(offload) else { return };
        all_arrive(&mut sender, &receiver, offload, 200);
    }
}

#[test]
fn datagrams_keep_their_codepoints_through_gro() {
    let Some((mut sender, receiver)) = two_networks(Offload::Auto) else { return };
    let codepoints = [Codepoint::Ect0, Codepoint::Ect0, Codepoint::Ce, Codepoint::NotEct, Codepoint::Ect1];
    let (from, to, mut batch) = (sender.local_addr(), receiver.local_addr(), SendBatch::default());
    for i in 0..200 {
        let mut out = batch.to(&mut sender);
        out.slot()[0] = i;
        out.commit(1350, from, to, codepoints[usize::from(i) % codepoints.len()]);
    }
    batch.flush(&mut sender);
    let mut waiter = Waiter::new().unwrap();
    waiter.add(receiver.fd(), 0).unwrap();
    let (mut recv, mut got, end) = (RecvBatch::new(Offload::Auto), Vec::new(), Instant::now() + PATIENCE);
    while got.len() < 200 {
        let now = Instant::now();
        assert!(now < end, "{} of 200 arrived", got.len());
        waiter.wait(now, Some(end), &mut Vec::new()).unwrap();
        recv.receive(&receiver, |bytes, meta| got.push((bytes[0], meta.tos))).unwrap();
    }
    for (i, tos) in got {
        assert_eq!(tos, codepoints[usize::from(i) % codepoints.len()] as u8, "datagram {i}");
    }
}

#[test]
fn over_a_device_that_can_neither_checksum_nor_segment() {
    let Some((mut sender, receiver)) = two_networks(Offload::Auto) else { return };
    // From Linux 6.11 on the kernel does it in the device's place; before that it refuses with EIO.
    if ethtool("-K near tx off") {
        all_arrive(&mut sender, &receiver, Offload::Auto, 200);
        all_arrive(&mut sender, &receiver, Offload::Auto, 1);
    }
}

/// Sets an option of a socket that the crate has no use for.
fn set(fd: RawFd, name: libc::c_int, value: libc::c_int) {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let rc = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, name, std::ptr::from_ref(&value).cast(), len) };
    assert_eq!(rc, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_refusal_is_met_once_and_remembered() {
    let Some((mut sender, receiver)) = two_networks(Offload::Auto) else { return };
    assert!(sender.segments());
    // Without checksums the kernel refuses to segment (EINVAL), on any device.
    set(sender.fd(), libc::SO_NO_CHECK, 1);
    all_arrive(&mut sender, &receiver, Offload::Auto, 200);
    assert!(!sender.segments());
    all_arrive(&mut sender, &receiver, Offload::Auto, 200);
}

#[test]
fn a_datagram_above_the_mtu_is_refused_alone() {
    let Some((mut sender, receiver)) = two_networks(Offload::Auto) else { return };
    ip("link set near mtu 1300");
    let (from, to) = (sender.local_addr(), receiver.local_addr());
    let mut batch = SendBatch::default();
    for len in [1350, 1350, 1200] {
        batch.to(&mut sender).commit(len, from, to, Codepoint::NotEct);
        batch.flush(&mut sender);
    }
    assert_eq!(batch.dropped, 2);
    assert_eq!(batch.error.as_ref().and_then(io::Error::raw_os_error), Some(libc::EMSGSIZE));
    assert!(sender.segments(), "a datagram too large says nothing of segmenting");
}
