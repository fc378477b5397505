// SPDX-License-Identifier: Apache-2.0
//! Packets: what follows the Ethernet header. Reading is total: any bytes are a packet or [`Malformed`].

use crate::names::Name;
use std::time::Duration;

/// EtherType: IEEE 802 local experimental 1.
pub const ETHERTYPE: u16 = 0x88B5;
/// The group address that all frames are sent to.
pub const GROUP_ADDRESS: [u8; 6] = [0x03, 0x57, 0x45, 0x49, 0x52, 0x01];
/// The version of this format.
pub const VERSION: u8 = 1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// Largest payload, for an MTU of 1500 bytes.
pub const MAX_PAYLOAD_BYTES: usize = 1500 - HEADER_BYTES;
/// Initial value of `hop_limit`.
pub const FIRST_HOP_LIMIT: u8 = 64;
/// Segments that one Interest can ask for: its own and those of `holes`.
pub const SEGMENTS_PER_INTEREST: u32 = 17;
/// Unit of the field `lifetime`, in microseconds.
pub const LIFETIME_UNIT_US: u64 = 256;

/// Bits of the field `flags`.
pub mod flags {
    /// Data, and the Interest that opens a session: the receivers take marks for congestion.
    pub const ECT: u8 = 1;
    /// The same: congestion experienced.
    pub const CE: u8 = 2;
    /// Data: the datagram goes on in the next segment.
    pub const MORE: u8 = 4;
    /// Data: it waited at the sender for an Interest.
    pub const WAITED: u8 = 8;
    /// Data: the name has no segment behind this one.
    pub const LAST: u8 = 16;
    /// Data: an answer without a datagram in it. With [`MORE`]: there was one, which is kept no longer.
    pub const BARE: u8 = 32;
    /// Interest: no cache may answer.
    pub const FRESH: u8 = 64;
    /// Data: the datagram takes no marks ([`ECT`] is the converter's). With [`CE`] it is dropped where it arrives.
    pub const DROP_IF_CE: u8 = 64;
    /// Data: the datagram began in an earlier segment.
    pub const REST: u8 = 128;
}

/// Codes of a Nack.
pub mod nack {
    /// No port leads to this prefix.
    pub const NO_ROUTE: u8 = 1;
    /// The set is full of this name and segment.
    pub const FULL: u8 = 2;
    /// The port has asked for too much that has not been answered.
    pub const QUOTA: u8 = 3;
    /// From a host: there is no such name here.
    pub const NO_SUCH_NAME: u8 = 4;
    /// From a host: the name ends before this segment.
    pub const NO_SUCH_SEGMENT: u8 = 5;
    /// From a host: ask later.
    pub const BUSY: u8 = 6;
}

/// Kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It asks for segments of a name.
    Interest,
    /// It brings one.
    Data,
    /// It says why there is none.
    Nack,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Interest => 1,
            Kind::Data => 2,
            Kind::Nack => 3,
        }
    }
}

/// The fields of a packet but its version and the length of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Interest, Data or Nack.
    pub kind: Kind,
    /// See [`flags`].
    pub flags: u8,
    /// Number of switches that it may still pass, and one.
    pub hop_limit: u8,
    /// Of a Nack: see [`nack`]; else 0.
    pub code: u8,
    /// See [`Name::prefix`].
    pub prefix: u64,
    /// See [`Name::hash`]; not 0.
    pub name: u64,
    /// Of the name, from 0.
    pub segment: u32,
    /// Of an Interest without payload: bit i asks for segment + 1 + i too; else 0.
    pub holes: u16,
    /// Of an Interest: after how long the asker asks again, in units of [`LIFETIME_UNIT_US`], not 0; else 0.
    pub lifetime: u16,
    /// Of Data: which key of the group seals it; else 0.
    pub epoch: u16,
}

/// Why bytes are no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They end within the header or within the payload.
    #[error("the frame ends within the packet")]
    Short,
    /// A payload that fits no packet.
    #[error("a payload above {MAX_PAYLOAD_BYTES} bytes")]
    Long,
    /// Another version of the format.
    #[error("the version is not {VERSION}")]
    Version,
    /// Neither Interest, Data nor Nack.
    #[error("there is no such kind of packet")]
    Kind,
    /// No name.
    #[error("the name is 0")]
    Name,
    /// An Interest that never asks again.
    #[error("an Interest's lifetime is 0")]
    Lifetime,
    /// A Nack without a code, or with a payload.
    #[error("a Nack has no code, or a payload")]
    Nack,
    /// Holes in a packet that is no Interest, or has a payload.
    #[error("holes in a packet that can't have them")]
    Holes,
}

