// SPDX-License-Identifier: Apache-2.0
//! The loader of BMv2's JSON (format 2.x, as p4c-bm2-ss writes it): a document becomes the same
//! [`Program`](crate::bytecode::program::Program) as source text does. A part that this switch lacks is an error with
//! its path; nothing is left out.
mod actions;
mod description;
mod expressions;
mod graph;
mod info;
mod layout;
mod parsers;
mod pipelines;
mod tree;

pub use description::describe;
pub use tree::Error;

use crate::bytecode::CALL_DEPTH;
use crate::bytecode::ir::{Block, Fields};
use crate::bytecode::lower::lower;
use crate::bytecode::operators::Slot;
use crate::bytecode::program::*;
use crate::p4info::proto as pb;
use actions::{Calculation, Names};
use layout::{FieldPlace, Layout, if_valid, load as read};
use parsers::{Parsers, errors, no_error, only, value_sets};
use pipelines::{Pipelines, algorithm};
use std::collections::HashMap;
use std::sync::Arc;
use tree::{Item, Res};

/// Cells of an array.
const MAX_CELLS: u64 = 1 << 24;

/// A document that was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The program, with a P4Info made from the document's names.
    pub program: Program,
    headers: Vec<info::Header>,
}

impl Loaded {
    /// The program with a controller's P4Info, which also has what the document lacks: packet-in and packet-out headers,
    /// units of counters, types, optional keys.
    ///
    /// # Errors
    /// The first point in which the P4Info does not fit the program.
    pub fn with_p4info(mut self, given: &pb::P4Info) -> Result<Program, String> {
        let info = info::adopted(&mut self.program, &self.headers, given)?;
        self.program.info = Arc::new(info);
        // Kinds of keys and counters may be others now.
        let code = lower(&self.program).ok_or("takes too long to compile")?;
        self.program.code = Some(Arc::new(code));
        Ok(self.program)
    }
}

/// Whether a text is BMv2's JSON rather than a P4 program.
pub fn is_json(text: &str) -> bool {
    // No P4 program begins so.
    text.trim_start().starts_with('{')
}

/// Loads a document.
///
/// # Errors
/// The first part that is wrong or unsupported.
pub fn load(text: &str) -> Result<Loaded, Error> {
    let failed = |e: std::io::Error| Error { at: String::new(), message: format!("no thread to load in: {e}") };
    crate::stack::run(|| {
        let value = tree::parse(text)?;
        document(&Item::root(&value))
    })
    .unwrap_or_else(|e| Err(failed(e)))
}

fn document(root: &Item) -> Res<Loaded> {
    root.get("header_types")?;
    if let Some(version) = root.opt("__meta__").and_then(|m| m.opt("version")) {
        let [major, _] = version.exactly()?;
        if major.number()? != 2 {
            return version.unsupported("a version other than 2");
        }
    }
    if let Some(x) = root.items("extern_instances")?.first() {
        return x.unsupported("an instance of an extern");
    }
    let pipelines = pipeline_items(root)?;
    let mut program = Program::default();
    let mut names = Names { layout: Layout::read(root)?, ..Names::default() };
    let direct = arrays(root, &mut names, &mut program)?;
    lists(root, &mut names, &mut program)?;
    let (error_names, none) = errors(root)?;
    program.errors = error_names;
    let actions = names.actions(root, &mut program.procs)?;
    program.procs.push(Block::new());
    let no_action = program.procs.len() - 1;
    let mut parsers = Parsers { names: &names, value_sets: value_sets(root)? };
    program.parsers = vec![parsers.parser(root)?];
    program.value_sets = std::mem::take(&mut parsers.value_sets);
    let (verified, updated) = parsers.checksums(root)?;
    let deparser = parsers.deparser(root)?;
    let mut p = Pipelines {
        names: &names,
        actions,
        direct_counters: direct.counters,
        direct_meters: direct.meters,
        tables: Vec::new(),
        profiles: Vec::new(),
        selectors: Vec::new(),
        no_action,
    };
    let [ingress, egress] = pipelines;
    let ingress = p.pipeline(&ingress, &mut program.procs)?;
    let egress = p.pipeline(&egress, &mut program.procs)?;
    (program.tables, program.profiles) = (p.tables, p.profiles);
    let mut verify = no_error(&names, none);
    verify.extend(verified);
    let mut add = |code: Block| {
        program.procs.push(code);
        program.procs.len() - 1
    };
    (program.verify, program.ingress, program.egress) = (add(verify), add(ingress), add(egress));
    (program.compute, program.deparser) = (add(updated), add(deparser));
    program.source = names.source.into_inner();
    let fixed = names.layout.places.iter().filter(|(_, place)| place.addr.dyns.is_empty());
    program.source.headers = fixed.map(|(name, place)| (place.addr.base, name.clone())).collect();
    finish(root, names.layout, program)
}

