// SPDX-License-Identifier: Apache-2.0
//! Programs with mistakes in tests/diagnostics, and the front end's errors. After a wanted change run with WEIR_BLESS=1
//! and read the difference.
use std::path::Path;

#[test]
fn messages_are_as_recorded() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let mut programs: Vec<_> = std::fs::read_dir(&dir)
        .expect("the folder is there")
        .map(|e| e.expect("its entries can be read").path())
        .filter(|p| p.extension().is_some_and(|e| e == "p4"))
        .collect();
    programs.sort();
    assert!(programs.len() >= 12, "only {} programs", programs.len());
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut wrong = Vec::new();
    for p in programs {
        let name = p.file_name().expect("a file").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&p).expect("the program can be read");
        let said = match weir_p4::compile(&name, &text, &[]) {
            Ok(p) => format!("accepted\n{}", p.warnings),
            Err(d) => d.to_string(),
        };
        let recorded = p.with_extension("txt");
        if bless {
            std::fs::write(&recorded, &said).expect("the record can be written");
        } else if std::fs::read_to_string(&recorded).ok().as_deref() != Some(&said) {
            wrong.push(format!("{name} says:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
