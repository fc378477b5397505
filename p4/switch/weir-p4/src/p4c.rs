// SPDX-License-Identifier: Apache-2.0
//! The compiler's command line with the options of p4c and p4c-bm2-ss (1.2.5), under whose names it may be called. The
//! output is a [`Package`] in the place of BMv2's JSON, and P4Info.
use crate::bmv2;
use crate::p4info::{Format, NO_PROGRAM, is_p4info};
use crate::package::Package;
use crate::syntax::options::Options;
use std::path::{Path, PathBuf};

const SUMMARY: &str = "compiles P4_16 for v1model to a JSON file for weir-switch, and writes P4Info";
const HELP: &str = "  -o PATH               the JSON file, or an existing folder (as weir-p4c; default: PROGRAM.json), a folder that
                        is made (as p4c; default: the working folder), a file (as p4c-bm2-ss; default: none)
  --p4runtime-files FILE[,FILE]...
                        P4Info, by suffix as text (.txtpb, .txt), binary (.bin, .binpb) or JSON (.json)
  --p4runtime-file FILE, --p4runtime-format binary|json|text
                        P4Info in one format; without a format binary
  -I FOLDER             another folder to look for included files in
  -D NAME[=VALUE]       defines a macro, as 1 or as the value
  -U NAME               removes a definition, also that of __TARGET_BMV2__
  -E                    writes the preprocessed program to standard output, and nothing else
  --Wdisable            prints no warnings
  --Werror              fails on a warning
  --std p4-16, -x p4-16, --p4v 16; --target bmv2, -b bmv2; --arch v1model, -a v1model
                        the only language, target and architecture
  -Xp4c OPTION, -Xpreprocessor OPTION
                        OPTION
  --version, -V; --help, -h

Accepted without effect: --emit-externs, --Wdisable=NAME, --Werror=NAME, --Wwarn, --Winfo, -W, options that debug or tune
p4c (-O, -g, -v, -T, --top4, --dump, --ndebug, --nocpp and more). Refused: --toJSON, --fromJSON, --pp,
--p4runtime-entries-files, --metrics, --disable-annotations, -M and its kind.

Exit status: 0, 1 for errors of the program or files, 2 for a wrong command line.";

/// Accepted without effect: options alone, with a value, and with a value behind `=`.
const FLAGS: &[&str] = &[
    "--emit-externs",
    "--ndebug",
    "--testJson",
    "--parser-inline-opt",
    "--loopsUnroll",
    "--doNotEmitIncludes",
    "--nocpp",
    "--compile",
    "--debug",
    "-v",
    "-g",
    "-c",
    "-e",
    "-S",
];
const VALUES: &[&str] = &[
    "--top4",
    "--dump",
    "--maxErrorCount",
    "--excludeFrontendPasses",
    "--excludeMidendPasses",
    "-T",
    "-W",
    "-Xassembler",
    "-Xlinker",
];
const OPTIONAL: &[&str] = &["--Wwarn", "--Winfo", "-O"];
/// Options whose output would be missed.
const REFUSED: &[&str] = &[
    "--toJSON",
    "--toJson",
    "--fromJSON",
    "--pp",
    "--p4runtime-entries-file",
    "--p4runtime-entries-files",
    "--metrics",
    "--disable-annotations",
    "--disable-annotation",
    "--disable-pragmas",
    "--disable-pragma",
    "--listFrontendPasses",
    "--listMidendPasses",
    "-M",
    "-MM",
    "-MD",
    "-MF",
    "-MG",
    "-MP",
    "-MT",
    "-MQ",
    "-###",
];

/// Program whose command line is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// `weir-p4c`.
    #[default]
    Own,
    /// `p4c`: the output is a folder.
    Driver,
    /// `p4c-bm2-ss`: the output is a file.
    BackEnd,
}

impl Role {
    /// By the name of the program.
    pub fn of(program: &str) -> Role {
        match Path::new(program).file_name().and_then(|n| n.to_str()) {
            Some("p4c") => Role::Driver,
            Some("p4c-bm2-ss") => Role::BackEnd,
            _ => Role::Own,
        }
    }

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Role::Own => "weir-p4c",
            Role::Driver => "p4c",
            Role::BackEnd => "p4c-bm2-ss",
        }
    }
}

