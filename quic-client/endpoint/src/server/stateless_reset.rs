// SPDX-License-Identifier: Apache-2.0
//! Stateless resets (RFC 9000 10.3): a server that was started again ends the connections of its predecessor. The token of
//! a connection ID is derived from the certificate's private key, which is the same after a restart (10.3.2).

use crate::shared::fault::Fault;
use boring::hash::hmac_sha256;
use boring::pkey::{PKey, Private};
use weir_core::transport::CID_BYTES;
use weir_io::random::bytes;

const TOKEN_BYTES: usize = 16;
/// RFC 9000 10.3: 38 bits of a short header that can't be predicted, then the token.
const LEAST_BYTES: usize = 5 + TOKEN_BYTES;
/// The size of a short packet with one of our connection IDs.
const MOST_BYTES: usize = 1 + CID_BYTES + 10 + TOKEN_BYTES;
/// Keeps this use of the private key apart from all others.
const LABEL: &[u8] = b"weir-server stateless reset";

/// Derives the tokens of connection IDs.
#[derive(Clone)]
pub struct ResetTokens {
    key: [u8; 32],
}

impl ResetTokens {
    /// By the private key of the server's certificate.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn new(private: &PKey<Private>) -> Result<ResetTokens, Fault> {
        let der = private.private_key_to_der().map_err(Fault::internal("TLS library"))?;
        Ok(ResetTokens { key: hmac_sha256(&der, LABEL).map_err(Fault::internal("TLS library"))? })
    }

    /// The token of a connection ID.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn token(&self, cid: &[u8]) -> Result<u128, Fault> {
        let tag = hmac_sha256(&self.key, cid).map_err(Fault::internal("TLS library"))?;
        let (token, _) = tag.split_first_chunk::<TOKEN_BYTES>().ok_or_else(|| Fault::internal("TLS library")("tag"))?;
        Ok(u128::from_be_bytes(*token))
    }

    /// The reset for a packet of this size to `cid`. It is smaller than the packet, so that two endpoints never answer
    /// each other without end (RFC 9000 10.3.3); `None` where it would be too small.
    ///
    /// # Errors
    /// No random numbers.
    pub fn reset(&self, cid: &[u8], packet_bytes: usize) -> Result<Option<Vec<u8>>, Fault> {
        let len = packet_bytes.saturating_sub(1).min(MOST_BYTES);
        if len < LEAST_BYTES {
            return Ok(None);
        }
        let mut packet = bytes::<MOST_BYTES>()?[..len - TOKEN_BYTES].to_vec();
        // A short header (RFC 9000 17.3.1).
        packet[0] = packet[0] & 0x3f | 0x40;
        packet.extend_from_slice(&self.token(cid)?.to_be_bytes());
        Ok(Some(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use boring::rsa::Rsa;

    #[test]
    fn a_reset_looks_like_a_short_packet_and_is_smaller_than_its_cause() {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let tokens = ResetTokens::new(&key).unwrap();
        let again = ResetTokens::new(&key).unwrap();
        let cid = [7; CID_BYTES];
        assert_ne!(tokens.token(&cid).unwrap(), tokens.token(&[8; CID_BYTES]).unwrap());
        for size in [0, 1, LEAST_BYTES, LEAST_BYTES + 1, 43, 1200] {
            let reset = tokens.reset(&cid, size).unwrap();
            assert_eq!(reset.is_some(), size > LEAST_BYTES, "{size}");
            let Some(reset) = reset else { continue };
            assert!(reset.len() < size && reset.len() >= LEAST_BYTES && reset[0] & 0xc0 == 0x40);
            assert!(reset.ends_with(&again.token(&cid).unwrap().to_be_bytes()));
        }
    }
}
