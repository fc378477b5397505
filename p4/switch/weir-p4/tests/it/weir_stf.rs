// SPDX-License-Identifier: Apache-2.0
//! The `weir-stf` command.
use crate::common::repository;
use std::process::Command;

/// Exit code and all that was printed.
fn weir_stf(args: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_weir-stf")).current_dir(repository()).args(args).output();
    let out = out.expect("the command starts");
    (out.status.code(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[test]
fn one_program_for_all_scripts() {
    let (code, said) = weir_stf(&["p4/tests"]);
    assert!(code == Some(2) && said.contains("--p4 FILE names one program for all scripts"), "{said}");
    let (code, said) = weir_stf(&["--p4", "p4/pid_delay.p4", "p4/tests"]);
    assert!(code == Some(0) && said.contains("passed       forward\n") && said.contains(" 0 failed"), "{said}");
    let (code, said) = weir_stf(&["-q", "--p4", "p4/pid_delay.p4", "p4/tests/forward.stf"]);
    assert!(code == Some(0) && said == "1 passed, 0 failed, 0 unsupported of 1\n", "{said}");
}

#[test]
fn wrong_arguments_are_named() {
    for (args, want) in [
        (&["--p4", "none.p4", "p4/tests"][..], "--p4 none.p4: there is no such file"),
        (&["--p4", "p4/pid_delay.p4", "p4/README.md"], "p4/README.md: it is neither a .stf file nor a folder of such"),
        (&["--p4", "p4/pid_delay.p4", "--p4", "p4/programs/law_probe.p4", "p4/tests"], "--p4 is given twice"),
        (&["--p4"], "--p4 needs a file"),
    ] {
        let (code, said) = weir_stf(args);
        assert!(code == Some(2) && said.contains(want), "{args:?}: {said}");
    }
}

#[test]
fn an_expected_packet_that_is_no_hex_fails_by_its_line() {
    let file = std::env::temp_dir().join(format!("weir-stf-{}.stf", std::process::id()));
    for (line, want) in [("expect 1 00zz", "line 2: `00zz` has the wrong digit `z`"), ("expect 1 0$0", "digit `$`")] {
        std::fs::write(&file, format!("# hex\n{line}\n")).expect("a file can be written");
        let (code, said) = weir_stf(&["--p4", "p4/pid_delay.p4", &file.to_string_lossy()]);
        assert!(code == Some(1) && said.contains(want), "{said}");
    }
    std::fs::remove_file(&file).expect("the file is there");
}

#[test]
fn a_prefix_longer_than_its_key_fails_by_its_line() {
    let file = std::env::temp_dir().join(format!("weir-stf-prefix-{}.stf", std::process::id()));
    for (length, code) in [(32, Some(0)), (33, Some(1)), (240, Some(1))] {
        let text = format!("# prefix\nadd ipv4_lpm hdr.ipv4.dst:0x0a000000/{length} set_next_hop(next_hop:1)\n");
        std::fs::write(&file, text).expect("a file can be written");
        let (got, said) = weir_stf(&["--p4", "p4/pid_delay.p4", &file.to_string_lossy()]);
        assert_eq!(got, code, "/{length}: {said}");
        assert_eq!(got == Some(1), said.contains("line 2"), "/{length}: {said}");
    }
    std::fs::remove_file(&file).expect("the file is there");
}
