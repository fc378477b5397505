// SPDX-License-Identifier: Apache-2.0
//! Prints the P4Info of P4 programs, or compares it with files that p4c made.
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use weir_p4::p4info::{Format, P4Info, json, parse, proto};
use weir_p4::syntax::options::{HELP, Options};

const USAGE: &str = "usage: weir-p4info [-I FOLDER] [-D NAME[=VALUE]] [-U NAME]... PROGRAM.p4
       weir-p4info [-I FOLDER] [-D NAME[=VALUE]] [-U NAME]... --compare FOLDER PROGRAM.p4...
  Prints what a controller may know of the program (P4Info, protobuf text format).
  --compare FOLDER  compare with FOLDER/PROGRAM.p4.p4info.txtpb, where p4c wrote one (its test corpus has them);
                    the order of objects of one kind does not count";

fn main() -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(m) => {
            eprintln!("weir-p4info: {m}");
            ExitCode::from(2)
        }
    }
}

fn work() -> Result<bool, String> {
    let (mut options, mut compare, mut programs) = (Options::default(), None, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        if options.take(&a, &mut args)? {
            continue;
        }
        match a.as_str() {
            "--compare" => compare = Some(PathBuf::from(args.next().ok_or("--compare needs a folder")?)),
            "-h" | "--help" => {
                println!("{USAGE}\n{HELP}");
                return Ok(true);
            }
            _ if a.starts_with('-') => return Err(format!("unknown option {a}\n{USAGE}\n{HELP}")),
            _ => programs.push(PathBuf::from(a)),
        }
    }
    match (&compare, programs.as_slice()) {
        (_, []) => Err(format!("no program is named\n{USAGE}\n{HELP}")),
        (None, [one]) => {
            let text = compiled(one, &options)?.file(Format::Text)?;
            std::io::stdout().write_all(&text).map_err(|e| format!("stdout: {e}"))?;
            Ok(true)
        }
        (None, _) => Err("one program at a time; several only with --compare".into()),
        (Some(folder), list) => compared(folder, list, &options),
    }
}

fn read(p: &Path) -> Result<String, String> {
    weir_p4::source::read_text(p).map_err(|e| format!("{}: {e}", p.display()))
}

fn compiled(program: &Path, options: &Options) -> Result<Arc<P4Info>, String> {
    match weir_p4::compile_with(&program.display().to_string(), &read(program)?, options) {
        Ok(p) => {
            eprint!("{}", p.warnings);
            Ok(p.info)
        }
        Err(d) => Err(format!("{} does not compile\n{d}", program.display())),
    }
}

/// Each object as text, sorted.
fn objects(info: &proto::P4Info) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for (kind, value) in json(info)?.as_object().into_iter().flatten() {
        match value.as_array() {
            Some(list) => out.extend(list.iter().map(|object| format!("{kind} {object:#}"))),
            // p4c writes `type_info` also when there is nothing in it.
            None if value.as_object().is_some_and(|fields| fields.is_empty()) => {}
            None => out.push(format!("{kind} {value:#}")),
        }
    }
    out.sort();
    Ok(out)
}

fn compared(folder: &Path, programs: &[PathBuf], options: &Options) -> Result<bool, String> {
    let (mut same, mut different, mut refused, mut without) = (0, 0, 0, 0);
    for p in programs {
        let name = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let golden = folder.join(format!("{name}.p4info.txtpb"));
        if !golden.is_file() {
            without += 1;
            continue;
        }
        let ours = match compiled(p, options) {
            Ok(info) => objects(&info.message())?,
            Err(m) => {
                refused += 1;
                println!("refused    {name}: {}", m.lines().nth(1).unwrap_or(&m));
                continue;
            }
        };
        let theirs = parse(&read(&golden)?).and_then(|message| objects(&message));
        let theirs = theirs.map_err(|e| format!("{}: {e}", golden.display()))?;
        if ours == theirs {
            same += 1;
            continue;
        }
        different += 1;
        println!("DIFFERENT  {name}");
        let lacks = |list: &[String], m: &&String| !list.contains(m);
        for (who, only) in [
            ("only here", ours.iter().filter(|m| lacks(&theirs, m)).collect::<Vec<_>>()),
            ("only there", theirs.iter().filter(|m| lacks(&ours, m)).collect()),
        ] {
            only.iter().for_each(|m| println!("  {who}:\n    {}", m.replace('\n', "\n    ")));
        }
    }
    println!("{same} the same, {different} different, {refused} not compiled; {without} have no file to compare with");
    Ok(different == 0)
}
