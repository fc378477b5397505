// SPDX-License-Identifier: Apache-2.0
//! Macros from the command line and from a package.
use crate::common::repository;
use std::collections::BTreeMap;
use std::process::Command;
use weir_p4::syntax::options::{Macros, Options};

/// A program that says by an error which macros it sees.
const PROGRAM: &str = "#if SIZE == 8
#if SUM(1, 2) == 3
#error all seen
#endif
#elif defined(__TARGET_BMV2__)
#error for BMv2
#else
#error none
#endif
";

fn said(tool: &str, args: &[&str]) -> String {
    let file = std::env::temp_dir().join(format!("weir-macros-{}-{}.p4", std::process::id(), args.len()));
    std::fs::write(&file, PROGRAM).expect("a file can be written");
    std::fs::write(file.with_extension("stf"), "").expect("a file can be written");
    let out = Command::new(tool).current_dir(repository()).args(args).arg(&file).output().expect("the command starts");
    for ext in ["p4", "stf"] {
        std::fs::remove_file(file.with_extension(ext)).expect("the file is there");
    }
    assert!(!out.status.success());
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn every_tool_takes_them() {
    for tool in [env!("CARGO_BIN_EXE_weir-stf"), env!("CARGO_BIN_EXE_weir-p4info")] {
        for (args, want) in [
            (&["-DSIZE=8", "-D", "SUM(a, b)=(a + b)"][..], "#error all seen"),
            (&["-DSIZE=8", "-D", "SUM(a, b)=(a + b)", "-USIZE"], "#error for BMv2"),
            (&[], "#error for BMv2"),
            (&["-U", "__TARGET_BMV2__"], "#error none"),
            (&["-D", "8SIZE"], "-D 8SIZE: must be NAME, NAME=VALUE or NAME(PARAMETERS)=VALUE"),
            (&["-USIZE=8"], "-U SIZE=8: must be the name of a macro"),
        ] {
            let text = said(tool, args);
            assert!(text.contains(want), "{tool} {args:?}: {text}");
        }
    }
}

#[test]
fn one_without_a_value_is_1_and_a_wrong_value_is_shown() {
    let mut macros = Macros::default();
    macros.define("ONE").expect("a name");
    macros.define("BAD=\"open").expect("a name and a value");
    let files = BTreeMap::from([("m.p4".to_string(), "#if ONE != 1\n#error not 1\n#endif\nconst int X = BAD;".into())]);
    let e = weir_p4::compile_package("m.p4", &files, &macros).expect_err("the string is not closed").to_string();
    assert!(!e.contains("not 1") && e.contains("string is not closed"), "{e}");
    let options = Options { folders: Vec::new(), macros };
    assert!(
        weir_p4::compile_with("m.p4", "#ifndef ONE\n#error lost\n#endif", &options)
            .is_err_and(|e| !e.to_string().contains("lost"))
    );
}
