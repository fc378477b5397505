// SPDX-License-Identifier: Apache-2.0
//! `tests/vectors/icn/names.json`: the same bits of names as in the other languages, the same texts refused.

use serde_json::Value;
use std::path::Path;
use weir_icn::names::Name;

fn vectors() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/icn/names.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn names_have_the_bits_of_the_vectors() {
    let vectors = vectors();
    let names = vectors["names"].as_array().unwrap();
    assert!(names.len() > 5);
    for vector in names {
        let name = Name::new(vector["text"].as_str().unwrap()).unwrap();
        assert_eq!(format!("{:016x}", name.hash()), vector["name"], "{name}");
        assert_eq!(format!("{:016x}", name.prefix()), vector["prefix"], "{name}");
    }
}

#[test]
fn what_is_no_name_is_refused() {
    let vectors = vectors();
    let refused = vectors["refused"].as_array().unwrap();
    assert!(refused.len() > 5);
    for vector in refused {
        assert!(Name::new(vector["text"].as_str().unwrap()).is_err(), "{vector}");
    }
}