fn finish(root: &Item, layout: Layout, mut program: Program) -> Res<Loaded> {
    program.slots = layout.slots.get();
    (program.headers, program.meta, program.std) = (layout.headers, layout.meta, layout.std);
    program.std_fields = layout.std_fields.clone();
    let tables = program.tables.iter().map(|t| ("table", t.name.as_str()));
    let profiles = program.profiles.iter().map(|p| ("action profile", p.name.as_str()));
    let sets = program.value_sets.iter().map(|v| ("value set", v.name.as_str()));
    if let Some((kind, name)) = twice(tables.chain(profiles).chain(sets)) {
        return root.err(format!("more than one {kind} is named `{name}`"));
    }
    let mut known: HashMap<&str, Vec<u32>> = HashMap::new();
    for a in program.tables.iter().filter(|t| !info::is_hidden(t)).flat_map(|t| &t.actions) {
        let widths: Vec<u32> = a.params.iter().map(|p| p.width).collect();
        if *known.entry(&a.name).or_insert_with(|| widths.clone()) != widths {
            return root.unsupported(format!("two actions named `{}` with different parameters", a.name));
        }
    }
    let depth = program.call_depth();
    if depth > CALL_DEPTH {
        return root.unsupported(format!("{depth} calls within each other"));
    }
    program.info = Arc::new(info::made(&program));
    let Some(code) = lower(&program) else {
        return root
            .unsupported("a program whose values go through so many places that it can't be compiled in seconds");
    };
    program.code = Some(Arc::new(code));
    let fields = |t: &layout::HeaderType| t.fields.iter().map(|f| (f.name.clone(), f.width)).collect();
    let headers = layout.types.iter().map(|t| (t.name.clone(), fields(t))).collect();
    Ok(Loaded { program, headers })
}

fn twice<'a>(names: impl Iterator<Item = (&'a str, &'a str)>) -> Option<(&'a str, &'a str)> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|n| !seen.insert(*n))
}

/// Ingress and egress. Other architectures have other pipelines.
fn pipeline_items<'a>(root: &Item<'a>) -> Res<[Item<'a>; 2]> {
    only(root, "parsers")?;
    let list = root.get("pipelines")?.list()?;
    let find = |name: &str| list.iter().find(|p| p.name().is_ok_and(|n| n == name)).cloned();
    match (find("ingress"), find("egress"), list.len()) {
        (Some(ingress), Some(egress), 2) => Ok([ingress, egress]),
        _ => root.get("pipelines")?.unsupported("pipelines other than ingress and egress of v1model"),
    }
}

/// Direct counters and meters by their table.
#[derive(Default)]
struct Direct {
    counters: HashMap<String, usize>,
    meters: HashMap<String, (usize, FieldPlace)>,
}

fn arrays(root: &Item, names: &mut Names, program: &mut Program) -> Res<Direct> {
    let mut direct = Direct::default();
    for item in root.items("register_arrays")? {
        let (name, size) = (item.name()?.to_string(), item.get("size")?.up_to(MAX_CELLS)? as usize);
        let width = item.get("bitwidth")?.up_to(u64::from(crate::value::MAX_WIDTH))? as u32;
        if width == 0 {
            return item.unsupported("a register without bits");
        }
        if names.registers.insert(name.clone(), (program.registers.len(), width)).is_some() {
            return item.err(format!("register array `{name}` is declared twice"));
        }
        program.registers.push(RegisterDecl { name, size, width });
    }
    let size = |item: &Item| match item.flag_or("is_direct", false)? {
        true => Ok(None),
        false => Ok(Some(item.get("size")?.up_to(MAX_CELLS)? as usize)),
    };
    for item in root.items("counter_arrays")? {
        let (name, size) = (item.name()?.to_string(), size(&item)?);
        let i = program.counters.len();
        if size.is_none() {
            let table = item.get("binding")?;
            if direct.counters.insert(table.text()?.into(), i).is_some() {
                return table.unsupported("a second direct counter of a table");
            }
        }
        if names.counters.insert(name.clone(), i).is_some() {
            return item.err(format!("counter array `{name}` is declared twice"));
        }
        program.counters.push(CounterDecl { name, kind: CountKind::Both, size });
    }
    for item in root.items("meter_arrays")? {
        let (name, size) = (item.name()?.to_string(), size(&item)?);
        if let Some(n) = item.opt("rate_count").filter(|n| n.v.as_u64() != Some(2)) {
            return n.unsupported("a meter with another number of rates than 2");
        }
        let ty = item.get("type")?;
        let kind = match ty.text()? {
            "packets" => CountKind::Packets,
            "bytes" => CountKind::Bytes,
            other => return ty.unsupported(format!("a meter of type `{other}`")),
        };
        let (i, mut width) = (program.meters.len(), 0);
        if size.is_none() {
            let target = item.get("result_target")?;
            let [header, field] = target.exactly()?;
            let Some(f) = names.layout.field(header.text()?, field.text()?) else {
                return target.err("the field is not declared");
            };
            width = f.width;
            let table = item.get("binding")?;
            if direct.meters.insert(table.text()?.into(), (i, f)).is_some() {
                return table.unsupported("a second direct meter of a table");
            }
        }
        if names.meters.insert(name.clone(), i).is_some() {
            return item.err(format!("meter array `{name}` is declared twice"));
        }
        program.meters.push(MeterDecl { name, kind, size, width });
    }
    Ok(direct)
}

