// SPDX-License-Identifier: Apache-2.0
//! UDP sockets that send and receive in batches: `sendmmsg` and `recvmmsg`, with GSO and GRO where wanted, the ECN
//! bits of what arrives, and on a wildcard address the address a datagram was sent to.
//!
//! Receiving never blocks. Sending does, when the socket's buffer is full: a sender that has to wait for its own host
//! is paced by it, and nothing is lost on the way out.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use weir_core::conn::PacketSink;
use weir_core::transport::MAX_PAYLOAD_BYTES;

/// Datagrams in one call to `sendmmsg` at most.
const SEND_BATCH: usize = 64;
/// Datagrams in one call to `recvmmsg` at most, and GRO trains, which take 64 KiB each.
const RECV_BATCH: usize = 32;
const GRO_BATCH: usize = 4;
/// Room for one incoming datagram, in bytes, and for a train with GRO.
const RECV_SLOT_BYTES: usize = MAX_PAYLOAD_BYTES;
const GRO_SLOT_BYTES: usize = 65536;
/// Limits of the kernel on one GSO send: segments, and bytes below the largest UDP payload.
const GSO_SEGMENTS: usize = 64;
const GSO_BYTES: usize = 65507;
const CONTROL_BYTES: usize = 128;

/// Whether to use segmentation offload (GSO for sending, GRO for receiving).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Where the kernel has it.
    Auto,
    /// Required; an error where the kernel has it not.
    On,
    /// One datagram per packet, as queues on the way should see them.
    Off,
}

/// Options of a socket.
#[derive(Debug, Clone)]
pub struct SocketOptions {
    /// Receive and send buffer asked for, in bytes.
    pub buffer_bytes: usize,
    /// Segmentation offload.
    pub offload: Offload,
    /// Send with ECT(0). quiche does not react to CE, so this is for measuring only.
    pub ect0: bool,
    /// Send and receive through this interface alone (`SO_BINDTODEVICE`).
    pub device: Option<String>,
}

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    inner: std::net::UdpSocket,
    local: SocketAddr,
    connected: bool,
    gso: bool,
}

fn set(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(fd, level, name, ptr::from_ref(&value).cast(), size_of::<libc::c_int>() as libc::socklen_t)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers describe `value` and its length, which outlive the call.
    let rc = unsafe { libc::getsockopt(fd, level, name, ptr::from_mut(&mut value).cast(), &mut len) };
    if rc == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn bind_to_device(fd: RawFd, device: &str) -> io::Result<()> {
    let failed = |kind, why: &str| io::Error::new(kind, format!("interface '{device}': {why}"));
    // The kernel takes an empty name as a wish to unbind, and cuts a long one, perhaps down to another's.
    if device.is_empty() || device.len() >= libc::IFNAMSIZ {
        return Err(failed(io::ErrorKind::InvalidInput, "a name has 1 to 15 bytes"));
    }
    // SAFETY: the pointer and length describe `device`, which outlives the call.
    let rc = unsafe {
        let len = device.len() as libc::socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_ptr().cast(), len)
    };
    if rc == 0 {
        return Ok(());
    }
    let e = io::Error::last_os_error();
    Err(match e.raw_os_error() {
        Some(libc::EPERM) => failed(e.kind(), "not permitted: binding to it needs CAP_NET_RAW, or Linux 5.7 or later"),
        Some(libc::ENODEV) => failed(e.kind(), "there is no such interface"),
        _ => failed(e.kind(), &e.to_string()),
    })
}

