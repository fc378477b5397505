// SPDX-License-Identifier: Apache-2.0
//! `weir-stf PATH...`: runs each `name.stf` with the `name.p4` beside it; prints passed, failed and unsupported.
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weir_p4::stf::{run, Outcome};

const USAGE: &str = "usage: weir-stf [-I FOLDER]... [-q] PATH...
  PATH    a .stf or .p4 file with its partner beside it, or a folder: every pair in it
  -I      another folder to look for included files in
  -q      print only what did not pass, and the totals";

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
    let (mut dirs, mut quiet, mut paths) = (Vec::new(), false, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        match a.as_str() {
            "-I" => dirs.push(PathBuf::from(args.next().ok_or("-I needs a folder")?)),
            "-q" => quiet = true,
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(true);
            }
            _ if a.starts_with('-') => return Err(format!("unknown option {a}\n{USAGE}")),
            _ => paths.push(PathBuf::from(a)),
        }
    }
    if paths.is_empty() {
        return Err(format!("no test is named\n{USAGE}"));
    }
    let mut scripts = Vec::new();
    for p in &paths {
        if p.is_dir() {
            let list = std::fs::read_dir(p).map_err(|e| format!("{}: {e}", p.display()))?;
            let files = list.filter_map(|e| e.ok().map(|e| e.path()));
            let pairs = files.filter(|f| f.extension().is_some_and(|e| e == "stf") && f.with_extension("p4").is_file());
            scripts.extend(pairs);
        } else {
            scripts.push(p.with_extension("stf"));
        }
    }
    if scripts.is_empty() {
        return Err("there is no .stf file with a .p4 beside it".into());
    }
    scripts.sort();
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    for s in &scripts {
        let name = s.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        match one(s, &dirs)? {
            Outcome::Passed => {
                passed += 1;
                if !quiet {
                    println!("passed       {name}");
                }
            }
            Outcome::Failed(why) => {
                failed += 1;
                println!("FAILED       {name}: {why}");
            }
            Outcome::Unsupported(why) => {
                unsupported += 1;
                println!("unsupported  {name}: {why}");
            }
        }
    }
    println!("{passed} passed, {failed} failed, {unsupported} unsupported of {}", scripts.len());
    Ok(failed == 0)
}

fn one(script: &Path, dirs: &[PathBuf]) -> Result<Outcome, String> {
    let source = script.with_extension("p4");
    let read = |p: &Path| std::fs::read_to_string(p).map_err(|e| format!("{}: {e}", p.display()));
    let (program, stf) = (read(&source)?, read(script)?);
    match weir_p4::compile(&source.display().to_string(), &program, dirs) {
        Ok(p) => Ok(run(Arc::new(p), &stf)),
        Err(d) => {
            let first = d.list.iter().find(|d| !d.warning);
            let text = first.map_or(String::new(), |f| {
                format!("{}:{}:{}: {}", d.file_name(f.span.file), f.span.line, f.span.col, f.message)
            });
            // What the front end refuses for want of support is told apart from what it holds to be wrong.
            match first.is_some_and(|f| f.message.starts_with("unsupported")) {
                true => Ok(Outcome::Unsupported(text)),
                false => Ok(Outcome::Failed(format!("does not compile: {text}"))),
            }
        }
    }
}
