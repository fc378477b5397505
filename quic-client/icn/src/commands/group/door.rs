// SPDX-License-Identifier: Apache-2.0
//! First packets: whose are taken at once, and who has to show first that its address is its own (Retry, RFC 9000 8.1.2).
//!
//! A token has what the server would have to remember meanwhile. So nothing is kept for an address that may be forged, but for
//! a bounded number of handshakes.

use super::{CID_BYTES, random};
use boring::hash::hmac_sha256;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use weir_core::server::admission::{Admission, LEAST_FIRST_DCID_BYTES, Limits, RetryPolicy, Source, Verdict};
use weir_io::fault::Fault;

/// Connections at once, and of these of one IPv4 address or the /64 of an IPv6 one. A Retry is asked for when there are so many
/// handshakes of addresses not validated that are unfinished, or were begun within a second. That is fewer than one address
/// may have: who forges the address of somebody keeps nobody out.
pub const LIMITS: Limits =
    Limits { retry: RetryPolicy::Auto, retry_above: 200, connections: 4096, connections_per_source: 512 };

/// How long a token is good for. Clients come back at once, and ask a few times if that is lost.
const GOOD_FOR: Duration = Duration::from_secs(15);
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
/// Room for a Retry packet: its header with two connection IDs, a token, a tag.
const RETRY_BYTES: usize = 256;

/// What becomes of a first packet.
#[derive(Debug)]
pub enum Entry {
    /// It begins a connection.
    Begin(Entrant),
    /// It is answered with this packet, and forgotten.
    Answer(Vec<u8>),
    /// It is dropped.
    Nothing,
}

/// Who begins a connection.
#[derive(Debug)]
pub struct Entrant {
    /// Where it is, as far as connections are counted.
    pub source: Source,
    /// The connection ID that its first packet was for, if it was asked to come again and has. So its address is its own.
    pub original: Option<quiche::ConnectionId<'static>>,
}

/// Judges first packets.
pub struct Door {
    /// Counts of connections and handshakes.
    pub admission: Admission,
    tokens: Tokens,
}

impl Door {
    /// With these limits.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn new(limits: Limits, now: Instant) -> Result<Door, Fault> {
        Ok(Door { admission: Admission::new(limits, now), tokens: Tokens::new(now)? })
    }

    /// Judges an Initial packet that belongs to no connection.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn judge(&mut self, header: &quiche::Header<'_>, from: SocketAddr, now: Instant) -> Result<Entry, Fault> {
        if header.dcid.len() < LEAST_FIRST_DCID_BYTES {
            return Ok(Entry::Nothing);
        }
        let original = match &header.token {
            Some(token) => self.tokens.check(token, &header.dcid, from, now)?,
            None => None,
        };
        let source = Source::from(from.ip());
        let verdict = self.admission.judge(source, original.is_some(), now);
        match verdict {
            Verdict::Accept => {
                self.admission.began(verdict, original.is_some());
                Ok(Entry::Begin(Entrant { source, original }))
            }
            Verdict::Retry => self.retry(header, from, now),
            // Subscribers try the next server after 2 s, or this one again.
            Verdict::Refuse | Verdict::Drop => Ok(Entry::Nothing),
        }
    }

    fn retry(&self, header: &quiche::Header<'_>, from: SocketAddr, now: Instant) -> Result<Entry, Fault> {
        let id = random::<CID_BYTES>()?;
        let token = self.tokens.make(&header.dcid, &id, from, now)?;
        let id = quiche::ConnectionId::from_ref(&id);
        let mut packet = vec![0; RETRY_BYTES];
        Ok(match quiche::retry(&header.scid, &header.dcid, &id, &token, header.version, &mut packet) {
            Ok(len) => {
                packet.truncate(len);
                Entry::Answer(packet)
            }
            Err(_) => Entry::Nothing,
        })
    }
}

/// Makes tokens, and knows its own: `TIME ORIGINAL TAG`. The tag is over these, the client's address and port, and the
/// connection ID that it is to write to.
struct Tokens {
    key: [u8; 32],
    start: Instant,
}

impl Tokens {
    /// With a key that is drawn now: what another process made is worth nothing here.
    fn new(start: Instant) -> Result<Tokens, Fault> {
        Ok(Tokens { key: random()?, start })
    }

