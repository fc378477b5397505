// SPDX-License-Identifier: Apache-2.0
//! A block of a live stream: up to 40 hashes of segments, signed. A block of fewer is one that was closed early, so that
//! a slow stream is not held back; a block of none is the end.

use super::layout::{CHILDREN, HASH_BYTES};
use super::sign::{PublicKey, Purpose, SIGNATURE_BYTES, Signature, is_signed};
use super::tree::Hash;

/// Signed text: the packets' name, the block's segment, its hashes.
pub fn signed_text(packets_name: &str, segment: u32, hashes: &[Hash]) -> Vec<u8> {
    [packets_name.as_bytes(), &[0], &segment.to_be_bytes(), hashes.as_flattened()].concat()
}

/// A block's content.
pub fn block(hashes: &[Hash], signature: &Signature) -> Vec<u8> {
    [hashes.as_flattened(), signature].concat()
}

/// The hashes of a block, if the publisher signed it as this segment of this name.
pub fn check_block(publisher: &PublicKey, packets_name: &str, segment: u32, content: &[u8]) -> Option<Vec<Hash>> {
    let (hashes, signature) = content.split_at_checked(content.len().checked_sub(SIGNATURE_BYTES)?)?;
    let (hashes, rest) = hashes.as_chunks::<HASH_BYTES>();
    if !rest.is_empty() || hashes.len() > CHILDREN {
        return None;
    }
    let text = signed_text(packets_name, segment, hashes);
    is_signed(publisher, Purpose::LiveBlock, &text, signature).then(|| hashes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::sign::SigningKey;
    use super::*;

    #[test]
    fn only_the_block_that_was_signed_is_taken() {
        let key = SigningKey::generate().unwrap();
        for n in [0, 1, 39, 40] {
            let hashes = vec![[n as u8; 32]; n];
            let signature = key.sign(Purpose::LiveBlock, &signed_text("/a/~1/~h1", 3, &hashes)).unwrap();
            let content = block(&hashes, &signature);
            let check = |name, segment, content: &[u8]| check_block(&key.public(), name, segment, content);
            assert_eq!(check("/a/~1/~h1", 3, &content), Some(hashes.clone()));
            assert_eq!(check("/a/~1/~h1", 4, &content), None);
            assert_eq!(check("/a/~2/~h1", 3, &content), None);
            assert_eq!(check("/a/~1/~h1", 3, &content[1..]), None);
            if n > 0 {
                assert_eq!(check("/a/~1/~h1", 3, &content[32..]), None);
            }
        }
        assert_eq!(check_block(&key.public(), "/a", 0, b""), None);
    }
}
