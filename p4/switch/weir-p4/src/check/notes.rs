// SPDX-License-Identifier: Apache-2.0
//! Facts that P4Info needs beyond the program itself, noted while the program is checked.
use crate::check::types::Ty;
use crate::syntax::ast::{self, Name};
use crate::syntax::diagnostics::Span;

/// Facts that P4Info needs beyond the IR; the lists are in the order of the IR's.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub package: Vec<ast::Annotation>,
    pub tables: Vec<TableNote>,
    pub registers: Vec<ExternNote>,
    pub counters: Vec<ExternNote>,
    pub meters: Vec<ExternNote>,
    pub profiles: Vec<ExternNote>,
    pub value_sets: Vec<ExternNote>,
    pub digests: Vec<(Ty, Span)>,
    pub controller_headers: Vec<Name>,
    /// A control or action calls an extern function.
    pub calls_functions: bool,
}

#[derive(Clone)]
pub(crate) struct ExternNote {
    pub span: Span,
    pub annos: Vec<ast::Annotation>,
    /// First type argument: the type of a register's or value set's elements.
    pub data: Option<Ty>,
    /// Last type argument: the index, where v1model has a type for it.
    pub index: Option<Ty>,
}

impl ExternNote {
    pub fn new(span: Span, annos: &[ast::Annotation], data: Option<Ty>) -> ExternNote {
        ExternNote { span, annos: annos.to_vec(), data, index: None }
    }
}

#[derive(Clone)]
pub(crate) struct TableNote {
    pub span: Span,
    pub annos: Vec<ast::Annotation>,
    pub keys: Vec<(Ty, Vec<ast::Annotation>, Span)>,
    /// Index in [`Context::actions`] and the annotations of the reference, in the order of the table's actions.
    pub actions: Vec<(usize, Vec<ast::Annotation>)>,
}

impl TableNote {
    pub fn new(span: Span, annos: &[ast::Annotation]) -> TableNote {
        TableNote { span, annos: annos.to_vec(), keys: Vec::new(), actions: Vec::new() }
    }
}

/// `@name` without arguments.
pub(crate) fn bare(name: &str, span: Span) -> ast::Annotation {
    ast::Annotation { name: Name { text: name.into(), span }, body: Vec::new(), structured: false }
}