    /// For the client at `from`, whose first packet was for `original`, and which is to write to `next`.
    fn make(&self, original: &[u8], next: &[u8], from: SocketAddr, now: Instant) -> Result<Vec<u8>, Fault> {
        let age = now.saturating_duration_since(self.start).as_micros();
        // Enough for half a million years.
        let mut token = (age as u64).to_be_bytes().to_vec();
        token.extend_from_slice(original);
        let tag = self.tag(&token, next, from)?;
        token.extend_from_slice(&tag);
        Ok(token)
    }

    /// What the client's first packet was for, if the token was made here, for one at `from` that was to write to `next`, and of
    /// late.
    fn check(
        &self,
        token: &[u8],
        next: &[u8],
        from: SocketAddr,
        now: Instant,
    ) -> Result<Option<quiche::ConnectionId<'static>>, Fault> {
        let Some((said, tag)) = token.split_last_chunk::<TAG_BYTES>() else { return Ok(None) };
        let Some((time, original)) = said.split_first_chunk::<TIME_BYTES>() else { return Ok(None) };
        if original.len() > quiche::MAX_CONN_ID_LEN || !boring::memcmp::eq(&self.tag(said, next, from)?, tag) {
            return Ok(None);
        }
        let made = Duration::from_micros(u64::from_be_bytes(*time));
        // One of the future is none of ours.
        let age = now.saturating_duration_since(self.start).checked_sub(made);
        let good = age.is_some_and(|age| age <= GOOD_FOR);
        Ok(good.then(|| quiche::ConnectionId::from_vec(original.to_vec())))
    }

    fn tag(&self, said: &[u8], next: &[u8], from: SocketAddr) -> Result<[u8; TAG_BYTES], Fault> {
        let address = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        // Address and port have one length; that of what is said tells where the rest begins.
        let (port, said_bytes) = (from.port().to_be_bytes(), (said.len() as u64).to_be_bytes());
        let all = [&address.octets()[..], &port, &said_bytes, said, next].concat();
        let mac = hmac_sha256(&self.key, &all).map_err(Fault::internal("TLS library"))?;
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac[..TAG_BYTES]);
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_one_client_and_not_for_long() {
        let start = Instant::now();
        let (tokens, now) = (Tokens::new(start).unwrap(), start + Duration::from_secs(3));
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let token = tokens.make(&[1; 8], &[2; 16], at("192.0.2.1:5000"), now).unwrap();
        let check = |token: &[u8], next: &[u8], from, now| tokens.check(token, next, at(from), now).unwrap();
        for (from, now) in
            [("192.0.2.1:5000", now), ("[::ffff:192.0.2.1]:5000", now), ("192.0.2.1:5000", now + GOOD_FOR)]
        {
            assert_eq!(check(&token, &[2; 16], from, now).as_deref(), Some(&[1; 8][..]), "{from}");
        }
        let late = now + GOOD_FOR + Duration::from_micros(1);
        for (next, from, now) in [
            (&[3; 16][..], "192.0.2.1:5000", now),
            (&[2; 15], "192.0.2.1:5000", now),
            (&[2; 16], "192.0.2.1:5001", now),
            (&[2; 16], "192.0.2.2:5000", now),
            (&[2; 16], "192.0.2.1:5000", late),
            (&[2; 16], "192.0.2.1:5000", start),
        ] {
            assert_eq!(check(&token, next, from, now), None, "{next:?} {from}");
        }
        for i in 0..token.len() {
            let mut other = token.clone();
            other[i] ^= 1;
            assert_eq!(check(&other, &[2; 16], "192.0.2.1:5000", now), None, "byte {i}");
            assert_eq!(check(&token[..i], &[2; 16], "192.0.2.1:5000", now), None, "{i} bytes");
        }
        // What was moved from the ID to write to into the one that the first packet was for.
        let moved = [&token[..16], &[2], &token[16..]].concat();
        assert_eq!(check(&moved, &[2; 15], "192.0.2.1:5000", now), None);
        let another = Tokens::new(start).unwrap();
        assert_eq!(another.check(&token, &[2; 16], at("192.0.2.1:5000"), now).unwrap(), None);
    }
}
