// SPDX-License-Identifier: Apache-2.0
//! First packets: whose are taken at once, and who has to show first that its address is its own (Retry, RFC 9000 8.1.2).
//!
//! A token has what the server would have to remember meanwhile. So nothing is kept for an address that may be forged, but for
//! a bounded number of handshakes.

use super::CID_BYTES;
use std::net::SocketAddr;
use std::time::Instant;
use weir_core::server::admission::{Admission, LEAST_FIRST_DCID_BYTES, Limits, RetryPolicy, Source, Verdict};
use weir_io::fault::Fault;
use weir_io::random;
use weir_io::retry_token::Tokens;

/// Connections at once, and of these of one IPv4 address or the /64 of an IPv6 one. A Retry is asked for when there are
/// so many handshakes of addresses not validated that are unfinished, or were begun within a second. This number is
/// below the limit of one address: a forger of somebody's address keeps nobody out.
pub const LIMITS: Limits =
    Limits { retry: RetryPolicy::Auto, retry_above: 200, connections: 4096, connections_per_source: 512 };

/// Room for a Retry packet: its header with two connection IDs, a token, a tag.
const RETRY_BYTES: usize = 256;

/// Decision for a client's first packet.
#[derive(Debug)]
pub enum Entry {
    /// It begins a connection.
    Begin(Entrant),
    /// It is answered with this packet, and forgotten.
    Answer(Vec<u8>),
    /// It is dropped.
    Nothing,
}

/// Beginning of a connection.
#[derive(Debug)]
pub struct Entrant {
    /// Where it is, as far as connections are counted.
    pub source: Source,
    /// The connection ID that its first packet was for, if it was asked to come again and has. So its address is its own.
    pub original: Option<quiche::ConnectionId<'static>>,
}

/// Judges first packets.
pub struct AdmissionControl {
    /// Counts of connections and handshakes.
    pub counts: Admission,
    tokens: Tokens,
}

impl AdmissionControl {
    /// With these limits.
    ///
    /// # Errors
    /// There are no random numbers.
    pub fn new(limits: Limits, now: Instant) -> Result<AdmissionControl, Fault> {
        Ok(AdmissionControl { counts: Admission::new(limits, now), tokens: Tokens::new(now)? })
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
        let original = original.map(|id| quiche::ConnectionId::from_vec(id.to_vec()));
        let source = Source::from(from.ip());
        let verdict = self.counts.judge(source, original.is_some(), now);
        match verdict {
            Verdict::Accept => {
                self.counts.began(verdict, original.is_some());
                Ok(Entry::Begin(Entrant { source, original }))
            }
            Verdict::Retry => self.retry(header, from, now),
            // Subscribers try the next server after 2 s, or this one again.
            Verdict::Refuse | Verdict::Drop => Ok(Entry::Nothing),
        }
    }

    fn retry(&self, header: &quiche::Header<'_>, from: SocketAddr, now: Instant) -> Result<Entry, Fault> {
        let id = random::bytes::<CID_BYTES>()?;
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
