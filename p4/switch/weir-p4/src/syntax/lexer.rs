// SPDX-License-Identifier: Apache-2.0
//! Characters to tokens. `>` is never glued to what follows, so that `a<b<c>>` needs no special care; the parser
//! joins `>>`, `>=` and `>>=` from tokens that touch.
use crate::syntax::diagnostics::Span;
use num_bigint::BigInt;

#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    Ident(String),
    /// Value, and width and signedness when the literal names them (`8w5`, `4s3`).
    Int(BigInt, Option<(u32, bool)>),
    Str(String),
    Punct(&'static str),
    /// Something that is no token; an error if it survives preprocessing.
    Bad(String),
    Eof,
}

#[derive(Clone, Debug)]
pub struct Token {
    pub tok: TokenKind,
    pub span: Span,
    /// No white space stands between this token and the one before.
    pub touches: bool,
    /// First token of its line, where a preprocessor directive may start.
    pub starts_line: bool,
}

/// Longest first, so that the first that fits is the right one.
const PUNCT: &[&str] = &[
    "|+|=", "|-|=", "&&&", "...", "<<=", "|+|", "|-|", "++", "+:", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
    "<<", "<=", "==", "!=", "&&", "||", "..", "##", "+", "-", "*", "/", "%", "<", ">", "=", "!", "~", "&", "|", "^",
    "?", ":", ";", ",", ".", "(", ")", "[", "]", "{", "}", "@", "#",
];

/// Splits `text` of file number `file` into tokens. Never fails: what is no token becomes [`TokenKind::Bad`].
pub fn lex(file: u32, text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut i, mut line, mut line_start) = (0, 1u32, 0usize);
    let mut tokens = Vec::new();
    let (mut touches, mut starts_line) = (false, true);
    while i < chars.len() {
        let c = chars[i];
        if c == '\n' {
            line += 1;
            i += 1;
            line_start = i;
            (touches, starts_line) = (false, true);
            continue;
        }
        if let Some(next) = continued(&chars, i) {
            // No directive can start on the continued line.
            i = next;
            line += 1;
            line_start = i;
            continue;
        }
        if c.is_whitespace() {
            i += 1;
            touches = false;
            continue;
        }
        if c == '/' && chars.get(i + 1) == Some(&'/') {
            while i < chars.len() && chars[i] != '\n' {
                i = match continued(&chars, i) {
                    Some(next) => {
                        line += 1;
                        line_start = next;
                        next
                    }
                    None => i + 1,
                };
            }
            continue;
        }
        let span = |line: u32, line_start: usize, from: usize, to: usize| Span {
            file,
            line,
            col: (from - line_start + 1) as u32,
            len: (to - from) as u32,
        };
        if c == '/' && chars.get(i + 1) == Some(&'*') {
            let (from, from_line, from_start) = (i, line, line_start);
            i += 2;
            while i < chars.len() && !(chars[i] == '*' && chars.get(i + 1) == Some(&'/')) {
                if chars[i] == '\n' {
                    line += 1;
                    line_start = i + 1;
                }
                i += 1;
            }
            if i >= chars.len() {
                let tok = TokenKind::Bad("comment is not closed; `*/` is missing".into());
                tokens.push(Token { tok, span: span(from_line, from_start, from, from + 2), touches, starts_line });
            }
            i += 2;
            touches = false;
            continue;
        }
        let from = i;
        let (from_line, from_start) = (line, line_start);
        let tok = if c.is_ascii_alphanumeric() || c == '_' {
            let mut word = String::new();
            while i < chars.len() {
                if let Some(next) = continued(&chars, i) {
                    i = next;
                    line += 1;
                    line_start = i;
                } else if chars[i].is_ascii_alphanumeric() || chars[i] == '_' {
                    word.push(chars[i]);
                    i += 1;
                } else {
                    break;
                }
            }
            match c.is_ascii_digit().then(|| number(&word)) {
                None => TokenKind::Ident(word),
                Some(Ok((v, w))) => TokenKind::Int(v, w),
                Some(Err(e)) => TokenKind::Bad(e),
            }
        } else if c == '"' {
            i += 1;
            let mut s = String::new();
            loop {
                match chars.get(i) {
                    Some('"') => {
                        i += 1;
                        break TokenKind::Str(s);
                    }
                    Some('\\') => {
                        s.push(match chars.get(i + 1) {
                            Some('n') => '\n',
                            Some('t') => '\t',
                            Some(c) => *c,
                            None => '\\',
                        });
                        i += 2;
                    }
                    None => break TokenKind::Bad("string is not closed; `\"` is missing".into()),
                    Some(c) => {
                        if *c == '\n' {
                            line += 1;
                            line_start = i + 1;
                        }
                        s.push(*c);
                        i += 1;
                    }
                }
            }
        } else if let Some(p) =
            PUNCT.iter().find(|p| p.chars().enumerate().all(|(k, ch)| chars.get(i + k) == Some(&ch)))
        {
            i += p.len();
            TokenKind::Punct(p)
        } else {
            i += 1;
            TokenKind::Bad(format!("character `{}` has no meaning in P4", c.escape_debug()))
        };
        i = i.min(chars.len());
        let len_to = if line == from_line { i } else { from + 1 };
        tokens.push(Token { tok, span: span(from_line, from_start, from, len_to), touches, starts_line });
        (touches, starts_line) = (true, false);
    }
    let col = (chars.len().saturating_sub(line_start) + 1) as u32;
    let end = Span { file, line, col, len: 1 };
    tokens.push(Token { tok: TokenKind::Eof, span: end, touches: false, starts_line: true });
    tokens
}

/// Behind a backslash that ends its line: the two lines are one, even in the middle of a word, as in C.
fn continued(chars: &[char], at: usize) -> Option<usize> {
    if chars[at] != '\\' {
        return None;
    }
    let blank = chars[at + 1..].iter().take_while(|c| **c != '\n' && c.is_whitespace()).count();
    match chars.get(at + 1 + blank) {
        Some('\n') => Some(at + 2 + blank),
        None => Some(chars.len()),
        Some(_) => None,
    }
}

/// Reads an integer literal (P4_16 6.4.3.2): optional width and sign letter, optional base prefix, underscores.
fn number(word: &str) -> Result<(BigInt, Option<(u32, bool)>), String> {
    let bytes = word.as_bytes();
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let mut width = None;
    let mut rest = word;
    if let Some(letter @ (b'w' | b's')) = bytes.get(digits) {
        let w: u32 = word[..digits].parse().map_err(|_| format!("width in `{word}` is too large"))?;
        if w > crate::value::MAX_WIDTH {
            return Err(format!("width {w} in `{word}` is above the largest supported, {}", crate::value::MAX_WIDTH));
        }
        if w == 0 {
            return Err(format!("width in `{word}` must be at least 1"));
        }
        width = Some((w, *letter == b's'));
        rest = &word[digits + 1..];
    }
    let lower = rest.to_ascii_lowercase();
    let (base, body) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0d") => (10, &lower[2..]),
        _ => (10, &lower[..]),
    };
    let body: String = body.chars().filter(|c| *c != '_').collect();
    if body.len() > 4096 {
        return Err("number has more than 4096 digits".into());
    }
    let value = BigInt::parse_bytes(body.as_bytes(), base)
        .ok_or_else(|| format!("`{word}` is not a number in base {base}; write e.g. `10`, `0x1F`, `8w0b101`"))?;
    Ok((value, width))
}
