// SPDX-License-Identifier: Apache-2.0
//! Interfaces as ports: frames in through a ring, out in batches. When an interface goes away this is logged, and it is
//! attached again when it is back.
mod capture;
mod frame;
mod interface;
mod line;
mod send_limit;
mod sender;
mod sending;

pub use sender::{SendDrops, Senders, WRITABLE};

use crate::device::Device;
use crate::system::{self, Link, Ring, RingFrame};
use crate::traffic_manager::Count;
use capture::{Pcap, capture_frame};
use frame::{Unusable, restore};
use interface::{claim, explain, look, send_to};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::path::Path;
use tracing::{error, info, warn};

/// Frames taken from one port before the others have their turn.
const BATCH: usize = 64;
/// Work for one port's frames before the others have theirs, as [`Device::work`] counts it: about the work of [`BATCH`]
/// frames that are forwarded once. Of frames that cost more, such as broadcasts to many ports, there are fewer.
const BATCH_STEPS: u64 = 180_000;
/// No bound: the rest of a ring that is given up.
const ALL: (usize, u64) = (usize::MAX, u64::MAX);

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

struct Receiver {
    ring: Ring,
    link: Link,
    /// Keeps a second switch from the interface; the kernel forgets it with the process.
    claim: OwnedFd,
}

struct Interface {
    port: u32,
    name: String,
    receiver: Option<Receiver>,
    drops: ReceiveDrops,
    capture: Option<Pcap>,
    warned_segments: bool,
    /// Steps that its frames took beyond their share, which later turns pay for.
    debt_steps: u64,
    /// Why it could not be had at the last check, which has been logged.
    missed: Option<String>,
}

/// The switch's interfaces. Those of [`Ports::receivers`] and [`Ports::senders`] are in the same order.
pub struct Ports {
    interfaces: Vec<Interface>,
    /// The sending half.
    pub senders: Senders,
    /// For questions about interfaces.
    query: OwnedFd,
    /// Of each receive ring.
    ring_bytes: usize,
    /// Offset from the device's time to time since the epoch, when something is captured.
    epoch_ns: Option<u64>,
}

/// Counters of a port for a report.
pub struct PortReport<'a> {
    /// The port's number.
    pub port: u32,
    /// Its interface's name.
    pub interface: &'a str,
    /// Frames that came and were not taken.
    pub receive_drops: ReceiveDrops,
    /// Frames that the interface took.
    pub sent: Count,
    /// Frames that the interface did not take.
    pub send_drops: SendDrops,
    /// Frames that wait for the interface.
    pub waiting_packets: usize,
}

