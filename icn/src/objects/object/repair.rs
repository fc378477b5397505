// SPDX-License-Identifier: Apache-2.0
//! Repair symbols (RaptorQ, RFC 6330): packets from which those who miss different segments of a block make what each of
//! them misses. `docs/design/icn.md`, "Repair".

use super::layout::{Layout, SEGMENT_BYTES};
use raptorq::{EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Segments of a block at most: what decoding costs grows faster than it.
pub const MOST_BLOCK_SEGMENTS: u32 = 512;
/// Rounds at most.
pub const MOST_ROUNDS: u32 = 64;
/// Bytes of a symbol that the code works on at once. It divides [`SEGMENT_BYTES`].
const ALIGNMENT: u8 = 8;

/// Repair of an object's content, as in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// Segments of content in a block; the last block may have fewer.
    pub block_segments: u32,
    /// A block has so many times `block_segments` repair symbols. A subscriber that loses symbols goes on with those of
    /// the next round.
    pub rounds: u32,
}

impl Repair {
    /// Publisher's repair for content of this shape; `None` if its repair symbols have no numbers. Four nodes of hashes
    /// in a block: more segments would need fewer symbols each, but wait longer and cost more to decode.
    pub fn offered(layout: Layout) -> Option<Repair> {
        let repair = Repair { block_segments: 160, rounds: 8 };
        repair.check(layout).is_ok().then_some(repair)
    }

    /// Whether these numbers, that others sent, fit content of this shape.
    ///
    /// # Errors
    /// A value does not fit the layout.
    pub fn check(self, layout: Layout) -> Result<(), String> {
        for (field, found, most) in
            [("block_segments", self.block_segments, MOST_BLOCK_SEGMENTS), ("rounds", self.rounds, MOST_ROUNDS)]
        {
            if found == 0 || found > most {
                return Err(format!("repair.{field} is {found}; expected 1 to {most}"));
            }
        }
        let symbols = u64::from(self.blocks(layout)) * u64::from(self.symbols());
        match u32::try_from(symbols) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("repair makes {symbols} repair symbols; packets have 32 bits for their number")),
        }
    }

    /// Repair symbols of a block.
    fn symbols(self) -> u32 {
        self.block_segments * self.rounds
    }

    /// Blocks of content of this shape.
    pub fn blocks(self, layout: Layout) -> u32 {
        layout.content_segments().div_ceil(self.block_segments)
    }

    /// The block that a segment of content is in.
    pub fn block_of(self, segment: u32) -> u32 {
        segment / self.block_segments
    }

    /// The segments of content of a block.
    pub fn segments_of(self, block: u32, layout: Layout) -> Range<u32> {
        let first = block.saturating_mul(self.block_segments);
        first..first.saturating_add(self.block_segments).min(layout.content_segments())
    }

    /// The packet's segment of a repair symbol: the `place`-th of a round of a block.
    pub fn number(self, block: u32, round: u32, place: u32) -> u32 {
        block * self.symbols() + round * self.block_segments + place
    }

    /// The block of this repair packet, and which of its symbols it is.
    pub fn symbol_of(self, number: u32) -> (u32, u32) {
        (number / self.symbols(), number % self.symbols())
    }

    /// Whether there is such a repair packet.
    pub fn has(self, number: u32, layout: Layout) -> bool {
        self.symbol_of(number).0 < self.blocks(layout)
    }
}

fn config(segments: u32) -> ObjectTransmissionInformation {
    ObjectTransmissionInformation::new(
        u64::from(segments) * SEGMENT_BYTES as u64,
        SEGMENT_BYTES as u16,
        1,
        1,
        ALIGNMENT,
    )
}

/// A block at its publisher, from which repair symbols are made.
pub struct Encoder {
    block: SourceBlockEncoder,
    segments: usize,
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("segments", &self.segments).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Of a block's content, at least one byte; zeros fill its last segment.
    pub fn new(mut content: Vec<u8>) -> Encoder {
        let segments = content.len().div_ceil(SEGMENT_BYTES);
        content.resize(segments * SEGMENT_BYTES, 0);
        Encoder { block: SourceBlockEncoder::new(0, &config(segments as u32), &content), segments }
    }

    /// A repair symbol.
    pub fn symbol(&self, symbol: u32) -> Vec<u8> {
        self.block.repair_packets(symbol, 1).pop().map_or_else(Vec::new, |packet| packet.split().1)
    }

    /// Memory, in bytes: the segments, and somewhat more of what symbols are made of.
    pub fn bytes(&self) -> u64 {
        (self.segments * 2 + 40) as u64 * SEGMENT_BYTES as u64
    }
}

