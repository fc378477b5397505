// SPDX-License-Identifier: Apache-2.0
//! Calls of externs: the functions and objects of core.p4 and v1model.p4.
//!
//! A new extern function goes into `functions.rs`, a method into `methods.rs`, a type of extern object into
//! `instances.rs`; the crate's README lists the other files that an extern needs.
mod functions;
mod instances;
mod methods;
mod parameters;

use crate::bytecode::ir::Fields;
use crate::bytecode::operators::HashAlgorithm;
use crate::check::prelude::*;

pub(super) const NOTHING: TypedValue = TypedValue { ty: Ty::Void, kind: ValueKind::Nothing };

impl Context<'_> {
    pub fn value_arg(&mut self, a: &ArgumentValue, span: Span) -> Checked<(TypedValue, Span)> {
        match a {
            ArgumentValue::In(v, s) => Ok((v.clone(), *s)),
            _ => self.err(span, "an argument is missing"),
        }
    }

    fn scalar_arg(&mut self, a: &ArgumentValue, span: Span) -> Checked<Expression> {
        let (v, s) = self.value_arg(a, span)?;
        self.scalar(&v, s)
    }

    /// A number whose width does not matter: constants of any size, or a scalar.
    fn number_arg(&mut self, a: &ArgumentValue, span: Span) -> Checked<Expression> {
        let (v, s) = self.value_arg(a, span)?;
        match &v.kind {
            ValueKind::Int(i) if v.ty == Ty::Int => Ok(Expression::Const(Val::from_int(i, 128))),
            _ => self.scalar(&v, s),
        }
    }

    /// Runs `f` with an address to write to; a slice or `_` gets a temporary, copied out afterwards.
    fn out_arg(
        &mut self,
        a: &ArgumentValue,
        ty: &Ty,
        f: impl FnOnce(&mut Self, Address) -> Checked<()>,
    ) -> Checked<()> {
        match a {
            ArgumentValue::Out(lv, _) if lv.slice.is_none() => f(self, lv.place.addr.clone()),
            ArgumentValue::Out(lv, span) => {
                let t = self.alloc(1);
                let old = self.read_lvalue(lv);
                let old = self.scalar(&old, *span)?;
                self.emit(Statement::Set(t, old));
                f(self, Place::at(t).addr)?;
                self.assign(
                    lv,
                    TypedValue { ty: lv.ty.clone(), kind: ValueKind::Leaves(vec![Expression::Load(t)]) },
                    *span,
                )
            }
            _ => {
                let t = self.alloc(ty.slots().max(1));
                f(self, Place::at(t).addr)
            }
        }
    }

    fn algo(&mut self, a: &ArgumentValue, span: Span) -> Checked<HashAlgorithm> {
        let (v, s) = self.value_arg(a, span)?;
        let name = match (&v.ty, &v.kind) {
            (Ty::Enum(e), ValueKind::Int(i)) => {
                i.to_usize().and_then(|i| e.members.get(i)).map(|(n, _)| n.clone()).unwrap_or_default()
            }
            _ => return self.err(s, "the algorithm must be a constant of enum HashAlgorithm"),
        };
        Ok(match name.as_str() {
            "crc32" => HashAlgorithm::Crc32,
            "crc16" => HashAlgorithm::Crc16,
            "random" => HashAlgorithm::Random,
            "identity" => HashAlgorithm::Identity,
            "csum16" => HashAlgorithm::Csum16,
            "xor16" => HashAlgorithm::Xor16,
            // Without a controller's call to set their parameters they are the plain ones, as in BMv2.
            "crc32_custom" => HashAlgorithm::Crc32,
            "crc16_custom" => HashAlgorithm::Crc16,
            n => return self.unsupported(s, &format!("hash algorithm `{n}`")),
        })
    }

    /// The bit fields of a list, struct or header, in order.
    fn fields(&mut self, v: &TypedValue, span: Span, out: &mut Fields) -> Checked<()> {
        match &v.kind {
            ValueKind::Aggregate(items, _) => {
                let items = items.clone();
                return items.iter().try_for_each(|(_, item)| self.fields(item, span, out));
            }
            ValueKind::Str(_) => return Ok(()),
            _ => {}
        }
        let ty = v.ty.clone();
        match ty.base() {
            Ty::Struct(s) => {
                let s = s.clone();
                for f in &s.fields {
                    let name = Name { text: f.name.clone(), span };
                    let member = self.member_of(v.clone(), &name)?;
                    self.fields(&member, span, out)?;
                }
                Ok(())
            }
            Ty::Tuple(ts) => {
                let leaves = self.leaves(v)?;
                let mut at = 0;
                for t in ts.iter() {
                    let item =
                        TypedValue { ty: t.clone(), kind: ValueKind::Leaves(leaves[at..at + t.slots()].to_vec()) };
                    at += t.slots();
                    self.fields(&item, span, out)?;
                }
                Ok(())
            }
            Ty::Varbit(w) => {
                let l = self.leaves(v)?;
                let length = match &v.kind {
                    ValueKind::Place(Place { valid_of: Some(a), .. }) => if_valid(a, l[1].clone()),
                    _ => l[1].clone(),
                };
                out.push((l[0].clone(), *w, Some(length)));
                Ok(())
            }
            Ty::Stack(t, n) => {
                let leaves = self.leaves(v)?;
                let each = t.slots();
                for i in 0..*n as usize {
                    let k = ValueKind::Leaves(leaves[1 + i * each..1 + (i + 1) * each].to_vec());
                    self.fields(&TypedValue { ty: (**t).clone(), kind: k }, span, out)?;
                }
                Ok(())
            }
            t => match t.scalar_width() {
                Some(w) => {
                    let e = self.scalar(v, span)?;
                    // BMv2 leaves fields of invalid headers out of hashes and checksums.
                    let length = match &v.kind {
                        ValueKind::Place(Place { valid_of: Some(a), .. }) => {
                            Some(if_valid(a, Expression::Const(Val::S(w as u128))))
                        }
                        _ => None,
                    };
                    out.push((e, w, length));
                    Ok(())
                }
                None => {
                    let what = describe(v);
                    let help = "give integers a width, e.g. `16w0`";
                    self.err_help(span, format!("{what} cannot be data for this call"), help)
                }
            },
        }
    }

    fn fields_arg(&mut self, a: &ArgumentValue, span: Span) -> Checked<Fields> {
        let (v, s) = self.value_arg(a, span)?;
        let mut out = Vec::new();
        self.fields(&v, s, &mut out)?;
        Ok(out)
    }

    fn only_in(&mut self, phases: &[Phase], name: &str, place: &str, span: Span) -> Checked<()> {
        if self.phase == Phase::Unknown || phases.contains(&self.phase) {
            return Ok(());
        }
        self.err(span, format!("`{name}` can only be called in {place}"))
    }

    /// The index of a field list, which v1model takes without a direction: a constant, as p4c demands.
    fn field_list(&mut self, a: &ArgumentValue, span: Span) -> Checked<Expression> {
        let (v, s) = self.value_arg(a, span)?;
        let list = self.scalar(&v, s)?;
        let Expression::Const(index) = &list else {
            let help = "write a constant; choose among constants with `if` or `switch`";
            return self.err_help(s, "the index of a field list must be a constant", help);
        };
        let index = index.low() as u64;
        // Lists are known once the package is; 0 is the usual index of none.
        let declared = self.program.field_lists.iter().any(|(declared, _)| *declared == index);
        if self.phase != Phase::Unknown && index != 0 && !declared {
            self.diagnostics.warn(span, format!("no metadata field has @field_list({index}); the list is empty"));
        }
        Ok(list)
    }

    fn bits(&mut self, ty: &Ty, span: Span) -> Checked<u32> {
        match ty.scalar_width() {
            Some(w) => Ok(w),
            None => self.err_help(span, format!("a value of bit<W> is needed, not {ty}"), "give integers a width"),
        }
    }
}
