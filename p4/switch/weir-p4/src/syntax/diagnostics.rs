// SPDX-License-Identifier: Apache-2.0
//! Source positions and messages with the source line and a caret.
use std::fmt::{self, Write as _};

/// A place in a source file: line and column count from 1, `len` in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Number of the source file, as [`Diagnostics::add_source`] gave it.
    pub file: u32,
    /// Line, from 1 on.
    pub line: u32,
    /// Column in characters, from 1 on.
    pub col: u32,
    /// Length in characters.
    pub len: u32,
}

/// One error or warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// A warning; otherwise an error.
    pub warning: bool,
    /// The place that it is about.
    pub span: Span,
    /// One sentence without a full stop.
    pub message: String,
    /// The right form, when it is known.
    pub help: Option<String>,
}

/// A marker that the error itself is already recorded in [`Diagnostics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;

struct Source {
    name: String,
    lines: Vec<String>,
}

/// All messages of a compilation, with the sources they point into.
#[derive(Default)]
pub struct Diagnostics {
    sources: Vec<Source>,
    /// In the order in which they were found.
    pub list: Vec<Diagnostic>,
}

/// Characters of a source line that are shown.
const MAX_COLUMNS: usize = 240;

/// More messages than this do not help, and a damaged file would yield thousands.
const MAX_ERRORS: usize = 100;

impl Diagnostics {
    /// Registers a source file and returns its number for [`Span::file`].
    pub fn add_source(&mut self, name: &str, text: &str) -> u32 {
        let lines = text.lines().map(str::to_string).collect();
        self.sources.push(Source { name: name.to_string(), lines });
        (self.sources.len() - 1) as u32
    }

    /// The text of the line `span` starts on.
    pub fn line(&self, span: Span) -> &str {
        let lines = self.sources.get(span.file as usize).map(|s| s.lines.as_slice()).unwrap_or(&[]);
        lines.get((span.line as usize).wrapping_sub(1)).map(String::as_str).unwrap_or("")
    }

    /// The name of a source file.
    pub fn file_name(&self, file: u32) -> &str {
        self.sources.get(file as usize).map(|s| s.name.as_str()).unwrap_or("<none>")
    }

    /// Records an error.
    pub fn error(&mut self, span: Span, message: impl Into<String>) -> Reported {
        self.push(Diagnostic { warning: false, span, message: message.into(), help: None })
    }

    /// Records an error with a line that gives the right form.
    pub fn error_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) -> Reported {
        self.push(Diagnostic { warning: false, span, message: message.into(), help: Some(help.into()) })
    }

    /// Records a warning.
    pub fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic { warning: true, span, message: message.into(), help: None });
    }

    /// Code that is checked twice would report its errors twice.
    fn push(&mut self, d: Diagnostic) -> Reported {
        let seen = self.list.iter().any(|o| (o.span, o.warning, &o.message) == (d.span, d.warning, &d.message));
        let room = self.list.iter().filter(|o| o.warning == d.warning).count() < MAX_ERRORS;
        if !seen && room {
            self.list.push(d);
        }
        Reported
    }

    /// Whether an error was recorded.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| !d.warning)
    }

    /// Renders one message: `file:line:column: error: text`, the source line, a caret line, a help line.
    pub fn render(&self, d: &Diagnostic) -> String {
        let mut out = String::new();
        let kind = if d.warning { "warning" } else { "error" };
        let (file, line, col) = (self.file_name(d.span.file), d.span.line, d.span.col.max(1));
        let _ = writeln!(out, "{file}:{line}:{col}: {kind}: {}", d.message);
        let line_text = self.line(d.span);
        if !line_text.is_empty() {
            // Of a long line, the text around the place.
            let from = (col as usize - 1).saturating_sub(MAX_COLUMNS / 2);
            let text: String = line_text.chars().skip(from).take(MAX_COLUMNS).collect();
            // Tabs are repeated in the caret line so that it lines up in any terminal.
            let before = text.chars().take(col as usize - 1 - from);
            let lead: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let room = text.chars().count().saturating_sub(col as usize - 1 - from).max(1);
            let carets = "^".repeat((d.span.len.max(1) as usize).min(room));
            let gutter = line.to_string();
            let pad = " ".repeat(gutter.len());
            let _ = writeln!(out, " {gutter} | {text}\n {pad} | {lead}{carets}");
        }
        if let Some(help) = &d.help {
            let _ = writeln!(out, " help: {help}");
        }
        out
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.iter().try_for_each(|d| f.write_str(&self.render(d)))
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Diagnostics {}
