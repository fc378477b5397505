// SPDX-License-Identifier: Apache-2.0
//! Names, ids and aliases.
use super::*;

/// One-at-a-time hash by Bob Jenkins, of which ids take the low 24 bits.
pub(crate) fn name_hash(name: &str) -> u32 {
    let mut h = 0u32;
    for b in name.bytes() {
        h = h.wrapping_add(u32::from(b));
        h = h.wrapping_add(h << 10);
        h ^= h >> 6;
    }
    h = h.wrapping_add(h << 3);
    h ^= h >> 11;
    h.wrapping_add(h << 15)
}

/// Names that get ids and aliases.
#[derive(Default)]
pub(crate) struct Symbols {
    /// Kind and name; the id is 0 until it is given out.
    pub(crate) ids: BTreeMap<(Prefix, String), u32>,
    taken: BTreeSet<u32>,
    /// Number of names with each suffix of whole components.
    pub(super) suffixes: BTreeMap<String, usize>,
}

impl Symbols {
    /// The shortest suffix of a name that no other object has.
    pub(crate) fn alias(&self, name: &str) -> String {
        suffixes(name).find(|s| self.suffixes.get(*s) == Some(&1)).unwrap_or(name).to_string()
    }

    pub(crate) fn number(&mut self) {
        for ((prefix, name), id) in self.ids.iter_mut().filter(|(_, id)| **id == 0) {
            let kind = (*prefix as u32) << 24;
            let mut at = name_hash(name);
            while self.taken.contains(&(kind | at & 0xff_ffff)) {
                at = at.wrapping_add(1);
            }
            *id = kind | at & 0xff_ffff;
            self.taken.insert(*id);
        }
        // A name that two kinds share counts once.
        let names: BTreeSet<&String> = self.ids.keys().map(|(_, n)| n).collect();
        for n in names {
            suffixes(n).for_each(|s| *self.suffixes.entry(s.to_string()).or_default() += 1);
        }
    }

    pub(crate) fn id(&self, prefix: Prefix, name: &str) -> u32 {
        self.ids.get(&(prefix, name.to_string())).copied().unwrap_or(0)
    }
}

/// `c`, `b.c`, `a.b.c` of `a.b.c`.
pub(super) fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    let starts = name.rmatch_indices('.').map(|(i, _)| i + 1).chain([0]);
    starts.map(move |i| &name[i..])
}

impl Maker<'_, '_> {
    pub(super) fn symbols(&mut self) -> Checked<()> {
        let (p, notes) = (self.program, self.notes);
        let mut all: Vec<(Prefix, String, &[ast::Annotation], Span)> = Vec::new();
        let externs = |list: &mut Vec<_>, prefix: Prefix, name: &str, n: &'_ ExternNote| {
            list.push((prefix, name.to_string(), n.annos.clone(), n.span))
        };
        let mut ext: Vec<(Prefix, String, Vec<ast::Annotation>, Span)> = Vec::new();
        let direct = |size: Option<usize>, whole: Prefix, direct: Prefix| if size.is_some() { whole } else { direct };
        for (c, n) in p.counters.iter().zip(&notes.counters) {
            externs(&mut ext, direct(c.size, Prefix::Counter, Prefix::DirectCounter), &c.name, n);
        }
        for (m, n) in p.meters.iter().zip(&notes.meters) {
            externs(&mut ext, direct(m.size, Prefix::Meter, Prefix::DirectMeter), &m.name, n);
        }
        p.profiles.iter().zip(&notes.profiles).for_each(|(x, n)| externs(&mut ext, Prefix::ActionProfile, &x.name, n));
        p.registers.iter().zip(&notes.registers).for_each(|(x, n)| externs(&mut ext, Prefix::Register, &x.name, n));
        p.value_sets.iter().zip(&notes.value_sets).for_each(|(x, n)| externs(&mut ext, Prefix::ValueSet, &x.name, n));
        let actions = self.actions.clone();
        for (a, _) in &actions {
            all.push((Prefix::Action, a.full_name.clone(), &a.annos, a.decl.name.span));
        }
        for t in &self.tables {
            all.push((Prefix::Table, p.tables[*t].name.clone(), &notes.tables[*t].annos, notes.tables[*t].span));
        }
        all.extend(ext.iter().map(|(k, n, a, s)| (*k, n.clone(), a.as_slice(), *s)));
        for d in &self.digests {
            all.push((Prefix::Digest, self.digest_name(*d), &[], notes.digests[*d].1));
        }
        let headers = self.headers.clone();
        for (s, span) in &headers {
            all.push((Prefix::ControllerHeader, type_name(&s.name, &s.annos), &s.annos, *span));
        }
        let mut places: HashMap<(Prefix, String), Span> = HashMap::new();
        for (prefix, name, annos, span) in all {
            let key = (prefix, name);
            match places.insert(key.clone(), span) {
                // An action or digest that several controls use is one.
                Some(at) if at == span || prefix == Prefix::Digest => continue,
                Some(at) => {
                    let m = format!("two objects of one kind are named `{}` for controllers", key.1);
                    let help = format!("the other is on line {}; rename one with @name", at.line);
                    return self.context.err_help(span, m, help);
                }
                None => {}
            }
            let kind = (prefix as u32) << 24;
            let id = match self.id_annotation(annos)? {
                None => 0,
                Some(id) if id & 0xff_ffff == 0 => return self.context.err(span, "the number of an @id begins at 1"),
                Some(id) if id >> 24 != 0 && id >> 24 != prefix as u32 => {
                    let m = format!("@id({id:#x}) has the first byte of another kind of object");
                    let help = format!("it must be {:#04x}, or left out", prefix as u32);
                    return self.context.err_help(span, m, help);
                }
                Some(id) if !self.symbols.taken.insert(kind | id) => {
                    let help = "ids differ among objects of one kind";
                    return self.context.err_help(span, format!("@id({id:#x}) is given to two objects"), help);
                }
                Some(id) => kind | id,
            };
            self.symbols.ids.insert(key, id);
        }
        self.symbols.number();
        Ok(())
    }
}