/// The content of a block of so many segments, filled up with zeros: from segments of it, by their place in the block, and
/// repair symbols, by their number, each of [`SEGMENT_BYTES`]. `None` if these are too few. If one of them is wrong, what
/// comes of it is.
pub fn decode<'a>(
    segments: u32,
    content: impl Iterator<Item = (u32, Vec<u8>)>,
    symbols: impl Iterator<Item = (u32, &'a [u8])>,
) -> Option<Vec<u8>> {
    let packet = |id: u32, mut bytes: Vec<u8>| {
        bytes.resize(SEGMENT_BYTES, 0);
        EncodingPacket::new(PayloadId::new(0, id), bytes)
    };
    let content = content.map(|(place, bytes)| packet(place, bytes));
    let symbols = symbols.map(|(symbol, bytes)| packet(segments + symbol, bytes.to_vec()));
    let bytes = u64::from(segments) * SEGMENT_BYTES as u64;
    SourceBlockDecoder::new(0, &config(segments), bytes).decode(content.chain(symbols))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(bytes: usize, seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..bytes).map(|_| random.u8(..)).collect()
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let layout = Layout::of(1_000_000).unwrap();
        let check = |block_segments, rounds| Repair { block_segments, rounds }.check(layout);
        assert_eq!(check(160, 8), Ok(()));
        for (block_segments, rounds, part) in [
            (0, 8, "repair.block_segments is 0; expected 1 to 512"),
            (513, 8, "repair.block_segments is 513"),
            (160, 0, "repair.rounds is 0"),
            (160, u32::MAX, "repair.rounds is 4294967295; expected 1 to 64"),
        ] {
            assert!(check(block_segments, rounds).unwrap_err().contains(part));
        }
        let large = Layout::of(1 << 42).unwrap();
        assert!(Repair { block_segments: 160, rounds: 8 }.check(large).unwrap_err().contains("32 bits"));
        assert_eq!(Repair::offered(large), None);
    }

    /// Time of encoding and decoding: `cargo test --release -p weir-icn --lib repair -- --ignored --nocapture`.
    #[test]
    #[ignore = "long tier"]
    fn what_it_costs() {
        for segments in [40, 160, 512] {
            let block = content(segments * SEGMENT_BYTES, 1);
            let time = |what: &mut dyn FnMut()| {
                what();
                let began = std::time::Instant::now();
                (0..50).for_each(|_| what());
                began.elapsed().as_secs_f64() / 50.0 * 1e6
            };
            let encoder = Encoder::new(block.clone());
            let begin_us = time(&mut || drop(Encoder::new(block.clone())));
            let symbol_us = time(&mut || drop(encoder.symbol(7)));
            print!("{segments} segments: encoder {begin_us:.0} us, symbol {symbol_us:.1} us; decoding");
            for lost in [1, segments / 20, segments / 4, segments / 2] {
                let symbols: Vec<_> = (0..lost as u32 + 1).map(|s| (s, encoder.symbol(s))).collect();
                let decode_us = time(&mut || {
                    let kept = block.chunks(SEGMENT_BYTES).enumerate().skip(lost).map(|(i, c)| (i as u32, c.to_vec()));
                    let symbols = symbols.iter().map(|(s, bytes)| (*s, bytes.as_slice()));
                    assert!(decode(segments as u32, kept, symbols).is_some_and(|found| found == block));
                });
                print!(" {lost} lost {decode_us:.0} us,");
            }
            println!();
        }
    }

    proptest! {
        #[test]
        fn numbers_lead_back(bytes in 1u64..1 << 40, block_segments in 1u32..=512, rounds in 1u32..=64, place in 0u32..512) {
            let (layout, repair) = (Layout::of(bytes).unwrap(), Repair { block_segments, rounds });
            prop_assume!(repair.check(layout).is_ok());
            let (last, place) = (repair.blocks(layout) - 1, place % block_segments);
            let number = repair.number(last, rounds - 1, place);
            prop_assert_eq!(repair.symbol_of(number), (last, (rounds - 1) * block_segments + place));
            prop_assert!(repair.has(number, layout) && !repair.has(repair.number(last + 1, 0, 0), layout));
            let segments = repair.segments_of(last, layout);
            prop_assert!(!segments.is_empty() && segments.end == layout.content_segments());
            prop_assert!(segments.clone().all(|s| repair.block_of(s) == last));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_symbols_mend_any_losses(bytes in 1usize..120_000, seed: u64, lost in 0.0..0.6, skip in 0u32..1000) {
            let block = content(bytes, seed);
            let mut random = fastrand::Rng::with_seed(seed);
            let encoder = Encoder::new(block.clone());
            let segments = bytes.div_ceil(SEGMENT_BYTES) as u32;
            let kept: Vec<_> = block.chunks(SEGMENT_BYTES).enumerate().filter(|_| random.f64() >= lost).collect();
            let missing = segments - kept.len() as u32;
            let symbols: Vec<_> = (skip..skip + missing + 2).map(|s| (s, encoder.symbol(s))).collect();
            let run = |symbols: &[(u32, Vec<u8>)]| {
                let content = kept.iter().map(|(i, c)| (*i as u32, c.to_vec()));
                decode(segments, content, symbols.iter().map(|(s, bytes)| (*s, bytes.as_slice())))
            };
            if missing > 0 {
                prop_assert_eq!(run(&symbols[..missing as usize - 1]), None);
            }
            // Two more than are missing fail once in a million times.
            prop_assert_eq!(&run(&symbols).unwrap()[..bytes], &block[..]);
        }
    }
}
