// SPDX-License-Identifier: Apache-2.0
//! The device configuration that a controller sends: a program's text, BMv2's JSON, or several texts, as a tar file or as
//! the JSON of `weir-p4c`.
use crate::p4runtime::messages::error::{Res, invalid};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Component, PathBuf};
use weir_p4::bmv2;
pub use weir_p4::package::Package;
use weir_p4::package::{MAX_BYTES, MAX_FILES};
use weir_p4::syntax::options::Macros;

/// First member of a packaged program.
const MANIFEST: &str = "weir-package.json";
/// Path of a program that comes as its text.
const MAIN: &str = "main.p4";

fn text(name: &str, bytes: Vec<u8>) -> Res<String> {
    String::from_utf8(bytes)
        .map_err(|e| invalid(format!("{name} is no UTF-8 text at byte {}", e.utf8_error().valid_up_to())))
}

pub fn package(bytes: &[u8]) -> Res<Package> {
    if bytes.is_empty() {
        return Err(invalid("is empty; send the P4_16 program's text, or a tar file of it"));
    }
    let inner = unwrap_config(bytes);
    let bytes = inner.as_deref().unwrap_or(bytes);
    if bytes.get(257..262) == Some(b"ustar") {
        return unpack(bytes);
    }
    if weir_p4::p4info::is_p4info(bytes) {
        return Err(invalid(format!("the device configuration {}", weir_p4::p4info::NO_PROGRAM)));
    }
    let program = text("the program", bytes.to_vec())?;
    if bmv2::is_json(&program)
        && let Some(package) = Package::read(&program).map_err(invalid)?
    {
        return Ok(package);
    }
    let files = BTreeMap::from([(MAIN.to_string(), program)]);
    Ok(Package { main: MAIN.into(), files, folders: vec![PathBuf::new()], macros: Macros::default() })
}

/// A device configuration that is a text, as it came.
pub fn plain_text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(unwrap_config(bytes).unwrap_or_else(|| bytes.to_vec())).ok()
}

/// `p4.tmp.P4DeviceConfig`, in which controllers for BMv2 wrap the program.
#[derive(Clone, PartialEq, prost::Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Contents of a `P4DeviceConfig`. Its first byte is the key of field 1, 2 or 3; no text and no tar file begins with it.
fn unwrap_config(bytes: &[u8]) -> Option<Vec<u8>> {
    if !matches!(bytes.first(), Some(0x08 | 0x12 | 0x1a)) {
        return None;
    }
    let config = <P4DeviceConfig as prost::Message>::decode(bytes).ok()?;
    (!config.device_data.is_empty()).then_some(config.device_data)
}

fn unpack(bytes: &[u8]) -> Res<Package> {
    let broken = |e: std::io::Error| invalid(format!("the tar file is broken: {e}"));
    let mut archive = tar::Archive::new(bytes);
    let mut main = None;
    let mut files = BTreeMap::new();
    let mut total = 0;
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.into_owned();
        let name = path.display().to_string();
        if entry.header().entry_type().is_dir() {
            continue;
        }
        if !entry.header().entry_type().is_file() {
            return Err(invalid(format!("{name} in the tar file is no plain file")));
        }
        let parts: Option<Vec<&str>> = path
            .components()
            .filter(|c| *c != Component::CurDir)
            .map(|c| if let Component::Normal(p) = c { p.to_str() } else { None })
            .collect();
        let Some(parts) = parts.filter(|p| !p.is_empty()) else {
            return Err(invalid(format!("{name} in the tar file must be a path below its root, without `..`")));
        };
        total = entry.size().saturating_add(total);
        if total > MAX_BYTES || files.len() >= MAX_FILES {
            return Err(invalid(format!("the tar file has more than {MAX_FILES} files or {MAX_BYTES} bytes")));
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(broken)?;
        let content = text(&name, content)?;
        match &main {
            None if parts == [MANIFEST] => main = Some(manifest(&content)?),
            None => return Err(invalid(format!("the tar file's first member is {name}; it must be {MANIFEST}"))),
            Some(_) => {
                files.insert(parts.join("/"), content);
            }
        }
    }
    let Some((main, macros)) = main else {
        return Err(invalid(format!("the tar file is empty; its first member must be {MANIFEST}")));
    };
    if !files.contains_key(&main) {
        return Err(invalid(format!("{MANIFEST} names {main}, which is not in the tar file")));
    }
    Ok(Package { main, files, folders: vec![PathBuf::new()], macros })
}