/// A command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    role: Role,
    program: PathBuf,
    options: Options,
    output: Option<PathBuf>,
    p4info: Vec<(PathBuf, Format)>,
    preprocess_only: bool,
    no_warnings: bool,
    warnings_are_errors: bool,
}

/// Work of a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Compilation.
    Compile(Box<Command>),
    /// A text for standard output.
    Print(String),
}

/// Result of a compilation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// For standard output.
    pub text: String,
    /// For standard error.
    pub warnings: String,
}

/// An option and the value in the same word: behind `=`, or behind an option of one letter.
fn split(word: &str) -> (&str, Option<&str>) {
    if word.starts_with("--") {
        return word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    }
    let known = [FLAGS, VALUES, REFUSED, &["-Xp4c", "-Xpreprocessor"]].concat().contains(&word);
    match word.char_indices().nth(2) {
        Some((at, _)) if word.starts_with('-') && !known => (&word[..at], Some(&word[at..])),
        _ => (word, None),
    }
}

/// Reads a command line behind the program's name.
///
/// # Errors
/// The option that is wrong, and its right form.
pub fn read(role: Role, version: &str, words: impl IntoIterator<Item = String>) -> Result<Request, String> {
    let mut command = Command { role, ..Command::default() };
    let (mut programs, mut deprecated, mut format) = (Vec::new(), None, Format::Binary);
    let mut rest: std::vec::IntoIter<String> = words.into_iter().collect::<Vec<_>>().into_iter();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') || word == "-" {
            programs.push(PathBuf::from(word));
            continue;
        }
        if command.options.take(&word, &mut rest)? {
            continue;
        }
        let (name, given) = split(&word);
        let mut value = || {
            let next = given.map(str::to_string).or_else(|| rest.next());
            next.ok_or_else(|| format!("{name} needs a value; --help shows all options"))
        };
        match name {
            "-h" | "--help" => {
                let name = role.name();
                return Ok(Request::Print(format!(
                    "{name} (weir-p4c) {SUMMARY}\n\nusage: {name} [OPTION]... PROGRAM.p4\n\n{HELP}\n"
                )));
            }
            "-V" | "--version" if role == Role::Own => return Ok(Request::Print(format!("weir-p4c {version}\n"))),
            "-V" | "--version" => {
                return Ok(Request::Print(format!("{} 1.2.5 (weir-p4c {version} in its place)\n", role.name())));
            }
            "-o" | "--output" => command.output = Some(PathBuf::from(value()?)),
            "--p4runtime-files" => {
                for file in value()?.split(',').map(PathBuf::from) {
                    let format = Format::of(&file).map_err(|e| format!("--p4runtime-files: {e}"))?;
                    command.p4info.push((file, format));
                }
            }
            "--p4runtime-file" => deprecated = Some(PathBuf::from(value()?)),
            "--p4runtime-format" => format = format_named(&value()?)?,
            "--std" | "-x" | "--p4v" => only(name, &value()?, &["p4-16", "p4_16", "16", "1.2"], "P4_16")?,
            "--target" | "-b" => only(name, &value()?, &["bmv2", "simple_switch"], "bmv2")?,
            "--arch" | "-a" => only(name, &value()?, &["v1model", "v1model.p4"], "v1model")?,
            "-E" => command.preprocess_only = true,
            "--Wdisable" => command.no_warnings |= given.is_none(),
            "--Werror" => command.warnings_are_errors |= given.is_none(),
            "-Xp4c" | "-Xpreprocessor" => {
                let inner = value()?;
                rest = std::iter::once(inner).chain(rest).collect::<Vec<_>>().into_iter();
            }
            _ if FLAGS.contains(&name) || OPTIONAL.contains(&name) => {}
            _ if VALUES.contains(&name) => drop(value()?),
            _ if REFUSED.contains(&name) => {
                return Err(format!(
                    "unsupported: {name}; weir-p4c writes a program and its P4Info, and with -E the preprocessed text"
                ));
            }
            _ => return Err(format!("unknown option {word}; --help shows all")),
        }
    }
    command.p4info.extend(deprecated.map(|file| (file, format)));
    let [program] = programs.as_slice() else {
        return Err(match programs.as_slice() {
            [] => "no program is named; --help shows the usage".into(),
            all => format!("one program at a time, not {}; others are included", all.len()),
        });
    };
    command.program = program.clone();
    Ok(Request::Compile(Box::new(command)))
}

