// SPDX-License-Identifier: Apache-2.0
//! Applying a table.
use super::*;

impl<'a> Machine<'a> {
    pub(crate) fn apply<const TRACED: bool>(&mut self, n: &mut [u64], t: usize) -> Flow {
        let x = &self.code.tables[t];
        if self.is_spent(self.state.tables[t].rows() as u64 / 8) {
            return self.too_long();
        }
        // A table without keys always runs its default action.
        let place = if x.has_keys { self.lookup(n, t, x) } else { None };
        let keys = if TRACED { self.key_values(n, t) } else { Vec::new() };
        let table = &mut self.state.tables[t];
        let length = u64::from(self.length);
        let set = |n: &mut [u64], wide: &mut [Val], a: &ActionCode, args: &[Val]| {
            for ((to, w), v) in a.params.iter().zip(args) {
                match to {
                    Source::N(c) => n[*c as usize] = v.low() as u64 & (u64::MAX >> (64 - w.clamp(&1, &64))),
                    Source::W(c) => wide[*c as usize] = v.clone().mask(*w),
                }
            }
        };
        let entry = place.and_then(|at| table.at(at));
        let hit = entry.is_some();
        let (mut action, mut metered, mut member_id) = (None, false, None);
        let call = match entry {
            Some(e) => {
                e.packets += 1;
                e.bytes += length;
                if x.observes_hits && x.idle_timeout {
                    e.last_hit_us = self.now_us;
                }
                // As in BMv2 a match is metered once and before the action, whether or not that reads the color.
                if x.observes_hits
                    && let Some((m, to)) = x.meter
                {
                    let color = e.meter.color(self.program.meters[m].kind, length, self.now_us);
                    match to {
                        Some(Source::N(c)) => n[c as usize] = u64::from(color),
                        Some(Source::W(c)) => self.scratch.wide[c as usize] = Val::S(color.into()),
                        None => {}
                    }
                    self.scratch.hits.push((t, color));
                    metered = true;
                }
                if let Some(q) = &e.quick {
                    for ((to, _), v) in x.actions[q.action as usize].params.iter().zip(q.args()) {
                        if let Source::N(c) = to {
                            n[*c as usize] = *v;
                        }
                    }
                    action = Some(q.action as usize);
                }
                &e.action
            }
            None => {
                table.misses = (table.misses.0 + 1, table.misses.1 + length);
                &table.default
            }
        };
        let action = match (action, call) {
            (Some(a), _) => a,
            (None, EntryAction::Call(call)) => {
                set(n, &mut self.scratch.wide, &x.actions[call.action], &call.args);
                call.action
            }
            (None, EntryAction::Member(_) | EntryAction::Group(_)) => {
                let Some(profile) = x.profile else {
                    return Flow::Next;
                };
                let id = match *call {
                    EntryAction::Group(g) => self.choose(n, x, profile, g),
                    EntryAction::Member(m) => Some(m),
                    EntryAction::Call(_) => None,
                };
                member_id = id;
                let member = id.and_then(|id| self.state.profiles[profile].members.get(&id));
                let found = member.and_then(|m| Some((m, x.actions.iter().position(|a| a.body == m.body)?)));
                match (found, &self.state.tables[t].default) {
                    (Some((m, i)), _) => {
                        set(n, &mut self.scratch.wide, &x.actions[i], &m.args);
                        i
                    }
                    // A group without members runs the default, as BMv2's empty group does.
                    (None, EntryAction::Call(call)) => {
                        set(n, &mut self.scratch.wide, &x.actions[call.action], &call.args);
                        call.action
                    }
                    _ => return Flow::Next,
                }
            }
        };
        if TRACED {
            self.trace_lookup(n, t, place, keys, (member_id, action));
        }
        let a = &x.actions[action];
        let flow = self.run_action(n, a);
        if metered {
            self.scratch.hits.pop();
        }
        n[x.hit as usize] = u64::from(hit);
        n[x.action_run as usize] = action as u64;
        flow
    }