/// Calculations, learn lists and field lists.
fn lists(root: &Item, names: &mut Names, program: &mut Program) -> Res<()> {
    let mut calculations = HashMap::new();
    for item in root.items("calculations")? {
        let algorithm = algorithm(&item.get("algo")?)?;
        let (mut fields, mut with_payload) = (Fields::new(), false);
        for input in item.get("input")?.list()? {
            if with_payload {
                return input.unsupported("an input after the payload");
            }
            with_payload = input.opt("type").is_some_and(|t| t.v.as_str() == Some("payload"));
            if !with_payload {
                data(names, &input, &mut fields)?;
            }
        }
        calculations.insert(item.name()?.to_string(), Calculation { algorithm, fields, with_payload });
    }
    names.calculations = calculations;
    for item in root.items("learn_lists")? {
        let (mut fields, mut named) = (Fields::new(), Vec::new());
        for e in item.get("elements")?.list()? {
            let mut env = names.env(&[], false);
            let (value, width, _) = env.typed(&e)?;
            if !env.code.is_empty() {
                return e.unsupported("an element of a learn list other than a field");
            }
            named.push((format!("f{}", fields.len()), width));
            fields.push((value, width, None));
        }
        let (id, name) = (item.get("id")?.number()?, item.name()?);
        // Calls with one type are one kind of digest.
        let i = match program.digests.iter().position(|d| d.name == name) {
            Some(i) if program.digests[i].fields == named => i,
            Some(_) => return item.err(format!("another learn list is named `{name}`, with other widths")),
            None => {
                program.digests.push(DigestDecl { name: name.into(), fields: named });
                program.digests.len() - 1
            }
        };
        if names.digests.insert(id, (i, fields)).is_some() {
            return item.err(format!("id {id} is that of another learn list"));
        }
    }
    for item in root.items("field_lists")? {
        let id = item.get("id")?.number()?;
        let mut slots: Vec<Slot> = Vec::new();
        for e in item.get("elements")?.list()? {
            let mut env = names.env(&[], false);
            let f = env.field(&e)?;
            if !f.addr.dyns.is_empty() || !env.code.is_empty() {
                return e.unsupported("an element of a field list other than a plain field");
            }
            slots.extend(f.addr.base..f.addr.base + if f.is_varbit { 2 } else { 1 });
        }
        if !names.field_lists.insert(id) {
            return item.err(format!("id {id} is that of another field list"));
        }
        program.field_lists.push((id, slots));
    }
    Ok(())
}

/// An input of a hash or checksum. BMv2 leaves out fields of headers that are not valid.
fn data(names: &Names, input: &Item, out: &mut Fields) -> Res<()> {
    use crate::bytecode::ir::Expression;
    let field = |f: FieldPlace| {
        let e = read(&f.addr);
        let length = match (f.is_varbit, &f.valid) {
            (true, valid) => {
                let length = read(&layout::shifted(&f.addr, 1));
                Some(valid.as_ref().map_or(length.clone(), |v| if_valid(v, length)))
            }
            (false, Some(valid)) => Some(if_valid(valid, Expression::Const(u128::from(f.width).into()))),
            (false, None) => None,
        };
        (e, f.width, length)
    };
    match input.get("type")?.text()? {
        "header" => {
            let value = input.get("value")?;
            let Some(place) = names.layout.places.get(value.text()?) else {
                return value.err("the header is not declared");
            };
            let ty = &names.layout.types[place.ty];
            out.extend((0..ty.fields.len()).filter_map(|i| ty.field(place, i)).map(field));
        }
        "hexstr" => {
            let width = input.get("bitwidth")?.up_to(u64::from(crate::value::MAX_WIDTH))? as u32;
            let v = expressions::hex(&input.get("value")?)?;
            out.push((Expression::Const(crate::value::Val::from_int(&v, width)), width, None));
        }
        _ => {
            let mut env = names.env(&[], false);
            let f = env.field(input)?;
            if !env.code.is_empty() {
                return input.unsupported("an input of a calculation other than a plain field");
            }
            out.push(field(f));
        }
    }
    Ok(())
}
