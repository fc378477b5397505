// SPDX-License-Identifier: Apache-2.0
//! Interfaces as ports: frames in through a ring, out in batches. An interface that goes away is missed and said,
//! and taken up again when it is back.
use crate::device::{Device, Sink};
use crate::pcap::Pcap;
use crate::sys::{self, Link, Offload, ROOM, Ring, RingFrame};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use tracing::{error, info, warn};

/// Frames taken from one port before the others have their turn.
const BATCH: usize = 64;

/// Frames kept for one port before they are sent.
const TX_BATCH: usize = 64;

/// What may wait in a slower interface's own queue.
const SEND_BUFFER_BYTES: libc::c_int = 4 << 20;

/// Frames that came to a port and were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveDrops {
    /// The ring was full: the switch was too slow.
    pub ring_full: u64,
    /// Longer than the interface's MTU allows.
    pub too_long: u64,
    /// Several packets in one (segmentation offload).
    pub segments: u64,
    /// The sender left the checksum out, at a place that is not in the frame.
    pub bad_checksum_offset: u64,
}

/// Frames for a port that its interface did not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendDrops {
    /// The interface was down or away.
    pub down: u64,
    /// Longer than its MTU allows.
    pub too_long: u64,
    /// Its own queue was full.
    pub queue_full: u64,
    /// Anything else, logged the first time.
    pub other: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    TooLong,
    Segments,
    ChecksumOffset,
}

/// The frame as it would have been on a wire: checksum filled in, VLAN tag back in its place.
fn restore(frame: RingFrame<'_>) -> std::result::Result<&[u8], Unusable> {
    let RingFrame { bytes, length, vlan, offload: Offload { checksum, segments } } = frame;
    if segments {
        return Err(Unusable::Segments);
    }
    if bytes.len() - ROOM < length {
        return Err(Unusable::TooLong);
    }
    if let Some((start, at)) = checksum {
        let covered = bytes[ROOM..].get_mut(start..).ok_or(Unusable::ChecksumOffset)?;
        // The field holds the pseudo header's share.
        let sum = internet_checksum(covered);
        let field = covered.get_mut(at..at + 2).ok_or(Unusable::ChecksumOffset)?;
        // A UDP checksum of 0 says that there is none (RFC 768); elsewhere both zeroes are equal.
        field.copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_be_bytes());
    }
    let Some((protocol, control)) = vlan.filter(|_| length >= 12) else {
        return Ok(&bytes[ROOM..]);
    };
    bytes.copy_within(ROOM..ROOM + 12, 0);
    bytes[12..14].copy_from_slice(&protocol.to_be_bytes());
    bytes[14..16].copy_from_slice(&control.to_be_bytes());
    Ok(bytes)
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks_exact(2);
    let last = pairs.remainder().first().map_or(0, |b| u64::from(*b) << 8);
    let mut sum = last + pairs.map(|p| u64::from(u16::from_be_bytes([p[0], p[1]]))).sum::<u64>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

struct Receiver {
    ring: Ring,
    link: Link,
    /// Keeps a second switch from the interface; the kernel forgets it with the process.
    claim: UnixListener,
}

struct Interface {
    port: u32,
    name: String,
    receiver: Option<Receiver>,
    drops: ReceiveDrops,
    capture: Option<Pcap>,
    warned_segments: bool,
    /// Why it could not be had when it was looked at last, which has been said.
    missed: Option<String>,
}

struct Sender {
    port: u32,
    name: String,
    socket: Option<OwnedFd>,
    /// Frames that wait for [`Senders::flush`], one after the other.
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
    drops: SendDrops,
    capture: Option<Pcap>,
    warned: bool,
}

/// The ports' sending half.
pub struct Senders {
    senders: Vec<Sender>,
    /// Sender of each port number.
    by_port: Vec<Option<usize>>,
    /// Senders with frames that wait.
    waiting: Vec<usize>,
    /// Frames for ports without an interface.
    pub no_interface: u64,
    captured_ns: u64,
}

