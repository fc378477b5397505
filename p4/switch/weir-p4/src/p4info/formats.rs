// SPDX-License-Identifier: Apache-2.0
//! Files of P4Info: protobuf's text format, binary format and JSON.
use super::proto;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value};
use prost_types::FileDescriptorSet;
use std::fmt::Write as _;
use std::path::Path;

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/p4info.fds"));
const TEXT_HEAD: &str = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n";

/// Formats of a file of P4Info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// protobuf's text format.
    Text,
    /// protobuf's binary format.
    Binary,
    /// protobuf's JSON.
    Json,
}

impl Format {
    /// The format that a file's suffix names; text without a suffix.
    ///
    /// # Errors
    /// The suffix is unknown.
    pub fn of(path: &Path) -> Result<Format, String> {
        match path.extension().map(|e| e.to_string_lossy().into_owned()).as_deref() {
            None | Some("txt" | "txtpb" | "textproto" | "prototxt" | "pbtxt" | "p4info") => Ok(Format::Text),
            Some("bin" | "binpb" | "pb") => Ok(Format::Binary),
            Some("json") => Ok(Format::Json),
            Some(other) => Err(format!(
                "{}: suffix .{other} is unknown; use .txtpb (text), .binpb (binary) or .json",
                path.display()
            )),
        }
    }
}

/// The descriptor of P4Info. A map is a list of entries on the wire: `ordered` makes it one in messages as well, which
/// keeps the order of its keys in texts.
fn descriptor(ordered: bool) -> Result<MessageDescriptor, String> {
    let mut set = FileDescriptorSet::decode(DESCRIPTORS).map_err(|e| e.to_string())?;
    if ordered {
        let messages = set.file.iter_mut().flat_map(|f| &mut f.message_type);
        messages.flat_map(|m| &mut m.nested_type).for_each(|entry| entry.options = None);
    }
    let pool = DescriptorPool::from_file_descriptor_set(set).map_err(|e| e.to_string())?;
    pool.get_message_by_name("p4.config.v1.P4Info").ok_or_else(|| "P4Info has no descriptor".into())
}

fn reflected(message: &proto::P4Info, ordered: bool) -> Result<DynamicMessage, String> {
    DynamicMessage::decode(descriptor(ordered)?, message.encode_to_vec().as_slice()).map_err(|e| e.to_string())
}

/// Prints a message as protobuf's C++ library does, which p4c uses: one field a line, no lists in brackets.
fn print(message: &DynamicMessage, indent: usize, out: &mut String) {
    for (field, value) in message.fields() {
        let values = match value {
            Value::List(values) => values.iter().collect(),
            one => vec![one],
        };
        for value in values {
            let _ = write!(out, "{:indent$}{}", "", field.name());
            match (value, field.kind()) {
                (Value::Message(inner), _) => {
                    out.push_str(" {\n");
                    print(inner, indent + 2, out);
                    let _ = write!(out, "{:indent$}}}", "");
                }
                (Value::EnumNumber(n), Kind::Enum(kind)) => {
                    let name = kind.get_value(*n).map_or(n.to_string(), |v| v.name().to_string());
                    let _ = write!(out, ": {name}");
                }
                (Value::String(text), _) => escape(text.as_bytes(), out),
                (Value::Bytes(bytes), _) => escape(bytes, out),
                (other, _) => {
                    let _ = write!(out, ": {other}");
                }
            }
            out.push('\n');
        }
    }
    // An entry of a map has its value even if that is empty.
    let descriptor = message.descriptor();
    if let Some(value) =
        descriptor.get_field_by_name("value").filter(|f| descriptor.name().ends_with("Entry") && !message.has_field(f))
    {
        let _ = writeln!(out, "{:indent$}{} {{\n{:indent$}}}", "", value.name(), "");
    }
}

fn escape(bytes: &[u8], out: &mut String) {
    out.push_str(": \"");
    for byte in bytes {
        let _ = match byte {
            b'\n' => write!(out, "\\n"),
            b'\r' => write!(out, "\\r"),
            b'\t' => write!(out, "\\t"),
            b'"' | b'\'' | b'\\' => write!(out, "\\{}", char::from(*byte)),
            b' '..=b'~' => write!(out, "{}", char::from(*byte)),
            other => write!(out, "\\{other:03o}"),
        };
    }
    out.push('"');
}

