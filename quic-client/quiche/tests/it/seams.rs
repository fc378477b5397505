// SPDX-License-Identifier: Apache-2.0
//! A seam that has moved must fail the build, with a message that names the seam and the remedy.

#[path = "../../build/seams/mod.rs"]
mod listed;

use listed::{all, apply, moved, replace_once};
use proptest::prelude::*;

// A file that has every seam of `file` once, between other text.
fn whole(file: &str) -> String {
    let mut text = String::from("//! About the crate.\n#![warn(missing_docs)]\n#[macro_use]\nextern crate log;\n");
    for seam in all().filter(|seam| seam.file == file) {
        text += &format!("fn before() {{}}\n{}\nfn after() {{}}\n", seam.from);
    }
    text
}

#[test]
fn every_seam_is_put_in() {
    for seam in all() {
        let text = apply("0.30.0", seam.file, &whole(seam.file)).unwrap();
        assert!(text.contains(seam.to), "{}", seam.name);
        assert!(text.contains("crate::hooks::"), "{}", seam.name);
    }
}

#[test]
fn a_seam_gone_fails_with_its_name_file_and_remedy() {
    for seam in all() {
        let text = whole(seam.file).replace(seam.from, "moved_elsewhere();");
        let message = apply("0.31.0", seam.file, &text).unwrap_err();
        assert_eq!(message, moved("0.31.0", seam.name, seam.file, "its text is there 0 times"));
        for part in [seam.name, seam.file, "quiche 0.31.0", "README", "build/seams/"] {
            assert!(message.contains(part), "no '{part}' in: {message}");
        }
    }
}

#[test]
fn a_seam_twice_fails() {
    for seam in all() {
        let text = whole(seam.file) + seam.from;
        let message = apply("0.30.0", seam.file, &text).unwrap_err();
        assert!(message.contains("its text is there 2 times"), "{message}");
    }
}

#[test]
fn the_root_loses_what_cannot_be_included() {
    let text = apply("0.30.0", "src/lib.rs", &whole("src/lib.rs")).unwrap();
    assert!(!text.contains("//!") && !text.contains("#![") && !text.contains("extern crate log"), "{text}");
    let message =
        apply("0.30.0", "src/lib.rs", &whole("src/lib.rs").replace("extern crate log", "use log")).unwrap_err();
    assert!(message.contains("extern crate log"), "{message}");
}

#[test]
fn other_files_are_left_as_they_are() {
    let text = "//! Frames.\n#![allow(dead_code)]\nfn f() {}\n";
    assert_eq!(apply("0.30.0", "src/frame.rs", text).unwrap(), text);
}

proptest! {
    #[test]
    fn replaces_exactly_one(before in "[a-c]{0,20}", after in "[a-c]{0,20}", to in "[d-f]{0,8}", from in "[x-z]{1,5}") {
        let text = format!("{before}{from}{after}");
        prop_assert_eq!(replace_once(&text, &from, &to), Ok(format!("{before}{to}{after}")));
        prop_assert_eq!(replace_once(&format!("{before}{after}"), &from, &to), Err(0));
        prop_assert_eq!(replace_once(&format!("{text}|{text}"), &from, &to), Err(2));
    }
}
