// SPDX-License-Identifier: Apache-2.0
//! Source that nests deep is compiled and run on a thread with a small stack, or refused with a message.
use std::sync::Arc;
use weir_p4::v1model::{Notes, Switch};

const DEEP: usize = 5_000;
const TOO_DEEP: usize = 20_000;

fn program(declarations: &str, apply: &str) -> String {
    format!(
        "#include <v1model.p4>
        header h_t {{ bit<16> a; bit<16> b; bool c; bit<7> rest; }}
        struct headers_t {{ h_t h; h_t[4] s; }}
        struct meta_t {{ }}
        {declarations}
        parser P(packet_in b, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
            state start {{ b.extract(h.h); transition accept; }}
        }}
        control V(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
        control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
            apply {{ s.egress_spec = 1; {apply} }}
        }}
        control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{ }} }}
        control C(inout headers_t h, inout meta_t m) {{ apply {{ }} }}
        control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h.h); }} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;"
    )
}

/// Result of `apply` for a packet with a = 3 and b = 5: a.
fn run(apply: &str) -> u16 {
    let p = weir_p4::compile("deep.p4", &program("", apply), &[]).unwrap_or_else(|d| panic!("{d}"));
    let mut switch = Switch::new(Arc::new(p), 1);
    let mut notes = Notes::default();
    let sent = switch.process(&[0, 3, 0, 5, 0], 0, 0, &mut notes);
    assert!(notes.faults.is_empty(), "{:?}", notes.faults);
    u16::from_be_bytes([sent[0].packet[0], sent[0].packet[1]])
}

fn refused(apply: &str) -> String {
    weir_p4::compile("deep.p4", &program("", apply), &[]).expect_err("it is nested too deep").to_string()
}

/// `n` times `before`, then `inner`, then `n` times `after`.
fn nest(n: usize, before: &str, inner: &str, after: &str) -> String {
    format!("h.h.a = {}{inner}{};", before.repeat(n), after.repeat(n))
}

#[test]
fn expressions_nest_deep_and_keep_their_value() {
    let n = DEEP as u16;
    for (apply, want) in [
        (nest(DEEP, "(", "h.h.a", ")"), 3),
        (nest(DEEP, "(", "h.h.b", " + h.h.a)"), 5 + 3 * n),
        (nest(DEEP, "(h.h.a + ", "h.h.b", ")"), 5 + 3 * n),
        (nest(DEEP, "", "h.h.b", " - h.h.a"), 5u16.wrapping_sub(3 * n)),
        (nest(DEEP, "~", "h.h.b", ""), 5),
        (nest(DEEP, "(bit<16>)", "h.h.b", ""), 5),
        (nest(DEEP, "(h.h.b == 5 ? ", "h.h.b", " : h.h.a)"), 5),
        (nest(DEEP, "(h.h.b == 6 ? h.h.b : ", "h.h.a", ")"), 3),
        (nest(DEEP / 5, "(bit<16>)((", "h.h.b", " ++ 8w1)[23:8])"), 5),
    ] {
        assert_eq!(run(&apply), want, "{}...", &apply[..60]);
    }
}

/// Operators that decide whether their right side runs keep doing so.
#[test]
fn deep_conditions_keep_their_order() {
    let and = format!("if ({}h.h.b == 5{}) {{ h.h.a = 9; }}", "(h.h.a == 3 && ".repeat(DEEP), ")".repeat(DEEP));
    assert_eq!(run(&and), 9);
    let or = format!("if ({}h.h.b == 6{}) {{ h.h.a = 9; }}", "(h.h.a == 4 || ".repeat(DEEP), ")".repeat(DEEP));
    assert_eq!(run(&or), 3);
    let not = format!("if ({}(h.h.b == 5)) {{ h.h.a = 9; }}", "!".repeat(DEEP));
    assert_eq!(run(&not), 9);
}

#[test]
fn statements_nest_deep() {
    let blocks = format!("{}h.h.a = 9;{}", "if (h.h.b == 5) {".repeat(300), "}".repeat(300));
    assert_eq!(run(&blocks), 9);
    let chain: String = (0..400).map(|i| format!("if (h.h.b == {}) {{ h.h.a = 9; }} else ", 1000 + i)).collect();
    assert_eq!(run(&format!("{chain} {{ h.h.a = 8; }}")), 8);
}

#[test]
fn what_is_too_deep_is_refused() {
    for apply in [
        nest(TOO_DEEP, "(", "h.h.a", ")"),
        nest(TOO_DEEP, "", "h.h.b", " - h.h.a"),
        nest(TOO_DEEP, "~", "h.h.b", ""),
        nest(TOO_DEEP, "", "h", ".h"),
        nest(TOO_DEEP, "", "h.s", "[0]"),
        nest(TOO_DEEP, "", "h.h", ".a()"),
        format!("{} x;", "tuple<".repeat(TOO_DEEP)),
        format!("bit<8>{} x;", "[1]".repeat(TOO_DEEP)),
    ] {
        let said = refused(&apply);
        assert!(said.contains("nested more than 10000 deep"), "{}... {said}", &apply[..60]);
    }
    let said = refused(&format!("{}{}", "{".repeat(TOO_DEEP), "}".repeat(TOO_DEEP)));
    assert!(said.contains("statements are nested more than 1000 deep"), "{said}");
}