impl UdpSocket {
    /// Binds to `addr` and connects to `peer`, if given.
    ///
    /// # Errors
    /// Those of the system; for [`SocketOptions::device`] with its name and what would help.
    pub fn open(addr: SocketAddr, peer: Option<SocketAddr>, options: &SocketOptions) -> io::Result<UdpSocket> {
        let inner = std::net::UdpSocket::bind(addr)?;
        let fd = inner.as_raw_fd();
        if let Some(device) = &options.device {
            bind_to_device(fd, device)?;
        }
        let v6 = addr.is_ipv6();
        let size = options.buffer_bytes.min(i32::MAX as usize) as i32;
        for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            // The forced one needs CAP_NET_ADMIN; the plain one is cut down to the system's limit.
            if set(fd, libc::SOL_SOCKET, force, size).is_err() {
                set(fd, libc::SOL_SOCKET, plain, size)?;
            }
        }
        set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        // No fragments: too large a payload is an error here, not a mystery on the way.
        set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        if v6 {
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        }
        if options.ect0 {
            set(fd, libc::IPPROTO_IP, libc::IP_TOS, 2)?;
            if v6 {
                set(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 2)?;
            }
        }
        if addr.ip().is_unspecified() && peer.is_none() {
            // Not both on a dual-stack socket: it speaks of IPv4 addresses in their mapped form, IP_PKTINFO does not.
            match v6 {
                true => set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?,
                false => set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
            }
        }
        let mut gso = false;
        if options.offload != Offload::Off {
            gso = get(fd, libc::SOL_UDP, libc::UDP_SEGMENT).is_ok();
            let gro = set(fd, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
            if options.offload == Offload::On && !(gso && gro) {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel has no UDP GSO or GRO"));
            }
        }
        if let Some(peer) = peer {
            inner.connect(peer)?;
        }
        let local = inner.local_addr()?;
        Ok(UdpSocket { inner, local, connected: peer.is_some(), gso })
    }

    /// The address bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Its descriptor, for waiting.
    pub fn fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }

    /// Whether runs of datagrams go out as one (GSO): wanted, had by the kernel, and not refused on this route so far.
    pub fn segments(&self) -> bool {
        self.gso
    }

    /// Size of the receive buffer that the kernel granted, in bytes of payload as asked for (it doubles them).
    pub fn recv_buffer_bytes(&self) -> io::Result<usize> {
        Ok(get(self.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF)? as usize / 2)
    }
}

/// What is known of a received datagram beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address it was sent to.
    pub to: SocketAddr,
    /// TOS or traffic class byte.
    pub tos: u8,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Buffers for receiving.
pub struct RecvBatch {
    slot: usize,
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    iovs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl RecvBatch {
    /// Buffers for sockets opened with this choice of offload.
    pub fn new(offload: Offload) -> RecvBatch {
        let (slot, count) =
            if offload == Offload::Off { (RECV_SLOT_BYTES, RECV_BATCH) } else { (GRO_SLOT_BYTES, GRO_BATCH) };
        // SAFETY: all zeros are valid values of these plain C structures.
        let (name, iov, header) = unsafe { (zeroed(), zeroed(), zeroed()) };
        RecvBatch {
            slot,
            bytes: vec![0; slot * count],
            names: vec![name; count],
            controls: vec![Control([0; CONTROL_BYTES]); count],
            iovs: vec![iov; count],
            headers: vec![header; count],
        }
    }

    /// Hands what waits at `socket` to `take`, datagram by datagram: as much as one system call gives, so that a socket
    /// that never runs dry leaves time for everything else. The descriptor stays readable while anything is left. An
    /// error of the socket (a connected one reports that its peer's port is closed) comes after what was received
    /// before it. Whether there may be more.
    pub fn receive(&mut self, socket: &UdpSocket, mut take: impl FnMut(&mut [u8], Meta)) -> io::Result<bool> {
        let count = self.headers.len();
        loop {
            for i in 0..count {
                self.iovs[i].iov_base = self.bytes[i * self.slot..].as_mut_ptr().cast();
                self.iovs[i].iov_len = self.slot;
                let h = &mut self.headers[i].msg_hdr;
                h.msg_name = ptr::from_mut(&mut self.names[i]).cast();
                h.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
                h.msg_iov = &mut self.iovs[i];
                h.msg_iovlen = 1;
                h.msg_control = self.controls[i].0.as_mut_ptr().cast();
                h.msg_controllen = CONTROL_BYTES as _;
            }
            // SAFETY: every header points at buffers of `self` with their true lengths.
            let n = unsafe {
                let flags = libc::MSG_DONTWAIT;
                libc::recvmmsg(socket.fd(), self.headers.as_mut_ptr(), count as _, flags as _, ptr::null_mut())
            };
            if n < 0 {
                let e = io::Error::last_os_error();
                match e.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(e),
                }
            }
            for i in 0..n as usize {
                let h = &self.headers[i];
                let Some(from) = to_std(&self.names[i]) else { continue };
                // SAFETY: the kernel filled this header and its control buffer.
                let (tos, to, segment) = unsafe { read_control(&h.msg_hdr) };
                let to = to.map_or(socket.local, |ip| SocketAddr::new(ip, socket.local.port()));
                let len = h.msg_len as usize;
                let whole = &mut self.bytes[i * self.slot..i * self.slot + len];
                for datagram in whole.chunks_mut(segment.unwrap_or(len).max(1)) {
                    take(datagram, Meta { from, to, tos });
                }
            }
            return Ok(n as usize == count);
        }
    }
}

