// SPDX-License-Identifier: Apache-2.0
//! Where the body of a download goes.

/// Where the body of a download goes.
pub trait Body {
    /// The next part of it. The error says which file and why.
    fn take(&mut self, part: &[u8]) -> Result<(), String>;
    /// Discards what was taken: the answer begins again. The error gives the file and the reason.
    fn restart(&mut self) -> Result<(), String>;
    /// It is whole, and as long as was promised. The error says which file and why.
    fn finish(&mut self) -> Result<(), String>;
}

/// Counted and thrown away.
pub struct Nowhere;

impl Body for Nowhere {
    fn take(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}
