// SPDX-License-Identifier: Apache-2.0
//! Compiles the v1model programs of other people, and sets the verdict beside p4c's where p4c is at hand.
#[path = "common/progress.rs"]
mod progress;
#[path = "common/version.rs"]
mod version;
use progress::progress;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use version::VERSION;
use weir_p4::syntax::lexer::{TokenKind, lex};
use weir_p4::syntax::options::{HELP, Options};

const USAGE: &str = "usage: weir-corpus [-I FOLDER] [-D NAME[=VALUE]] [-U NAME]... PATH...

Compiles every v1model program (a .p4 file that instantiates V1Switch as main, or a .json file that p4c made for BMv2) in
the folders PATH and below, or PATH itself, and prints for each whether it is taken. Where p4c-bm2-ss or p4c is on PATH it is asked too, and the exit code
is 1 when one takes what the other refuses; without p4c it is 0. Nothing is written. 2: the command itself failed, or a
path has no such program or can't be read; the others are compiled all the same.

  ok       taken, by p4c too if it was asked
  refused  not taken, nor by p4c if it was asked; with the first message
  ONLY p4c   p4c takes it; with our first message
  ONLY here  p4c refuses it; with its first message

The totals are by folder, and by message with names and numbers left out, most frequent first.

  --version         prints the version
";

/// Longer than this and a compiler has no verdict.
const P4C_SECONDS: u64 = 120;

fn main() -> ExitCode {
    match work() {
        Ok(code) => code,
        Err(m) => {
            eprintln!("weir-corpus: {m}");
            ExitCode::from(2)
        }
    }
}

fn work() -> Result<ExitCode, String> {
    let (mut options, mut paths) = (Options::default(), Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        if options.take(&a, &mut args)? {
            continue;
        }
        match a.as_str() {
            "-h" | "--help" => {
                println!("{USAGE}\n{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            "-V" | "--version" => {
                println!("weir-corpus {VERSION}");
                return Ok(ExitCode::SUCCESS);
            }
            _ if a.starts_with('-') => return Err(format!("unknown option {a}; see weir-corpus --help")),
            _ => paths.push(PathBuf::from(a)),
        }
    }
    if paths.is_empty() {
        return Err("no folder is named; see weir-corpus --help".into());
    }
    let p4c = P4c::find(&options)?;
    let mut totals = Totals::default();
    let mut whole = true;
    for root in &paths {
        let mut programs = Vec::new();
        let found = match find(root, &mut programs) {
            Ok(()) if programs.is_empty() => Err(format!("{}: there is no v1model program", root.display())),
            found => found,
        };
        if let Err(m) = found {
            whole = false;
            eprintln!("weir-corpus: {m}");
        }
        programs.sort();
        for (i, file) in programs.iter().enumerate() {
            progress(&format!("{}: {} of {}: {}", root.display(), i + 1, programs.len(), file.display()));
            let ours = here(file, &options);
            // BMv2's JSON is p4c's own.
            let asked = p4c.as_ref().filter(|_| !is_json_file(file));
            let theirs = asked.map(|p| p.verdict(file)).transpose()?;
            progress("");
            totals.add(root, file, ours, theirs);
        }
    }
    totals.print(p4c.as_ref());
    Ok(ExitCode::from(if !whole { 2 } else { u8::from(totals.different > 0) }))
}

/// Nothing, or the first message.
type Verdict = Result<(), String>;

#[derive(Default)]
struct Totals {
    /// By folder: taken, all.
    folders: BTreeMap<PathBuf, (usize, usize)>,
    classes: BTreeMap<String, usize>,
    different: usize,
}

impl Totals {
    fn add(&mut self, root: &Path, file: &Path, ours: Verdict, theirs: Option<Verdict>) {
        let at = self.folders.entry(root.into()).or_default();
        at.0 += usize::from(ours.is_ok());
        at.1 += 1;
        if let Err(m) = &ours {
            *self.classes.entry(class(m)).or_default() += 1;
        }
        let (word, message) = match (&ours, &theirs) {
            (Ok(()), None | Some(Ok(()))) => ("ok", ""),
            (Err(m), None | Some(Err(_))) => ("refused", m.as_str()),
            (Err(m), Some(Ok(()))) => ("ONLY p4c", m.as_str()),
            (Ok(()), Some(Err(m))) => ("ONLY here", m.as_str()),
        };
        self.different += usize::from(word.starts_with("ONLY"));
        // Most messages are of the program's own file, which is named already.
        let name = file.display().to_string();
        let message = message.strip_prefix(&format!("{name}:")).unwrap_or(message);
        let colon = if message.is_empty() { "" } else { ":" };
        println!("{word:<9}  {name}{colon}{message}");
    }

    fn print(&self, p4c: Option<&P4c>) {
        println!();
        let mut classes: Vec<_> = self.classes.iter().collect();
        classes.sort_by_key(|(text, n)| (std::cmp::Reverse(**n), *text));
        classes.iter().for_each(|(text, n)| println!("{n:5}  {text}"));
        for (folder, (taken, all)) in &self.folders {
            println!("{}: {taken} of {all} taken", folder.display());
        }
        match p4c {
            Some(p) => println!("{} has another verdict on {}", p.command.to_string_lossy(), self.different),
            None => println!("p4c was not run: neither {} is on PATH", P4c::NAMES.join(" nor ")),
        }
    }
}

/// The message without the parts that are one program's own.
fn class(message: &str) -> String {
    // Of BMv2's JSON a message has the path within the document, else file, line and column.
    let in_document = message.split_once(".json: ").map(|(_, rest)| rest.split_once(": ").map_or(rest, |(_, m)| m));
    let text = in_document.or_else(|| message.splitn(4, ':').nth(3)).unwrap_or(message);
    let mut out = String::new();
    for (i, part) in text.trim().split('`').enumerate() {
        match i % 2 {
            0 => out.push_str(part),
            _ => out.push_str("`...`"),
        }
    }
    let words = out.split(' ').map(|w| if w.starts_with(|c: char| c.is_ascii_digit()) { "N" } else { w });
    words.collect::<Vec<_>>().join(" ")
}

fn find(path: &Path, out: &mut Vec<PathBuf>) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    let kind = std::fs::symlink_metadata(path).map_err(wrong)?;
    let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.') && n != "." && n != "..");
    if kind.is_dir() && !hidden {
        for entry in std::fs::read_dir(path).map_err(wrong)? {
            find(&entry.map_err(wrong)?.path(), out)?;
        }
    } else if kind.is_file() && (is_json_file(path) || path.extension().is_some_and(|e| e == "p4")) {
        let text = weir_p4::source::read(path).map_err(wrong)?;
        let text = String::from_utf8_lossy(&text);
        if if is_json_file(path) { is_document(&text) } else { is_program(&text) } {
            out.push(path.into());
        }
    }
    Ok(())
}

