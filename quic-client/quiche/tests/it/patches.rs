// SPDX-License-Identifier: Apache-2.0
//! The patch files, and the errors of a patch that does not fit.

#[path = "../../build/patches.rs"]
mod build;

use build::{apply, without_root, Files, PatchFile};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

fn patches() -> Vec<PatchFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("patches");
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| PatchFile {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            text: fs::read_to_string(&path).unwrap(),
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// For each file of the patch the text that its hunks expect, each between other lines.
fn sources(patch: &PatchFile) -> Files {
    let mut files = Files::new();
    for part in patch.text.split("--- a/").skip(1) {
        let text = files.entry(part.lines().next().unwrap().to_owned()).or_default();
        for line in part.lines().skip(2) {
            match line.split_at_checked(1) {
                Some(("@", _)) => *text += "// between\n",
                Some((" " | "-", rest)) => *text += &format!("{rest}\n"),
                _ => {}
            }
        }
    }
    files
}

#[test]
fn each_patch_says_why_and_what_upstream_knows() {
    let patches = patches();
    assert!(patches.len() > 30);
    for (i, patch) in patches.iter().enumerate() {
        let name = &patch.name;
        assert!(name.starts_with(&format!("{:02}-", i + 1)) && name.ends_with(".patch"), "{name}");
        for key in ["Subject", "Kind", "Upstream"] {
            assert!(patch.field(key).is_some_and(|text| !text.is_empty()), "{name}: {key}");
        }
        let kind = patch.field("Kind").unwrap();
        assert!(kind.starts_with("correction") || kind.starts_with("hook"), "{name}: {kind}");
        let (_, body) = patch.text.split_once("\n\n").unwrap();
        assert!(!body.starts_with("--- a/"), "{name}: no reason");
        assert!(!sources(patch).is_empty(), "{name}");
    }
}

#[test]
fn a_patch_fits_what_it_was_made_from_and_nothing_else() {
    for patch in patches() {
        let mut files = sources(&patch);
        apply("0.30.0", std::slice::from_ref(&patch), &mut files).unwrap_or_else(|e| panic!("{e}"));
        for (file, text) in sources(&patch) {
            let mut damaged = sources(&patch);
            damaged.insert(file.clone(), text.replace(char::is_alphabetic, "x"));
            let moved = apply("0.31.0", std::slice::from_ref(&patch), &mut damaged).unwrap_err();
            let mut missing = sources(&patch);
            missing.remove(&file);
            let gone = apply("0.31.0", std::slice::from_ref(&patch), &mut missing).unwrap_err();
            for message in [moved, gone] {
                for part in [&*patch.name, &file, "quiche 0.31.0", "README", "patches/"] {
                    assert!(message.contains(part), "no '{part}' in: {message}");
                }
            }
        }
    }
}

#[test]
fn the_root_loses_what_cannot_be_included() {
    let text = "//! About the crate.\n#![warn(missing_docs)]\n#[macro_use]\nextern crate log;\nfn f() {}\n";
    assert_eq!(without_root("0.30.0", text).unwrap(), "fn f() {}\n");
    let message = without_root("0.30.0", &text.replace("extern crate log", "use log")).unwrap_err();
    assert!(message.contains("extern crate log"), "{message}");
}

proptest! {
    #[test]
    fn files_without_a_patch_stay_as_they_are(text in "[a-c\n]{0,40}") {
        let other = Files::from([("src/frame.rs".to_owned(), text)]);
        let mut files = other.clone();
        apply("0.30.0", &[], &mut files).unwrap();
        prop_assert_eq!(files, other);
    }
}
