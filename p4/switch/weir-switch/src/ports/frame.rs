// SPDX-License-Identifier: Apache-2.0
//! Frames as they would have been on a wire: the work left to hardware by the kernel or the sender is done here.
use crate::system::{Offload, ROOM, RingFrame};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// Why a frame is not used.
pub enum Unusable {
    TooLong,
    Segments,
    ChecksumOffset,
}

/// The frame as it would have been on a wire: checksum filled in, VLAN tag back in its place.
pub fn restore(frame: RingFrame<'_>) -> Result<&[u8], Unusable> {
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
