// SPDX-License-Identifier: Apache-2.0
//! Instances of extern objects: registers, counters, meters, profiles.
use super::*;
use crate::bytecode::program::{CountKind, CounterDecl, MeterDecl, ProfileDecl, RegisterDecl};

impl Context<'_> {
    /// An instance of an extern type.
    pub fn extern_instance(
        &mut self,
        e: &Rc<ExternTy>,
        targs: Vec<Ty>,
        args: &[Arg],
        full: String,
        annos: &[Annotation],
        span: Span,
    ) -> Checked<TypedValue> {
        let list: Vec<Rc<FuncDecl>> = e.methods.iter().filter(|m| m.name.text == e.name).cloned().collect();
        if list.is_empty() {
            return self.err(span, format!("extern {} has no constructor", e.name));
        }
        if targs.len() != e.type_params.len() {
            let m = format!("extern {} takes {} type arguments, not {}", e.name, e.type_params.len(), targs.len());
            return self.err(span, m);
        }
        let f = self.overload(&list, args, span)?;
        let bound: Vec<(String, Ty)> =
            e.type_params.iter().zip(&targs).map(|(p, t)| (p.text.clone(), t.clone())).collect();
        let (params, _, _) = self.open_signature(&f, &bound, Vec::new(), span)?;
        let a = self.arguments(&params, &e.name, args, span)?;
        let size = |context: &mut Self, i: usize| -> Checked<usize> {
            let (v, s) = context.value_arg(&a[i], span)?;
            match &v.kind {
                ValueKind::Int(n) => match n.to_usize().filter(|n| *n <= 1 << 24) {
                    Some(n) => Ok(n),
                    None => context.err(s, format!("size {n} is more than this switch has (2^24)")),
                },
                _ => context.err(s, "the size must be constant"),
            }
        };
        let kind = |context: &mut Self, i: usize| -> Checked<CountKind> {
            let (v, s) = context.value_arg(&a[i], span)?;
            match v.kind {
                ValueKind::Int(n) if n == zero_int() => Ok(CountKind::Packets),
                ValueKind::Int(n) if n == BigInt::from(1) => Ok(CountKind::Bytes),
                ValueKind::Int(_) => Ok(CountKind::Both),
                _ => context.err(s, "the type must be constant"),
            }
        };
        let note = ExternNote { index: targs.last().cloned(), ..ExternNote::new(span, annos, targs.first().cloned()) };
        let obj = match e.name.as_str() {
            "register" => {
                let size = size(self, 0)?;
                if args.len() > 1 {
                    return self.unsupported(span, "a register with an initial value");
                }
                let Some(width) = targs[0].scalar_width() else {
                    return self.unsupported(span, &format!("a register of {}", targs[0]));
                };
                self.notes.registers.push(note);
                self.program.registers.push(RegisterDecl { name: full, size, width });
                ExternObject::Register(self.program.registers.len() - 1)
            }
            "counter" => {
                let (size, kind) = (size(self, 0)?, kind(self, 1)?);
                self.notes.counters.push(note);
                self.program.counters.push(CounterDecl { name: full, kind, size: Some(size) });
                ExternObject::Counter(self.program.counters.len() - 1)
            }
            "direct_counter" => {
                let kind = kind(self, 0)?;
                self.notes.counters.push(note);
                self.program.counters.push(CounterDecl { name: full, kind, size: None });
                ExternObject::DirectCounter(self.program.counters.len() - 1)
            }
            "meter" => {
                let (size, kind) = (size(self, 0)?, kind(self, 1)?);
                self.notes.meters.push(note);
                self.program.meters.push(MeterDecl { name: full, kind, size: Some(size), width: 0 });
                ExternObject::Meter(self.program.meters.len() - 1)
            }
            "direct_meter" => {
                let kind = kind(self, 0)?;
                let width = self.bits(&targs[0].clone(), span)?;
                self.notes.meters.push(note);
                self.program.meters.push(MeterDecl { name: full, kind, size: None, width });
                ExternObject::DirectMeter(self.program.meters.len() - 1)
            }
            "action_profile" => {
                let size = size(self, 0)? as u64;
                self.notes.profiles.push(note);
                self.program.profiles.push(ProfileDecl { name: full, size, selector: None });
                ExternObject::Profile(self.program.profiles.len() - 1)
            }
            "action_selector" => {
                let algo = self.algo(&a[0], span)?;
                let (n, w) = (size(self, 1)?, size(self, 2)?);
                self.notes.profiles.push(note);
                self.program.profiles.push(ProfileDecl {
                    name: full,
                    size: n as u64,
                    selector: Some((algo, w as u32)),
                });
                ExternObject::Profile(self.program.profiles.len() - 1)
            }
            "Checksum16" => ExternObject::Checksum16,
            n => {
                let help = "the embedded switch has the externs of core.p4 and v1model.p4";
                return self.err_help(span, format!("unsupported: extern `{n}`"), help);
            }
        };
        Ok(TypedValue { ty: Ty::Extern(e.clone(), Rc::new(targs)), kind: ValueKind::Extern(obj) })
    }
}
