// SPDX-License-Identifier: Apache-2.0
//! The payload of an Interest that opens a session: the session's number, the client's name, a first datagram.

use crate::names::Name;
use crate::packet::MAX_PAYLOAD_BYTES;

/// Interests that open one session, each with a datagram: a first flight of QUIC has two where its keys are large.
pub(super) const OPENINGS: u32 = 4;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opening<'a> {
    pub(super) session: u64,
    pub(super) client: Name,
    /// Empty if there is none.
    pub(super) datagram: &'a [u8],
}

impl<'a> Opening<'a> {
    /// `None` where the bytes are no opening.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Opening<'a>> {
        let (session, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first()?;
        let (client, datagram) = rest.split_at_checked(usize::from(*length))?;
        let client = Name::new(std::str::from_utf8(client).ok()?).ok()?;
        Some(Opening { session: u64::from_be_bytes(*session), client, datagram })
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let name = self.client.text().as_bytes();
        // A name has at most 255 bytes.
        [&self.session.to_be_bytes()[..], &[name.len() as u8], name, self.datagram].concat()
    }

    /// Room for a datagram beside a client's name, in bytes.
    pub(super) fn room_bytes(client: &Name) -> usize {
        MAX_PAYLOAD_BYTES - 9 - client.text().len()
    }
}

/// The last component of a session's names.
pub(super) fn session_component(session: u64) -> String {
    format!("{session:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            session in any::<u64>(), name in "(/[a-z]{1,40}){1,6}", datagram in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let opening = Opening { session, client: Name::new(&name).unwrap(), datagram: &datagram };
            let bytes = opening.bytes();
            prop_assert!(bytes.len() - datagram.len() + Opening::room_bytes(&opening.client) == MAX_PAYLOAD_BYTES);
            prop_assert_eq!(Opening::read(&bytes), Some(opening));
        }

        #[test]
        fn any_bytes_are_an_opening_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(opening) = Opening::read(&bytes) {
                prop_assert_eq!(opening.bytes(), bytes);
            }
        }
    }
}