/// The switch's interfaces. Those of [`Ports::receivers`] and [`Ports::senders`] are in the same order.
pub struct Ports {
    interfaces: Vec<Interface>,
    pub senders: Senders,
    /// For questions about interfaces.
    query: OwnedFd,
    /// What to add to the device's time for time since the epoch, when something is captured.
    epoch_ns: Option<u64>,
}

/// Counters of a port for a report.
pub struct PortReport<'a> {
    pub port: u32,
    pub interface: &'a str,
    pub receive_drops: ReceiveDrops,
    pub send_drops: SendDrops,
}

/// Makes this switch the only one on an interface of this network namespace.
fn claim(index: u32) -> Result<UnixListener> {
    let name = format!("weir-switch/{index}");
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

fn send_to(link: Link) -> Result<OwnedFd> {
    let socket = sys::packet_socket()?;
    sys::set_send_buffer(&socket, SEND_BUFFER_BYTES)?;
    sys::bind(&socket, link.index, 0)?;
    Ok(socket)
}

/// Finds an interface of Ethernet frames.
fn look(query: &OwnedFd, name: &str) -> std::result::Result<Link, String> {
    let link = sys::link(query, name).map_err(|e| explain(name, &e))?;
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

fn explain(name: &str, e: &Error) -> String {
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

impl Ports {
    /// Attaches every interface.
    ///
    /// # Errors
    /// What is wrong with which.
    pub fn open(list: &[(u32, String)], capture: Option<&Path>, epoch_ns: u64) -> std::result::Result<Ports, String> {
        let query = sys::packet_socket()
            .map_err(|e| format!("packet sockets: {e}; they need root or the capability CAP_NET_RAW"))?;
        let mut ports = Ports {
            interfaces: Vec::new(),
            senders: Senders {
                senders: Vec::new(),
                by_port: Vec::new(),
                waiting: Vec::new(),
                no_interface: 0,
                captured_ns: 0,
            },
            query,
            epoch_ns: capture.map(|_| epoch_ns),
        };
        for (port, name) in list {
            let create = |direction: &str| {
                let path = capture.map(|folder| folder.join(format!("{name}_{direction}.pcap")));
                let file = path.as_ref().map(|p| Pcap::create(p).map_err(|e| format!("{}: {e}", p.display())));
                file.transpose()
            };
            let (port, name) = (*port, name.clone());
            let (incoming, outgoing) = (create("in")?, create("out")?);
            let senders = &mut ports.senders;
            senders.by_port.resize(senders.by_port.len().max(port as usize + 1), None);
            senders.by_port[port as usize] = Some(senders.senders.len());
            senders.senders.push(Sender {
                port,
                name: name.clone(),
                socket: None,
                bytes: Vec::new(),
                frames: Vec::new(),
                drops: SendDrops::default(),
                capture: outgoing,
                warned: false,
            });
            ports.interfaces.push(Interface {
                port,
                name: name.clone(),
                receiver: None,
                drops: ReceiveDrops::default(),
                capture: incoming,
                warned_segments: false,
                missed: None,
            });
            let at = ports.interfaces.len() - 1;
            let link = look(&ports.query, &name)?;
            ports.attach(at, link).map_err(|e| explain(&name, &e))?;
        }
        Ok(ports)
    }

    /// Takes up interface `at`. Gives the ring that it had, in which unread frames may be.
    fn attach(&mut self, at: usize, link: Link) -> Result<Option<Ring>> {
        let same = |r: &Receiver| r.link.index == link.index;
        let held = self.interfaces[at].receiver.as_ref().is_some_and(same);
        let new_claim = if held { None } else { Some(claim(link.index)?) };
        let (ring, socket) = (Ring::open(link)?, send_to(link)?);
        // All that can take long is done: between these two what comes is in neither ring.
        self.interfaces[at].receiver.as_ref().map(|r| r.ring.stop()).transpose()?;
        ring.start(link)?;
        self.count_ring_drops(at);
        self.senders.senders[at].socket = Some(socket);
        let receiver = &mut self.interfaces[at].receiver;
        let (old_ring, old_claim) = receiver.take().map(|r| (r.ring, r.claim)).unzip();
        *receiver = new_claim.or(old_claim).map(|claim| Receiver { ring, link, claim });
        Ok(old_ring)
    }

    /// Gives up interface `at`, once what came before is read.
    fn detach(&mut self, at: usize, device: &mut Device, now_ns: u64) {
        self.count_ring_drops(at);
        if let Some(mut receiver) = self.interfaces[at].receiver.take() {
            if let Err(e) = receiver.ring.stop() {
                warn!("port {}: interface {}: {e}", self.interfaces[at].port, self.interfaces[at].name);
            }
            self.take(at, &mut receiver.ring, usize::MAX, device, now_ns);
        }
        self.senders.senders[at].socket = None;
    }

    pub fn len(&self) -> usize {
        self.interfaces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// What to wait on for frames of interface `at`, if it is there.
    pub fn fd(&self, at: usize) -> Option<&OwnedFd> {
        self.interfaces[at].receiver.as_ref().map(|r| r.ring.fd())
    }

    /// Looks at all interfaces again and tells the device which ports are up. Gives those whose [`Ports::fd`] is new.
    pub fn recheck(&mut self, device: &mut Device, now_ns: u64) -> Vec<usize> {
        let mut renewed = Vec::new();
        for at in 0..self.interfaces.len() {
            let (port, name) = (self.interfaces[at].port, self.interfaces[at].name.clone());
            let known = self.interfaces[at].receiver.as_ref().map(|r| r.link);
            match look(&self.query, &name) {
                Err(e) => {
                    if self.interfaces[at].missed.as_ref() != Some(&e) {
                        warn!("port {port}: {e}; the switch goes on without it");
                        self.interfaces[at].missed = Some(e);
                    }
                    self.detach(at, device, now_ns);
                    device.port_status(port, false);
                }
                Ok(link) => {
                    self.interfaces[at].missed = None;
                    // A ring is for one interface and one MTU.
                    if known.map(|k| (k.index, k.mtu)) != Some((link.index, link.mtu)) {
                        match self.attach(at, link) {
                            Ok(None) => (),
                            Ok(Some(mut old)) => self.take(at, &mut old, usize::MAX, device, now_ns),
                            Err(e) => {
                                self.detach(at, device, now_ns);
                                error!("port {port}: {}; tried again when a link changes", explain(&name, &e));
                                device.port_status(port, false);
                                continue;
                            }
                        }
                        info!("port {port}: interface {name} attached, MTU {}", link.mtu);
                        renewed.push(at);
                    }
                    if let Some(r) = &mut self.interfaces[at].receiver {
                        r.link = link;
                    }
                    if device.ports_up.get(&port).is_none_or(|was| *was != link.up) {
                        match link.up {
                            false => warn!("port {port}: interface {name} is down"),
                            true if device.ports_up.contains_key(&port) => {
                                warn!("port {port}: interface {name} is up again");
                            }
                            true => (),
                        }
                    }
                    device.port_status(port, link.up);
                }
            }
        }
        renewed
    }

    /// Takes up to [`BATCH`] frames from interface `at`.
    pub fn receive(&mut self, at: usize, device: &mut Device, now_ns: u64) {
        // Its place is free for the time that `take` borrows all of the ports.
        if let Some(mut receiver) = self.interfaces[at].receiver.take() {
            self.take(at, &mut receiver.ring, BATCH, device, now_ns);
            self.interfaces[at].receiver = Some(receiver);
        }
    }

    fn take(&mut self, at: usize, ring: &mut Ring, most: usize, device: &mut Device, now_ns: u64) {
        let interface = &mut self.interfaces[at];
        let (port, name) = (interface.port, &interface.name);
        let (drops, capture, warned) = (&mut interface.drops, &mut interface.capture, &mut interface.warned_segments);
        let epoch_ns = self.epoch_ns.unwrap_or(0);
        let senders = &mut self.senders;
        senders.captured_ns = epoch_ns + now_ns;
        let mut take = |device: &mut Device, frame: RingFrame<'_>| match restore(frame) {
            Ok(bytes) => {
                capture_frame(capture, name, bytes, epoch_ns + now_ns);
                device.arrive(bytes, port, now_ns, senders);
            }
            Err(Unusable::TooLong) => drops.too_long += 1,
            Err(Unusable::ChecksumOffset) => drops.bad_checksum_offset += 1,
            Err(Unusable::Segments) => {
                drops.segments += 1;
                if !std::mem::replace(warned, true) {
                    warn!(
                        "port {port}: a frame holds several packets and is dropped, as all such are: turn offloads \
                         off here and at the other end (ethtool -K {name} tx off tso off gso off gro off)"
                    );
                }
            }
        };
        for taken in 0..most {
            // One of each port always has its turn.
            if taken > 0 && device.is_tired() {
                break;
            }
            if ring.next(|frame| take(device, frame)).is_none() {
                break;
            }
        }
    }

    /// Clears an error that waits on interface `at`'s socket, which would wake the thread again and again.
    pub fn clear_error(&mut self, at: usize) {
        let interface = &self.interfaces[at];
        let Some(receiver) = &interface.receiver else { return };
        if let Err(e) = sys::take_error(receiver.ring.fd())
            && e.raw_os_error() != Some(libc::ENETDOWN)
        {
            warn!("port {}: interface {}: {e}", interface.port, interface.name);
        }
    }

    fn count_ring_drops(&mut self, at: usize) {
        let interface = &mut self.interfaces[at];
        if let Some(receiver) = &interface.receiver {
            match sys::ring_drops(receiver.ring.fd()) {
                Ok(n) => interface.drops.ring_full += u64::from(n),
                Err(e) => warn!("port {}: interface {}: no statistics: {e}", interface.port, interface.name),
            }
        }
    }

    pub fn report(&mut self) -> Vec<PortReport<'_>> {
        (0..self.interfaces.len()).for_each(|at| self.count_ring_drops(at));
        let both = self.interfaces.iter().zip(&self.senders.senders);
        both.map(|(i, s)| PortReport { port: i.port, interface: &i.name, receive_drops: i.drops, send_drops: s.drops })
            .collect()
    }

    /// Sends what waits and writes what was captured.
    pub fn flush(&mut self) {
        self.senders.flush();
        if self.epoch_ns.is_some() {
            let incoming = self.interfaces.iter_mut().map(|i| (&i.name, &mut i.capture));
            let outgoing = self.senders.senders.iter_mut().map(|s| (&s.name, &mut s.capture));
            for (name, capture) in incoming.chain(outgoing) {
                if let Some(Err(e)) = capture.as_mut().map(Pcap::flush) {
                    *capture = None;
                    error!("capture of {name} ends here: {e}");
                }
            }
        }
    }

    /// The time since the epoch that goes with frames sent from now on.
    pub fn set_time(&mut self, now_ns: u64) {
        self.senders.captured_ns = self.epoch_ns.unwrap_or(0) + now_ns;
    }
}

fn capture_frame(capture: &mut Option<Pcap>, name: &str, bytes: &[u8], at_ns: u64) {
    if let Some(Err(e)) = capture.as_mut().map(|c| c.write(bytes, at_ns)) {
        *capture = None;
        error!("capture of {name} ends here: {e}");
    }
}

impl Sink for Senders {
    fn frame(&mut self, port: u32, bytes: &[u8]) {
        let Some(at) = self.by_port.get(port as usize).copied().flatten() else {
            self.no_interface += 1;
            return;
        };
        let sender = &mut self.senders[at];
        capture_frame(&mut sender.capture, &sender.name, bytes, self.captured_ns);
        if sender.frames.is_empty() {
            self.waiting.push(at);
        }
        let start = sender.bytes.len();
        sender.bytes.extend_from_slice(bytes);
        sender.frames.push(start..sender.bytes.len());
        if sender.frames.len() == TX_BATCH {
            sender.flush();
        }
    }
}

impl Senders {
    fn flush(&mut self) {
        for at in self.waiting.drain(..) {
            self.senders[at].flush();
        }
    }
}

impl Sender {
    fn flush(&mut self) {
        let mut at = 0;
        while at < self.frames.len() {
            let left = (self.frames.len() - at) as u64;
            let Some(socket) = &self.socket else {
                self.drops.down += left;
                break;
            };
            match sys::send_batch(socket, &self.bytes, &self.frames[at..]) {
                Ok(n) => at += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => match e.raw_os_error() {
                    Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                        self.drops.down += left;
                        break;
                    }
                    Some(libc::EAGAIN) => {
                        self.drops.queue_full += left;
                        break;
                    }
                    Some(libc::ENOBUFS) => {
                        self.drops.queue_full += 1;
                        at += 1;
                    }
                    Some(libc::EMSGSIZE) => {
                        self.drops.too_long += 1;
                        at += 1;
                    }
                    _ => {
                        self.drops.other += 1;
                        if !std::mem::replace(&mut self.warned, true) {
                            let length = self.frames[at].len();
                            warn!("port {}: interface {}: {length} bytes not sent: {e}", self.port, self.name);
                        }
                        at += 1;
                    }
                },
            }
        }
        self.frames.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_room(frame: &[u8]) -> Vec<u8> {
        [&[0xee; ROOM], frame].concat()
    }

    #[test]
    fn a_tag_that_the_kernel_took_out_is_put_back() {
        let mut bytes = with_room(&(0u8..20).collect::<Vec<_>>());
        let frame =
            RingFrame { bytes: &mut bytes, length: 20, vlan: Some((0x88a8, 0x2003)), offload: Offload::default() };
        let mut want: Vec<u8> = (0..12).collect();
        want.extend([0x88, 0xa8, 0x20, 0x03]);
        want.extend(12..20);
        assert_eq!(restore(frame), Ok(want.as_slice()));
    }

    #[test]
    fn a_checksum_left_to_the_hardware_is_filled_in() {
        // RFC 1071's example, sum ddf2, behind a field that holds the pseudo header's share.
        let mut bytes = with_room(&[9, 9, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0x00, 0x00]);
        let offload = Offload { checksum: Some((2, 8)), segments: false };
        let frame = RingFrame { bytes: &mut bytes, length: 12, vlan: None, offload };
        assert_eq!(restore(frame).map(|b| b[10..].to_vec()), Ok(vec![0x22, 0x0d]));
        let offload = Offload { checksum: Some((2, 9)), segments: false };
        let frame = RingFrame { bytes: &mut bytes, length: 12, vlan: None, offload };
        assert_eq!(restore(frame), Err(Unusable::ChecksumOffset));
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_ones() {
        let mut bytes = with_room(&[0xff, 0xff, 0, 0]);
        let offload = Offload { checksum: Some((0, 2)), segments: false };
        let frame = RingFrame { bytes: &mut bytes, length: 4, vlan: None, offload };
        assert_eq!(restore(frame).map(|b| b[2..].to_vec()), Ok(vec![0xff, 0xff]));
    }

    #[test]
    fn what_is_cut_or_joined_is_not_used() {
        let mut bytes = with_room(&[0; 20]);
        let frame = RingFrame { bytes: &mut bytes, length: 21, vlan: None, offload: Offload::default() };
        assert_eq!(restore(frame), Err(Unusable::TooLong));
        let offload = Offload { checksum: None, segments: true };
        let frame = RingFrame { bytes: &mut bytes, length: 20, vlan: None, offload };
        assert_eq!(restore(frame), Err(Unusable::Segments));
    }
}
