// SPDX-License-Identifier: Apache-2.0
//! Parameters of extern types: each stands for one instance, which is put in its place when the program is complete.
//! p4c inlines each call instead; an instance of a control whose calls differ in the extern is unsupported here.
use crate::bytecode::ir::Block;
use crate::check::prelude::*;

/// Numbers of extern parameters begin here: no program has as many registers.
const FIRST: usize = 1 << 40;

/// Links followed from a parameter to its instance; there are no more levels of calls.
const MOST_LINKS: usize = 1000;

impl ExternObject {
    /// The object's number, if parameters can stand for its kind.
    fn number(&mut self) -> Option<&mut usize> {
        match self {
            ExternObject::Register(n) | ExternObject::Counter(n) | ExternObject::Meter(n) => Some(n),
            _ => None,
        }
    }
}

impl Context<'_> {
    /// The object that a parameter of the extern type `name` stands for, and its number.
    pub fn extern_parameter(&mut self, name: &str, span: Span) -> Checked<(ExternObject, Slot)> {
        let next = FIRST + self.extern_arguments.len();
        let object = match name {
            "packet_in" => return Ok((ExternObject::PacketIn, 0)),
            "packet_out" => return Ok((ExternObject::PacketOut, 0)),
            "register" => ExternObject::Register(next),
            "counter" => ExternObject::Counter(next),
            "meter" => ExternObject::Meter(next),
            n => return self.unsupported(span, &format!("a parameter of extern type `{n}`")),
        };
        self.extern_arguments.push(None);
        Ok((object, next))
    }

    /// Notes the argument of an extern parameter.
    pub fn bind_extern(&mut self, p: &BoundParam, v: &TypedValue, span: Span) -> Checked<()> {
        if p.slot < FIRST {
            return Ok(());
        }
        let ValueKind::Extern(mut object) = v.kind.clone() else {
            let what = describe(v);
            return self.err(span, format!("parameter `{}` needs an extern instance, not {what}", p.name));
        };
        let Some(given) = object.number().copied() else {
            return self.unsupported(span, "this extern as an argument");
        };
        match self.extern_arguments[p.slot - FIRST] {
            Some(other) if other != given => {
                let help = "make an instance of the control for each, or give the extern to its constructor";
                let m = format!("unsupported: parameter `{}` of one instance gets two extern instances", p.name);
                self.err_help(span, m, help)
            }
            _ => {
                self.extern_arguments[p.slot - FIRST] = Some(given);
                Ok(())
            }
        }
    }

    /// Puts the instances in the places of extern parameters.
    pub fn resolve_extern_parameters(&mut self) {
        if self.extern_arguments.is_empty() {
            return;
        }
        let given = std::mem::take(&mut self.extern_arguments);
        let p = &mut self.program;
        let tables = p.tables.iter_mut().flat_map(|t| {
            let actions = t.actions.iter_mut().flat_map(|a| [&mut a.before, &mut a.after]);
            std::iter::once(&mut t.before).chain(actions)
        });
        let states = p.parsers.iter_mut().flat_map(|x| x.states.iter_mut().map(|s| &mut s.1));
        p.procs.iter_mut().chain(tables).chain(states).for_each(|b| resolve(b, &given));
    }
}

/// The instance of a number, which may be a parameter's; `None` in code that is never called.
fn instance(mut number: usize, given: &[Option<usize>]) -> Option<usize> {
    for _ in 0..MOST_LINKS {
        if number < FIRST {
            return Some(number);
        }
        number = (*given.get(number - FIRST)?)?;
    }
    None
}

fn resolve(block: &mut Block, given: &[Option<usize>]) {
    for s in block {
        let found = match s {
            Statement::RegisterRead(n, ..)
            | Statement::RegisterWrite(n, ..)
            | Statement::Count(n, _)
            | Statement::Meter(n, ..) => instance(*n, given).map(|found| *n = found),
            Statement::If(_, a, b) | Statement::Call(a, _, b) | Statement::CallParser(a, _, b) => {
                [a, b].into_iter().for_each(|b| resolve(b, given));
                Some(())
            }
            Statement::Switch(_, _, bodies, _) => {
                bodies.iter_mut().for_each(|b| resolve(b, given));
                Some(())
            }
            Statement::Group(b) => {
                resolve(b, given);
                Some(())
            }
            Statement::Loop(a, _, b, c) => {
                [a, b, c].into_iter().for_each(|b| resolve(b, given));
                Some(())
            }
            _ => Some(()),
        };
        if found.is_none() {
            *s = Statement::Group(Vec::new());
        }
    }
}
