// SPDX-License-Identifier: Apache-2.0
//! Capsules (RFC 9297 3.2) on the stream of a request, and the payloads of UDP in HTTP datagrams (RFC 9298 5).

use octets::{Octets, OctetsMut};

/// Type of the DATAGRAM capsule.
const DATAGRAM: u64 = 0;
/// Largest UDP payload in bytes.
pub const MOST_PAYLOAD_BYTES: usize = 65_527;
/// Longest variable-length integer (RFC 9000 16).
pub const VARINT_BYTES: usize = 8;

/// A DATAGRAM capsule that is longer than any UDP payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Reads capsules from a stream. It keeps at most one DATAGRAM capsule; others are skipped as they come.
#[derive(Debug, Default)]
pub struct CapsuleReader {
    /// Type and length of the next capsule, or as much of a DATAGRAM capsule's value as has come.
    kept: Vec<u8>,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Header,
    Datagram {
        bytes: usize,
    },
    Skip {
        left: u64,
    },
}

impl CapsuleReader {
    /// Takes in bytes of the stream; `datagram` is given the value of each DATAGRAM capsule.
    ///
    /// # Errors
    /// A DATAGRAM capsule that is too long.
    pub fn read(&mut self, mut bytes: &[u8], mut datagram: impl FnMut(&[u8])) -> Result<(), TooLong> {
        loop {
            match self.state {
                State::Header => {
                    let Some((&first, rest)) = bytes.split_first() else { return Ok(()) };
                    self.kept.push(first);
                    bytes = rest;
                    let mut header = Octets::with_slice(&self.kept);
                    let (Ok(kind), Ok(len)) = (header.get_varint(), header.get_varint()) else { continue };
                    self.kept.clear();
                    self.state = match (kind, usize::try_from(len)) {
                        (DATAGRAM, Ok(bytes)) if bytes <= MOST_PAYLOAD_BYTES + VARINT_BYTES => {
                            State::Datagram { bytes }
                        }
                        (DATAGRAM, _) => return Err(TooLong),
                        _ => State::Skip { left: len },
                    };
                }
                State::Datagram { bytes: len } => {
                    let (now, rest) = bytes.split_at(bytes.len().min(len - self.kept.len()));
                    bytes = rest;
                    self.kept.extend_from_slice(now);
                    if self.kept.len() < len {
                        return Ok(());
                    }
                    datagram(&std::mem::take(&mut self.kept));
                    self.state = State::Header;
                }
                State::Skip { left } => {
                    let skipped = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = &bytes[skipped..];
                    let left = left - skipped as u64;
                    self.state = if left == 0 { State::Header } else { State::Skip { left } };
                    if left > 0 {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// The UDP payload of an HTTP datagram; `None`: its context is not that of UDP payloads (RFC 9298 4).
pub fn udp_payload(datagram: &[u8]) -> Option<&[u8]> {
    let mut bytes = Octets::with_slice(datagram);
    let context = bytes.get_varint().ok()?;
    (context == 0 && datagram.len() - bytes.off() <= MOST_PAYLOAD_BYTES).then(|| &datagram[bytes.off()..])
}

/// The QUIC datagram that carries a UDP payload for the request on `stream` (RFC 9297 2.1).
pub fn quic_datagram(stream: u64, payload: &[u8]) -> Vec<u8> {
    framed(&[stream / 4, 0], payload)
}

/// The DATAGRAM capsule that carries a UDP payload.
pub fn datagram_capsule(payload: &[u8]) -> Vec<u8> {
    framed(&[DATAGRAM, payload.len() as u64 + 1, 0], payload)
}

fn framed(numbers: &[u64], payload: &[u8]) -> Vec<u8> {
    let mut whole = vec![0; numbers.len() * VARINT_BYTES + payload.len()];
    let mut bytes = OctetsMut::with_slice(&mut whole);
    for number in numbers {
        bytes.put_varint(*number).expect("there is room for each number");
    }
    let len = bytes.off() + payload.len();
    bytes.put_bytes(payload).expect("there is room for the payload");
    whole.truncate(len);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_capsule_that_is_too_long() {
        let mut header = [0; 9];
        let mut bytes = OctetsMut::with_slice(&mut header);
        bytes.put_varint(DATAGRAM).unwrap();
        bytes.put_varint(1 << 40).unwrap();
        assert_eq!(CapsuleReader::default().read(&header, |_| panic!("taken")), Err(TooLong));
    }

    #[test]
    fn contexts() {
        assert_eq!(udp_payload(&quic_datagram(16, b"x")[1..]), Some(&b"x"[..]));
        assert_eq!((udp_payload(&[2, 1]), udp_payload(&[]), udp_payload(&[0])), (None, None, Some(&[][..])));
        assert_eq!(udp_payload(&vec![0; MOST_PAYLOAD_BYTES + 2]), None);
    }

    proptest! {
        // Payloads come out as they went in, however the stream is cut and whatever is between them.
        #[test]
        fn payloads_survive(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..6),
            skipped in prop::collection::vec(any::<u8>(), 0..70),
            cut in 1usize..40,
        ) {
            let mut stream = Vec::new();
            for payload in &payloads {
                stream.extend(framed(&[0x2f, skipped.len() as u64], &skipped));
                stream.extend(datagram_capsule(payload));
            }
            let (mut reader, mut came) = (CapsuleReader::default(), Vec::new());
            for part in stream.chunks(cut) {
                reader.read(part, |datagram| came.push(udp_payload(datagram).unwrap().to_vec())).unwrap();
            }
            prop_assert_eq!(came, payloads);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = CapsuleReader::default();
            let _ = reader.read(&bytes, |datagram| { let _ = udp_payload(datagram); });
            prop_assert!(reader.kept.len() <= bytes.len());
        }
    }
}
