// SPDX-License-Identifier: Apache-2.0
//! P4Info of the programs in tests/p4info, as recorded and read, and its links to the IR. After a wanted change run
//! with WEIR_BLESS=1 and read the difference. `weir-p4info --compare` compares with p4c's own files.
use std::path::Path;
use weir_p4::bytecode::program::Program;

fn compiled(name: &str) -> (Program, String) {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/p4info").join(name);
    let text = std::fs::read_to_string(at.with_extension("p4")).expect("the program can be read");
    let program = weir_p4::compile(name, &text, &[]).expect("the program compiles");
    let recorded = at.with_extension("txtpb");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&recorded, program.info.text()).expect("the record can be written");
    }
    (program, std::fs::read_to_string(recorded).expect("there is a record"))
}

#[test]
fn text_is_as_recorded() {
    let (program, recorded) = compiled("everything");
    assert_eq!(program.info.text(), recorded);
}

#[test]
fn links_lead_to_the_same_objects() {
    let (p, _) = compiled("everything");
    let info = &p.info;
    assert!(!info.tables.is_empty() && !info.action_profiles.is_empty());
    for t in &info.tables {
        let ir = &p.tables[t.ir_index];
        assert_eq!(ir.name, t.preamble.name);
        for a in &t.action_refs {
            let (used, known) = (&ir.actions[a.ir_index], info.action(a.id).expect("the action is known"));
            assert_eq!(used.name, known.preamble.name);
            assert_eq!(used.params.len(), known.params.len());
        }
    }
    for x in &info.action_profiles {
        assert_eq!(p.profiles[x.ir_index].name, x.preamble.name);
        let table = info.table(x.table_ids[0]).expect("the table is known");
        for (id, body) in &x.actions {
            let i = table.action(*id).expect("the action is the table's").ir_index;
            assert_eq!(p.tables[table.ir_index].actions[i].body, *body);
        }
    }
    info.counters.iter().for_each(|c| assert_eq!(p.counters[c.ir_index].name, c.preamble.name));
    info.direct_counters.iter().for_each(|c| assert_eq!(p.counters[c.ir_index].name, c.preamble.name));
    info.meters.iter().for_each(|m| assert_eq!(p.meters[m.ir_index].name, m.preamble.name));
    info.direct_meters.iter().for_each(|m| assert_eq!(p.meters[m.ir_index].name, m.preamble.name));
    info.registers.iter().for_each(|r| assert_eq!(p.registers[r.ir_index].name, r.preamble.name));
    info.digests.iter().for_each(|d| assert_eq!(p.digests[d.ir_index].name, d.preamble.name));
    info.value_sets.iter().for_each(|v| assert_eq!(p.value_sets[v.ir_index].name, v.preamble.name));
}
