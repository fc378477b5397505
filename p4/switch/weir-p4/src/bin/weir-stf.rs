// SPDX-License-Identifier: Apache-2.0
//! `weir-stf PATH...`: runs each `name.stf` with the `name.p4` beside it, or all with one program; prints passed, failed
//! and unsupported.
#[path = "common/progress.rs"]
mod progress;
#[path = "common/version.rs"]
mod version;
use progress::progress;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use version::VERSION;
use weir_p4::bytecode::program::Program;
use weir_p4::stf::{Outcome, ScriptTrace, run_interpreted, run_with};
use weir_p4::syntax::options::Options;

const USAGE: &str = "usage: weir-stf [-I FOLDER] [-D NAME[=VALUE]] [-U NAME]... [-q] [--no-jit]
                [--p4 FILE] [--trace FILE] PATH...

Runs tests of P4 programs: for each pair NAME.p4 and NAME.stf it compiles the program for the embedded switch, sends
in the packets of the script and compares what comes out. Exits with 0 when nothing failed.

  PATH       a .stf or .p4 file with its partner beside it, or a folder: every pair in it
  --p4 FILE  the program of all scripts, P4 or BMv2's JSON, which then need none beside them: PATH is a .stf file, or a
             folder of such
  -I FOLDER  another folder to look for included files in
  -D NAME[=VALUE], -U NAME
             defines a macro, as 1 or as the value; takes a definition back
  --trace FILE
             write the path of each packet to FILE, as `weir-switch --trace` does; `weir p4 trace FILE` prints it
  --no-jit   interpret the programs, without native code
  -q         print only what did not pass, and the totals
  --version  print the version

Each pair passed, FAILED (what was different, or why the program is wrong) or is unsupported (which construct of the
program or command of the script is not there).

A script in the Simple Test Framework's language has one command a line; # begins a comment:

  add TABLE [PRIORITY] KEY:VALUE... ACTION(PARAMETER:VALUE, ...)
                             the largest priority wins; values are 10, 0x0a, 0b1010;
                             lpm: 0x0a000000/8 or 0x0a******; ternary: 0x0a** or 0x0a00&&&0xff00; range: 1..5 or 1->5
  setdefault TABLE ACTION(PARAMETER:VALUE, ...)
  remove all                 takes out what `add` put in
  packet PORT HEX            sends bytes into a port
  expect PORT [HEX]          bytes that come out of a port, in order; * is any digit, a $ at the end: nothing follows;
                             without bytes: any packets
  no_packet                  nothing comes out at all
  wait                       one second passes
  check_counter NAME(INDEX) packets|bytes ==|!=|<|<=|>|>= NUMBER
  counter_read NAME INDEX    register_read NAME INDEX    register_write NAME INDEX VALUE    register_reset NAME
  meter_set_rates NAME INDEX RATE:BURST RATE:BURST       meter_array_set_rates NAME RATE:BURST RATE:BURST
  mirroring_add SESSION PORT                             mirroring_add_mc SESSION GROUP
  mirroring_get SESSION                                  mirroring_delete SESSION
  mc_mgrp_create GROUP       mc_node_create RID PORT...  mc_node_associate GROUP NODE";

fn main() -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(m) => {
            eprintln!("weir-stf: {m}");
            ExitCode::from(2)
        }
    }
}

fn work() -> Result<bool, String> {
    let (mut options, mut quiet, mut paths, mut program) = (Options::default(), false, Vec::new(), None);
    let mut trace: Option<Trace> = None;
    let mut is_native = true;
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        if options.take(&a, &mut args)? {
            continue;
        }
        match a.as_str() {
            "-q" => quiet = true,
            "--no-jit" => is_native = false,
            "--trace" => trace = Some(Trace::create(args.next().ok_or("--trace needs a file")?)?),
            "--p4" => {
                let file = PathBuf::from(args.next().ok_or("--p4 needs a file")?);
                if !file.is_file() {
                    return Err(format!("--p4 {}: there is no such file", file.display()));
                }
                if let Some(other) = program.replace(file) {
                    return Err(format!(
                        "--p4 {}: one program is for all scripts; --p4 is given twice",
                        other.display()
                    ));
                }
            }
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(true);
            }
            "-V" | "--version" => {
                println!("weir-stf {VERSION}");
                return Ok(true);
            }
            _ if a.starts_with('-') => return Err(format!("unknown option {a}; see weir-stf --help")),
            _ => paths.push(PathBuf::from(a)),
        }
    }
    if paths.is_empty() {
        return Err("no test is named; see weir-stf --help".into());
    }
    let (mut scripts, mut alone) = (Vec::new(), Vec::new());
    for p in &paths {
        find(p, program.is_some(), &mut scripts, &mut alone)?;
    }
    if scripts.is_empty() {
        return Err(match program {
            Some(_) => "there is no .stf file".into(),
            None => "there is no .stf file with a .p4 beside it; --p4 FILE names one program for all scripts".into(),
        });
    }
    scripts.sort();
    scripts.dedup();
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    for (i, s) in scripts.iter().enumerate() {
        let name = s.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        progress(&format!("{} of {}: {name}", i + 1, scripts.len()));
        let source = program.clone().unwrap_or_else(|| s.with_extension("p4"));
        let before = trace.as_ref().map_or(0, |t| t.script.numbers.0);
        let outcome = one(&source, s, &options, is_native, trace.as_mut().map(|t| &mut t.script));
        progress("");
        let packets = trace.as_mut().map_or(Ok(String::new()), |t| t.write(before))?;
        match outcome {
            Outcome::Passed => {
                passed += 1;
                if !quiet {
                    println!("passed       {name}");
                }
            }
            Outcome::Failed(why) => {
                failed += 1;
                println!("FAILED       {name}: {why}{packets}");
            }
            Outcome::Unsupported(why) => {
                unsupported += 1;
                println!("unsupported  {name}: {why}");
            }
        }
    }
    for (ext, other) in [("p4", "stf"), ("stf", "p4")] {
        let names: Vec<String> =
            alone.iter().filter(|p: &&PathBuf| p.extension().is_some_and(|e| e == ext)).map(|p| file_name(p)).collect();
        if !names.is_empty() {
            let more = if names.len() > 3 { ", ..." } else { "" };
            let some = names[..names.len().min(3)].join(", ");
            println!("without a .{other} file beside it, not run: {} .{ext} ({some}{more})", names.len());
        }
    }
    println!("{passed} passed, {failed} failed, {unsupported} unsupported of {}", scripts.len());
    Ok(failed == 0)
}