impl Header {
    fn new(kind: Kind, name: &Name, segment: u32) -> Header {
        Header {
            kind,
            flags: 0,
            hop_limit: FIRST_HOP_LIMIT,
            code: 0,
            prefix: name.prefix(),
            name: name.hash(),
            segment,
            holes: 0,
            lifetime: 0,
            epoch: 0,
        }
    }

    /// An Interest for one segment.
    pub fn interest(name: &Name, segment: u32, lifetime: u16) -> Header {
        Header { lifetime, ..Header::new(Kind::Interest, name, segment) }
    }

    /// Data: a segment.
    pub fn data(name: &Name, segment: u32, flags: u8) -> Header {
        Header { flags, ..Header::new(Kind::Data, name, segment) }
    }

    /// The Nack that answers an Interest for `segment`, which may be one of its holes.
    pub fn nack(interest: &Header, segment: u32, code: u8) -> Header {
        Header {
            kind: Kind::Nack,
            flags: 0,
            hop_limit: FIRST_HOP_LIMIT,
            code,
            segment,
            holes: 0,
            lifetime: 0,
            epoch: 0,
            ..*interest
        }
    }

    /// Whether all these bits of `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// All segments that an Interest asks for, in order: its own and its holes. Numbers wrap at 2^32.
    pub fn segments(&self) -> impl Iterator<Item = u32> + use<> {
        let (segment, holes) = (self.segment, self.holes);
        let more = (0..16).filter(move |i| holes >> i & 1 == 1).map(move |i| segment.wrapping_add(1 + i));
        std::iter::once(segment).chain(more)
    }

    /// Reads a packet: what follows the Ethernet header. The payload ends where its length says; what follows is
    /// padding.
    ///
    /// # Errors
    /// The bytes are malformed, as `docs/design/icn-formats.md` says under "The packet".
    pub fn read(bytes: &[u8]) -> Result<(Header, &[u8]), Malformed> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Short)?;
        if head[0] >> 4 != VERSION {
            return Err(Malformed::Version);
        }
        let kind = match head[0] & 0xf {
            1 => Kind::Interest,
            2 => Kind::Data,
            3 => Kind::Nack,
            _ => return Err(Malformed::Kind),
        };
        let two = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let eight = |at: usize| u64::from_be_bytes(std::array::from_fn(|i| head[at + i]));
        let header = Header {
            kind,
            flags: head[1],
            hop_limit: head[2],
            code: head[3],
            prefix: eight(4),
            name: eight(12),
            segment: u32::from_be_bytes(std::array::from_fn(|i| head[20 + i])),
            holes: two(24),
            lifetime: two(26),
            epoch: two(30),
        };
        let payload = rest.get(..usize::from(two(28))).ok_or(Malformed::Short)?;
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(Malformed::Long);
        }
        header.check(!payload.is_empty())?;
        Ok((header, payload))
    }

    fn check(&self, payload: bool) -> Result<(), Malformed> {
        match self.kind {
            _ if self.name == 0 => Err(Malformed::Name),
            Kind::Interest if self.lifetime == 0 => Err(Malformed::Lifetime),
            Kind::Nack if self.code == 0 || payload => Err(Malformed::Nack),
            _ if self.holes != 0 && (self.kind != Kind::Interest || payload) => Err(Malformed::Holes),
            _ => Ok(()),
        }
    }

    /// The header's bytes, for a payload of this length.
    ///
    /// # Panics
    /// The payload is above [`MAX_PAYLOAD_BYTES`], or readers would call the packet malformed.
    pub fn bytes(&self, payload_bytes: usize) -> [u8; HEADER_BYTES] {
        assert!(payload_bytes <= MAX_PAYLOAD_BYTES, "a payload of {payload_bytes} bytes");
        assert_eq!(self.check(payload_bytes > 0), Ok(()), "{self:?}");
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION << 4 | self.kind.number();
        bytes[1] = self.flags;
        bytes[2] = self.hop_limit;
        bytes[3] = self.code;
        bytes[4..12].copy_from_slice(&self.prefix.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.name.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.segment.to_be_bytes());
        bytes[24..26].copy_from_slice(&self.holes.to_be_bytes());
        bytes[26..28].copy_from_slice(&self.lifetime.to_be_bytes());
        bytes[28..30].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
        bytes[30..32].copy_from_slice(&self.epoch.to_be_bytes());
        bytes
    }
}

