// SPDX-License-Identifier: Apache-2.0
//! Characters to tokens. `>` is never glued to the next character, so that `a<b<c>>` needs no special care; the parser
//! joins `>>`, `>=` and `>>=` from tokens that touch.
use crate::syntax::diagnostics::Span;
use num_bigint::BigInt;

/// Kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// A name or a keyword.
    Ident(String),
    /// Value, and width and signedness when the literal names them (`8w5`, `4s3`).
    Int(BigInt, Option<(u32, bool)>),
    /// A string literal, its escapes resolved.
    Str(String),
    /// Punctuation or an operator.
    Punct(&'static str),
    /// Something that is no token; an error if it survives preprocessing.
    Bad(String),
    /// The end of the program.
    Eof,
}

/// A token and its place.
#[derive(Clone, Debug)]
pub struct Token {
    /// Kind.
    pub tok: TokenKind,
    /// Where it stands.
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

/// Tokens as text, a line for each line of the sources.
pub fn spelled(tokens: &[Token]) -> String {
    let mut text = String::new();
    for t in tokens {
        let gap = match t {
            _ if text.is_empty() || t.tok == TokenKind::Eof => "",
            t if t.starts_line => "\n",
            t if t.touches => "",
            _ => " ",
        };
        text += gap;
        text += &spelling(&t.tok);
    }
    text + "\n"
}

/// The token as text.
pub(crate) fn spelling(t: &TokenKind) -> String {
    match t {
        TokenKind::Ident(s) | TokenKind::Bad(s) => s.clone(),
        TokenKind::Int(v, None) => v.to_string(),
        TokenKind::Int(v, Some((w, signed))) => format!("{w}{}{v}", if *signed { 's' } else { 'w' }),
        TokenKind::Str(s) => format!("{s:?}"),
        TokenKind::Punct(p) => p.to_string(),
        TokenKind::Eof => String::new(),
    }
}

/// Splits `text` of file number `file` into tokens. Never fails: text that is no token becomes [`TokenKind::Bad`].
pub fn lex(file: u32, text: &str) -> Vec<Token> {
    lex_at_most(file, text, usize::MAX).0
}

/// As [`lex`], up to that many tokens and the end; whether these are all.
pub(crate) fn lex_at_most(file: u32, text: &str, most: usize) -> (Vec<Token>, bool) {
    let mut lexer = Lexer {
        file,
        chars: text.chars().collect(),
        at: 0,
        line: 1,
        line_start: 0,
        touches: false,
        starts_line: true,
        tokens: Vec::new(),
    };
    while lexer.at < lexer.chars.len() && lexer.tokens.len() <= most {
        if !lexer.skip() {
            lexer.token();
        }
    }
    let is_whole = lexer.tokens.len() <= most;
    (lexer.finish(), is_whole)
}

struct Lexer {
    file: u32,
    chars: Vec<char>,
    /// The next character.
    at: usize,
    line: u32,
    /// Where the line begins.
    line_start: usize,
    /// Of the next token, as in [`Token`].
    touches: bool,
    starts_line: bool,
    tokens: Vec<Token>,
}

impl Lexer {
    fn next_is(&self, c: char) -> bool {
        self.chars.get(self.at + 1) == Some(&c)
    }

    /// Goes on at `at`, where a new line begins.
    fn new_line(&mut self, at: usize) {
        self.line += 1;
        self.line_start = at;
    }

    /// A place of `len` characters from the next one on.
    fn span(&self, len: usize) -> Span {
        Span { file: self.file, line: self.line, col: (self.at - self.line_start + 1) as u32, len: len as u32 }
    }

    /// Skips white space, the end of a line or a comment; false when a token begins here.
    fn skip(&mut self) -> bool {
        let c = self.chars[self.at];
        if c == '\n' {
            self.at += 1;
            self.new_line(self.at);
            (self.touches, self.starts_line) = (false, true);
        } else if let Some(next) = continued(&self.chars, self.at) {
            // No directive can start on the continued line.
            self.at = next;
            self.new_line(next);
        } else if c.is_whitespace() {
            self.at += 1;
            self.touches = false;
        } else if c == '/' && self.next_is('/') {
            self.line_comment();
        } else if c == '/' && self.next_is('*') {
            self.block_comment();
        } else {
            return false;
        }
        true
    }

    fn line_comment(&mut self) {
        while self.at < self.chars.len() && self.chars[self.at] != '\n' {
            match continued(&self.chars, self.at) {
                Some(next) => {
                    self.at = next;
                    self.new_line(next);
                }
                None => self.at += 1,
            }
        }
    }

    fn block_comment(&mut self) {
        let span = self.span(2);
        self.at += 2;
        while self.at < self.chars.len() && !(self.chars[self.at] == '*' && self.next_is('/')) {
            self.at += 1;
            if self.chars[self.at - 1] == '\n' {
                self.new_line(self.at);
            }
        }
        if self.at >= self.chars.len() {
            let tok = TokenKind::Bad("comment is not closed; `*/` is missing".into());
            self.tokens.push(Token { tok, span, touches: self.touches, starts_line: self.starts_line });
        }
        self.at += 2;
        self.touches = false;
    }

    fn token(&mut self) {
        let (from, line, mut span) = (self.at, self.line, self.span(1));
        let c = self.chars[from];
        let tok = if c.is_ascii_alphanumeric() || c == '_' {
            let word = self.word();
            match c.is_ascii_digit().then(|| number(&word)) {
                None => TokenKind::Ident(word),
                Some(Ok((v, w))) => TokenKind::Int(v, w),
                Some(Err(e)) => TokenKind::Bad(e),
            }
        } else if c == '"' {
            self.string()
        } else {
            let fits = |p: &&&str| p.chars().enumerate().all(|(k, c)| self.chars.get(from + k) == Some(&c));
            match PUNCT.iter().find(fits) {
                Some(p) => {
                    self.at += p.len();
                    TokenKind::Punct(p)
                }
                None => {
                    self.at += 1;
                    TokenKind::Bad(format!("character `{}` has no meaning in P4", c.escape_debug()))
                }
            }
        };
        self.at = self.at.min(self.chars.len());
        if self.line == line {
            span.len = (self.at - from) as u32;
        }
        self.tokens.push(Token { tok, span, touches: self.touches, starts_line: self.starts_line });
        (self.touches, self.starts_line) = (true, false);
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while self.at < self.chars.len() {
            let c = self.chars[self.at];
            if let Some(next) = continued(&self.chars, self.at) {
                self.at = next;
                self.new_line(next);
            } else if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
                self.at += 1;
            } else {
                break;
            }
        }
        word
    }

    fn string(&mut self) -> TokenKind {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.chars.get(self.at) {
                Some('"') => {
                    self.at += 1;
                    return TokenKind::Str(text);
                }
                Some('\\') => {
                    text.push(match self.chars.get(self.at + 1) {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some(c) => *c,
                        None => '\\',
                    });
                    self.at += 2;
                }
                None => return TokenKind::Bad("string is not closed; `\"` is missing".into()),
                Some(c) => {
                    let c = *c;
                    text.push(c);
                    self.at += 1;
                    if c == '\n' {
                        self.new_line(self.at);
                    }
                }
            }
        }
    }

    fn finish(mut self) -> Vec<Token> {
        let col = (self.chars.len().saturating_sub(self.line_start) + 1) as u32;
        let span = Span { file: self.file, line: self.line, col, len: 1 };
        self.tokens.push(Token { tok: TokenKind::Eof, span, touches: false, starts_line: true });
        self.tokens
    }
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