fn format_named(name: &str) -> Result<Format, String> {
    match name {
        "binary" => Ok(Format::Binary),
        "json" => Ok(Format::Json),
        "text" => Ok(Format::Text),
        _ => Err(format!("--p4runtime-format {name}: must be binary, json or text")),
    }
}

fn only(option: &str, given: &str, known: &[&str], name: &str) -> Result<(), String> {
    // p4c's old triplets: bmv2-ss-p4org.
    if known.contains(&given) || given.split('-').next() == Some("bmv2") && name == "bmv2" {
        return Ok(());
    }
    Err(format!("unsupported: {option} {given}; the only one is {name}"))
}

impl Command {
    /// The JSON file, and a folder to make first.
    fn output(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        let stem = self.program.file_stem().unwrap_or(self.program.as_os_str()).to_string_lossy();
        let json = format!("{stem}.json");
        let is_folder = |path: &Path| path.is_dir() || path.to_string_lossy().ends_with('/');
        match (self.role, &self.output) {
            (Role::BackEnd, output) => (output.clone(), None),
            (Role::Driver, Some(folder)) => (Some(folder.join(json)), Some(folder.clone())),
            (Role::Own, Some(folder)) if is_folder(folder) => (Some(folder.join(json)), Some(folder.clone())),
            (Role::Own, Some(file)) => (Some(file.clone()), None),
            (_, None) => (Some(PathBuf::from(json)), None),
        }
    }

