// SPDX-License-Identifier: Apache-2.0
//! Marks of statements in code, for the test that counts a packet's operations as BMv2 has them.
use crate::bytecode::ir::{Expression, Statement};

/// A statement in p4c's output for BMv2.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// A conditional.
    Branch {
        /// Of its expression.
        operators: usize,
    },
    /// A table.
    Table,
    /// A primitive of an action.
    Primitive {
        /// Of its expressions.
        operators: usize,
    },
    /// The end of a conditional.
    Join,
}

fn operators(e: &Expression) -> usize {
    match e {
        Expression::Const(_) | Expression::Load(_) | Expression::LoadAt(_) => 0,
        Expression::Bin(_, _, x) | Expression::LAnd(x) | Expression::LOr(x) | Expression::Concat(x, _) => {
            1 + operators(&x.0) + operators(&x.1)
        }
        Expression::BitNot(_, x)
        | Expression::Neg(_, x)
        | Expression::Not(x)
        | Expression::Slice(x, ..)
        | Expression::SignExtend(x, ..) => 1 + operators(x),
        Expression::Cond(x) => 1 + operators(&x.0) + operators(&x.1) + operators(&x.2),
    }
}

impl Mark {
    /// The mark of a statement; `None` for those that are part of another, or of parser and deparser.
    pub fn of(s: &Statement) -> Option<Mark> {
        let operators = match s {
            Statement::If(c, ..) => return Some(Mark::Branch { operators: operators(c) }),
            Statement::Apply(_) => return Some(Mark::Table),
            Statement::Group(_)
            | Statement::Call(..)
            | Statement::CallParser(..)
            | Statement::Return
            | Statement::Extract(..)
            | Statement::Emit(_)
            | Statement::Lookahead(..)
            | Statement::Zero(..)
            | Statement::Mark(_) => return None,
            Statement::Copy(_, _, n) => *n - 1,
            Statement::Set(_, e) | Statement::SetAt(_, e) | Statement::Count(_, e) => operators(e),
            Statement::RegisterRead(_, _, e) => operators(e),
            Statement::RegisterWrite(_, i, e) => operators(i) + operators(e),
            _ => 0,
        };
        Some(Mark::Primitive { operators })
    }
}
