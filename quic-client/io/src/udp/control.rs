// SPDX-License-Identifier: Apache-2.0
//! Control messages beside a datagram: its TOS or traffic class byte (with the ECN bits), the local address, and the
//! segment size of GSO and GRO.

use std::mem::{align_of, offset_of, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Room for the control messages of one call, in bytes.
pub(super) const CONTROL_BYTES: usize = 128;

/// A buffer for control messages, aligned as `cmsghdr` is.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control(pub(super) [u8; CONTROL_BYTES]);

/// Values of the control messages of a received message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// TOS or traffic class byte; 0 if not reported.
    pub(crate) tos: u8,
    /// The address it was sent to, if asked for.
    pub(crate) to: Option<IpAddr>,
    /// Size of the datagrams that GRO has joined, in bytes.
    pub(crate) segment_bytes: Option<usize>,
}

/// Reads control messages (cmsg(3)). One whose data is shorter than its kind's, as the kernel leaves it where the buffer ends
/// (MSG_CTRUNC), is skipped.
pub(crate) fn read_control(mut rest: &[u8]) -> Received {
    let mut got = Received::default();
    while let Some((level, kind, data, after)) = next_message(rest) {
        rest = after;
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) => got.tos = data.first().copied().unwrap_or(got.tos),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => got.tos = number(data).map_or(got.tos, |n| n as u8),
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let address = data.get(offset_of!(libc::in_pktinfo, ipi_addr)..).and_then(<[u8]>::first_chunk::<4>);
                got.to = address.map(|ip| IpAddr::V4(Ipv4Addr::from(*ip))).or(got.to);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                got.to = data.first_chunk::<16>().map(|ip| IpAddr::V6(Ipv6Addr::from(*ip))).or(got.to);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let bytes = number(data).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
                got.segment_bytes = bytes.or(got.segment_bytes);
            }
            _ => {}
        }
    }
    got
}

/// Level, kind and data of the first message, and the messages behind it.
fn next_message(from: &[u8]) -> Option<(libc::c_int, libc::c_int, &[u8], &[u8])> {
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    let length = usize::from_ne_bytes(*from.first_chunk()?);
    let level = number(from.get(offset_of!(libc::cmsghdr, cmsg_level)..)?)?;
    let kind = number(from.get(offset_of!(libc::cmsghdr, cmsg_type)..)?)?;
    let data = from.get(HEADER_BYTES..length.min(from.len()))?;
    let space = HEADER_BYTES + data.len().next_multiple_of(align_of::<usize>());
    Some((level, kind, data, from.get(space..).unwrap_or_default()))
}

fn number(data: &[u8]) -> Option<libc::c_int> {
    data.first_chunk().map(|bytes| libc::c_int::from_ne_bytes(*bytes))
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

    /// TOS byte of an IPv4 packet, or traffic class byte of an IPv6 packet. The kernel ignores the other kind.
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