/// The file for a trace.
struct Trace {
    name: String,
    file: File,
    script: ScriptTrace,
}

impl Trace {
    fn create(name: String) -> Result<Trace, String> {
        let file = File::create(&name).map_err(|e| format!("--trace {name}: {e}"))?;
        Ok(Trace { name, file, script: ScriptTrace::default() })
    }

    /// Writes a script's lines; gives its packets, for its message.
    fn write(&mut self, before: u64) -> Result<String, String> {
        let mut text = self.script.lines.join("\n");
        self.script.lines.clear();
        if !text.is_empty() {
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).map_err(|e| format!("--trace {}: {e}", self.name))?;
        Ok(match self.script.numbers.0 {
            last if last == before => String::new(),
            last => format!(" (packets {} to {last} of {})", before + 1, self.name),
        })
    }
}

fn file_name(p: &Path) -> String {
    p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The scripts that `p` stands for, and files of a folder that lack their partner; `any` script has one.
fn find(p: &Path, any: bool, scripts: &mut Vec<PathBuf>, alone: &mut Vec<PathBuf>) -> Result<(), String> {
    if any && !p.is_dir() {
        if !p.is_file() || p.extension().is_none_or(|e| e != "stf") {
            return Err(format!("{}: it is neither a .stf file nor a folder of such", p.display()));
        }
        scripts.push(p.into());
        return Ok(());
    }
    if !p.is_dir() {
        for ext in ["stf", "p4"] {
            let file = p.with_extension(ext);
            if !file.is_file() {
                return Err(format!("{}: there is no such file; a test is a .p4 and a .stf file", file.display()));
            }
        }
        scripts.push(p.with_extension("stf"));
        return Ok(());
    }
    let wrong = |e: std::io::Error| format!("{}: {e}", p.display());
    for entry in std::fs::read_dir(p).map_err(wrong)? {
        let file = entry.map_err(wrong)?.path();
        let (script, program) = (file.with_extension("stf"), file.with_extension("p4"));
        match file.extension().and_then(|e| e.to_str()) {
            Some("stf") if any || program.is_file() => scripts.push(file),
            _ if any => {}
            Some("p4") if script.is_file() => {}
            Some("stf" | "p4") => alone.push(file),
            _ => {}
        }
    }
    alone.sort();
    Ok(())
}

fn one(source: &Path, script: &Path, options: &Options, is_native: bool, trace: Option<&mut ScriptTrace>) -> Outcome {
    let run = |program: Program, stf: &str| match (is_native, trace) {
        (false, None) => run_interpreted(Arc::new(program), stf),
        (_, trace) => run_with(Arc::new(program), stf, trace),
    };
    let read = |p: &Path| weir_p4::source::read_text(p).map_err(|e| format!("{}: {e}", p.display()));
    let (program, stf) = match (read(source), read(script)) {
        (Ok(p), Ok(s)) => (p, s),
        (Err(m), _) | (_, Err(m)) => return Outcome::Failed(m),
    };
    if weir_p4::bmv2::is_json(&program) {
        return match weir_p4::bmv2::load(&program) {
            Ok(loaded) => run(loaded.program, &stf),
            Err(e) if e.message.starts_with("unsupported") => Outcome::Unsupported(e.to_string()),
            Err(e) => Outcome::Failed(format!("does not load: {e}")),
        };
    }
    let whole = || match weir_p4::compile_with(&source.display().to_string(), &program, options) {
        Ok(p) => run(p, &stf),
        Err(d) => {
            let first = d.list.iter().find(|d| !d.warning);
            let text = first.map_or(String::new(), |f| {
                format!("{}:{}:{}: {}", d.file_name(f.span.file), f.span.line, f.span.col, f.message)
            });
            // An unsupported construct is reported apart from an error in the program.
            match first.is_some_and(|f| f.message.starts_with("unsupported")) {
                true => Outcome::Unsupported(text),
                false => Outcome::Failed(format!("does not compile: {text}")),
            }
        }
    };
    // One program that breaks the switch must not hide the results of the others.
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or_else(|_| Outcome::Failed("the switch itself broke (above)".into()))
}
