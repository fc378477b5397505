// SPDX-License-Identifier: Apache-2.0
//! Puts the patches into quiche's source. Pure, so that tests can damage one.

use diffy::Patch;
use std::collections::BTreeMap;

/// Files of quiche's package by their path in it, `src/lib.rs` for one.
pub type Files = BTreeMap<String, String>;

/// First line of the part of a patch for one file.
const PART: &str = "--- a/";

/// A patch file: a header of `Key: value` lines, the reason, and a unified diff of one file or several.
pub struct PatchFile {
    /// Name of the file.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

impl PatchFile {
    /// Header field.
    #[allow(dead_code, reason = "for tests")]
    pub fn field(&self, key: &str) -> Option<&str> {
        self.text
            .lines()
            .take_while(|line| !line.is_empty())
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }

    /// The path of each changed file, with the diff of it.
    fn parts(&self) -> impl Iterator<Item = (&str, String)> {
        let start = self.text.find(PART).unwrap_or(self.text.len());
        self.text[start..].split(PART).skip(1).map(|part| (part.lines().next().unwrap_or(""), format!("{PART}{part}")))
    }
}

/// Applies the patches in order to the files of quiche's package `version`.
///
/// # Errors
/// The first patch that does not fit: its name, the file, and what to do.
pub fn apply(version: &str, patches: &[PatchFile], files: &mut Files) -> Result<(), String> {
    for patch in patches {
        for (path, diff) in patch.parts() {
            let misfit = |why: &str| misfit(version, &patch.name, path, why);
            let text = files.get_mut(path).ok_or_else(|| misfit("the file is missing"))?;
            let parsed = Patch::from_str(&diff).map_err(|e| misfit(&e.to_string()))?;
            *text = diffy::apply(text, &parsed).map_err(|e| misfit(&e.to_string()))?;
        }
    }
    Ok(())
}

/// The crate's first file without what only a crate's root may have, so that ours can include it: attributes and
/// documentation of the whole crate, and `extern crate log`.
///
/// # Errors
/// `extern crate log` is not there exactly once.
pub fn without_root(version: &str, text: &str) -> Result<String, String> {
    let log = "#[macro_use]\nextern crate log;\n";
    let found = text.matches(log).count();
    if found != 1 {
        return Err(format!(
            "src/lib.rs of quiche {version} has `extern crate log` {found} times, not once: correct \
             quic-client/quiche/build/patches.rs"
        ));
    }
    let text = text.replacen(log, "", 1);
    Ok(text.split_inclusive('\n').filter(|line| !line.starts_with("//!") && !line.starts_with("#![")).collect())
}

/// Error text for a patch that does not fit.
pub fn misfit(version: &str, patch: &str, file: &str, why: &str) -> String {
    format!(
        "{patch} does not fit {file} of quiche {version}: {why}. Read this version's source there and correct \
         quic-client/quiche/patches/{patch} (README.md there, Upgrading)"
    )
}