/// The program's file and its macros: `{"format": 1, "main": "FILE", "define": ["NAME=VALUE"], "undefine": ["NAME"]}`,
/// of which the lists may be missing.
fn manifest(content: &str) -> Res<(String, Macros)> {
    let wrong = |why: String| invalid(format!("{MANIFEST}: {why}; it must be {{\"format\": 1, \"main\": \"FILE\"}}"));
    let value: serde_json::Value = serde_json::from_str(content).map_err(|e| wrong(e.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(1) => {}
        _ => return Err(wrong("format is not 1".into())),
    }
    let Some(main) = value.get("main").and_then(serde_json::Value::as_str) else {
        return Err(wrong("main is missing or no string".into()));
    };
    let list = |key: &str| -> Res<Vec<&str>> {
        let strings = match value.get(key) {
            None => return Ok(Vec::new()),
            Some(v) => v.as_array().and_then(|a| a.iter().map(serde_json::Value::as_str).collect()),
        };
        strings.ok_or_else(|| invalid(format!("{MANIFEST}: {key} must be a list of strings, such as [\"NAME\"]")))
    };
    let mut macros = Macros::default();
    let said = |e: String| invalid(format!("{MANIFEST}: {e}"));
    list("define")?.into_iter().try_for_each(|m| macros.define(m)).map_err(said)?;
    list("undefine")?.into_iter().try_for_each(|m| macros.undefine(m)).map_err(said)?;
    Ok((main.to_string(), macros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4deviceconfig_is_unwrapped() {
        // Fields 1 (reassign), 2 (extras) and 3 (device_data) as protobuf encodes them.
        let wrap = |data: &[u8], before: &[u8]| {
            let mut wrapped = [before, &[0x1a]].concat();
            prost::encode_length_delimiter(data.len(), &mut wrapped).unwrap();
            [&wrapped, data].concat()
        };
        let source = "// program\n".repeat(500);
        for before in [&[] as &[u8], &[0x08, 1], &[0x12, 0], &[0x08, 1, 0x12, 2, 0x0a, 0]] {
            assert_eq!(package(&wrap(source.as_bytes(), before)).unwrap(), package(source.as_bytes()).unwrap());
        }
        let packed = tar(&[(MANIFEST, r#"{"format": 1, "main": "a.p4"}"#), ("a.p4", "x")]);
        assert_eq!(package(&wrap(&packed, &[8, 1])).unwrap(), package(&packed).unwrap());
        let json = format!("{{ \"header_types\": [{}] }}", " ".repeat(5000));
        assert_eq!(package(&wrap(json.as_bytes(), &[8, 1])).unwrap(), package(json.as_bytes()).unwrap());
        assert!(package(&[0x1a, 0xff]).is_err());
    }

    fn tar(files: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            // Written by hand: the builder itself refuses the paths that a hostile sender would use.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn sizes_that_overflow_their_sum_are_refused() {
        let mut packed = tar(&[(MANIFEST, r#"{"format": 1, "main": "m.p4"}"#), ("m.p4", "")]);
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(&packed[1024..1536]);
        header.set_size(u64::MAX);
        header.set_cksum();
        packed[1024..1536].copy_from_slice(header.as_bytes());
        assert!(package(&packed).is_err());
    }

    #[test]
    fn text_is_a_package_of_one_file() {
        let p = package(b"// P4").unwrap();
        assert_eq!((p.main.as_str(), p.files["main.p4"].as_str()), ("main.p4", "// P4"));
    }

    #[test]
    fn json_of_the_compiler_is_a_package() {
        let p = package(br#" {"format": 1, "main": "a.p4", "define": ["A"], "files": {"a.p4": "// P4"}}"#).unwrap();
        assert_eq!((p.main.as_str(), p.files["a.p4"].as_str()), ("a.p4", "// P4"));
        let e = package(br#"{"format": 1, "files": {}}"#).unwrap_err();
        assert!(e.message.contains("missing field `main`"), "{}", e.message);
    }

    #[test]
    fn a_tar_file_is_unpacked() {
        let bytes =
            tar(&[(MANIFEST, r#"{"format": 1, "main": "a/b.p4"}"#), ("./a/b.p4", "#include \"c.p4\""), ("a/c.p4", "")]);
        let p = package(&bytes).unwrap();
        assert_eq!(p.main, "a/b.p4");
        assert_eq!(p.files.keys().collect::<Vec<_>>(), ["a/b.p4", "a/c.p4"]);
    }

    #[test]
    fn a_package_may_bring_macros() {
        let with = r#"{"format": 1, "main": "m.p4", "define": ["A", "B=2"], "undefine": ["__TARGET_BMV2__"]}"#;
        let mut want = Macros::default();
        want.define("A").unwrap();
        want.define("B=2").unwrap();
        want.undefine("__TARGET_BMV2__").unwrap();
        assert_eq!(package(&tar(&[(MANIFEST, with), ("m.p4", "")])).unwrap().macros, want);
        for (key, wanted) in [
            (r#""define": "A""#, "define must be a list of strings"),
            (r#""undefine": [1]"#, "undefine must be a list of strings"),
            (r#""define": ["1=A"]"#, "-D 1=A: must be NAME, NAME=VALUE"),
            (r#""define": ["A=1\n#include \"x\""]"#, "on one line"),
        ] {
            let e = package(&tar(&[(MANIFEST, &format!(r#"{{"format": 1, "main": "m.p4", {key}}}"#)), ("m.p4", "")]));
            let e = e.unwrap_err();
            assert!(e.message.contains(wanted), "{} lacks {wanted}", e.message);
        }
    }

    #[test]
    fn what_is_wrong_with_a_package_is_said() {
        let good = r#"{"format": 1, "main": "m.p4"}"#;
        let cases: [(Vec<u8>, &str); 9] = [
            (vec![], "is empty"),
            (vec![0xff, 0xfe], "no UTF-8 text at byte 0"),
            (tar(&[("m.p4", "")]), "first member is m.p4"),
            (tar(&[(MANIFEST, "{}"), ("m.p4", "")]), "format is not 1"),
            (tar(&[(MANIFEST, r#"{"format": 1}"#)]), "main is missing"),
            (tar(&[(MANIFEST, "not json")]), "must be {\"format\": 1"),
            (tar(&[(MANIFEST, good), ("n.p4", "")]), "names m.p4, which is not in the tar file"),
            (tar(&[(MANIFEST, good), ("../m.p4", "")]), "without `..`"),
            (tar(&[(MANIFEST, good), ("/m.p4", "")]), "below its root"),
        ];
        for (bytes, wanted) in cases {
            let e = package(&bytes).unwrap_err();
            assert!(e.message.contains(wanted), "{} lacks {wanted}", e.message);
        }
        let mut cut = tar(&[(MANIFEST, good), ("m.p4", "control")]);
        cut.truncate(600);
        assert!(package(&cut).is_err());
    }
}
