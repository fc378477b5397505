// SPDX-License-Identifier: Apache-2.0
//! Warnings of constructs that run here and that p4c's backend for BMv2 refuses.
use crate::check::prelude::*;

impl Context<'_> {
    /// Warns of statements of the checksum controls and the deparser that p4c for BMv2 refuses.
    pub fn warn_of_target_limits(&mut self, phase: Phase, body: usize, control: &Name) {
        let shared = [self.program.headers, self.program.meta].map(|(at, n)| at..at + n);
        let is_local = |slot: &Slot| !shared.iter().any(|r| r.contains(slot));
        let checksums = |s: &Statement| match s {
            Statement::VerifyChecksum(..) | Statement::UpdateChecksum(..) => true,
            // Temporaries of a call's arguments.
            Statement::Set(slot, _) | Statement::Zero(slot, _) => is_local(slot),
            Statement::Copy(_, to, _) => is_local(&to.base),
            _ => false,
        };
        let deparser = |s: &Statement| {
            matches!(
                s,
                Statement::Set(_, Expression::Const(_))
                    | Statement::Zero(..)
                    | Statement::Emit(_)
                    | Statement::Return
                    | Statement::Exit
                    | Statement::Assert(..)
                    | Statement::Log(..)
            )
        };
        let (fits, only) = match phase {
            Phase::Verify => (self.all_statements(body, &checksums), "verify_checksum"),
            Phase::Compute => (self.all_statements(body, &checksums), "update_checksum"),
            Phase::Deparser => (self.all_statements(body, &deparser), "emit"),
            _ => return,
        };
        if !fits {
            let m = format!("p4c for BMv2 refuses statements other than calls of `{only}` in `{}`", control.text);
            self.diagnostics.warn(control.span, m);
        }
    }

    /// Warns of members of the headers struct that are no headers, stacks or unions.
    pub fn warn_of_headers(&mut self, headers: &Ty, span: Span) {
        let Ty::Struct(s) = headers else {
            return;
        };
        let other = |t: &Ty| !(t.is_header() || t.is_union() || matches!(t, Ty::Stack(..)));
        if let Some(f) = s.fields.iter().find(|f| other(f.ty.base())) {
            let m = format!("p4c for BMv2 refuses member `{}` of {headers}: it is no header, stack or union", f.name);
            self.diagnostics.warn(span, m);
        }
    }

    /// Whether all statements of a procedure, and of those that it calls, are allowed.
    fn all_statements(&self, procedure: usize, allowed: &impl Fn(&Statement) -> bool) -> bool {
        self.program.procs[procedure].iter().all(|s| self.statement_fits(s, allowed))
    }

    fn statement_fits(&self, s: &Statement, allowed: &impl Fn(&Statement) -> bool) -> bool {
        match s {
            Statement::Group(list) => list.iter().all(|s| self.statement_fits(s, allowed)),
            Statement::Mark(_) => true,
            Statement::Call(_, body, _) => self.all_statements(*body, allowed),
            s => allowed(s),
        }
    }
}
