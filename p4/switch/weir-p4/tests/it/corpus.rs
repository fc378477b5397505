// SPDX-License-Identifier: Apache-2.0
//! The `weir-corpus` command, with a shell script in p4c's place: under test is the comparison of verdicts.
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn program(apply: &str) -> String {
    format!(
        "#include <v1model.p4>
        struct headers_t {{ }}
        struct meta_t {{ }}
        parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
            state start {{ transition accept; }}
        }}
        control V(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
        control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{ {apply} }} }}
        control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{ }} }}
        control C(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
        control D(packet_out b, in headers_t h) {{ apply {{ }} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;"
    )
}

/// A folder of its own with programs: good and bad ones, and a file that is no program.
fn folder(name: &str) -> PathBuf {
    let at = std::env::temp_dir().join(format!("weir-corpus-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(at.join("deep/er")).expect("a folder");
    let write = |file: &str, text: &str| std::fs::write(at.join(file), text).expect("a file");
    write("deep/er/good.p4", &program("s.egress_spec = PORT;"));
    write("bad.p4", &program("s.egress_spec = true; s.nowhere = 1;"));
    write("part.p4", "const bit<8> X = 1; // V1Switch() main;");
    at
}

/// Exit code and output; `p4c` is the stand-in for p4c.
fn run(folder: &Path, p4c: Option<&str>, args: &[&str]) -> (Option<i32>, String) {
    let bin = folder.with_extension("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    if let Some(script) = p4c {
        let file = bin.join("p4c-bm2-ss");
        std::fs::write(&file, format!("#!/bin/sh\nfor last; do :; done\n{script}\n")).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it can be executed");
    }
    let path = if p4c.is_some() { format!("{}:/bin:/usr/bin", bin.display()) } else { bin.display().to_string() };
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-corpus"));
    let out = command.args(args).arg(folder).env("PATH", path).output().expect("the command starts");
    (out.status.code(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

fn remove(folder: &Path) {
    std::fs::remove_dir_all(folder).expect("the folder is there");
    std::fs::remove_dir_all(folder.with_extension("bin")).expect("the folder is there");
}

#[test]
fn verdicts_are_compared_with_p4c_s() {
    let at = folder("verdicts");
    let (code, said) = run(&at, None, &["-DPORT=1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("deep/er/good.p4\n") && said.contains("1 of 2 taken"), "{said}");
    assert!(said.contains("bad.p4:8:") && !said.contains("part.p4"), "{said}");
    assert!(said.contains("p4c was not run: neither p4c-bm2-ss nor p4c is on PATH"), "{said}");
    // Without the macro both are refused, of one class.
    let (_, said) = run(&at, None, &[]);
    assert!(said.contains("0 of 2 taken") && said.contains("    1  name `...` is not declared"), "{said}");

    let by_name = "case $last in *good*) exit 0;; *) echo 'bad.p4(8): error: no'; exit 1;; esac";
    let (code, said) = run(&at, Some(by_name), &["-DPORT=1"]);
    assert!(code == Some(0) && said.contains("p4c-bm2-ss has another verdict on 0"), "{said}");
    let (code, said) = run(&at, Some("exit 0"), &["-DPORT=1"]);
    assert!(code == Some(1) && said.contains("ONLY p4c ") && said.contains("another verdict on 1"), "{said}");
    let (code, said) = run(&at, Some("echo 'x: error: wrong' >&2; exit 1"), &["-DPORT=1"]);
    assert!(code == Some(1) && said.contains("ONLY here") && said.contains("x: error: wrong"), "{said}");
    // The macros reach p4c.
    let (code, said) = run(
        &at,
        Some("case \"$*\" in *' -DPORT=1 -DF(a, b)=a b -UQ '*) exit 1;; esac"),
        &["-DPORT=1", "-D", "F(a, b)=a b", "-UQ"],
    );
    assert!(code == Some(1) && said.contains("another verdict on 1"), "{said}");
    remove(&at);
}

#[test]
fn what_is_no_corpus_is_an_error() {
    let at = folder("none");
    std::fs::remove_file(at.join("bad.p4")).expect("the file is there");
    std::fs::remove_dir_all(at.join("deep")).expect("the folder is there");
    let (code, said) = run(&at, None, &[]);
    assert!(code == Some(2) && said.contains("there is no v1model program"), "{said}");
    let gone = at.with_extension("gone");
    let (code, said) = run(&gone, None, &[]);
    assert!(code == Some(2) && said.contains("gone: No such file"), "{said}");
    remove(&at);
}

#[test]
fn a_path_without_a_program_is_reported_and_the_others_are_compiled() {
    let (at, empty, gone) = (folder("several"), folder("several-empty"), folder("several-gone"));
    std::fs::remove_file(empty.join("bad.p4")).expect("the file is there");
    std::fs::remove_dir_all(empty.join("deep")).expect("the folder is there");
    std::fs::remove_dir_all(&gone).expect("the folder is there");
    let paths = [&empty, &gone].map(|path| path.to_str().expect("UTF-8"));
    let (code, said) = run(&at, None, &[&["-DPORT=1"], &paths[..]].concat());
    assert_eq!(code, Some(2), "{said}");
    assert!(paths.iter().all(|path| said.contains(path)), "{said}");
    assert!(said.contains("deep/er/good.p4\n") && said.contains("1 of 2 taken"), "{said}");
    remove(&at);
    std::fs::remove_dir_all(&empty).expect("the folder is there");
}

#[test]
fn bmv2_json_is_a_program_too() {
    let at = folder("json");
    let document = include_str!("../bmv2/forward.json");
    std::fs::write(at.join("deep/good.json"), document).expect("a file");
    std::fs::write(at.join("other.json"), "{\"header_types\": []}").expect("a file");
    let wrong = document.replace("\"op\": \"extract\"", "\"op\": \"pull\"");
    std::fs::write(at.join("wrong.json"), wrong).expect("a file");
    // p4c is not asked about them.
    let (code, said) = run(&at, Some("exit 1"), &["-DPORT=true"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("good.json\n") && said.contains("1 of 4 taken"), "{said}");
    assert!(said.contains("    1  unsupported: parser operation `...`"), "{said}");
    remove(&at);
}
