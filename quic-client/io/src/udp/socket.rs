// SPDX-License-Identifier: Apache-2.0
//! A UDP socket with all options set that sending and receiving in batches need.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

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
    /// Send and receive through this interface alone (`SO_BINDTODEVICE`).
    pub device: Option<String>,
}

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    inner: std::net::UdpSocket,
    pub(super) local: SocketAddr,
    pub(super) connected: bool,
    pub(super) gso: bool,
}

impl UdpSocket {
    /// Binds to `addr` and connects to `peer`, if given.
    ///
    /// # Errors
    /// Those of the system; for [`SocketOptions::device`] with its name and the remedy.
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