/// P4Info as JSON, its keys in order.
///
/// # Errors
/// The descriptors or the printer fail.
pub fn json(message: &proto::P4Info) -> Result<serde_json::Value, String> {
    serde_json::to_value(reflected(message, false)?).map_err(|e| e.to_string())
}

impl super::P4Info {
    /// Contents of a file in this format.
    ///
    /// # Errors
    /// The descriptors or a printer fail.
    pub fn file(&self, format: Format) -> Result<Vec<u8>, String> {
        let message = self.message();
        Ok(match format {
            Format::Text => {
                let mut text = TEXT_HEAD.to_string();
                print(&reflected(&message, true)?, 0, &mut text);
                text.into_bytes()
            }
            Format::Binary => message.encode_to_vec(),
            Format::Json => format!("{:#}\n", json(&message)?).into_bytes(),
        })
    }
}

/// Reads a text of P4Info.
///
/// # Errors
/// The text is no P4Info.
pub fn parse(text: &str) -> Result<proto::P4Info, String> {
    let message = DynamicMessage::parse_text_format(descriptor(false)?, text).map_err(|e| e.to_string())?;
    message.transcode_to().map_err(|e| e.to_string())
}

/// Message for P4Info in the place of a program.
pub const NO_PROGRAM: &str = "is P4Info, which describes a program to controllers; give the program: P4 source, or the \
                              JSON of p4c or weir-p4c";

/// Fields of `p4.config.v1.P4Info`.
const FIELDS: [&str; 16] = [
    "pkg_info",
    "tables",
    "actions",
    "action_profiles",
    "counters",
    "direct_counters",
    "meters",
    "direct_meters",
    "controller_packet_metadata",
    "value_sets",
    "registers",
    "digests",
    "externs",
    "type_info",
    "hash_fields",
    "pkgInfo",
];

/// Whether a file is P4Info of one of the formats: no P4 program and no program's JSON begins so.
pub fn is_p4info(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return is_binary(bytes) };
    let names = |text: &str| text.chars().take_while(|c| c.is_alphabetic() || *c == '_').collect::<String>();
    let text = text.trim_start();
    if let Some(object) = text.strip_prefix('{') {
        let key = object.trim_start().strip_prefix('"').map(names).unwrap_or_default();
        return key == "pkgInfo" || FIELDS.contains(&key.as_str()) && !text.contains("\"header_types\"");
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !(line.is_empty() || line.starts_with('#')));
    let Some(first) = lines.next() else { return false };
    let name = names(first);
    let rest = first[name.len()..].trim_start();
    FIELDS.contains(&name.as_str())
        && (rest.starts_with(['{', ':', '<']) || rest.is_empty() && lines.next() == Some("{"))
        || is_binary(bytes)
}

/// Whether the bytes are a message with a table or an action that has a name.
fn is_binary(bytes: &[u8]) -> bool {
    let Ok(info) = proto::P4Info::decode(bytes) else { return false };
    let preambles = info.tables.iter().map(|t| &t.preamble).chain(info.actions.iter().map(|a| &a.preamble));
    preambles.flatten().any(|p| p.id != 0 && !p.name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bmv2, compile};
    use std::path::PathBuf;

    #[test]
    fn files_of_p4info_are_told_from_programs() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("the file is there");
        let (source, json) = (read("bmv2/forward.p4"), read("bmv2/forward.json"));
        let infos = [
            compile("forward.p4", &source, &[]).expect("the program compiles").info,
            bmv2::load(&json).expect("the document loads").program.info,
        ];
        for info in infos {
            for format in [Format::Text, Format::Binary, Format::Json] {
                let file = info.file(format).expect("P4Info is printed");
                assert!(is_p4info(&file), "{format:?}: {}", String::from_utf8_lossy(&file[..file.len().min(200)]));
            }
        }
        let names = ["actions\n{\n}", "  # comment\ntables: [{}]", "{\"pkgInfo\": {}}", "{ \"tables\": [] }"];
        assert!(names.iter().all(|text| is_p4info(text.as_bytes())));
        for other in [
            &*source,
            &*json,
            "",
            "#include <core.p4>",
            "{}",
            "{\"actions\": [], \"header_types\": []}",
            "tables",
            "tables t;",
            "\n\u{1}",
        ] {
            assert!(!is_p4info(other.as_bytes()), "{}", &other[..other.len().min(100)]);
        }
    }
}