impl Ports {
    /// Attaches every interface. `receive_bytes`: of all receive rings together.
    ///
    /// # Errors
    /// The interface and its fault.
    pub fn open(
        list: &[(u32, String)],
        receive_bytes: usize,
        capture: Option<&Path>,
        epoch_ns: u64,
    ) -> std::result::Result<Ports, String> {
        let query = system::query_socket().map_err(|e| format!("a socket for questions about interfaces: {e}"))?;
        let mut ports = Ports {
            interfaces: Vec::new(),
            senders: Senders::new().map_err(|e| format!("eventfd: {e}"))?,
            query,
            ring_bytes: system::ring_share_bytes(receive_bytes, list.len()),
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
            ports.senders.add(port, name.clone(), outgoing);
            ports.interfaces.push(Interface {
                port,
                name: name.clone(),
                receiver: None,
                drops: ReceiveDrops::default(),
                capture: incoming,
                warned_segments: false,
                debt_steps: 0,
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
        let (ring, socket) = (Ring::open(link, self.ring_bytes)?, send_to(link)?);
        // All that can take long is done: between these two a frame is in neither ring.
        self.interfaces[at].receiver.as_ref().map(|r| r.ring.stop()).transpose()?;
        ring.start(link)?;
        self.count_ring_drops(at);
        self.senders.renew(at, Some(socket))?;
        let receiver = &mut self.interfaces[at].receiver;
        let (old_ring, old_claim) = receiver.take().map(|r| (r.ring, r.claim)).unzip();
        *receiver = new_claim.or(old_claim).map(|claim| Receiver { ring, link, claim });
        Ok(old_ring)
    }

    /// Gives up interface `at`, once earlier frames are read.
    fn detach(&mut self, at: usize, device: &mut Device, now_ns: u64) {
        self.count_ring_drops(at);
        if let Some(mut receiver) = self.interfaces[at].receiver.take() {
            if let Err(e) = receiver.ring.stop() {
                warn!("port {}: interface {}: {e}", self.interfaces[at].port, self.interfaces[at].name);
            }
            self.take(at, &mut receiver.ring, ALL, device, now_ns);
        }
        if let Err(e) = self.senders.renew(at, None) {
            warn!("port {}: interface {}: {e}", self.interfaces[at].port, self.interfaces[at].name);
        }
    }

    /// Number of interfaces, attached or not.
    pub fn len(&self) -> usize {
        self.interfaces.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty()
    }

    /// File descriptor to poll for frames of interface `at`, if it is there.
    pub fn fd(&self, at: usize) -> Option<&OwnedFd> {
        self.interfaces[at].receiver.as_ref().map(|r| r.ring.fd())
    }

    /// Checks all interfaces again and sets the device's ports that are up. Returns those whose [`Ports::fd`] is new.
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
                            Ok(Some(mut old)) => self.take(at, &mut old, ALL, device, now_ns),
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
                    // One that was never up may only be about to be: the kernel reports a new link up to a second late.
                    if link.up || device.ports_up.get(&port) == Some(&true) {
                        self.senders.set_link(at, link.up);
                    }
                    device.port_status(port, link.up);
                }
            }
        }
        renewed
    }

    /// Takes up to [`BATCH`] frames from interface `at`, for up to [`BATCH_STEPS`].
    pub fn receive(&mut self, at: usize, device: &mut Device, now_ns: u64) {
        let debt_steps = self.interfaces[at].debt_steps;
        let due_steps = BATCH_STEPS.saturating_sub(debt_steps);
        self.interfaces[at].debt_steps = debt_steps.saturating_sub(BATCH_STEPS);
        if due_steps == 0 {
            return;
        }
        // Its place is free for the time that `take` borrows all of the ports.
        let Some(mut receiver) = self.interfaces[at].receiver.take() else { return };
        let before = device.work();
        self.take(at, &mut receiver.ring, (BATCH, due_steps), device, now_ns);
        self.interfaces[at].debt_steps = (device.work() - before).saturating_sub(due_steps);
        self.interfaces[at].receiver = Some(receiver);
    }

    /// Takes frames from a ring until there are no more, or so many, or they were so much work.
    fn take(&mut self, at: usize, ring: &mut Ring, (most, most_steps): (usize, u64), device: &mut Device, now_ns: u64) {
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
        let before = device.work();
        for taken in 0..most {
            // One of each port always has its turn.
            if taken > 0 && (device.is_tired() || device.work() - before >= most_steps) {
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
        if let Err(e) = system::take_error(receiver.ring.fd())
            && e.raw_os_error() != Some(libc::ENETDOWN)
        {
            warn!("port {}: interface {}: {e}", interface.port, interface.name);
        }
    }

    fn count_ring_drops(&mut self, at: usize) {
        let interface = &mut self.interfaces[at];
        if let Some(receiver) = &interface.receiver {
            match system::ring_drops(receiver.ring.fd()) {
                Ok(n) => interface.drops.ring_full += u64::from(n),
                Err(e) => warn!("port {}: interface {}: no statistics: {e}", interface.port, interface.name),
            }
        }
    }

    /// Counters of all ports, in the order of the command line.
    pub fn report(&mut self) -> Vec<PortReport<'_>> {
        (0..self.interfaces.len()).for_each(|at| self.count_ring_drops(at));
        let senders = &self.senders;
        let of = |(at, i)| {
            let i: &Interface = i;
            let (sent, send_drops, waiting_packets) = senders.fates(at);
            PortReport { port: i.port, interface: &i.name, receive_drops: i.drops, sent, send_drops, waiting_packets }
        };
        self.interfaces.iter().enumerate().map(of).collect()
    }

    /// Sends the waiting frames and writes the captured ones.
    pub fn flush(&mut self) {
        self.senders.flush();
        self.write_captures();
    }

    /// As [`Ports::flush`], at the end: sending threads end, and frames that wait for their interface are counted as dropped.
    pub fn finish(&mut self) {
        self.senders.finish();
        self.write_captures();
    }

    fn write_captures(&mut self) {
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
        self.senders.now_ns = now_ns;
        self.senders.captured_ns = self.epoch_ns.unwrap_or(0) + now_ns;
    }
}
