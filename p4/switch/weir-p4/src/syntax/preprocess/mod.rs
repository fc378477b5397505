// SPDX-License-Identifier: Apache-2.0
//! The C-like preprocessor P4 programs use, working on tokens so that every message keeps its column.
//! Tokens out of a macro carry the position of its use.
mod condition;

use crate::syntax::diagnostics::{Diagnostics, Span};
use crate::syntax::lexer::{Token, TokenKind, lex, lex_at_most, spelling};
use crate::syntax::options::Macros;
use num_bigint::BigInt;
use num_traits::Zero;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::{Component, Path, PathBuf};

#[derive(Clone)]
struct Macro {
    /// `None` for an object-like macro.
    params: Option<Vec<String>>,
    body: Vec<Token>,
}

/// Where included files come from.
#[derive(Clone, Copy)]
pub enum Files<'a> {
    /// Quoted names from the including file's folder, then all from these.
    Disk(&'a [PathBuf]),
    /// From memory alone, by path from the package's root with `/` between, and its folders of included files: a
    /// program that came over the network must not read the machine's files.
    Memory(&'a BTreeMap<String, String>, &'a [PathBuf]),
}

/// Place in which an included file was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Origin {
    /// The folder of the including file.
    Own,
    /// The folder of included files with this index.
    Folder(usize),
}

/// A file of the disk that was included.
#[derive(Debug)]
pub struct Included {
    /// 1 for a file that the program itself includes, 2 for those of that file, and so on.
    pub depth: u32,
    /// Place in which it was found.
    pub origin: Origin,
    /// The name in the directive.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl Files<'_> {
    /// The file's name for messages, its text and its place. `None`: not there.
    #[allow(clippy::type_complexity)]
    fn find(
        &self,
        name: &str,
        quoted: bool,
        dir: Option<&Path>,
        tried: &mut Vec<String>,
    ) -> Option<(PathBuf, Result<String, std::io::Error>, Origin)> {
        let own = quoted.then_some(dir).flatten().map(|d| (Origin::Own, d));
        let (Files::Disk(folders) | Files::Memory(_, folders)) = self;
        let folders = folders.iter().enumerate().map(|(i, d)| (Origin::Folder(i), d.as_path()));
        own.into_iter().chain(folders).find_map(|(origin, d)| match self {
            Files::Disk(_) => {
                let path = d.join(name);
                tried.push(d.display().to_string());
                path.is_file().then(|| (path.clone(), crate::source::read_text(&path), origin))
            }
            Files::Memory(files, _) => {
                tried.push(if d.as_os_str().is_empty() { "the package".into() } else { d.display().to_string() });
                let path = plain(&d.join(name))?;
                let text = files.get(path.to_str()?)?;
                Some((path, Ok(text.clone()), origin))
            }
        })
    }
}

/// The path without `.` and `..`; `None` when it leads out of the root.
pub(crate) fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(p) => out.push(p),
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::RootDir => out.push("/"),
            Component::Prefix(_) => return None,
        }
    }
    Some(out)
}

struct Preprocessor<'a> {
    files: Files<'a>,
    macros: HashMap<String, Macro>,
    out: Vec<Token>,
    diags: &'a mut Diagnostics,
    depth: u32,
    included: u32,
    from_disk: Vec<Included>,
    /// Tokens looked at while expanding.
    work: usize,
    /// There was too much; the error has been reported.
    full: bool,
}

const MAX_DEPTH: u32 = 64;
/// A chain of macros that double each time must end in a message, not in the machine's memory.
const MAX_TOKENS: usize = 1_000_000;
const MAX_INCLUDES: u32 = 4096;

/// The declarations every program may include by name.
fn embedded(name: &str) -> Option<&'static str> {
    match name {
        "core.p4" => Some(include_str!("../../../include/core.p4")),
        "v1model.p4" => Some(include_str!("../../../include/v1model.p4")),
        _ => None,
    }
}

/// Expands `text` into the tokens of one translation unit, ending with [`TokenKind::Eof`]. The list has the included
/// files of the disk in the order of their directives.
pub fn preprocess(
    name: &str,
    text: &str,
    files: Files<'_>,
    macros: &Macros,
    diags: &mut Diagnostics,
) -> (Vec<Token>, Vec<Included>) {
    let mut preprocessor = Preprocessor {
        files,
        macros: HashMap::new(),
        out: Vec::new(),
        diags,
        depth: 0,
        included: 0,
        from_disk: Vec::new(),
        work: 0,
        full: false,
    };
    // The program is the first source: errors without a place of their own are reported for it.
    let file = preprocessor.diags.add_source(name, text);
    preprocessor.file("command line", &format!("#define __TARGET_BMV2__ 1\n{}", macros.text), None);
    let end = preprocessor.source(file, name, text, None);
    let mut out = preprocessor.out;
    out.push(Token { tok: TokenKind::Eof, span: end, touches: false, starts_line: true });
    (out, preprocessor.from_disk)
}

