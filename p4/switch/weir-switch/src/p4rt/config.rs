// SPDX-License-Identifier: Apache-2.0
//! A forwarding pipeline configuration: the program's text or package in, a program with its P4Info out. Pure and
//! slow: for a thread of its own.
use super::bytes::Layout;
use super::fail::{Res, exhausted, invalid, unimplemented};
use super::p4info;
use super::pb::p4::config::v1::P4Info;
use super::pb::p4::v1::ForwardingPipelineConfig;
use super::pb::p4::v1::forwarding_pipeline_config::Cookie;
use prost::bytes::Bytes;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Component;
use std::sync::Arc;
use weir_p4::bytecode::program::Program;
use weir_p4::p4info::{MatchField, MatchType};
use weir_p4::syntax::options::Macros;

/// A program and what controllers were told of it.
#[derive(Debug)]
pub struct Config {
    pub program: Arc<Program>,
    /// As the controller gave it; the compiler's own when it gave none.
    pub p4info: P4Info,
    pub device_config: Bytes,
    pub cookie: Option<Cookie>,
    /// Of registers and digests, in P4Info's order.
    pub registers: Vec<Layout>,
    pub digests: Vec<Layout>,
}

/// First member of a packaged program.
const MANIFEST: &str = "weir-package.json";
/// The largest package: text of all files together.
const MAX_BYTES: u64 = 16 << 20;
const MAX_FILES: usize = 1024;

/// Files by path, which of them is the program, and macros that are there before its first line.
#[derive(Debug, PartialEq)]
struct Package {
    main: String,
    files: BTreeMap<String, String>,
    macros: Macros,
}

fn text(name: &str, bytes: Vec<u8>) -> Res<String> {
    String::from_utf8(bytes)
        .map_err(|e| invalid(format!("{name} is no UTF-8 text at byte {}", e.utf8_error().valid_up_to())))
}

fn package(bytes: &[u8]) -> Res<Package> {
    if bytes.is_empty() {
        return Err(invalid("is empty; send the P4_16 program's text, or a tar file of it"));
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return unpack(bytes);
    }
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    let start = &bytes[..bytes.len().min(4096)];
    if first == Some(&b'{') || start.windows(8).any(|w| w == b"__meta__") {
        return Err(invalid("looks like BMv2's JSON; this switch compiles P4: send the P4_16 program's text"));
    }
    let main = "main.p4".to_string();
    let program = text("the program", bytes.to_vec())?;
    Ok(Package { files: BTreeMap::from([(main.clone(), program)]), main, macros: Macros::default() })
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
        total += entry.size();
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
    Ok(Package { main, files, macros })
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

impl Config {
    /// Verifies a controller's configuration.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the compiler's messages, or the first point in which the P4Info does not fit.
    pub fn verify(given: ForwardingPipelineConfig, max_state_bytes: u64) -> Res<Config> {
        let package = package(&given.p4_device_config).map_err(|e| e.under("config.p4_device_config"))?;
        let program = weir_p4::compile_package(&package.main, &package.files, &package.macros)
            .map_err(|d| invalid(format!("the program does not compile:\n{d}")).under("config.p4_device_config"))?;
        super::check_state(&program, max_state_bytes).map_err(|e| exhausted(e).under("config.p4_device_config"))?;
        let mut config = Config::new(Arc::new(program), given.p4_device_config)?;
        // All default is how controllers that leave it to the switch send it.
        if let Some(p4info) = given.p4info.filter(|p| *p != P4Info::default()) {
            if let Some(difference) = p4info::difference(&p4info, &config.p4info) {
                return Err(invalid(format!("does not fit the program: {difference}")).under("config.p4info"));
            }
            config.p4info = p4info;
        }
        config.cookie = given.cookie;
        Ok(config)
    }

    /// For a compiled program.
    ///
    /// # Errors
    /// UNIMPLEMENTED when the program has something that controllers could not be served.
    pub fn new(program: Arc<Program>, device_config: Bytes) -> Res<Config> {
        let info = &program.info;
        let layout =
            |what: String, spec| Layout::of(spec, &info.type_info).map_err(|e| unimplemented(format!("{what}: {e}")));
        let registers = info.registers.iter().map(|r| layout(format!("register {}", r.preamble.name), &r.type_spec));
        let registers = registers.collect::<Res<_>>()?;
        let digests = info.digests.iter().map(|d| layout(format!("digest {}", d.preamble.name), &d.type_spec));
        let digests = digests.collect::<Res<_>>()?;
        strings(&program)?;
        let p4info = p4info::message(info);
        Ok(Config { program, p4info, device_config, cookie: None, registers, digests })
    }
}

/// Refuses keys that are strings to controllers and match more than one value: strings have no order and no bits.
fn strings(program: &Program) -> Res<()> {
    let tables = program.info.tables.iter().map(|t| (&t.match_fields, &t.preamble.name));
    let sets = program.info.value_sets.iter().map(|v| (&v.match_fields, &v.preamble.name));
    for (fields, of) in tables.chain(sets) {
        let wrong =
            |f: &&MatchField| f.strings.is_some() && !matches!(f.match_type, MatchType::Exact | MatchType::Optional);
        if let Some(f) = fields.iter().find(wrong) {
            return Err(unimplemented(format!(
                "match field {} of {of} is translated to strings, which match exactly or optionally, not by {}",
                f.name,
                format!("{:?}", f.match_type).to_lowercase()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn text_is_a_package_of_one_file() {
        let p = package(b"// P4").unwrap();
        assert_eq!((p.main.as_str(), p.files["main.p4"].as_str()), ("main.p4", "// P4"));
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
        let cases: [(Vec<u8>, &str); 10] = [
            (vec![], "is empty"),
            (br#"{"header_types": []}"#.to_vec(), "BMv2's JSON"),
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
