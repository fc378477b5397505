// SPDX-License-Identifier: Apache-2.0
//! Where the body of a download goes.

use super::exchange::Answer;
use super::outcome::Outcome;

/// Where the body of a download goes.
pub trait Body {
    /// The header section of the answer.
    ///
    /// # Errors
    /// The answer can't be taken: the request ends with this outcome.
    fn head(&mut self, answer: &Answer<'_>) -> Result<(), Outcome> {
        let _ = answer;
        Ok(())
    }
    /// The next part of it. The error says which file and why.
    fn take(&mut self, part: &[u8]) -> Result<(), Outcome>;
    /// Discards what was taken: the answer begins again. The error gives the file and the reason.
    fn restart(&mut self) -> Result<(), Outcome>;
    /// It is whole, and as long as was promised. The error says which file and why.
    fn finish(&mut self) -> Result<(), Outcome>;
}

/// Counted and thrown away.
pub struct Nowhere;

impl Body for Nowhere {
    fn take(&mut self, _: &[u8]) -> Result<(), Outcome> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Outcome> {
        Ok(())
    }
}
