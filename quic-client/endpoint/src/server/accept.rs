// SPDX-License-Identifier: Apache-2.0
//! Packets that belong to no connection: which are answered, with what, and which begin a connection. Nothing is kept for
//! a client here but counts ([`Admission`]).

use super::options::Options;
use super::stateless_reset::ResetTokens;
use crate::shared::fault::Fault;
use crate::shared::random::new_cid;
use std::time::Instant;
use weir_core::server::admission::{
    Admission, Invariants, LEAST_FIRST_DCID_BYTES, LEAST_INITIAL_BYTES, Source, Verdict,
};
use weir_core::transport::CID_BYTES;
use weir_io::retry_token::Tokens;
use weir_io::udp::Meta;

/// RFC 9000 20.1: CONNECTION_REFUSED.
const REFUSED: u64 = 0x2;

/// A connection that a first packet asks for. The packet is still to be handed to it.
pub struct Candidate {
    /// The connection.
    pub quic: quiche::Connection,
    /// The connection IDs that lead to it.
    pub cids: Vec<Vec<u8>>,
    /// Where the client is.
    pub source: Source,
    /// Whether the client's address is validated.
    pub validated: bool,
}

/// Answer to a packet that belongs to no connection.
pub enum Answer {
    /// It is dropped.
    Nothing,
    /// It is answered with this packet, and forgotten.
    Packet(Vec<u8>),
    /// It asks for a connection.
    Candidate(Box<Candidate>),
}

impl From<Option<Vec<u8>>> for Answer {
    fn from(packet: Option<Vec<u8>>) -> Self {
        packet.map_or(Answer::Nothing, Answer::Packet)
    }
}

/// Judges first packets.
pub struct Acceptor {
    config: quiche::Config,
    /// Counts of the connections and their handshakes.
    pub admission: Admission,
    tokens: Tokens,
    reset: ResetTokens,
}

impl Acceptor {
    /// With the limits of the command line.
    ///
    /// # Errors
    /// No random numbers.
    pub fn new(options: &Options, config: quiche::Config, reset: ResetTokens, now: Instant) -> Result<Self, Fault> {
        Ok(Acceptor { config, admission: Admission::new(options.limits(), now), tokens: Tokens::new(now)?, reset })
    }

    /// The stateless reset for a packet of this size with a short header, which belongs to no connection.
    ///
    /// # Errors
    /// No random numbers.
    pub fn reset(&mut self, header: &quiche::Header<'_>, packet_bytes: usize, now: Instant) -> Result<Answer, Fault> {
        if header.ty != quiche::Type::Short || header.dcid.len() != CID_BYTES || !self.admission.may_reset(now) {
            return Ok(Answer::Nothing);
        }
        Ok(self.reset.reset(&header.dcid, packet_bytes)?.into())
    }

    /// Judges an Initial packet of at least [`LEAST_INITIAL_BYTES`] for no connection.
    ///
    /// # Errors
    /// No random numbers.
    pub fn judge(
        &mut self,
        header: &quiche::Header<'_>,
        bytes: &mut [u8],
        meta: Meta,
        now: Instant,
    ) -> Result<Answer, Fault> {
        if header.dcid.len() < LEAST_FIRST_DCID_BYTES {
            return Ok(Answer::Nothing);
        }
        let original = match &header.token {
            Some(token) => self.tokens.check(token, &header.dcid, meta.from, now)?,
            None => None,
        };
        let original = original.map(quiche::ConnectionId::from_ref);
        let (source, validated) = (Source::from(meta.from.ip()), original.is_some());
        let verdict = self.admission.judge(source, validated, now);
        match verdict {
            Verdict::Drop => return Ok(Answer::Nothing),
            Verdict::Retry => return Ok(self.retry(header, meta, now)?.into()),
            Verdict::Accept | Verdict::Refuse => self.admission.began(verdict, validated),
        }
        let scid = new_cid()?;
        self.config.set_stateless_reset_token(Some(self.reset.token(&scid)?));
        let retried = original.as_ref().map(|original| quiche::RetryConnectionIds {
            original_destination_cid: original,
            retry_source_cid: &header.dcid,
        });
        let accepted = match retried {
            Some(ids) => quiche::accept_with_retry(&scid, ids, meta.to, meta.from, &mut self.config),
            None => quiche::accept(&scid, None, meta.to, meta.from, &mut self.config),
        };
        let Ok(quic) = accepted else { return Ok(Answer::Nothing) };
        if verdict == Verdict::Refuse {
            return Ok(refusal(quic, bytes, quiche::RecvInfo { from: meta.from, to: meta.to }).into());
        }
        let cids = vec![header.dcid.to_vec(), scid.to_vec()];
        Ok(Answer::Candidate(Box::new(Candidate { quic, cids, source, validated })))
    }

    /// A Retry packet, which asks the client to show that it receives at its address.
    fn retry(&self, header: &quiche::Header<'_>, meta: Meta, now: Instant) -> Result<Option<Vec<u8>>, Fault> {
        let scid = new_cid()?;
        let token = self.tokens.make(&header.dcid, &scid, meta.from, now)?;
        let mut reply = vec![0; 256];
        let made = quiche::retry(&header.scid, &header.dcid, &scid, &token, header.version, &mut reply);
        Ok(made.ok().map(|len| {
            reply.truncate(len);
            reply
        }))
    }
}

/// The versions supported here, for a client that speaks another one.
pub fn negotiation(asked: &Invariants<'_>) -> Option<Vec<u8>> {
    // Room for a header with two connection IDs of the largest length there can be, and our versions.
    let mut reply = vec![0; 1024];
    let (scid, dcid) = (quiche::ConnectionId::from_ref(asked.scid), quiche::ConnectionId::from_ref(asked.dcid));
    let len = quiche::negotiate_version(&scid, &dcid, &mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}

/// A packet that refuses a connection because there are too many.
fn refusal(mut quic: quiche::Connection, bytes: &mut [u8], info: quiche::RecvInfo) -> Option<Vec<u8>> {
    quic.recv(bytes, info).ok()?;
    quic.close(false, REFUSED, b"too many connections").ok()?;
    let mut reply = vec![0; LEAST_INITIAL_BYTES];
    let (len, _) = quic.send(&mut reply).ok()?;
    reply.truncate(len);
    Some(reply)
}
