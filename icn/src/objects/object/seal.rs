// SPDX-License-Identifier: Apache-2.0
//! Sealing: what a segment has becomes the payload of its packet, and back.

use crate::packet::Header;
use boring::aead::{AeadCtx, Algorithm};
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::hkdf::HkdfSuite;
use std::fmt;

/// A group's secret of one epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Overhead of sealing (RFC 5116 5.1).
pub const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 16;
const IV_BYTES: usize = 12;

/// HKDF-Expand-Label (RFC 8446 7.1) with SHA-256.
fn expand_label(secret: &Secret, label: &str, context: &[u8], out: &mut [u8]) -> Result<(), ErrorStack> {
    let label = format!("tls13 {label}");
    let mut info = (out.len() as u16).to_be_bytes().to_vec();
    for part in [label.as_bytes(), context] {
        // Labels are ours, a context is a name: both have at most 255 bytes.
        info.push(part.len() as u8);
        info.extend(part);
    }
    HkdfSuite::new(MessageDigest::sha256()).expand(&secret.0, &info, out)
}

/// The header's part that a seal covers: prefix, name, segment, epoch. Flags, hop limit and lifetime change on the way.
fn associated(header: &Header) -> [u8; 22] {
    let mut data = [0; 22];
    data[..8].copy_from_slice(&header.prefix.to_be_bytes());
    data[8..16].copy_from_slice(&header.name.to_be_bytes());
    data[16..20].copy_from_slice(&header.segment.to_be_bytes());
    data[20..].copy_from_slice(&header.epoch.to_be_bytes());
    data
}

/// The key for the packets of one name in one epoch.
pub struct Sealer {
    aead: AeadCtx,
    iv: [u8; IV_BYTES],
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl Sealer {
    /// For the packets whose name has this text.
    ///
    /// # Errors
    /// The TLS library has no memory.
    pub fn new(secret: &Secret, packets_name: &str) -> Result<Sealer, ErrorStack> {
        let (mut key, mut iv) = ([0; KEY_BYTES], [0; IV_BYTES]);
        expand_label(secret, "weir icn key", packets_name.as_bytes(), &mut key)?;
        expand_label(secret, "weir icn iv", packets_name.as_bytes(), &mut iv)?;
        Ok(Sealer { aead: AeadCtx::new_default_tag(&Algorithm::aes_128_gcm(), &key)?, iv })
    }

    fn nonce(&self, header: &Header) -> [u8; IV_BYTES] {
        let mut nonce = self.iv;
        for (byte, segment) in nonce[IV_BYTES - 4..].iter_mut().zip(header.segment.to_be_bytes()) {
            *byte ^= segment;
        }
        nonce
    }

    /// The payload of the packet with this header.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn seal(&mut self, header: &Header, content: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let (nonce, data) = (self.nonce(header), associated(header));
        let mut payload = Vec::with_capacity(content.len() + TAG_BYTES);
        payload.extend(content);
        let mut tag = [0; TAG_BYTES];
        self.aead.seal_in_place_mut(&nonce, &mut payload, &mut tag, &data)?;
        payload.extend(tag);
        Ok(payload)
    }

    /// Content of the packet with this header; `None` if nobody with the key sealed it.
    pub fn open(&mut self, header: &Header, payload: &[u8]) -> Option<Vec<u8>> {
        let (content, tag) = payload.split_at_checked(payload.len().checked_sub(TAG_BYTES)?)?;
        let (nonce, data) = (self.nonce(header), associated(header));
        let mut content = content.to_vec();
        self.aead.open_in_place_mut(&nonce, &mut content, tag, &data).ok()?;
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Name;
    use proptest::prelude::*;

    fn header(segment: u32, epoch: u16) -> Header {
        Header { prefix: 7, name: 9, epoch, ..Header::data(&Name::new("/a").unwrap(), segment, 0) }
    }

    #[test]
    fn labels_expand_as_in_rfc_8448() {
        // RFC 8448 3: the server's handshake traffic secret gives this key and this IV.
        let secret = "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38";
        let bytes: Vec<u8> = (0..32).map(|i| u8::from_str_radix(&secret[2 * i..2 * i + 2], 16).unwrap()).collect();
        let secret = Secret(bytes.try_into().unwrap());
        let mut key = [0; 16];
        expand_label(&secret, "key", b"", &mut key).unwrap();
        assert_eq!(u128::from_be_bytes(key), 0x3fce_5160_09c2_1727_d0f2_e4e8_6ee4_03bc);
        let mut iv = [0; 12];
        expand_label(&secret, "iv", b"", &mut iv).unwrap();
        assert_eq!(iv, [0x5d, 0x31, 0x3e, 0xb2, 0x67, 0x12, 0x76, 0xee, 0x13, 0x00, 0x0b, 0x30]);
    }

    proptest! {
        #[test]
        fn only_the_same_packet_opens(content: Vec<u8>, segment: u32, epoch: u16, bit: prop::sample::Index) {
            let secret = Secret([5; 32]);
            let mut sealer = Sealer::new(&secret, "/a/~1").unwrap();
            let h = header(segment, epoch);
            let payload = sealer.seal(&h, &content).unwrap();
            prop_assert_eq!(sealer.open(&h, &payload), Some(content));
            let mut forged = payload.clone();
            let at = bit.index(forged.len() * 8);
            forged[at / 8] ^= 1 << (at % 8);
            prop_assert_eq!(sealer.open(&h, &forged), None);
            prop_assert_eq!(sealer.open(&h, &payload[..payload.len() - 1]), None);
            prop_assert_eq!(sealer.open(&header(segment ^ 1, epoch), &payload), None);
            prop_assert_eq!(sealer.open(&header(segment, epoch ^ 1), &payload), None);
            prop_assert_eq!(sealer.open(&Header { name: 1, ..h }, &payload), None);
            prop_assert_eq!(sealer.open(&Header { prefix: 1, ..h }, &payload), None);
            let marked = Header { flags: 0xff, hop_limit: 1, ..h };
            prop_assert!(sealer.open(&marked, &payload).is_some());
            prop_assert_eq!(Sealer::new(&secret, "/a/~2").unwrap().open(&h, &payload), None);
            prop_assert_eq!(Sealer::new(&Secret([6; 32]), "/a/~1").unwrap().open(&h, &payload), None);
        }
    }
}
