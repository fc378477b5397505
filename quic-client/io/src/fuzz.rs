// SPDX-License-Identifier: Apache-2.0
//! Functions for fuzzers: the targets `retry_token` and `control` of `quic-client/fuzz`, and a bounded run in the tests. Each
//! takes any bytes, and panics where the code under test panics or breaks one of its promises.

use crate::retry_token::Tokens;
use crate::udp::control::read_control;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Longest connection ID (RFC 9000 17.2).
const MOST_ID_BYTES: usize = 20;

/// Any bytes as the token of a Retry, as the connection IDs that one is made for, and as a change to it: one that was not made
/// here, or not for these, is refused.
pub fn retry_token(data: &[u8]) {
    static TOKENS: LazyLock<(Instant, Tokens)> = LazyLock::new(|| {
        let start = Instant::now();
        (start, Tokens::new(start).expect("random numbers"))
    });
    let from = SocketAddr::from(([192, 0, 2, 1], 5000));
    let (start, tokens) = &*TOKENS;
    let check = |token: &[u8], retry: &[u8], now| {
        tokens.check(token, retry, from, now).expect("the TLS library").map(<[u8]>::to_vec)
    };
    assert_eq!(check(data, data, *start), None, "a token out of nowhere");
    let [lengths, later_s, bit, at, ids @ ..] = data else { return };
    let (original, rest) = ids.split_at(ids.len().min(usize::from(*lengths) % (MOST_ID_BYTES + 1)));
    let retry = &rest[..rest.len().min(MOST_ID_BYTES)];
    let token = tokens.make(original, retry, from, *start).expect("the TLS library");
    let now = *start + Duration::from_secs(u64::from(*later_s));
    let fresh = (*later_s <= 15).then_some(original.to_vec());
    assert_eq!(check(&token, retry, now), fresh);
    let mut other = token.clone();
    let at = usize::from(*at) % other.len();
    other[at] ^= 1 << (bit % 8);
    assert_eq!(check(&other, retry, now), None, "byte {at} was changed");
    assert_eq!(check(&token[..at], retry, now), None, "cut at {at}");
    assert_eq!(check(&[&token, rest, &[0]].concat(), retry, now), None, "more behind it");
    assert_eq!(check(&token, &[retry, &[0]].concat(), now), None, "another connection ID");
}

/// Any bytes as the control messages beside a datagram.
pub fn control(data: &[u8]) {
    let got = read_control(data);
    assert!(got.segment_bytes != Some(0));
    assert_eq!(read_control(data), got);
    for cut in 0..data.len() {
        read_control(&data[..cut]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    proptest! {
        #[test]
        fn retry_tokens(data in prop::collection::vec(any::<u8>(), 0..100)) {
            super::retry_token(&data);
        }

        #[test]
        fn control_messages(data in prop::collection::vec(any::<u8>(), 0..130), length in 0u8..40, kind in 0u8..60) {
            super::control(&data);
            let mut data = data;
            if let Some(header) = data.first_chunk_mut::<16>() {
                header[..8].copy_from_slice(&u64::from(length).to_ne_bytes());
                header[8..12].copy_from_slice(&libc::IPPROTO_IP.to_ne_bytes());
                header[12..].copy_from_slice(&libc::c_int::from(kind).to_ne_bytes());
            }
            super::control(&data);
        }
    }
}
