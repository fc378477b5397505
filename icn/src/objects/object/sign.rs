// SPDX-License-Identifier: Apache-2.0
//! The publisher's signature: Ed25519 (RFC 8032).

use boring::error::ErrorStack;
use boring::pkey::{Id, PKey, Private, Public};
use boring::sign::{Signer, Verifier};

/// Bytes of a public key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;
/// A public key's bytes.
pub type PublicKey = [u8; KEY_BYTES];
/// A signature's bytes.
pub type Signature = [u8; SIGNATURE_BYTES];

/// Purpose of a signature. It is signed before the text, so that none passes for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The text of a manifest.
    Manifest,
    /// A block of a live stream.
    LiveBlock,
}

impl Purpose {
    fn text(self) -> &'static [u8] {
        match self {
            Purpose::Manifest => b"weir icn manifest\0",
            Purpose::LiveBlock => b"weir icn live block\0",
        }
    }

    fn message(self, text: &[u8]) -> Vec<u8> {
        [self.text(), text].concat()
    }
}

/// A publisher's key pair.
pub struct SigningKey {
    key: PKey<Private>,
    public: PublicKey,
}

impl SigningKey {
    /// Draws a new one.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn generate() -> Result<SigningKey, ErrorStack> {
        SigningKey::from_key(PKey::generate(Id::ED25519)?).map(|key| key.expect("a key of this kind"))
    }

    /// From an unencrypted private key in PEM form (PKCS#8); `None` if it is no Ed25519 key.
    pub fn from_pem(pem: &[u8]) -> Option<SigningKey> {
        SigningKey::from_key(PKey::private_key_from_pem(pem).ok()?).ok()?
    }

    fn from_key(key: PKey<Private>) -> Result<Option<SigningKey>, ErrorStack> {
        if key.id() != Id::ED25519 {
            return Ok(None);
        }
        let mut public = [0; KEY_BYTES];
        key.raw_public_key(&mut public)?;
        Ok(Some(SigningKey { key, public }))
    }

    /// In PEM form (PKCS#8).
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn to_pem(&self) -> Result<Vec<u8>, ErrorStack> {
        self.key.private_key_to_pem_pkcs8()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs `text`.
    ///
    /// # Errors
    /// The TLS library fails.
    pub fn sign(&self, purpose: Purpose, text: &[u8]) -> Result<Signature, ErrorStack> {
        let mut signature = [0; SIGNATURE_BYTES];
        Signer::new_without_digest(&self.key)?.sign_oneshot(&mut signature, &purpose.message(text))?;
        Ok(signature)
    }
}

/// Whether the holder of `key` signed `text`.
pub fn is_signed(key: &PublicKey, purpose: Purpose, text: &[u8], signature: &[u8]) -> bool {
    // RFC 8410 4: the fixed part of an Ed25519 key in DER.
    const DER: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let verify = || {
        let key: PKey<Public> = PKey::public_key_from_der(&[&DER[..], key].concat())?;
        Verifier::new_without_digest(&key)?.verify_oneshot(signature, &purpose.message(text))
    };
    verify().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_text_for_the_same_purpose_is_signed() {
        let key = SigningKey::generate().unwrap();
        let signature = key.sign(Purpose::Manifest, b"text").unwrap();
        let signed = |key: &SigningKey, purpose, text: &[u8], s: &[u8]| is_signed(&key.public(), purpose, text, s);
        assert!(signed(&key, Purpose::Manifest, b"text", &signature));
        assert!(!signed(&key, Purpose::LiveBlock, b"text", &signature));
        assert!(!signed(&key, Purpose::Manifest, b"test", &signature));
        assert!(!signed(&key, Purpose::Manifest, b"text", &signature[..63]));
        assert!(!signed(&SigningKey::generate().unwrap(), Purpose::Manifest, b"text", &signature));
    }

    #[test]
    fn a_key_is_kept_as_pem() {
        let key = SigningKey::generate().unwrap();
        assert_eq!(SigningKey::from_pem(&key.to_pem().unwrap()).unwrap().public(), key.public());
        assert!(SigningKey::from_pem(b"nonsense").is_none());
    }
}
