// SPDX-License-Identifier: Apache-2.0
//! Imports shared by all files of the checker.
pub(crate) use crate::bytecode::ir::{self, Address, Expression, Statement};
pub(crate) use crate::bytecode::operators::{DynIndex, Operator, Slot};
pub(crate) use crate::bytecode::program::{self, Program};
pub(crate) use crate::check::context::Context;
pub(crate) use crate::check::limits::{TUPLE_VALUES, TYPE_FIELDS};
pub(crate) use crate::check::notes::{ExternNote, TableNote, bare};
pub(crate) use crate::check::types::*;
pub(crate) use crate::check::values::*;
pub(crate) use crate::syntax::ast::*;
pub(crate) use crate::syntax::diagnostics::{Reported, Span};
pub(crate) use crate::value::{MAX_WIDTH, Val, range};
pub(crate) use num_bigint::BigInt;
pub(crate) use num_traits::{ToPrimitive, Zero};
pub(crate) use std::collections::HashMap;
pub(crate) use std::rc::Rc;
pub(crate) use std::sync::Arc;
