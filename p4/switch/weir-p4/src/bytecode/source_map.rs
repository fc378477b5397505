// SPDX-License-Identifier: Apache-2.0
//! Names and places in the source, for traces.
use crate::syntax::diagnostics::{Diagnostics, Span};
use std::collections::HashMap;

/// Characters of a source line in an event.
const MOST_CHARS: usize = 160;

/// A place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SourcePlace {
    /// `FILE:LINE`.
    pub at: String,
    /// The line without leading and trailing blanks.
    pub text: String,
}

impl SourcePlace {
    pub fn new(file: &str, line: u32, text: &str) -> SourcePlace {
        SourcePlace { at: format!("{file}:{line}"), text: text.trim().chars().take(MOST_CHARS).collect() }
    }
}

/// Names and places that running code does not need.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceMap {
    /// By the number that [`crate::bytecode::ir::Statement::Mark`] has.
    pub places: Vec<SourcePlace>,
    known: HashMap<SourcePlace, usize>,
    /// Actions by their procedures: name for controllers, and place.
    pub actions: HashMap<usize, (String, usize)>,
    /// Parsers by their numbers.
    pub parsers: HashMap<usize, String>,
    /// States by parser and state.
    pub states: HashMap<(usize, usize), usize>,
    /// Headers by their places, where events have no text of the source; a stack by its first element's.
    pub headers: HashMap<usize, String>,
    /// Tables by their names.
    pub tables: HashMap<String, usize>,
}

impl SourceMap {
    /// The number of a place.
    pub fn place(&mut self, place: SourcePlace) -> usize {
        let next = self.places.len();
        let n = *self.known.entry(place.clone()).or_insert(next);
        if n == next {
            self.places.push(place);
        }
        n
    }

    /// The number of a place in source text.
    pub fn span(&mut self, diagnostics: &Diagnostics, span: Span) -> usize {
        self.place(SourcePlace::new(diagnostics.file_name(span.file), span.line, diagnostics.line(span)))
    }
}
