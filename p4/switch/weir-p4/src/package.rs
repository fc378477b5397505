// SPDX-License-Identifier: Apache-2.0
//! A program as one JSON file: the source with its included files and macros. `weir-p4c` writes it, and it compiles
//! without the files that it was made from.
//!
//! `{"format": 1, "main": "FILE", "define": ["NAME=VALUE"], "undefine": ["NAME"], "folders": ["DIR"], "files": {"FILE":
//! "TEXT"}}`. The lists may be missing; other keys are ignored. `weir-p4c` adds a description of the program by BMv2's keys,
//! for clients of Thrift.
use crate::bytecode::program::Program;
use crate::syntax::diagnostics::{Diagnostics, Span};
use crate::syntax::options::{Macros, Options};
use crate::syntax::preprocess::{Files, Included, Origin};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Limit of the text of all files together.
pub const MAX_BYTES: u64 = 16 << 20;
/// Limit of the number of files.
pub const MAX_FILES: usize = 1024;
const FORMAT: u64 = 1;

/// Files by path, which of them is the program, folders of included files, and macros.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// The program's path in `files`.
    pub main: String,
    /// Texts by path, with `/` between its parts.
    pub files: BTreeMap<String, String>,
    /// Folders in which included files are looked for, after the folder of the including file.
    pub folders: Vec<PathBuf>,
    /// Macros that are defined before the first line.
    pub macros: Macros,
}

/// Keys by which a package is known among JSON texts: BMv2's JSON has neither.
#[derive(Deserialize)]
struct Marks {
    format: Option<IgnoredAny>,
    files: Option<IgnoredAny>,
}

#[derive(Deserialize, Serialize)]
struct Document {
    format: u64,
    main: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    define: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    undefine: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    folders: Vec<String>,
    files: BTreeMap<String, String>,
    #[serde(flatten, skip_deserializing)]
    more: serde_json::Map<String, serde_json::Value>,
}

impl Package {
    /// Reads a package. `None`: the text is something else, such as BMv2's JSON.
    ///
    /// # Errors
    /// The first part of the package that is wrong, and its right form.
    pub fn read(text: &str) -> Result<Option<Package>, String> {
        let marks = serde_json::from_str::<Marks>(text);
        if !marks.is_ok_and(|m| m.format.is_some() && m.files.is_some()) {
            return Ok(None);
        }
        let wrong = |e: String| format!("package: {e}; must be what weir-p4c writes");
        let document: Document = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        if document.format != FORMAT {
            return Err(wrong(format!("format is {}, not {FORMAT}", document.format)));
        }
        let bytes: u64 = document.files.values().map(|text| text.len() as u64).sum();
        if document.files.len() > MAX_FILES || bytes > MAX_BYTES {
            return Err(format!("package: more than {MAX_FILES} files or {MAX_BYTES} bytes"));
        }
        if !document.files.contains_key(&document.main) {
            return Err(wrong(format!("main is {:?}, which is not in files", document.main)));
        }
        let mut macros = Macros::default();
        document.define.iter().try_for_each(|m| macros.define(m)).map_err(wrong)?;
        document.undefine.iter().try_for_each(|m| macros.undefine(m)).map_err(wrong)?;
        let folders = document.folders.iter().map(PathBuf::from).collect();
        Ok(Some(Package { main: document.main, files: document.files, folders, macros }))
    }

    /// Compiles a file of the disk, and packs it with the files that it includes.
    ///
    /// # Errors
    /// As for [`crate::compile_with`]; or the package would be larger than its limits.
    pub fn of_file(name: &str, text: &str, options: &Options) -> Result<(Package, Program), Diagnostics> {
        let failed = |m: String| {
            let mut diags = Diagnostics::default();
            diags.error(Span::default(), m);
            diags
        };
        let (program, included) = crate::recorded(name, text, Files::Disk(&options.folders), &options.macros)?;
        let package = packed(name, text, &included, options).map_err(failed)?;
        let bytes: u64 = package.files.values().map(|text| text.len() as u64).sum();
        if package.files.len() > MAX_FILES || bytes > MAX_BYTES {
            return Err(failed(format!("unsupported: a program of more than {MAX_FILES} files or {MAX_BYTES} bytes")));
        }
        Ok((package, program))
    }

