// SPDX-License-Identifier: Apache-2.0
//! Shape of an object while it is fetched: its segments, and their hashes.

use crate::objects::object::layout::{CHILDREN, Item, Layout, SEGMENT_BYTES};
use crate::objects::object::live::check_block;
use crate::objects::object::manifest::Manifest;
use crate::objects::object::names::LevelNames;
use crate::objects::object::sign::PublicKey;
use crate::objects::object::tree::{Check, Hash, Known, hash};
use std::collections::BTreeMap;

/// A file, or a live stream.
#[derive(Debug)]
pub enum Shape {
    /// Its tree stands in the manifest.
    File {
        /// Layout.
        layout: Layout,
        /// Its hashes.
        known: Known,
    },
    /// Its blocks are signed one by one.
    Live {
        /// Key of the signer.
        publisher: PublicKey,
        /// The packets' name of level 1.
        blocks_name: String,
        /// Blocks that were checked, and are not given on yet.
        blocks: BTreeMap<u32, Vec<Hash>>,
        /// The block that says that the stream is over.
        end: Option<u32>,
    },
}

impl Shape {
    /// Of the object that this manifest is for.
    pub fn new(manifest: &Manifest, names: &LevelNames) -> Shape {
        match manifest.layout {
            Some(layout) => Shape::File { layout, known: Known::new(layout, manifest.top.clone()) },
            None => Shape::Live {
                publisher: manifest.publisher,
                blocks_name: names.of(1).map_or_else(String::new, |n| n.text().to_owned()),
                blocks: BTreeMap::new(),
                end: None,
            },
        }
    }

    /// Levels that have packets: for [`LevelNames::new`].
    pub fn levels(manifest: &Manifest) -> u8 {
        manifest.layout.map_or(2, |l| l.levels)
    }

    /// Whether it may have this segment, as far as is known.
    pub fn has(&self, item: Item) -> bool {
        match self {
            Shape::File { layout, .. } => item.segment < layout.segments(item.level),
            Shape::Live { blocks, end, .. } => {
                let block = if item.level == 0 { item.segment / CHILDREN as u32 } else { item.segment };
                let short = || blocks.get(&block).is_some_and(|b| item.segment as usize % CHILDREN >= b.len());
                item.level <= 1 && end.is_none_or(|end| block < end) && !(item.level == 0 && short())
            }
        }
    }

    /// Live: whether the stream was over before this segment of content.
    pub fn is_over(&self, segment: u32) -> bool {
        match self {
            Shape::File { layout, .. } => segment >= layout.content_segments(),
            Shape::Live { end, .. } => end.is_some_and(|end| segment / CHILDREN as u32 >= end),
        }
    }

    /// The segment of hashes without which this one can't be checked; `None` if there is none, or it is there.
    pub fn needs(&self, item: Item) -> Option<Item> {
        match self {
            Shape::File { known, .. } => known.needs(item),
            Shape::Live { blocks, .. } => {
                let (above, _) = item.parent();
                (item.level == 0 && !blocks.contains_key(&above.segment)).then_some(above)
            }
        }
    }

    /// Whether this segment of hashes is there.
    pub fn knows(&self, node: Item) -> bool {
        match self {
            Shape::File { known, .. } => known.knows(node),
            Shape::Live { blocks, .. } => blocks.contains_key(&node.segment),
        }
    }

    /// Checks a segment; hashes that are right are kept.
    pub fn check(&mut self, item: Item, content: &[u8]) -> Check {
        match self {
            Shape::File { known, .. } => known.check(item, content),
            Shape::Live { publisher, blocks_name, blocks, end } => {
                if item.level == 1 {
                    let Some(hashes) = check_block(publisher, blocks_name, item.segment, content) else {
                        return Check::Wrong;
                    };
                    if hashes.is_empty() {
                        *end = Some(end.map_or(item.segment, |e| e.min(item.segment)));
                    }
                    blocks.insert(item.segment, hashes);
                    return Check::Right;
                }
                let (above, place) = item.parent();
                let Some(block) = blocks.get(&above.segment) else { return Check::Unknown };
                let right = !content.is_empty()
                    && content.len() <= SEGMENT_BYTES
                    && block.get(place).is_some_and(|h| *h == hash(0, content));
                if right { Check::Right } else { Check::Wrong }
            }
        }
    }

    /// Drops hashes that are no longer needed.
    pub fn forget(&mut self, node: Item) {
        match self {
            Shape::File { known, .. } => known.forget(node),
            Shape::Live { blocks, .. } => drop(blocks.remove(&node.segment)),
        }
    }
}