fn is_json_file(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "json")
}

/// Whether a text is BMv2's JSON; other JSON lies in the same folders.
fn is_document(text: &str) -> bool {
    weir_p4::bmv2::is_json(text) && ["\"header_types\"", "\"pipelines\""].iter().all(|key| text.contains(key))
}

fn is_program(text: &str) -> bool {
    let tokens = lex(0, text);
    let is = |t: &TokenKind, name: &str| matches!(t, TokenKind::Ident(n) if n == name);
    let ends = |w: &[weir_p4::syntax::lexer::Token]| is(&w[0].tok, "main") && w[1].tok == TokenKind::Punct(";");
    tokens.iter().any(|t| is(&t.tok, "V1Switch")) && tokens.windows(2).any(ends)
}

fn here(file: &Path, options: &Options) -> Verdict {
    let text = weir_p4::source::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = String::from_utf8(text).map_err(|_| format!("{}: not UTF-8", file.display()))?;
    if is_json_file(file) {
        let load = || weir_p4::bmv2::load(&text).map(drop).map_err(|e| format!("{}: {e}", file.display()));
        return catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|_| Err("the loader itself broke (above)".into()));
    }
    let compile = || match weir_p4::compile_with(&file.display().to_string(), &text, options) {
        Ok(_) => Ok(()),
        Err(d) => Err(d.list.iter().find(|d| !d.warning).map_or(String::new(), |f| {
            format!("{}:{}:{}: {}", d.file_name(f.span.file), f.span.line, f.span.col, f.message)
        })),
    };
    // One program that breaks the compiler must not hide the others.
    catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| Err("the compiler itself broke (above)".into()))
}

struct P4c {
    command: OsString,
    arguments: Vec<OsString>,
}

impl P4c {
    const NAMES: [&'static str; 2] = ["p4c-bm2-ss", "p4c"];

    fn find(options: &Options) -> Result<Option<P4c>, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = |name: &&str| std::env::split_paths(&path).any(|d| d.join(name).is_file());
        let Some(name) = Self::NAMES.into_iter().find(on_path) else {
            return Ok(None);
        };
        let mut arguments: Vec<OsString> = ["--std", "p4-16", "--arch", "v1model"].map(OsString::from).into();
        if name == "p4c" {
            arguments.extend(["--target", "bmv2", "-o"].map(OsString::from));
            arguments.push(std::env::temp_dir().join(format!("weir-corpus-{}", std::process::id())).into());
        }
        for folder in &options.folders {
            arguments.extend(["-I".into(), folder.clone().into_os_string()]);
        }
        arguments.extend(options.macros.arguments().map(OsString::from));
        Ok(Some(P4c { command: name.into(), arguments }))
    }

    fn verdict(&self, file: &Path) -> Result<Verdict, String> {
        let name = self.command.to_string_lossy();
        let failed = |e: std::io::Error| format!("{name}: {e}");
        let messages = tempfile(&name)?;
        let mut child = Command::new(&self.command)
            .args(&self.arguments)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages.1)
            .spawn()
            .map_err(failed)?;
        let until = Instant::now() + Duration::from_secs(P4C_SECONDS);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status);
            }
            if Instant::now() > until {
                child.kill().map_err(failed)?;
                child.wait().map_err(failed)?;
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = std::fs::read(&messages.0).map_err(failed)?;
        std::fs::remove_file(&messages.0).map_err(failed)?;
        let said = String::from_utf8_lossy(&said);
        let first = said.lines().find(|l| l.contains("error")).or_else(|| said.lines().next()).unwrap_or("no message");
        Ok(match status {
            Some(s) if s.success() => Ok(()),
            Some(_) => Err(first.to_string()),
            None => Err(format!("p4c did not finish in {P4C_SECONDS} s")),
        })
    }
}

/// A file for p4c's output: a pipe that nobody reads would hold it up.
fn tempfile(name: &str) -> Result<(PathBuf, std::fs::File), String> {
    let path = std::env::temp_dir().join(format!("weir-corpus-{}.txt", std::process::id()));
    let file = std::fs::File::create(&path).map_err(|e| format!("{name}: {}: {e}", path.display()))?;
    Ok((path, file))
}
