// SPDX-License-Identifier: Apache-2.0
//! v1model's hash algorithms.
use crate::bytecode::operators::HashAlgorithm;

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut k) = (i as u32, 0);
        while k < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            k += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// CRC-16/ARC: polynomial 0x8005 reflected, start 0.
const fn crc16_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut k) = (i as u16, 0);
        while k < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xa001 } else { crc >> 1 };
            k += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC32: [u32; 256] = crc32_table();

static CRC16: [u16; 256] = crc16_table();

/// v1model's algorithms over whole bytes; `random` is no function of them, and 0 here.
pub fn hash_of(algo: HashAlgorithm, data: &[u8]) -> u64 {
    let words = || data.chunks(2).map(|c| u64::from(c[0]) << 8 | c.get(1).map_or(0, |b| u64::from(*b)));
    match algo {
        HashAlgorithm::Csum16 => {
            let mut sum: u64 = words().sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            !sum & 0xffff
        }
        HashAlgorithm::Xor16 => words().fold(0, |x, w| x ^ w),
        HashAlgorithm::Crc16 => {
            data.iter().fold(0, |crc: u16, b| CRC16[usize::from((crc as u8) ^ b)] ^ (crc >> 8)).into()
        }
        HashAlgorithm::Crc32 => {
            (!data.iter().fold(!0, |crc: u32, b| CRC32[usize::from((crc as u8) ^ b)] ^ (crc >> 8))).into()
        }
        // BMv2's identity keeps the first 64 bits.
        HashAlgorithm::Identity => data.iter().take(8).fold(0, |v, b| v << 8 | u64::from(*b)),
        HashAlgorithm::Random => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_the_standard_check_string() {
        let data = b"123456789";
        assert_eq!(hash_of(HashAlgorithm::Crc32, data), 0xcbf4_3926);
        assert_eq!(hash_of(HashAlgorithm::Crc16, data), 0xbb3d);
    }

    #[test]
    fn checksum_of_rfc_1071s_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(hash_of(HashAlgorithm::Csum16, &data), u64::from(!0xddf2u16));
        assert_eq!(hash_of(HashAlgorithm::Xor16, &data), 0x0001 ^ 0xf203 ^ 0xf4f5 ^ 0xf6f7);
    }
}