    /// Compiles the program and writes its files: all, or none if the program has an error.
    ///
    /// # Errors
    /// The compiler's messages, or the file that can't be read or written.
    pub fn run(&self) -> Result<Output, String> {
        let name = self.program.to_string_lossy();
        let bytes = crate::source::read(&self.program).map_err(|e| format!("{name}: {e}"))?;
        if is_p4info(&bytes) {
            return Err(format!("{name}: {NO_PROGRAM}"));
        }
        let text = crate::source::text(bytes).map_err(|e| format!("{name}: {e}"))?;
        if bmv2::is_json(&text) {
            return Err(format!("{name}: is JSON; must be a P4 program"));
        }
        if self.preprocess_only {
            let text = crate::preprocessed(&name, &text, &self.options).map_err(|d| d.to_string())?;
            return Ok(Output { text, ..Output::default() });
        }
        let (package, program) = Package::of_file(&name, &text, &self.options).map_err(|d| d.to_string())?;
        if self.warnings_are_errors && !program.warnings.is_empty() {
            return Err(format!("{}{name}: error: a warning, with --Werror\n", program.warnings));
        }
        let (json, folder) = self.output();
        let mut files = Vec::new();
        for (file, format) in &self.p4info {
            files.push((file.clone(), program.info.file(*format)?));
        }
        if let Some(file) = json {
            files.push((file, package.json(bmv2::describe(&program))?.into_bytes()));
        }
        if let Some(folder) = folder {
            std::fs::create_dir_all(&folder).map_err(|e| format!("-o {}: {e}", folder.display()))?;
        }
        for (file, content) in files {
            std::fs::write(&file, content)
                .map_err(|e| format!("{}: {}", file.display(), crate::source::explain(&file, &e)))?;
        }
        let warnings = if self.no_warnings { String::new() } else { program.warnings };
        Ok(Output { warnings, ..Output::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(role: Role, line: &str) -> Result<Command, String> {
        match read(role, "1", line.split_whitespace().map(str::to_string))? {
            Request::Compile(command) => Ok(*command),
            Request::Print(text) => Err(text),
        }
    }

    fn json(role: Role, line: &str) -> Option<String> {
        command(role, line).unwrap().output().0.map(|p| p.display().to_string())
    }

    #[test]
    fn command_lines_of_users_are_read() {
        // p4lang/tutorials, p4-utils, p4app, and p4c's own manual.
        let line = "--p4v 16 --p4runtime-files build/basic.p4.p4info.txtpb -o build/basic.json basic.p4";
        let read = command(Role::Own, line).unwrap();
        assert_eq!(read.output().0, Some(PathBuf::from("build/basic.json")));
        assert_eq!(read.p4info, [(PathBuf::from("build/basic.p4.p4info.txtpb"), Format::Text)]);
        assert_eq!(read, Command { role: Role::Own, ..command(Role::BackEnd, line).unwrap() });
        assert_eq!(
            json(Role::Driver, "--target bmv2 --arch v1model --std p4-16 -o out x/basic.p4").unwrap(),
            "out/basic.json"
        );
        assert_eq!(json(Role::Driver, "-b bmv2-ss-p4org basic.p4").unwrap(), "basic.json");
        assert_eq!(json(Role::BackEnd, "--std=p4-16 basic.p4"), None);
        assert_eq!(json(Role::Own, "-o new/ basic.p4").unwrap(), "new/basic.json");
        let read = command(
            Role::Driver,
            "-x p4_16 -a v1model -DA -D B=2 -U C -I a -Ib -Xp4c --Werror -Xpreprocessor -DE x.p4",
        );
        let read = read.unwrap();
        assert!(read.warnings_are_errors && !read.no_warnings);
        assert_eq!(read.options.folders, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(read.options.macros.lists(), (vec!["A=1".into(), "B=2".into(), "E=1".into()], vec!["C".into()]));
        let read =
            command(Role::BackEnd, "--p4runtime-file a --p4runtime-format text --p4runtime-files b.bin,c.json x.p4");
        let files: Vec<_> =
            read.unwrap().p4info.into_iter().map(|(f, format)| (f.display().to_string(), format)).collect();
        let want = [("b.bin", Format::Binary), ("c.json", Format::Json), ("a", Format::Text)];
        assert_eq!(files, want.map(|(f, format)| (f.to_string(), format)));
        let quiet = "--Wdisable --Wdisable=unused --Wwarn=a -O2 -O -T a:1 --top4 Front --emit-externs -v -g x.p4";
        assert!(command(Role::Own, quiet).unwrap().no_warnings);
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for (line, want) in [
            ("", "no program is named"),
            ("a.p4 b.p4", "one program at a time, not 2"),
            ("--std p4-14 a.p4", "unsupported: --std p4-14; the only one is P4_16"),
            ("--arch psa a.p4", "unsupported: --arch psa; the only one is v1model"),
            ("-b tofino a.p4", "unsupported: -b tofino; the only one is bmv2"),
            ("--toJSON f a.p4", "unsupported: --toJSON"),
            ("-MD a.p4", "unsupported: -MD"),
            ("--p4runtime-files a.foo a.p4", "--p4runtime-files: a.foo: suffix .foo is unknown"),
            ("--p4runtime-format xml a.p4", "must be binary, json or text"),
            ("a.p4 -o", "-o needs a value"),
            ("--bogus a.p4", "unknown option --bogus"),
            ("-q a.p4", "unknown option -q"),
            ("-é a.p4", "unknown option -é"),
            ("-D 1 a.p4", "-D 1: must be NAME"),
        ] {
            let e = command(Role::Own, line).unwrap_err();
            assert!(e.contains(want), "{line}: {e}");
        }
        for role in [Role::Own, Role::Driver, Role::BackEnd] {
            assert!(command(role, "--version").unwrap_err().contains("weir-p4c 1"));
            assert!(command(role, "--help").unwrap_err().contains(&format!("usage: {} ", role.name())));
        }
    }

    #[test]
    fn roles_are_the_names_of_programs() {
        for (program, role) in
            [("/usr/bin/p4c", Role::Driver), ("p4c-bm2-ss", Role::BackEnd), ("x/weir-p4c", Role::Own)]
        {
            assert_eq!(Role::of(program), role);
        }
    }
}