/// TOS, destination address and GRO segment size out of the control messages.
///
/// # Safety
/// `header` must be as `recvmmsg` left it.
unsafe fn read_control(header: &libc::msghdr) -> (u8, Option<IpAddr>, Option<usize>) {
    let (mut tos, mut to, mut segment) = (0, None, None);
    // SAFETY: the CMSG macros walk within `msg_control` as the kernel wrote it; each payload is read unaligned and has
    // the type that its level and kind say.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(header);
        while !c.is_null() {
            let data = libc::CMSG_DATA(c);
            match ((*c).cmsg_level, (*c).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => tos = *data,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => tos = data.cast::<libc::c_int>().read_unaligned() as u8,
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    to = Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr))));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    to = Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => segment = Some(data.cast::<libc::c_int>().read_unaligned() as usize),
                _ => {}
            }
            c = libc::CMSG_NXTHDR(header, c);
        }
    }
    (tos, to, segment)
}

fn to_std(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in, which is smaller than sockaddr_storage.
            let a = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(a.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let a = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(a.sin6_port), a.sin6_flowinfo, a.sin6_scope_id).into())
        }
        _ => None,
    }
}

fn from_std(addr: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros are a valid sockaddr_storage.
    let mut name: libc::sockaddr_storage = unsafe { zeroed() };
    let len = match addr {
        SocketAddr::V4(a) => {
            let v4 = libc::sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: a.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*a.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is larger than and aligned for every sockaddr.
            unsafe { ptr::from_mut(&mut name).cast::<libc::sockaddr_in>().write(v4) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(a) => {
            let v6 = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: a.port().to_be(),
                sin6_flowinfo: a.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                sin6_scope_id: a.scope_id(),
            };
            // SAFETY: as above.
            unsafe { ptr::from_mut(&mut name).cast::<libc::sockaddr_in6>().write(v6) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (name, len as libc::socklen_t)
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    at: usize,
    len: usize,
    from: SocketAddr,
    to: SocketAddr,
}

/// Datagrams collected for one socket: as many as one GSO send can carry, end to end in one piece of memory.
pub struct SendBatch {
    bytes: Vec<u8>,
    used: usize,
    queued: Vec<Queued>,
    /// Datagrams that the kernel refused; they count as lost on the way.
    pub dropped: u64,
    /// The last reason for that.
    pub error: Option<io::Error>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
    iovs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Default for SendBatch {
    fn default() -> Self {
        // SAFETY: all zeros are valid values of these plain C structures.
        let (name, iov, header) = unsafe { (zeroed(), zeroed(), zeroed()) };
        SendBatch {
            bytes: vec![0; GSO_BYTES + MAX_PAYLOAD_BYTES],
            used: 0,
            queued: Vec::with_capacity(SEND_BATCH),
            dropped: 0,
            error: None,
            names: vec![name; SEND_BATCH],
            controls: vec![Control([0; CONTROL_BYTES]); SEND_BATCH],
            iovs: vec![iov; SEND_BATCH],
            headers: vec![header; SEND_BATCH],
        }
    }
}

impl SendBatch {
    /// Takes datagrams for `socket`; they leave when the batch is full and at [`SendBatch::flush`].
    pub fn to<'a>(&'a mut self, socket: &'a mut UdpSocket) -> Outgoing<'a> {
        Outgoing { batch: self, socket }
    }

    /// Room for the next datagram, whichever socket it will be for; the same room until it is committed.
    pub fn slot(&mut self) -> &mut [u8] {
        &mut self.bytes[self.used..][..MAX_PAYLOAD_BYTES]
    }

    /// Sends what was collected.
    pub fn flush(&mut self, socket: &mut UdpSocket) {
        let mut first = 0;
        while first < self.queued.len() {
            first += self.send_from(socket, first);
        }
        self.queued.clear();
        self.used = 0;
    }

    /// Sends from datagram `first` on; returns how many datagrams are done with, at least one unless GSO was given up.
    fn send_from(&mut self, socket: &mut UdpSocket, first: usize) -> usize {
        let mut messages = 0;
        let mut lengths = [0usize; SEND_BATCH];
        let mut i = first;
        while i < self.queued.len() {
            let run = self.run_length(i, socket.gso);
            self.describe(messages, i, run, socket);
            lengths[messages] = run;
            messages += 1;
            i += run;
        }
        let sent = loop {
            // SAFETY: `describe` made each header point at buffers of `self` with their true lengths.
            let n = unsafe { libc::sendmmsg(socket.fd(), self.headers.as_mut_ptr(), messages as _, 0) };
            if n >= 0 {
                break n as usize;
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EINTR) => continue,
                // The route's device can't checksum or segment: go on without.
                Some(libc::EIO | libc::EINVAL) if lengths[0] > 1 => {
                    socket.gso = false;
                    return 0;
                }
                _ => {
                    self.dropped += lengths[0] as u64;
                    self.error = Some(e);
                    return lengths[0];
                }
            }
        };
        lengths[..sent].iter().sum()
    }

    // Datagrams from `i` on that one message can carry: equal in length but for a shorter last one, one destination.
    fn run_length(&self, i: usize, gso: bool) -> usize {
        let head = self.queued[i];
        if !gso {
            return 1;
        }
        let mut total = head.len;
        let mut n = 1;
        for q in &self.queued[i + 1..] {
            let fits = total + q.len <= GSO_BYTES && n < GSO_SEGMENTS && q.len <= head.len;
            if !fits || q.to != head.to || q.from != head.from {
                break;
            }
            total += q.len;
            n += 1;
            if q.len < head.len {
                break;
            }
        }
        n
    }

    fn describe(&mut self, message: usize, first: usize, run: usize, socket: &UdpSocket) {
        let (q, last) = (self.queued[first], self.queued[first + run - 1]);
        let iov = &mut self.iovs[message];
        iov.iov_base = self.bytes[q.at..].as_mut_ptr().cast();
        iov.iov_len = last.at + last.len - q.at;
        let h = &mut self.headers[message].msg_hdr;
        h.msg_iov = iov;
        h.msg_iovlen = 1;
        h.msg_name = ptr::null_mut();
        h.msg_namelen = 0;
        if !socket.connected {
            let (name, len) = from_std(q.to);
            self.names[message] = name;
            h.msg_name = ptr::from_mut(&mut self.names[message]).cast();
            h.msg_namelen = len;
        }
        let mut control = ControlWriter { buffer: &mut self.controls[message], used: 0 };
        if run > 1 {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, q.len as u16);
        }
        if !socket.connected && socket.local.ip().is_unspecified() && !q.from.ip().is_unspecified() {
            match q.from.ip() {
                IpAddr::V4(ip) => {
                    let ipi_spec_dst = libc::in_addr { s_addr: u32::from(ip).to_be() };
                    let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: ipi_spec_dst };
                    control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
                }
                IpAddr::V6(ip) => {
                    let info =
                        libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
                    control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
                }
            }
        }
        h.msg_controllen = control.used as _;
        h.msg_control = if control.used > 0 { self.controls[message].0.as_mut_ptr().cast() } else { ptr::null_mut() };
    }
}

struct ControlWriter<'a> {
    buffer: &'a mut Control,
    used: usize,
}

impl ControlWriter<'_> {
    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        // SAFETY: these macros only compute sizes.
        let (space, len) = unsafe { (libc::CMSG_SPACE(size_of::<T>() as _), libc::CMSG_LEN(size_of::<T>() as _)) };
        assert!(self.used + space as usize <= CONTROL_BYTES, "control messages fit their buffer");
        // SAFETY: the buffer is aligned for cmsghdr and has room for this message (just asserted).
        unsafe {
            let c = self.buffer.0.as_mut_ptr().add(self.used).cast::<libc::cmsghdr>();
            (*c).cmsg_level = level;
            (*c).cmsg_type = kind;
            (*c).cmsg_len = len as _;
            libc::CMSG_DATA(c).cast::<T>().write_unaligned(value);
        }
        self.used += space as usize;
    }
}

