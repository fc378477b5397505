// SPDX-License-Identifier: Apache-2.0
//! Events that traced code reports.
use super::fold::load;
use super::*;
use crate::bytecode::code::PointField as Field;

/// Fields of an event.
type Fields = Vec<(&'static str, Field)>;

/// Blocks of a condition: for true and for false.
type Ways<'p> = (&'p Block, &'p Block);

impl<'p> Lower<'p> {
    fn point(&mut self, event: &'static str, fields: Fields, place: Option<usize>) {
        if self.traced {
            self.code.points.push(TracePoint { event, fields, place });
            self.emit(Instruction::Trace { point: (self.code.points.len() - 1) as u32 });
        }
    }

    /// An event at the place of the statement.
    fn here_point(&mut self, event: &'static str, fields: Fields) {
        let place = self.place.take();
        self.point(event, fields, place);
    }

    fn value(&mut self, e: &Expression) -> Field {
        let width = self.widths.ex(e);
        Field::Value(self.src(e), width)
    }

    pub(super) fn trace_state(&mut self, parser: usize, state: usize, name: &str) {
        self.place = None;
        // A state without a name only initializes variables.
        if !self.traced || name.is_empty() {
            return;
        }
        let source = &self.program.source;
        let place = source.states.get(&(parser, state)).copied();
        let mut fields = vec![("state", Field::Text(name.into()))];
        if let Some(parser) = source.parsers.get(&parser) {
            fields.push(("parser", Field::Text(parser.clone())));
        }
        self.point("state", fields, place);
    }

    pub(super) fn trace_select(&mut self, keys: &[Expression]) {
        if self.traced {
            let values = keys.iter().map(|k| (self.src(k), self.widths.ex(k))).collect();
            self.point("select", vec![("values", Field::Values(values))], None);
        }
    }

    pub(super) fn trace_end_of_parser(&mut self, next: &'static str) {
        self.point("transition", vec![("next", Field::Text(next.into()))], None);
    }

    /// A condition whose ways begin with its event.
    pub(super) fn traced_choice(&mut self, c: &Expression, (yes, no): Ways<'p>, (other, end): (Label, Label)) {
        let place = self.place.take();
        let event = |l: &mut Self, value: bool| {
            if place.is_some() {
                l.point("condition", vec![("value", Field::Flag(value))], place);
            }
        };
        self.jump(c, other, false);
        event(self, true);
        self.block(yes);
        self.emit(Instruction::Jump { to: end });
        self.here(other);
        event(self, false);
        self.block(no);
        self.here(end);
    }

    /// The header's name; without one the event's source has it.
    fn header_name(&self, h: &HeaderRef) -> Fields {
        let name = self.program.source.headers.get(&h.addr.base);
        let place = if h.addr.dyns.is_empty() { "[0]" } else { "[]" };
        name.map(|name| ("header", Field::Text(name.replacen("[0]", place, 1)))).into_iter().collect()
    }

    pub(super) fn traced_step(&mut self, s: &'p Statement) {
        let index = self.trace_before(s);
        self.step(s);
        self.trace_after(s, index);
    }

    /// Events before a statement; gives the cell of an index for the event after it.
    fn trace_before(&mut self, s: &'p Statement) -> Option<Cell> {
        let p = self.program;
        let text = |t: &str| Field::Text(t.into());
        match s {
            Statement::Call(_, body, _) => {
                let (name, declared) = p.source.actions.get(body)?;
                let place = self.place.take().or(Some(*declared));
                self.point("action", vec![("action", text(name))], place);
            }
            Statement::Extract(h, ..) => {
                let mut fields = self.header_name(h);
                fields.push(("fixed_bytes", Field::Number(h.layout.fixed_bits as u64 / 8)));
                self.here_point("extract", fields);
            }
            Statement::SetValid(h, valid) => {
                let mut fields = self.header_name(h);
                fields.push(("valid", Field::Flag(*valid)));
                self.here_point("set_valid", fields);
            }
            Statement::RegisterWrite(r, i, v) => {
                let register = &p.registers[*r];
                let (index, v) = (self.value(i), self.src(v));
                let value = Field::Value(v, register.width);
                let fields = vec![("register", text(&register.name)), ("index", index), ("value", value)];
                self.here_point("register_write", fields);
            }
            Statement::Count(c, i) => {
                let index = self.value(i);
                self.here_point("count", vec![("counter", text(&p.counters[*c].name)), ("index", index)]);
            }
            // The result may be written over the index.
            Statement::RegisterRead(_, _, i) | Statement::Meter(_, i, _) => {
                let (a, d) = (self.index(i), self.temp());
                self.emit(Instruction::Move { d, a });
                return Some(d);
            }
            Statement::Digest(d, ..) => self.here_point("digest", vec![("digest", text(&p.digests[*d].name))]),
            Statement::Clone(session, _) => {
                let session = self.value(session);
                self.here_point("clone", vec![("session", session)]);
            }
            Statement::Resubmit(_) => self.here_point("resubmit", Fields::new()),
            Statement::Recirculate(_) => self.here_point("recirculate", Fields::new()),
            Statement::Truncate(n) => {
                let bytes = self.value(n);
                self.here_point("truncate", vec![("bytes", bytes)]);
            }
            Statement::DropPort(_) => self.here_point("mark_to_drop", Fields::new()),
            Statement::Exit => self.here_point("exit", Fields::new()),
            Statement::Log(format, _) => self.here_point("log_msg", vec![("format", text(format))]),
            _ => {}
        }
        None
    }

    /// Events after a statement whose result they show.
    fn trace_after(&mut self, s: &'p Statement, index: Option<Cell>) {
        let p = self.program;
        let index = index.map(|i| ("index", Field::Value(Source::N(i), 32)));
        match s {
            Statement::RegisterRead(r, to, _) => {
                let register = &p.registers[*r];
                let mut fields = vec![("register", Field::Text(register.name.clone()))];
                fields.extend(index);
                fields.push(("value", Field::Value(self.src(&load(to)), register.width)));
                self.here_point("register_read", fields);
            }
            Statement::Meter(m, _, to) => {
                let mut fields = vec![("meter", Field::Text(p.meters[*m].name.clone()))];
                fields.extend(index);
                fields.push(("color", Field::Value(self.src(&load(to)), 2)));
                self.here_point("meter", fields);
            }
            Statement::DirectMeter(m, to) => {
                let color = Field::Value(self.src(&load(to)), 2);
                self.here_point("meter", vec![("meter", Field::Text(p.meters[*m].name.clone())), ("color", color)]);
            }
            // Each number between the two ends is a possible outcome.
            Statement::Random(to, low, high, w) => {
                let value = Field::Value(self.src(&load(to)), *w);
                let (low, high) = (Field::Value(self.src(low), *w), Field::Value(self.src(high), *w));
                self.here_point("random", vec![("value", value), ("lowest", low), ("highest", high)]);
            }
            Statement::Hash(to, w, ..) => {
                let value = Field::Value(self.src(&load(to)), *w);
                self.here_point("hash", vec![("value", value)]);
            }
            _ => {}
        }
    }

    /// Labels behind a checksum's call and of its event for a false condition; the same in code without events.
    pub(super) fn skippable(&mut self) -> (Label, Label) {
        let end = self.label();
        (end, if self.traced { self.label() } else { end })
    }

    /// Ends the code of a checksum's call, whose condition is false at `skip`.
    pub(super) fn trace_skipped(&mut self, event: &'static str, (end, skip): (Label, Label)) {
        if self.traced {
            self.emit(Instruction::Jump { to: end });
            self.here(skip);
            self.here_point(event, vec![("condition", Field::Flag(false))]);
        }
        self.here(end);
    }

    /// The value of a checksum that was computed.
    pub(super) fn trace_updated(&mut self, to: &Address, w: u32) {
        if self.traced {
            let (value, place) = (Field::Value(self.src(&load(to)), w), self.place);
            self.point("update_checksum", vec![("value", value)], place);
        }
    }

    /// The result of a checksum's verification.
    pub(super) fn trace_checksum(&mut self, is_right: bool) {
        let place = self.place;
        self.point("verify_checksum", vec![("right", Field::Flag(is_right))], place);
    }
}
