// SPDX-License-Identifier: Apache-2.0
//! Programs compiled from memory.
use std::collections::BTreeMap;
use weir_p4::package::Package;
use weir_p4::syntax::options::{Macros, Options};

fn package(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(n, t)| (n.to_string(), t.to_string())).collect()
}

#[test]
fn includes_come_from_the_package() {
    let files = package(&[
        ("src/main.p4", "#include <core.p4>\n#include \"parts/a.p4\"\nconst bit<8> Z = X + Y;"),
        ("src/parts/a.p4", "#include \"../b.p4\"\nconst bit<8> X = 1;"),
        ("src/b.p4", "#include \"include/c.p4\"\n"),
        ("include/c.p4", "const bit<8> Y = 1;"),
    ]);
    let e = weir_p4::compile_package("src/main.p4", &files, &Macros::default()).unwrap_err().to_string();
    // All was found; a program needs a `main` besides.
    assert!(!e.contains("include") && e.contains("main"), "{e}");
}

#[test]
fn the_machine_s_files_are_out_of_reach() {
    let text = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    for name in [text.to_str().unwrap(), "../../../../../../../etc/passwd", "Cargo.toml", "src/../../Cargo.toml"] {
        for include in [format!("#include \"{name}\"\n"), format!("#include <{name}>\n")] {
            let e = weir_p4::compile_package("src/main.p4", &package(&[("src/main.p4", &include)]), &Macros::default())
                .unwrap_err();
            let e = e.to_string();
            assert!(e.contains("is not found"), "{include}: {e}");
        }
    }
}

#[test]
fn a_missing_main_file_is_named() {
    let e = weir_p4::compile_package("main.p4", &package(&[]), &Macros::default()).unwrap_err().to_string();
    assert!(e.contains("the package has no file `main.p4`"), "{e}");
}

/// Each program of the STF corpus and of this project, packed and compiled from its JSON, has the same P4Info.
#[test]
fn a_packed_program_is_the_program() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for folder in ["tests/stf", "../../programs"] {
        for entry in std::fs::read_dir(top.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "p4") {
                continue;
            }
            let (name, text) = (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
            let mut options = Options { folders: vec![top.join("../../include")], ..Options::default() };
            options.macros.define("PACKED=2").unwrap();
            let Ok((package, program)) = Package::of_file(&name, &text, &options) else { continue };
            let again = Package::read(&package.json(Default::default()).unwrap()).unwrap().unwrap();
            assert_eq!(again, package, "{name}");
            assert_eq!(again.compile().unwrap_or_else(|e| panic!("{name}: {e}")).info, program.info, "{name}");
            count += 1;
        }
    }
    assert!(count > 15, "{count} programs");
}