    /// Compiles the program; no file of the machine is read.
    ///
    /// # Errors
    /// As for [`crate::compile_package`].
    pub fn compile(&self) -> Result<Program, Diagnostics> {
        let Some(text) = self.files.get(&self.main) else {
            return crate::compile_package(&self.main, &self.files, &self.macros);
        };
        crate::compile_from(&self.main, text, Files::Memory(&self.files, &self.folders), &self.macros)
    }

    /// The package as JSON, with further keys. The same package gives the same text.
    ///
    /// # Errors
    /// The printer fails.
    pub fn json(&self, more: serde_json::Map<String, serde_json::Value>) -> Result<String, String> {
        let (define, undefine) = self.macros.lists();
        let folders = self.folders.iter().map(|f| f.to_string_lossy().into_owned()).collect();
        let (main, files) = (self.main.clone(), self.files.clone());
        let document = Document { format: FORMAT, main, define, undefine, folders, files, more };
        serde_json::to_string_pretty(&document).map(|text| text + "\n").map_err(|e| e.to_string())
    }
}

/// Folder that paths in a package begin at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Anchor {
    Program,
    Folder(usize),
    Root,
}

/// A path from an anchor on: levels above the anchor, then names.
#[derive(Clone)]
struct Place {
    anchor: Anchor,
    above: usize,
    names: Vec<String>,
}

impl Place {
    fn at(anchor: Anchor) -> Place {
        Place { anchor, above: 0, names: Vec::new() }
    }

    fn join(mut self, path: &Path) -> Place {
        for part in path.components() {
            match part {
                Component::Normal(name) => self.names.push(name.to_string_lossy().into_owned()),
                Component::RootDir => self = Place::at(Anchor::Root),
                Component::ParentDir if self.names.pop().is_none() && self.anchor != Anchor::Root => self.above += 1,
                _ => {}
            }
        }
        self
    }

    fn folder(mut self) -> Place {
        self.names.pop();
        self
    }
}

/// A package in which each directive finds the file that it found on the disk. Names of folders outside of the program's
/// are kept only where a directive needs them: in `..`.
fn packed(name: &str, text: &str, included: &[Included], options: &Options) -> Result<Package, String> {
    let path = Path::new(name);
    let main = Place::at(Anchor::Program).join(Path::new(path.file_name().unwrap_or(path.as_os_str())));
    let mut folders_of = vec![Place::at(Anchor::Program)];
    let mut places = vec![(main, text)];
    for file in included {
        folders_of.truncate(file.depth as usize);
        let from = match file.origin {
            Origin::Own => folders_of.last().cloned().unwrap_or(Place::at(Anchor::Program)),
            Origin::Folder(i) => Place::at(Anchor::Folder(i)),
        };
        let place = from.join(Path::new(&file.name));
        folders_of.push(place.clone().folder());
        places.push((place, &file.text));
    }
    let mut above = BTreeMap::new();
    for (place, _) in &places {
        let most = above.entry(place.anchor).or_insert(0);
        *most = place.above.max(*most);
    }
    let begin = |anchor: Anchor| {
        let levels = above.get(&anchor).copied().unwrap_or(0);
        let own = |folder: &Path, prefix: Option<String>| {
            let names = names_of(folder)?;
            let Some(kept) = names.len().checked_sub(levels) else {
                return Err(format!("{}: an included file is above the root folder", folder.display()));
            };
            Ok(prefix.into_iter().chain(names[kept..].iter().cloned()).collect::<Vec<_>>())
        };
        match anchor {
            Anchor::Program => own(path.parent().unwrap_or(Path::new("")), None),
            Anchor::Folder(i) => own(&options.folders[i], Some(format!("-I{i}"))),
            Anchor::Root => Ok(vec![String::new()]),
        }
    };
    let begins = above.keys().map(|a| Ok((*a, begin(*a)?))).collect::<Result<BTreeMap<_, _>, String>>()?;
    let mut files = BTreeMap::new();
    let mut main = None;
    for (place, text) in &places {
        let begin = &begins[&place.anchor];
        let names: Vec<&str> = begin[..begin.len() - place.above].iter().chain(&place.names).map(|n| &**n).collect();
        let path = names.join("/");
        main.get_or_insert_with(|| path.clone());
        files.insert(path, text.to_string());
    }
    let used = begins.iter().filter(|(anchor, _)| matches!(anchor, Anchor::Folder(_)));
    let folders = used.map(|(_, begin)| PathBuf::from(begin.join("/"))).collect();
    Ok(Package { main: main.unwrap_or_default(), files, folders, macros: options.macros.clone() })
}