    /// Code before the action, the action, code after it.
    fn run_action(&mut self, n: &mut [u64], a: &ActionCode) -> Flow {
        if self.is_spent(u64::from(a.cost)) {
            return self.too_long();
        }
        if a.before != 0 {
            match self.run(n, a.before) {
                Flow::Next => {}
                f => return f,
            }
        }
        let f = self.run(n, a.to);
        let g = if a.after == 0 { Flow::Next } else { self.run(n, a.after) };
        if f == Flow::Next { g } else { f }
    }

    fn lookup(&self, n: &[u64], t: usize, x: &TableCode) -> Option<u32> {
        let (mut few, mut many) = ([0; FEW_WORDS], Vec::new());
        let words = if x.words <= FEW_WORDS {
            &mut few[..x.words]
        } else {
            many.resize(x.words, 0);
            &mut many[..]
        };
        for (key, f) in &x.keys {
            match key {
                Source::N(c) if f.words == 1 => words[f.word] |= n[*c as usize] << f.shift,
                key => f.pack(&self.src(n, *key), words),
            }
        }
        self.state.tables[t].lookup(words)
    }

    fn choose(&mut self, n: &[u64], x: &TableCode, profile: usize, group: u32) -> Option<u32> {
        let (algo, _) = self.program.profiles[profile].selector?;
        self.gather(n, &x.selector);
        let h = match algo {
            HashAlgorithm::Random => self.state.random(),
            algo => hash_of(algo, &self.scratch.data.bytes),
        };
        // BMv2 knows nothing of the selector's width and takes 32 bits of the algorithm's result.
        let h = h & 0xffff_ffff;
        let members = self.state.profiles[profile].groups.get(&group).filter(|m| !m.is_empty())?;
        Some(members[(h % members.len() as u64) as usize])
    }

    /// Values of all keys of a table.
    fn key_values(&self, n: &[u64], t: usize) -> Vec<Val> {
        let x = &self.code.tables[t];
        let (mut matched, mut selectors) = (x.keys.iter().map(|k| k.0), x.selector.iter().map(|k| k.0));
        let keys = self.program.tables[t].keys.iter().filter_map(|k| match k.kind {
            MatchKind::Selector => selectors.next(),
            _ => matched.next(),
        });
        keys.map(|s| self.src(n, s)).collect()
    }

    /// The event of a table whose action is about to run.
    fn trace_lookup(
        &mut self,
        n: &[u64],
        t: usize,
        place: Option<u32>,
        keys: Vec<Val>,
        (member, action): (Option<u32>, usize),
    ) {
        let x = &self.code.tables[t];
        let args = x.actions[action].params.iter().map(|(s, _)| self.src(n, *s)).collect();
        let table = &self.state.tables[t];
        let entry = place.and_then(|at| table.numbered(at));
        let group = match entry.map_or(&table.default, |(_, e)| &e.action) {
            EntryAction::Group(g) => Some(*g),
            _ => None,
        };
        let profile = x.profile.and_then(|p| self.state.profiles.get(p));
        let program = self.program;
        let lookup = Lookup { program, table: t, keys, entry, group, member, profile, action, args };
        self.scratch.tracer.table(&lookup);
    }

    /// The event of a parser error, if there is one.
    pub fn trace_parser_error(&mut self, error: u32) {
        if error != 0 && self.scratch.tracer.on {
            let name = self.program.errors.get(error as usize).map_or("", String::as_str);
            self.scratch.tracer.parser_error(name);
        }
    }

    /// An event of traced code.
    pub(super) fn trace(&mut self, n: &[u64], point: u32) {
        let mut tracer = std::mem::take(&mut self.scratch.tracer);
        tracer.point(&self.code.points[point as usize], &self.program.source.places, |s| self.src(n, s));
        self.scratch.tracer = tracer;
    }
}
