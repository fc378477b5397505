// SPDX-License-Identifier: Apache-2.0
//! Programs of a few lines that would take all time or memory: each is refused, by the name of the limit.
use std::fmt::Write as _;
use weir_p4::bytecode::CALL_DEPTH;

/// A program with these declarations and this in ingress.
fn compile(before: &str, locals: &str, work: &str) -> Result<weir_p4::bytecode::program::Program, String> {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
        header byte_t {{ bit<8> v; }}\nstruct h_t {{ byte_t b; }}\nstruct m_t {{ bit<32> sum; }}\n{before}\n\
        parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {{\n\
            state start {{ p.extract(h.b); transition accept; }}\n}}\n\
        control V(inout h_t h, inout m_t m) {{ apply {{ }} }}\n\
        control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ {locals} apply {{ {work} }} }}\n\
        control E(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{ }} }}\n\
        control C(inout h_t h, inout m_t m) {{ apply {{ }} }}\n\
        control D(packet_out p, in h_t h) {{ apply {{ p.emit(h); }} }}\n\
        V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    );
    weir_p4::compile("test.p4", &text, &[]).map_err(|d| d.to_string())
}

/// `line(i)` for each level, each of which is made of the one before.
fn levels(first: &str, n: usize, line: impl Fn(usize) -> String) -> String {
    (1..=n).fold(format!("{first}\n"), |mut all, i| {
        let _ = writeln!(all, "{}", line(i));
        all
    })
}

fn refused(before: &str, locals: &str, work: &str, want: &str) {
    let said = compile(before, locals, work).map(|_| ()).unwrap_err();
    assert!(said.contains("unsupported: ") && said.contains(want), "{want}: {}", &said[..said.len().min(600)]);
}

#[test]
fn types_that_double() {
    let tuples = levels("typedef tuple<bit<8>, bit<8>> t0;", 60, |i| format!("typedef tuple<t{0}, t{0}> t{i};", i - 1));
    refused(&tuples, "", "", "a tuple of more than 65536 values in all");
    let empty = levels("struct t0 { }", 60, |i| format!("typedef tuple<t{0}, t{0}> t{i};", i - 1));
    refused(&empty, "", "", "a tuple of more than 65536 values in all");
    let names = levels("struct p<X, Y> { } typedef p<bit<8>, bit<8>> t0;", 60, |i| {
        format!("typedef p<t{0}, t{0}> t{i};", i - 1)
    });
    refused(&names, "", "", "a type whose arguments, written out, take");
    // Sixteen values are nothing.
    let few = levels("typedef tuple<bit<8>, bit<8>> t0;", 3, |i| format!("typedef tuple<t{0}, t{0}> t{i};", i - 1));
    compile(&few, "", "t3 x; t3 y; x = y;").unwrap();
}

#[test]
fn constants_that_double() {
    let types = levels("struct t0 { bit<8> a; }", 8, |i| format!("struct t{i} {{ t{0} a; t{0} b; }}", i - 1));
    let doubled = levels("const t0 c0 = { 1 };", 8, |i| format!("const t{i} c{i} = {{ c{0}, c{0} }};", i - 1));
    let many = levels("", 2000, |i| format!("const t8 d{i} = c8;"));
    refused(&(types + &doubled + &many), "", "", "steps to compile");
}

#[test]
fn statements_of_many_fields() {
    let fields = levels("", 1000, |i| format!("bit<8> f{i};"));
    // Three ways in which one statement becomes a thousand; each is refused once, not without a word.
    for work in ["x = { ... };", "if (x == y) { m.sum = 1; }", "x = { y.f1, ... };"] {
        let many = levels("", 3500, |_| work.into());
        let said = compile(&format!("struct x_t {{ {fields} }}"), "x_t x; x_t y;", &many).map(|_| ()).unwrap_err();
        assert_eq!(said.matches("steps to compile").count(), 1, "{work}: {}", &said[..said.len().min(600)]);
    }
}

#[test]
fn instances_that_double() {
    let line = |i: usize| {
        format!("control c{i}(inout m_t m) {{ c{0}() a; c{0}() b; apply {{ a.apply(m); b.apply(m); }} }}", i - 1)
    };
    let controls = levels("control c0(inout m_t m) { apply { m.sum = m.sum + 1; } }", 60, line);
    let said = compile(&controls, "c60() c;", "c.apply(m);").map(|_| ()).unwrap_err();
    assert!(said.contains("more than 10000 instances of parsers and controls"), "{}", &said[..said.len().min(600)]);
    let few = levels("control c0(inout m_t m) { apply { m.sum = m.sum + 1; } }", 5, line);
    compile(&few, "c5() c;", "c.apply(m);").unwrap();
}

#[test]
fn macros_and_includes_that_double() {
    let macros = levels("#define A0 ;", 60, |i| format!("#define A{i} A{0} A{0}", i - 1));
    refused(&(macros + "A60"), "", "", "more than 1000000 tokens");
    // The lexer stops there, also in a branch that is left out.
    refused(&format!("#if 0\n{}\n#endif\n", "; ".repeat(1_000_001)), "", "", "more than 1000000 tokens");
    let file = |i: usize| format!("// {}\n#include \"{1}\"\n#include \"{1}\"\n", "x".repeat(1000), i + 1);
    let mut files: std::collections::BTreeMap<String, String> = (0..60).map(|i| (i.to_string(), file(i))).collect();
    files.insert("60".into(), String::new());
    let said = weir_p4::compile_package("0", &files, &weir_p4::syntax::options::Macros::default())
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(said.contains("more than 4096 includes"), "{said}");
}

#[test]
fn calls_that_go_too_deep() {
    let chain = |n: usize| {
        let line = |i: usize| format!("bit<32> f{i}(in bit<32> x) {{ return f{}(x); }}", i - 1);
        compile(&levels("bit<32> f0(in bit<32> x) { return x; }", n, line), "", &format!("m.sum = f{n}(m.sum);"))
    };
    chain(CALL_DEPTH - 10).unwrap();
    let said = chain(3000).map(|_| ()).unwrap_err();
    assert!(said.contains("functions or controls that call each other; the most are 500"), "{said}");
}

#[test]
fn values_that_go_through_thousands_of_places_last_to_first() {
    let fields: String = (0..12_000).map(|i| format!("bit<128> f{i}; ")).collect();
    // Each round of looking finds out about one more of them.
    let copies: String = (1..12_000).rev().map(|i| format!("x.f{i} = x.f{}; ", i - 1)).collect();
    refused(&format!("struct x_t {{ {fields} }}"), "x_t x;", &(copies + "x.f0 = x.f0 + 1;"), "so many places");
}

#[test]
fn what_arrays_take_is_known_before_they_are_made() {
    let arrays = "register<bit<32>>(1000) a; register<bit<2048>>(1 << 24) b; counter(10, CounterType.bytes) c;";
    let program = compile("", arrays, "b.write(0, 0); a.write(0, 0); c.count(0);").unwrap();
    let found = program.array_bytes();
    let of = |name: &str| found.iter().find(|a| a.name.ends_with(name)).map(|a| a.bytes).unwrap();
    assert_eq!((of("a"), of("c")), (8000, 160));
    assert!(of("b") >= (2048 / 8) << 24);
}