/// A batch on its way out of one socket.
pub struct Outgoing<'a> {
    batch: &'a mut SendBatch,
    socket: &'a mut UdpSocket,
}

impl PacketSink for Outgoing<'_> {
    fn slot(&mut self) -> &mut [u8] {
        self.batch.slot()
    }

    fn commit(&mut self, len: usize, from: SocketAddr, to: SocketAddr) {
        self.batch.queued.push(Queued { at: self.batch.used, len, from, to });
        self.batch.used += len;
        // The next one is likely as long as this one, and would not go out with the others.
        if self.batch.queued.len() == SEND_BATCH || self.batch.used + len > GSO_BYTES {
            self.batch.flush(self.socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(offload: Offload) -> SocketOptions {
        SocketOptions { buffer_bytes: 1 << 20, offload, ect0: true, device: None }
    }

    fn all(offload: Offload, socket: &UdpSocket, mut take: impl FnMut(&mut [u8], Meta)) {
        let mut batch = RecvBatch::new(offload);
        while batch.receive(socket, &mut take).unwrap() {}
    }

    #[test]
    fn a_flooded_socket_gives_a_batch_at_a_time() {
        for (offload, least, most) in [(Offload::Off, 1, RECV_BATCH), (Offload::Auto, 1, GRO_BATCH * GSO_SEGMENTS)] {
            let s = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(offload)).unwrap();
            let c = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..2 * most {
                c.send_to(&[0; 28], s.local_addr()).unwrap();
            }
            let (mut batch, mut total) = (RecvBatch::new(offload), 0);
            loop {
                let mut n = 0;
                let more = batch.receive(&s, |_, _| n += 1).unwrap();
                assert!(n <= most && (!more || n >= least), "{n} at once");
                total += n;
                if !more {
                    break;
                }
            }
            // Without CAP_NET_ADMIN the buffer may be too small for all; then the last ones are missing.
            let room = s.recv_buffer_bytes().unwrap() >= options(offload).buffer_bytes;
            assert!(if room { total == 2 * most } else { (1..=2 * most).contains(&total) }, "{total} of {}", 2 * most);
        }
    }

    fn exchange(server: &str, client: &str, offload: Offload, lengths: &[usize]) -> Vec<(Vec<u8>, Meta)> {
        let s = UdpSocket::open(server.parse().unwrap(), None, &options(offload)).unwrap();
        let mut peer: SocketAddr = client.parse().unwrap();
        peer.set_port(s.local_addr().port());
        let from = SocketAddr::new(peer.ip(), 0);
        let mut c = UdpSocket::open(from, Some(peer), &options(offload)).unwrap();
        let mut batch = SendBatch::default();
        let local = c.local_addr();
        for (i, len) in lengths.iter().enumerate() {
            let mut out = batch.to(&mut c);
            out.slot()[..*len].fill(i as u8);
            out.commit(*len, local, peer);
        }
        batch.flush(&mut c);
        assert_eq!((batch.dropped, batch.error.is_none()), (0, true));
        let mut got = Vec::new();
        // Loopback delivers within the sending call.
        all(offload, &s, |bytes, meta| got.push((bytes.to_vec(), meta)));
        for (_, meta) in &got {
            assert_eq!((meta.from, meta.to, meta.tos), (local, peer, 2));
        }
        got
    }

    fn check(server: &str, client: &str, offload: Offload) {
        let lengths: Vec<usize> = (0..150).map(|i| if i % 7 == 6 { 100 + i } else { 1200 }).collect();
        let got = exchange(server, client, offload, &lengths);
        assert_eq!(got.len(), lengths.len());
        for (i, (bytes, _)) in got.iter().enumerate() {
            assert_eq!(bytes, &vec![i as u8; lengths[i]], "datagram {i}");
        }
    }

    #[test]
    fn one_by_one() {
        check("127.0.0.1:0", "127.0.0.1:0", Offload::Off);
    }

    #[test]
    fn with_offload() {
        check("127.0.0.1:0", "127.0.0.1:0", Offload::Auto);
    }

    #[test]
    fn wildcard_knows_its_address() {
        check("0.0.0.0:0", "127.0.0.2:0", Offload::Off);
    }

    #[test]
    fn a_v6_wildcard_knows_its_address() {
        if let Err(e) = std::net::UdpSocket::bind("[::1]:0") {
            eprintln!("SKIP: IPv6 on loopback: {e}");
            return;
        }
        check("[::]:0", "[::1]:0", Offload::Auto);
    }

    #[test]
    fn a_reply_leaves_from_the_address_asked() {
        let mut s = UdpSocket::open("0.0.0.0:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
        let peer: SocketAddr = format!("127.0.0.3:{}", s.local_addr().port()).parse().unwrap();
        let c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), Some(peer), &options(Offload::Off)).unwrap();
        let mut batch = SendBatch::default();
        let mut out = batch.to(&mut s);
        out.slot()[0] = 9;
        out.commit(1, peer, c.local_addr());
        batch.flush(&mut s);
        let mut got = Vec::new();
        all(Offload::Off, &c, |b, m| got.push((b.to_vec(), m.from)));
        assert_eq!(got, [(vec![9], peer)]);
    }

    #[test]
    fn a_closed_port_is_reported() {
        let gone = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
        let peer = gone.local_addr();
        let mut c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), Some(peer), &options(Offload::Off)).unwrap();
        drop(gone);
        let mut batch = SendBatch::default();
        let local = c.local_addr();
        batch.to(&mut c).commit(100, local, peer);
        batch.flush(&mut c);
        let e = RecvBatch::new(Offload::Off).receive(&c, |_, _| {}).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn what_the_kernel_refuses_is_counted_and_the_rest_goes_on() {
        let s = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
        let to = s.local_addr();
        let mut c = UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &options(Offload::Off)).unwrap();
        let local = c.local_addr();
        let mut batch = SendBatch::default();
        let unreachable = "[::1]:1".parse().unwrap();
        for to in [to, unreachable, to] {
            batch.to(&mut c).commit(10, local, to);
        }
        batch.flush(&mut c);
        assert_eq!(batch.dropped, 1);
        let mut n = 0;
        all(Offload::Off, &s, |_, _| n += 1);
        assert_eq!(n, 2);
    }

    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        // Datagrams of any lengths to two receivers in any order: each gets its own, whole and in order, whatever runs
        // and batches they made.
        #[test]
        fn batches_of_any_shape_arrive(
            shape in prop::collection::vec((0usize..2, 1usize..5, 1usize..=MAX_PAYLOAD_BYTES), 1..60),
            offload in prop_oneof![Just(Offload::Auto), Just(Offload::Off)],
        ) {
            let open = || UdpSocket::open("127.0.0.1:0".parse().unwrap(), None, &SocketOptions {
                buffer_bytes: 1 << 25,
                ..options(offload)
            }).unwrap();
            let (receivers, mut sender) = ([open(), open()], open());
            let local = sender.local_addr();
            let mut batch = SendBatch::default();
            let mut sent = [Vec::new(), Vec::new()];
            for (n, (to, run, len)) in shape.into_iter().enumerate() {
                for i in 0..run {
                    let mut out = batch.to(&mut sender);
                    let mark = (n * 8 + i) as u16;
                    out.slot()[..len].fill(n as u8);
                    out.slot()[..2].copy_from_slice(&mark.to_le_bytes());
                    let len = len.max(2);
                    sent[to].push((len, mark));
                    out.commit(len, local, receivers[to].local_addr());
                }
            }
            batch.flush(&mut sender);
            prop_assert_eq!(batch.dropped, 0, "{:?}", batch.error);
            for (receiver, sent) in receivers.iter().zip(sent) {
                let mut got = Vec::new();
                all(offload, receiver, |bytes, _| {
                    got.push((bytes.len(), u16::from_le_bytes([bytes[0], bytes[1]])));
                    assert!(bytes[2..].iter().all(|b| *b == bytes[2]), "a datagram's bytes are all its own");
                });
                // Without CAP_NET_ADMIN the buffer may be too small for all; then the last ones are missing.
                let room = receiver.recv_buffer_bytes().unwrap() >= 1 << 25;
                prop_assert!(if room { got == sent } else { sent.starts_with(&got) }, "{:?} of {:?}", got, sent);
            }
        }
    }
}