struct Conditional {
    /// This branch is being read.
    active: bool,
    /// A branch of this `#if` was taken already.
    taken: bool,
    parent: bool,
    seen_else: bool,
    span: Span,
}

impl Preprocessor<'_> {
    /// Whether there has been more source than a compiler should take.
    fn is_full(&mut self, span: Span) -> bool {
        if self.work > MAX_TOKENS && !std::mem::replace(&mut self.full, true) {
            let m = format!("unsupported: more than {MAX_TOKENS} tokens, with what macros and includes expand to");
            self.diags.error(span, m);
        }
        self.full
    }

    fn file(&mut self, name: &str, text: &str, dir: Option<&Path>) -> Span {
        // Text without tokens costs too.
        self.work += text.len() / 64;
        if self.is_full(Span::default()) {
            return Span::default();
        }
        let file = self.diags.add_source(name, text);
        self.source(file, name, text, dir)
    }

    fn source(&mut self, file: u32, name: &str, text: &str, dir: Option<&Path>) -> Span {
        let (tokens, is_whole) = lex_at_most(file, text, MAX_TOKENS);
        if !is_whole {
            self.work = MAX_TOKENS + 1;
            let _ = self.is_full(tokens.last().map(|t| t.span).unwrap_or_default());
            return Span::default();
        }
        let end = tokens.last().map(|t| t.span).unwrap_or_default();
        let own_dir = dir.map(Path::to_path_buf).or_else(|| Path::new(name).parent().map(Path::to_path_buf));
        let mut conds: Vec<Conditional> = Vec::new();
        let mut pending: Vec<Token> = Vec::new();
        let mut i = 0;
        while i < tokens.len() && tokens[i].tok != TokenKind::Eof {
            let t = &tokens[i];
            let active = conds.last().is_none_or(|c| c.active);
            if !(t.starts_line && t.tok == TokenKind::Punct("#")) {
                if active {
                    let mut token = t.clone();
                    if let TokenKind::Str(text) = &t.tok
                        && tokens[i + 1].span.line > t.span.line
                    {
                        token.tok = TokenKind::Str(self.conditional_lines(text, t.span, own_dir.as_deref()));
                    }
                    pending.push(token);
                }
                i += 1;
                continue;
            }
            self.flush(&mut pending);
            let mut j = i + 1;
            while tokens[j].tok != TokenKind::Eof && !tokens[j].starts_line {
                j += 1;
            }
            self.directive(&tokens[i], &tokens[i + 1..j], &mut conds, own_dir.as_deref());
            i = j;
        }
        self.flush(&mut pending);
        if let Some(c) = conds.last() {
            self.diags.error_help(c.span, "conditional is not closed", "add `#endif`");
        }
        end
    }

    /// A string of several lines without those that its conditionals leave out: a C preprocessor, which p4c runs first,
    /// sees directives in it. Lines left out and directives become empty lines.
    fn conditional_lines(&mut self, text: &str, span: Span, dir: Option<&Path>) -> String {
        const CONDITIONALS: [&str; 6] = ["if", "ifdef", "ifndef", "elif", "else", "endif"];
        let mut conds: Vec<Conditional> = Vec::new();
        let mut lines = Vec::new();
        for (number, line) in text.split('\n').enumerate() {
            let tokens = match line.trim_start().strip_prefix('#').filter(|_| number > 0) {
                Some(directive) => lex_at_most(span.file, directive, MAX_TOKENS).0,
                None => Vec::new(),
            };
            let tokens: Vec<Token> = tokens.into_iter().map(|token| Token { span, ..token }).collect();
            let is_conditional =
                |token: &Token| matches!(&token.tok, TokenKind::Ident(word) if CONDITIONALS.contains(&word.as_str()));
            if let Some(first) = tokens.first().filter(|first| is_conditional(first)) {
                let end = tokens.len() - 1;
                self.directive(first, &tokens[..end], &mut conds, dir);
                lines.push("");
            } else {
                lines.push(if conds.last().is_none_or(|c| c.active) { line } else { "" });
            }
        }
        if let Some(c) = conds.last() {
            self.diags.error_help(c.span, "conditional in a string is not closed", "add `#endif`");
        }
        lines.join("\n")
    }

    fn flush(&mut self, pending: &mut Vec<Token>) {
        let tokens = std::mem::take(pending);
        if tokens.is_empty() {
            return;
        }
        let out = self.expand(tokens, &mut HashSet::new());
        for t in &out {
            if let TokenKind::Bad(why) = &t.tok {
                self.diags.error(t.span, why.clone());
            }
        }
        self.out.extend(out);
    }

    fn directive(&mut self, hash: &Token, args: &[Token], conds: &mut Vec<Conditional>, dir: Option<&Path>) {
        let active = conds.last().is_none_or(|c| c.active);
        let Some(first) = args.first() else { return };
        let TokenKind::Ident(word) = &first.tok else {
            if active {
                self.diags.error(first.span, "a directive's name must follow `#`");
            }
            return;
        };
        let rest = &args[1..];
        match word.as_str() {
            "if" | "ifdef" | "ifndef" => {
                let value = active
                    && match word.as_str() {
                        "if" => self.condition(rest, first.span),
                        w => self.is_defined(rest, first.span) == (w == "ifdef"),
                    };
                conds.push(Conditional {
                    active: value,
                    taken: value,
                    parent: active,
                    seen_else: false,
                    span: hash.span,
                });
            }
            "elif" | "else" => {
                let Some(c) = conds.last() else {
                    self.diags.error(first.span, format!("`#{word}` without an `#if` before it"));
                    return;
                };
                if c.seen_else {
                    self.diags.error(first.span, format!("`#{word}` after `#else`"));
                    return;
                }
                let open = c.parent && !c.taken;
                let value = open && (word == "else" || self.condition(rest, first.span));
                if let Some(c) = conds.last_mut() {
                    c.active = value;
                    c.taken |= value;
                    c.seen_else = word == "else";
                }
            }
            "endif" => {
                if conds.pop().is_none() {
                    self.diags.error(first.span, "`#endif` without an `#if` before it");
                }
            }
            _ if !active => {}
            "define" => self.define(rest, first.span),
            "undef" => match rest.first().map(|t| &t.tok) {
                Some(TokenKind::Ident(name)) => {
                    self.macros.remove(name);
                }
                _ => {
                    self.diags.error_help(first.span, "`#undef` names no macro", "write `#undef NAME`");
                }
            },
            "include" => self.include(first.span, rest, dir),
            "error" => {
                let text = self.after_word(first);
                self.diags.error(first.span, format!("#error {text}"));
            }
            "warning" => {
                let text = self.after_word(first);
                self.diags.warn(first.span, format!("#warning {text}"));
            }
            "pragma" | "line" => {}
            other => {
                let help = "known: include define undef if ifdef ifndef elif else endif error warning pragma line";
                self.diags.error_help(first.span, format!("unknown directive `#{other}`"), help);
            }
        }
    }

    /// The raw text of the line behind a directive's name.
    fn after_word(&self, word: &Token) -> String {
        let at = (word.span.col + word.span.len) as usize - 1;
        self.diags.line(word.span).chars().skip(at).collect::<String>().trim().to_string()
    }

    fn define(&mut self, rest: &[Token], span: Span) {
        let Some(Token { tok: TokenKind::Ident(name), span: name_span, .. }) = rest.first() else {
            self.diags.error_help(span, "`#define` names no macro", "write `#define NAME value`");
            return;
        };
        let mut body = &rest[1..];
        let mut params = None;
        if body.first().is_some_and(|t| t.tok == TokenKind::Punct("(") && t.touches) {
            let Some(close) = body.iter().position(|t| t.tok == TokenKind::Punct(")")) else {
                self.diags.error(*name_span, format!("parameter list of macro `{name}` is not closed with `)`"));
                return;
            };
            let mut list = Vec::new();
            for (k, t) in body[1..close].iter().enumerate() {
                match (&t.tok, k % 2) {
                    (TokenKind::Ident(p), 0) => list.push(p.clone()),
                    (TokenKind::Punct(","), 1) => {}
                    _ => {
                        self.diags.error(t.span, format!("parameters of macro `{name}` must be names between commas"));
                        return;
                    }
                }
            }
            params = Some(list);
            body = &body[close + 1..];
        }
        self.macros.insert(name.clone(), Macro { params, body: body.to_vec() });
    }

    fn is_defined(&mut self, rest: &[Token], span: Span) -> bool {
        match rest.first().map(|t| &t.tok) {
            Some(TokenKind::Ident(name)) => self.macros.contains_key(name),
            _ => {
                self.diags.error(span, "a macro's name must follow");
                false
            }
        }
    }

    fn include(&mut self, span: Span, rest: &[Token], dir: Option<&Path>) {
        let text = self.diags.line(span).to_string();
        let at = (span.col + span.len) as usize - 1;
        let raw: String = text.chars().skip(at).collect();
        let raw = raw.trim();
        let name = match (raw.chars().next(), rest.first().map(|t| &t.tok)) {
            (Some('<'), _) => raw[1..].split_once('>').map(|(n, _)| n.to_string()),
            (_, Some(TokenKind::Str(s))) => Some(s.clone()),
            _ => None,
        };
        let Some(name) = name else {
            let help = "write `#include <core.p4>` or `#include \"file.p4\"`";
            self.diags.error_help(span, "`#include` names no file", help);
            return;
        };
        if self.depth >= MAX_DEPTH {
            self.diags
                .error(span, format!("includes are nested more than {MAX_DEPTH} deep; does `{name}` include itself?"));
            return;
        }
        self.included += 1;
        if self.included > MAX_INCLUDES {
            if self.included == MAX_INCLUDES + 1 {
                self.diags.error(span, format!("more than {MAX_INCLUDES} includes"));
            }
            return;
        }
        self.depth += 1;
        // A program's own file of the same name wins only when quoted, as in C.
        let quoted = raw.starts_with('"');
        let mut tried = Vec::new();
        // Built-in files come first for names in angle brackets.
        let built_in = embedded(&name).filter(|_| !quoted);
        let found = if built_in.is_some() { None } else { self.files.find(&name, quoted, dir, &mut tried) };
        if let Some((path, text, origin)) = found {
            match text {
                Ok(text) => {
                    if let Files::Disk(_) = self.files {
                        self.from_disk.push(Included { depth: self.depth, origin, name, text: text.clone() });
                    }
                    self.file(&path.display().to_string(), &text, path.parent());
                }
                Err(e) => {
                    self.diags.error(span, format!("cannot read `{}`: {e}", path.display()));
                }
            }
        } else if let Some(text) = embedded(&name) {
            self.file(&format!("<{name}>"), text, None);
        } else {
            let places = if tried.is_empty() { "no folder".to_string() } else { tried.join(", ") };
            let file = Path::new(&name).file_name().and_then(|f| f.to_str());
            let (message, help) = match file {
                Some(
                    "psa.p4" | "pna.p4" | "tna.p4" | "t2na.p4" | "ubpf_model.p4" | "ebpf_model.p4" | "xdp_model.p4",
                ) => {
                    let help = "the switch supports no architecture but v1model: `#include <v1model.p4>`";
                    (format!("unsupported: the architecture of `{name}`"), help.to_string())
                }
                _ => {
                    let help = format!("built in are core.p4 and v1model.p4; looked in {places}");
                    (format!("included file `{name}` is not found"), help)
                }
            };
            self.diags.error_help(span, message, help);
        }
        self.depth -= 1;
    }

    /// Expands macros in `input`; `busy` holds those being expanded, which don't expand again.
    fn expand(&mut self, input: Vec<Token>, busy: &mut HashSet<String>) -> Vec<Token> {
        let mut queue: VecDeque<Token> = input.into();
        let mut out = Vec::new();
        while let Some(t) = queue.pop_front() {
            self.work += 1;
            if self.is_full(t.span) {
                return Vec::new();
            }
            let TokenKind::Ident(name) = &t.tok else {
                out.push(t);
                continue;
            };
            let builtin = match name.as_str() {
                "__LINE__" => Some(TokenKind::Int(BigInt::from(t.span.line), None)),
                "__FILE__" => Some(TokenKind::Str(self.diags.file_name(t.span.file).to_string())),
                _ => None,
            };
            if let Some(tok) = builtin {
                out.push(Token { tok, ..t });
                continue;
            }
            let Some(m) = self.macros.get(name).filter(|_| !busy.contains(name)).cloned() else {
                out.push(t);
                continue;
            };
            let body = match &m.params {
                None => m.body.clone(),
                Some(params) => {
                    if queue.front().map(|t| &t.tok) != Some(&TokenKind::Punct("(")) {
                        out.push(t);
                        continue;
                    }
                    queue.pop_front();
                    let Some(args) = Self::arguments(&mut queue) else {
                        self.diags.error(t.span, format!("arguments of macro `{name}` are not closed with `)`"));
                        return out;
                    };
                    let given = if params.is_empty() && args.len() == 1 && args[0].is_empty() { 0 } else { args.len() };
                    if given != params.len() {
                        let text = format!("macro `{name}` takes {} arguments, not {given}", params.len());
                        self.diags.error(t.span, text);
                        return out;
                    }
                    let expanded: Vec<Vec<Token>> = args.iter().map(|a| self.expand(a.clone(), busy)).collect();
                    self.substitute(&m.body, params, &args, &expanded)
                }
            };
            let name = name.clone();
            busy.insert(name.clone());
            let mut body = self.expand(body, busy);
            busy.remove(&name);
            for (k, b) in body.iter_mut().enumerate() {
                b.span = t.span;
                b.starts_line = false;
                if k == 0 {
                    b.touches = t.touches;
                }
            }
            out.extend(body);
        }
        out
    }

    /// Splits the tokens up to the closing parenthesis at its commas.
    fn arguments(queue: &mut VecDeque<Token>) -> Option<Vec<Vec<Token>>> {
        let mut args = vec![Vec::new()];
        let mut depth = 0;
        loop {
            let t = queue.pop_front()?;
            match t.tok {
                TokenKind::Punct("(" | "[" | "{") => depth += 1,
                TokenKind::Punct(")") if depth == 0 => return Some(args),
                TokenKind::Punct(")" | "]" | "}") => depth -= 1,
                TokenKind::Punct(",") if depth == 0 => {
                    args.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            if let Some(last) = args.last_mut() {
                last.push(t);
            }
        }
    }

    fn substitute(
        &mut self,
        body: &[Token],
        params: &[String],
        raw: &[Vec<Token>],
        expanded: &[Vec<Token>],
    ) -> Vec<Token> {
        let param = |t: &Token| match &t.tok {
            TokenKind::Ident(n) => params.iter().position(|p| p == n),
            _ => None,
        };
        let mut out: Vec<Token> = Vec::new();
        let mut i = 0;
        while i < body.len() {
            let t = &body[i];
            if t.tok == TokenKind::Punct("#")
                && let Some(p) = body.get(i + 1).and_then(param)
            {
                let text: Vec<String> = raw[p].iter().map(|t| spelling(&t.tok)).collect();
                out.push(Token { tok: TokenKind::Str(text.join(" ")), ..t.clone() });
                i += 2;
                continue;
            }
            if t.tok == TokenKind::Punct("##") && i + 1 < body.len() && !out.is_empty() {
                let next = match param(&body[i + 1]) {
                    Some(p) => raw[p].clone(),
                    None => vec![body[i + 1].clone()],
                };
                if let (Some(left), Some(right)) = (out.pop(), next.first()) {
                    let text = format!("{}{}", spelling(&left.tok), spelling(&right.tok));
                    let mut pasted = lex(left.span.file, &text);
                    pasted.pop();
                    if let [one] = pasted.as_mut_slice() {
                        out.push(Token { tok: one.tok.clone(), ..left });
                    } else {
                        self.diags.error(left.span, format!("`##` makes `{text}`, which is not one token"));
                    }
                    out.extend(next.into_iter().skip(1));
                }
                i += 2;
                continue;
            }
            let pasted = body.get(i + 1).is_some_and(|n| n.tok == TokenKind::Punct("##"));
            match param(t) {
                Some(p) if pasted => out.extend(raw[p].iter().cloned()),
                Some(p) => out.extend(expanded[p].iter().cloned()),
                None => out.push(t.clone()),
            }
            i += 1;
        }
        out
    }

    /// Evaluates an `#if` line: integers, `defined`, C's operators; unknown names count as 0.
    fn condition(&mut self, rest: &[Token], span: Span) -> bool {
        let mut input = Vec::new();
        let mut i = 0;
        while i < rest.len() {
            if rest[i].tok == TokenKind::Ident("defined".into()) {
                let paren = rest.get(i + 1).is_some_and(|t| t.tok == TokenKind::Punct("("));
                let at = i + 1 + usize::from(paren);
                let known =
                    matches!(rest.get(at).map(|t| &t.tok), Some(TokenKind::Ident(n)) if self.macros.contains_key(n));
                input.push(Token { tok: TokenKind::Int(BigInt::from(known as u8), None), ..rest[i].clone() });
                i = at + 1 + usize::from(paren);
            } else {
                input.push(rest[i].clone());
                i += 1;
            }
        }
        let tokens = self.expand(input, &mut HashSet::new());
        let mut at = 0;
        match condition::value(&tokens, &mut at, 0, 0) {
            Ok(v) if at == tokens.len() => !v.is_zero(),
            Ok(_) => {
                let bad = tokens.get(at).map_or(span, |t| t.span);
                self.diags.error(bad, "this does not continue the condition; an operator is missing before it");
                false
            }
            Err(why) => {
                self.diags.error(tokens.get(at).map_or(span, |t| t.span), why);
                false
            }
        }
    }
}