/// Names of a folder's path from the root on.
fn names_of(folder: &Path) -> Result<Vec<String>, String> {
    let folder = std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    Ok(Place::at(Anchor::Root).join(&folder.map_err(|e| format!("the working folder: {e}"))?).names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn included(depth: u32, origin: Origin, name: &str) -> Included {
        Included { depth, origin, name: name.into(), text: format!("// {name}\n") }
    }

    fn paths(name: &str, included: &[Included], folders: &[&str]) -> (Vec<String>, Vec<PathBuf>) {
        let options = Options { folders: folders.iter().map(PathBuf::from).collect(), ..Options::default() };
        let package = packed(name, "", included, &options).unwrap();
        assert_eq!(package.files[&package.main], "");
        (package.files.into_keys().collect(), package.folders)
    }

    #[test]
    fn only_names_that_a_directive_needs_are_packed() {
        use Origin::{Folder, Own};
        assert_eq!(paths("/home/a/x.p4", &[included(1, Own, "parts/y.p4")], &[]).0, ["parts/y.p4", "x.p4"]);
        let up = [included(1, Own, "../include/y.p4"), included(2, Own, "z.p4")];
        assert_eq!(paths("/home/a/x.p4", &up, &[]).0, ["a/x.p4", "include/y.p4", "include/z.p4"]);
        let (files, folders) =
            paths("x.p4", &[included(1, Folder(1), "y.p4"), included(2, Own, "../z.p4")], &["p", "/q/r"]);
        assert_eq!(files, ["-I1/r/y.p4", "-I1/z.p4", "x.p4"]);
        assert_eq!(folders, [PathBuf::from("-I1/r")]);
        assert_eq!(
            paths("x.p4", &[included(1, Own, "/q/y.p4"), included(2, Own, "z.p4")], &[]).0,
            ["/q/y.p4", "/q/z.p4", "x.p4"]
        );
        let options = Options::default();
        assert!(packed("/x.p4", "", &[included(1, Own, "../../y.p4")], &options).is_err());
    }

    #[test]
    fn a_package_is_told_from_other_json() {
        let text = r#"{"format": 1, "main": "a.p4", "define": ["A=1"], "files": {"a.p4": ""}, "tables": []}"#;
        let package = Package::read(text).unwrap().unwrap();
        assert_eq!(Package::read(&package.json(Default::default()).unwrap()), Ok(Some(package)));
        for other in [r#"{"header_types": [], "files": 1}"#, "{", "[]", "control", &"{\"a\":".repeat(1000)] {
            assert_eq!(Package::read(other), Ok(None), "{other}");
        }
        for (text, want) in [
            (r#"{"format": 2, "main": "a", "files": {}}"#, "format is 2, not 1"),
            (r#"{"format": 1, "main": "a", "files": {}}"#, "main is \"a\", which is not in files"),
            (r#"{"format": 1, "files": {}}"#, "missing field `main`"),
            (r#"{"format": 1, "main": "a", "files": []}"#, "must be what weir-p4c writes"),
            (r#"{"format": 1, "main": "a", "files": {"a": ""}, "define": ["1"]}"#, "-D 1: must be NAME"),
        ] {
            let e = Package::read(text).unwrap_err();
            assert!(e.contains(want), "{text}: {e}");
        }
    }

    #[test]
    fn the_last_definition_of_a_macro_is_packed() {
        let mut macros = Macros::default();
        for name in ["A", "B=2", "F(x)=x+1"] {
            macros.define(name).unwrap();
        }
        macros.undefine("A").unwrap();
        macros.undefine("C").unwrap();
        macros.define("C=3").unwrap();
        assert_eq!(macros.lists(), (vec!["B=2".into(), "F(x)=x+1".into(), "C=3".into()], vec!["A".into()]));
    }
}
