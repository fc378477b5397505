// SPDX-License-Identifier: Apache-2.0
//! Tokens of Retry packets (RFC 9000 8.1.2): a client's state goes to the client, which brings it back from the address
//! that it says it has. Nothing is kept here but a key.

use crate::fault::Fault;
use crate::random;
use boring::hash::hmac_sha256;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Lifetime of a token: a client answers a Retry at once, and may lose that answer a few times.
const LIFETIME: Duration = Duration::from_secs(15);
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
/// The longest connection ID (RFC 9000 17.2).
const MOST_ID_BYTES: usize = 20;

/// Makes tokens and knows its own.
pub struct Tokens {
    key: [u8; 32],
    start: Instant,
}

impl Tokens {
    /// With a fresh key; tokens of another process are worth nothing here.
    ///
    /// # Errors
    /// No random numbers.
    pub fn new(start: Instant) -> Result<Tokens, Fault> {
        Ok(Tokens { key: random::bytes()?, start })
    }

    /// A token for the client at `from`, whose first packet was for `original`, and which will now write to `retry`.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn make(&self, original: &[u8], retry: &[u8], from: SocketAddr, now: Instant) -> Result<Vec<u8>, Fault> {
        let time = u64::try_from(now.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX);
        let mut token = time.to_be_bytes().to_vec();
        token.extend_from_slice(original);
        token.extend_from_slice(&self.tag(&token, retry, from)?);
        Ok(token)
    }

    /// The connection ID that the client's first packet was for, if `token` was made here for a client at `from` that
    /// was to write to `retry`, and not too long ago.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn check<'t>(
        &self,
        token: &'t [u8],
        retry: &[u8],
        from: SocketAddr,
        now: Instant,
    ) -> Result<Option<&'t [u8]>, Fault> {
        let Some((said, tag)) = token.split_last_chunk::<TAG_BYTES>() else { return Ok(None) };
        let Some((time, original)) = said.split_first_chunk::<TIME_BYTES>() else { return Ok(None) };
        if original.len() > MOST_ID_BYTES || !boring::memcmp::eq(&self.tag(said, retry, from)?, tag) {
            return Ok(None);
        }
        let age =
            now.saturating_duration_since(self.start).checked_sub(Duration::from_micros(u64::from_be_bytes(*time)));
        let fresh = age.is_some_and(|age| age <= LIFETIME);
        Ok(fresh.then_some(original))
    }

    fn tag(&self, said: &[u8], retry: &[u8], from: SocketAddr) -> Result<[u8; TAG_BYTES], Fault> {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        // Each part but the last has a length of its own or is given by it, so that no two inputs are equal.
        let (said_bytes, port) = ((said.len() as u64).to_be_bytes(), from.port().to_be_bytes());
        let input = [&ip.octets()[..], &port, &said_bytes, said, retry].concat();
        let whole = hmac_sha256(&self.key, &input).map_err(Fault::internal("TLS library"))?;
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&whole[..TAG_BYTES]);
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_whom_it_was_made_and_not_for_long() {
        let start = Instant::now();
        let tokens = Tokens::new(start).unwrap();
        let (from, now) = ("192.0.2.1:5000".parse().unwrap(), start + Duration::from_secs(3));
        let token = tokens.make(&[1; 8], &[2; 16], from, now).unwrap();
        let check = |t: &[u8], retry: &[u8], from: &str, at| {
            tokens.check(t, retry, from.parse().unwrap(), at).unwrap().map(<[u8]>::to_vec)
        };
        let first = Some(vec![1; 8]);
        assert_eq!(check(&token, &[2; 16], "192.0.2.1:5000", now), first);
        assert_eq!(check(&token, &[2; 16], "[::ffff:192.0.2.1]:5000", now), first);
        for (retry, from, at) in [
            (&[3; 16][..], "192.0.2.1:5000", now),
            (&[2; 15], "192.0.2.1:5000", now),
            (&[2; 16], "192.0.2.1:5001", now),
            (&[2; 16], "192.0.2.2:5000", now),
            (&[2; 16], "192.0.2.1:5000", now + LIFETIME + Duration::from_micros(1)),
            (&[2; 16], "192.0.2.1:5000", start),
        ] {
            assert_eq!(check(&token, retry, from, at), None, "{from} {retry:?}");
        }
        for i in 0..token.len() {
            let mut other = token.clone();
            other[i] ^= 1;
            assert_eq!(check(&other, &[2; 16], "192.0.2.1:5000", now), None, "byte {i}");
            assert_eq!(check(&token[..i], &[2; 16], "192.0.2.1:5000", now), None, "{i} bytes");
        }
        // Byte moved from the ID to write to into the one that the first packet was for.
        let moved = [&token[..16], &[2], &token[16..]].concat();
        assert_eq!(check(&moved, &[2; 15], "192.0.2.1:5000", now), None);
        let another = Tokens::new(start).unwrap();
        assert_eq!(another.check(&token, &[2; 16], from, now).unwrap(), None);
    }
}
