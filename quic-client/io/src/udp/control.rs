// SPDX-License-Identifier: Apache-2.0
//! Control messages beside a datagram: its TOS or traffic class byte (with the ECN bits), the local address, and the
//! segment size of GSO and GRO.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for the control messages of one call, in bytes.
pub(super) const CONTROL_BYTES: usize = 128;

/// A buffer for control messages, aligned as `cmsghdr` is.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control(pub(super) [u8; CONTROL_BYTES]);

/// Content of the control messages of a received message.
#[derive(Default)]
pub(super) struct Received {
    /// TOS or traffic class byte; 0 if not reported.
    pub(super) tos: u8,
    /// The address it was sent to, if asked for.
    pub(super) to: Option<IpAddr>,
    /// Size of the datagrams that GRO has joined, in bytes.
    pub(super) segment_bytes: Option<usize>,
}

/// Reads the control messages of a received message.
///
/// # Safety
/// `header` must be as `recvmmsg` left it.
pub(super) unsafe fn read_control(header: &libc::msghdr) -> Received {
    let mut got = Received::default();
    // SAFETY: the CMSG macros walk within `msg_control` as the kernel wrote it; each payload is read unaligned and has
    // the type that its level and kind say.
    unsafe {
        let mut c = libc::CMSG_FIRSTHDR(header);
        while !c.is_null() {
            let data = libc::CMSG_DATA(c);
            match ((*c).cmsg_level, (*c).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) => got.tos = *data,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => got.tos = data.cast::<libc::c_int>().read_unaligned() as u8,
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    got.to = Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr))));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    got.to = Some(IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr)));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    got.segment_bytes = Some(data.cast::<libc::c_int>().read_unaligned() as usize);
                }
                _ => {}
            }
            c = libc::CMSG_NXTHDR(header, c);
        }
    }
    got
}

/// Writes control messages into a buffer, one behind the other.
pub(super) struct ControlWriter<'a> {
    buffer: &'a mut Control,
    used_bytes: usize,
}

impl<'a> ControlWriter<'a> {
    pub(super) fn new(buffer: &'a mut Control) -> Self {
        ControlWriter { buffer, used_bytes: 0 }
    }

    /// Length of the written part, in bytes.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// The kernel is to cut the payload into datagrams of this size (GSO).
    pub(super) fn segment(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, bytes);
    }

    /// The datagram is to leave from this local address.
    pub(super) fn source(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => {
                let ipi_spec_dst = libc::in_addr { s_addr: u32::from(ip).to_be() };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr: ipi_spec_dst };
                self.push(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            IpAddr::V6(ip) => {
                let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
                self.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
    }

    /// TOS or traffic class byte of a datagram to this address. The socket's own address family decides its form.
    pub(super) fn tos(&mut self, v6: bool, tos: u8) {
        match v6 {
            true => self.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::c_int::from(tos)),
            false => self.push(libc::IPPROTO_IP, libc::IP_TOS, libc::c_int::from(tos)),
        }
    }

    fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        // SAFETY: these macros only compute sizes.
        let (space, len) = unsafe { (libc::CMSG_SPACE(size_of::<T>() as _), libc::CMSG_LEN(size_of::<T>() as _)) };
        assert!(self.used_bytes + space as usize <= CONTROL_BYTES, "control messages fit their buffer");
        // SAFETY: the buffer is aligned for cmsghdr and has room for this message (just asserted).
        unsafe {
            let c = self.buffer.0.as_mut_ptr().add(self.used_bytes).cast::<libc::cmsghdr>();
            (*c).cmsg_level = level;
            (*c).cmsg_type = kind;
            (*c).cmsg_len = len as _;
            libc::CMSG_DATA(c).cast::<T>().write_unaligned(value);
        }
        self.used_bytes += space as usize;
    }
}
