// SPDX-License-Identifier: Apache-2.0
//! The names of an object's packets: one for its content, one for each level of hashes, and one
//! for repair symbols if there are any.

use super::layout::{Item, Layout, REPAIR};
use crate::names::{Name, NameError};

/// Names of all levels of one version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelNames {
    names: Vec<Name>,
    repair: Option<Name>,
}

impl LevelNames {
    /// For an object called `name`; `levels` are those of its [`Layout`], or 2 for a live stream.
    ///
    /// # Errors
    /// The name is too long to have its version and level behind it.
    pub fn new(name: &Name, version: &str, levels: u8) -> Result<LevelNames, NameError> {
        let content = name.child(&format!("~{version}"))?;
        let mut names = vec![content.clone()];
        for level in 1..levels {
            names.push(content.child(&format!("~h{level}"))?);
        }
        Ok(LevelNames { names, repair: None })
    }

    /// With a name for repair symbols.
    ///
    /// # Errors
    /// As for [`LevelNames::new`].
    pub fn with_repair(mut self) -> Result<LevelNames, NameError> {
        self.repair = self.of(0).map(|content| content.child("~r")).transpose()?;
        Ok(self)
    }

    /// Whether they are of this version.
    pub fn is_of(&self, version: &str) -> bool {
        self.version() == version
    }

    /// The version that they are of.
    pub fn version(&self) -> &str {
        self.of(0).and_then(|n| n.text().rsplit_once("/~")).map_or("", |(_, of)| of)
    }

    /// The packets' name of a level.
    pub fn of(&self, level: u8) -> Option<&Name> {
        if level == REPAIR { self.repair.as_ref() } else { self.names.get(usize::from(level)) }
    }

    /// The level whose packets have this number for a name.
    pub fn level(&self, hash: u64) -> Option<u8> {
        self.iter().find(|(_, name)| name.hash() == hash).map(|(level, _)| level)
    }

    /// All of them with their levels, from the content's up.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &Name)> {
        let levels = self.names.iter().enumerate().map(|(level, name)| (level as u8, name));
        levels.chain(self.repair.iter().map(|name| (REPAIR, name)))
    }
}

/// Whether this is the last segment of its level.
pub fn is_last(layout: Layout, item: Item) -> bool {
    item.segment + 1 == layout.segments(item.level)
}