/// A time as the field `lifetime`: rounded up, at least 1, at most what the field holds (16.8 s).
pub fn lifetime_of(time: Duration) -> u16 {
    let units = time.as_micros().div_ceil(u128::from(LIFETIME_UNIT_US));
    u16::try_from(units).unwrap_or(u16::MAX).max(1)
}

/// The time that a field `lifetime` says.
pub fn time_of(lifetime: u16) -> Duration {
    Duration::from_micros(u64::from(lifetime) * LIFETIME_UNIT_US)
}

/// Groups segments into Interests: calls `ask` with a first segment and its holes, for as few packets as in-order
/// grouping gives. The segments must ascend.
pub fn grouped(segments: impl IntoIterator<Item = u64>, mut ask: impl FnMut(u64, u16)) {
    let mut open: Option<(u64, u16)> = None;
    for segment in segments {
        match &mut open {
            Some((first, holes)) if segment - *first < u64::from(SEGMENTS_PER_INTEREST) => {
                *holes |= 1 << (segment - *first - 1);
            }
            _ => {
                if let Some((first, holes)) = open.replace((segment, 0)) {
                    ask(first, holes);
                }
            }
        }
    }
    if let Some((first, holes)) = open {
        ask(first, holes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn film() -> Name {
        Name::new("/weir/files/film.mp4").unwrap()
    }

    fn packet(header: &Header, payload: &[u8]) -> Vec<u8> {
        [&header.bytes(payload.len())[..], payload].concat()
    }

    #[test]
    fn fields_stand_where_the_page_says() {
        let mut header = Header::interest(&film(), 0x0102_0304, 0x0708);
        header.holes = 0x0506;
        header.flags = flags::FRESH;
        let bytes = header.bytes(0);
        assert_eq!(bytes[..4], [0x11, 64, 64, 0]);
        assert_eq!(bytes[4..12], film().prefix().to_be_bytes());
        assert_eq!(bytes[12..20], film().hash().to_be_bytes());
        assert_eq!(bytes[20..], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
        let mut data = Header::data(&film(), 1, flags::ECT | flags::CE);
        data.epoch = 0x090a;
        assert_eq!(data.bytes(1468)[..2], [0x12, 3]);
        assert_eq!(data.bytes(1468)[24..], [0, 0, 0, 0, 0x05, 0xbc, 9, 10]);
        assert_eq!(Header::nack(&header, 5, nack::FULL).bytes(0)[..4], [0x13, 0, 64, 2]);
    }

    #[test]
    fn each_rule_of_the_page_makes_a_packet_malformed() {
        let interest = packet(&Header::interest(&film(), 7, 1), b"");
        let data = packet(&Header::data(&film(), 7, 0), b"content");
        let nack = packet(&Header::nack(&Header::interest(&film(), 7, 1), 7, nack::BUSY), b"");
        for good in [&interest, &data, &nack] {
            assert!(Header::read(good).is_ok());
            let padded = [good, &[0; 46][..]].concat();
            assert_eq!(Header::read(&padded), Header::read(good));
            for cut in 0..good.len() {
                assert_eq!(Header::read(&good[..cut]), Err(Malformed::Short));
            }
        }
        let changed = |packet: &[u8], changes: &[(usize, u8)]| {
            let mut bytes = packet.to_vec();
            changes.iter().for_each(|(at, value)| bytes[*at] = *value);
            Header::read(&bytes).map(|(header, _)| header.kind)
        };
        let no_name: Vec<_> = (12..20).map(|at| (at, 0)).collect();
        for good in [&interest, &data, &nack] {
            assert_eq!(changed(good, &no_name), Err(Malformed::Name));
            for version in [0x01, 0x21, 0xf1] {
                assert_eq!(changed(good, &[(0, version)]), Err(Malformed::Version));
            }
            for kind in [0x10, 0x14, 0x1f] {
                assert_eq!(changed(good, &[(0, kind)]), Err(Malformed::Kind));
            }
        }
        assert_eq!(changed(&interest, &[(27, 0)]), Err(Malformed::Lifetime));
        assert_eq!(changed(&nack, &[(3, 0)]), Err(Malformed::Nack));
        assert_eq!(changed(&data, &[(0, 0x13), (3, 1)]), Err(Malformed::Nack));
        assert_eq!(changed(&data, &[(25, 1)]), Err(Malformed::Holes));
        assert_eq!(changed(&nack, &[(24, 1)]), Err(Malformed::Holes));
        assert_eq!(changed(&data, &[(0, 0x11), (27, 1), (25, 1)]), Err(Malformed::Holes));
        assert_eq!(changed(&data, &[(0, 0x11), (27, 1)]), Ok(Kind::Interest));
        // A frame of an interface with a larger MTU.
        let most = packet(&Header::data(&film(), 7, 0), &[0; MAX_PAYLOAD_BYTES]);
        let longer = [&most[..], &[0]].concat();
        assert!(Header::read(&longer).is_ok());
        assert_eq!(changed(&longer, &[(29, (MAX_PAYLOAD_BYTES as u8) + 1)]), Err(Malformed::Long));
    }

    #[test]
    fn holes_are_the_segments_behind() {
        let mut header = Header::interest(&film(), u32::MAX - 1, 1);
        header.holes = 0b1000_0000_0000_0101;
        assert_eq!(header.segments().collect::<Vec<_>>(), [u32::MAX - 1, u32::MAX, 1, 14]);
    }

    #[test]
    fn lifetimes_are_rounded_up_and_kept_within_the_field() {
        assert_eq!(lifetime_of(Duration::ZERO), 1);
        assert_eq!(lifetime_of(Duration::from_micros(257)), 2);
        assert_eq!(time_of(2), Duration::from_micros(512));
        assert_eq!(lifetime_of(Duration::from_secs(60)), u16::MAX);
    }

    prop_compose! {
        fn headers()(
            kind in prop::sample::select(vec![Kind::Interest, Kind::Data, Kind::Nack]),
            (flags, hop_limit, code) in any::<(u8, u8, u8)>(),
            (prefix, name, segment) in (any::<u64>(), 1..=u64::MAX, any::<u32>()),
            (holes, lifetime, epoch) in any::<(u16, u16, u16)>(),
        ) -> Header {
            let mut header = Header { kind, flags, hop_limit, code, prefix, name, segment, holes, lifetime, epoch };
            match kind {
                Kind::Interest => header.lifetime = lifetime.max(1),
                Kind::Data => header.holes = 0,
                Kind::Nack => (header.holes, header.code) = (0, code.max(1)),
            }
            header
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            header in headers(),
            payload in prop::collection::vec(any::<u8>(), 0..=MAX_PAYLOAD_BYTES),
            padding in 0usize..60,
        ) {
            let none = header.kind == Kind::Nack || header.holes != 0;
            let payload = if none { &[][..] } else { &payload };
            let mut bytes = packet(&header, payload);
            bytes.resize(bytes.len() + padding, 0xaa);
            prop_assert_eq!(Header::read(&bytes), Ok((header, payload)));
        }

        #[test]
        fn any_bytes_are_a_packet_or_malformed(bytes in prop::collection::vec(any::<u8>(), 0..100), first in 0u8..5) {
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = VERSION << 4 | first;
            }
            if let Ok((header, payload)) = Header::read(&bytes) {
                prop_assert_eq!(&header.bytes(payload.len())[..], &bytes[..HEADER_BYTES]);
            }
        }

        #[test]
        fn groups_hold_what_was_put_in(segments in prop::collection::btree_set(0u64..200, 0..100)) {
            let mut found = Vec::new();
            let name = film();
            grouped(segments.iter().copied(), |first, holes| {
                let header = Header { holes, ..Header::interest(&name, first as u32, 1) };
                found.extend(header.segments().map(u64::from));
            });
            prop_assert_eq!(found, segments.into_iter().collect::<Vec<_>>());
        }
    }
}
