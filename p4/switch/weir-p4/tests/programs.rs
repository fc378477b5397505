// SPDX-License-Identifier: Apache-2.0
//! p4/pid_delay.p4 by the scripts in p4/tests.
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_p4::ir::Program;
use weir_p4::stf::{run, Outcome};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn program() -> Arc<Program> {
    let path = folder().join("pid_delay.p4");
    let text = std::fs::read_to_string(&path).expect("the program can be read");
    let name = path.display().to_string();
    Arc::new(weir_p4::compile(&name, &text, &[folder()]).unwrap_or_else(|d| panic!("{d:?}")))
}

#[test]
fn scripts() {
    let program = program();
    let list = std::fs::read_dir(folder().join("tests")).expect("the scripts are there");
    let mut files: Vec<PathBuf> = list.map(|e| e.expect("a readable entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "stf"));
    assert!(!files.is_empty(), "no scripts");
    files.sort();
    for f in files {
        let script = std::fs::read_to_string(&f).expect("a script can be read");
        assert_eq!(run(program.clone(), &script), Outcome::Passed, "{}", f.display());
    }
}
